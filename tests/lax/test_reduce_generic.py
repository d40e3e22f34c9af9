"""Reductions with functions of the user."""

from __future__ import annotations

import harness
import numpy as np
import pytest
from harness import Case

import pullback as pb
from pullback import lax

X = harness.rng(0).normal(size=(3, 4)).astype(np.float32)
I = np.arange(6, dtype=np.int32).reshape(2, 3)
E = np.zeros((0, 2), np.float32)


def joint(a: object, b: object) -> object:
    """a + b + ab: associative, with neutral element 0; gives prod(1 + x) - 1."""
    return lax.add(lax.add(a, b), lax.mul(a, b))


def joint_reference(x: np.ndarray, axis: object) -> np.ndarray:
    return np.prod(1 + x, axis) - 1


def pair(a: tuple, b: tuple) -> tuple:
    """Composition of affine maps (slope, offset), which does not commute."""
    return lax.mul(a[0], b[0]), lax.add(lax.mul(a[1], b[0]), b[1])


def composed(s: np.ndarray, o: np.ndarray) -> list[np.ndarray]:
    slope, offset = np.ones_like(s[0]), np.zeros_like(o[0])
    for a, b in zip(s, o, strict=True):
        slope, offset = slope * a, offset * a + b
    return [slope, offset]


CASES = [
    Case("add", lambda x: lax.reduce(x, 0.0, lax.add, (0,)), (X,), lambda x: x.sum(0)),
    Case(
        "add-from-value",
        lambda x, i: lax.reduce(x, i, lax.add, (0, 1)),
        (X, np.float32(2)),
        lambda x, i: x.sum() + i,
    ),
    Case("max", lambda x: lax.reduce(x, -np.inf, lax.max, (1,)), (X,), lambda x: x.max(1)),
    Case("max-int", lambda x: lax.reduce(x, 2, lax.max, (1,)), (I,), lambda x: np.array([2, 5])),
    Case("or", lambda x: lax.reduce(x, False, lax.bitwise_or, (0,)), (X > 1,), lambda x: x.any(0)),
    Case(
        "function",
        lambda x: lax.reduce(x, 0.0, joint, (1,)),
        (X,),
        lambda x: joint_reference(x, 1),
        ulps=32,
    ),
    Case(
        "function-axes",
        lambda x, i: lax.reduce(x, i, joint, (0, 1)),
        (X[:, :3], np.float32(0)),
        lambda x, i: joint_reference(x, None),
        ulps=64,
    ),
    Case("function-empty", lambda x: lax.reduce(x, 0.0, joint, (0,)), (E,), lambda x: np.zeros(2)),
    Case(
        "pair",
        lambda s, o: lax.reduce((s, o), (1.0, 0.0), pair, (0,)),
        (X, X[::-1]),
        composed,
        ulps=32,
    ),
]


@pytest.mark.parametrize("case", harness.params(CASES))
def test_case(case: Case) -> None:
    harness.check_case(case)


def test_known_functions_become_their_primitive() -> None:
    jaxpr = pb.make_jaxpr(lambda x: lax.reduce(x, 0.0, lambda a, b: lax.add(b, a), (0,)))(X)
    assert [e.primitive.name for e in jaxpr.eqns] == ["reduce_sum"]


def test_scalar_array_in_the_function() -> None:
    two = pb.device_put(np.float32(2))
    out = lax.reduce(X, 0.0, lambda a, b: lax.mul(lax.div(lax.add(a, b), two), two), (0,))
    np.testing.assert_allclose(out, X.sum(0), rtol=1e-5)


ERRORS = [
    (lambda: lax.reduce((X, X), 0.0, lax.add, (0,)), ["one structure"]),
    (lambda: lax.reduce(X, 0.0, lambda a, b: (a, b), (0,)), ["structure of the operands"]),
    (lambda: lax.reduce(X, 0.0, lambda a, b: lax.gt(a, b), (0,)), ["bool[]", "f32[3,4]"]),
    (lambda: lax.reduce(X, X[0], joint, (0,)), ["scalar", "f32[4]"]),
    (
        lambda: pb.jit(lambda x: lax.reduce(X, 0.0, lambda a, b: lax.add(a, x), (0,)))(1.0),
        ["closes over"],
    ),
]


@pytest.mark.parametrize("index", range(len(ERRORS)))
def test_error_texts(index: int) -> None:
    fun, parts = ERRORS[index]
    harness.check_error((TypeError, ValueError, NotImplementedError), parts, fun)  # type: ignore[arg-type]
