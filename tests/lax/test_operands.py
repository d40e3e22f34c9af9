"""Checks of arguments that all families share."""

from __future__ import annotations

import harness
import numpy as np
import pytest

import pullback as pb
from pullback import lax
from pullback.lax import operands

X = np.zeros((2, 3), np.float32)


def test_axes_count_from_both_ends() -> None:
    assert operands.canonical_axes("f", (0, -1), 3) == (0, 2)
    assert operands.canonical_axis("f", np.int64(-3), 3) == 0
    harness.check_error(
        ValueError, ["f:", "axis 3", "dimension 3"], operands.canonical_axis, "f", 3, 3
    )
    harness.check_error(ValueError, ["twice"], operands.canonical_axes, "f", (0, -3), 3)


def test_shapes_are_known_nonnegative_integers() -> None:
    assert operands.canonical_shape("f", np.array([2, 3])) == (2, 3)
    harness.check_error(TypeError, ["1.5"], operands.canonical_shape, "f", (1.5,))
    harness.check_error(TypeError, ["-1"], operands.canonical_shape, "f", (-1, 2))


def test_moving_axes() -> None:
    assert operands.inserted((1, 2), 1, 9) == (1, 9, 2)
    assert operands.without("abc", (1,)) == ("a", "c")
    assert operands.shifted((0, 1, 2), 1) == (0, 2, 3)
    assert operands.out_dim_after((0, 3), 2) == 1


def test_rule_by_other_operations() -> None:
    rule = operands.jvp_by(lambda x, y, power: lax.mul(lax.integer_pow(x, power), y))
    out, t = rule([np.float32(2), np.float32(3)], [np.float32(1), np.float32(1)], power=2)
    assert (float(out), float(t)) == (12.0, 16.0)


@pytest.mark.parametrize(
    "fun",
    [
        lambda s: lax.broadcast_in_dim(X, (2, 3), (0, 1), out_sharding=s),
        lambda s: lax.full((2,), 0.0, sharding=s),
        lambda s: lax.dot(X, X.T, out_sharding=s),
    ],
)
def test_explicit_shardings_are_refused(fun: object) -> None:
    sharding = pb.sharding.SingleDeviceSharding(pb.devices()[0])
    harness.check_error(NotImplementedError, ["with_sharding_constraint"], fun, sharding)  # type: ignore[arg-type]
