"""The harness finds what it is for: wrong derivatives, values, batching rules and types."""

from __future__ import annotations

import harness
import numpy as np
import pytest
from harness import Case

import pullback as pb
from pullback import lax

X = np.array([0.3, -1.7, 2.4], np.float32)


@pb.custom_jvp
def wrong_slope(x: object) -> object:
    return lax.sin(x)


@wrong_slope.defjvp
def _(primals: tuple, tangents: tuple) -> tuple:
    return lax.sin(primals[0]), lax.mul(lax.cos(primals[0]), lax.mul(tangents[0], 1.001))


@pb.custom_jvp
def wrong_second_slope(x: object) -> object:
    return lax.sin(x)


@wrong_second_slope.defjvp
def _(primals: tuple, tangents: tuple) -> tuple:
    return lax.sin(primals[0]), lax.mul(lax.stop_gradient(lax.cos(primals[0])), tangents[0])


def test_wrong_derivative_is_found() -> None:
    with pytest.raises(AssertionError, match="order 2 to go, forward"):
        harness.check_derivatives(Case("wrong", wrong_slope, (X,)))


def test_wrong_second_derivative_is_found() -> None:
    with pytest.raises(AssertionError, match="order 1 to go"):
        harness.check_derivatives(Case("wrong", wrong_second_slope, (X,)))
    harness.check_derivatives(Case("right to order one", wrong_second_slope, (X,), order=1))


def test_wrong_value_is_found() -> None:
    with pytest.raises(AssertionError, match="value"):
        harness.check_value(Case("wrong", lax.sin, (X,), np.cos))


def test_wrong_batching_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    harness.check_vmap(lax.sin, [X])
    right = pb.vmap
    monkeypatch.setattr(pb, "vmap", lambda f, **axes: lambda *xs: lax.neg(right(f, **axes)(*xs)))
    with pytest.raises(AssertionError, match="vmap"):
        harness.check_vmap(lax.sin, [X])


def test_missing_words_in_an_error_are_found() -> None:
    with pytest.raises(AssertionError, match="missing"):
        harness.check_error(TypeError, ["missing"], lax.add, X, X.astype(np.float16))
