"""Products of groups of rows, and of scaled operands, against NumPy loops."""

from __future__ import annotations

import harness
import numpy as np
import pytest
from harness import Case

from pullback import lax

R = harness.rng(0)
A = R.normal(size=(5, 3)).astype(np.float32)
B = R.normal(size=(3, 3, 2)).astype(np.float32)
SIZES = np.array([2, 0, 2], np.int32)
BATCH_A = R.normal(size=(2, 5, 3)).astype(np.float32)
BATCH_B = R.normal(size=(2, 5, 2)).astype(np.float32)
BATCH_SIZES = np.array([[2, 0, 2], [1, 3, 1]], np.int32)


def by_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    groups = np.repeat(np.arange(3), SIZES)
    out = np.zeros((5, 2), a.dtype)
    for i, g in enumerate(groups):
        out[i] = a[i] @ b[g]
    return out


def by_groups(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Ragged contraction: for each batch and group the product over its rows."""
    out = np.zeros((3, 2, 3, 2), a.dtype)
    for i in range(2):
        ends = np.cumsum(BATCH_SIZES[i])
        for g, (lo, hi) in enumerate(zip(ends - BATCH_SIZES[i], ends, strict=True)):
            out[g, i] = a[i, lo:hi].T @ b[i, lo:hi]
    return out


CONTRACTED = lax.RaggedDotDimensionNumbers((((1,), (1,)), ((0,), (0,))), (1,), ())
BATCHED = lax.RaggedDotDimensionNumbers((((2,), (2,)), ((1,), (1,))), (1,), ())

CASES = [
    Case("rows", lambda a, b: lax.ragged_dot(a, b, SIZES), (A, B), by_rows, ulps=32),
    Case(
        "contracted",
        lambda a, b: lax.ragged_dot_general(a, b, BATCH_SIZES, CONTRACTED),
        (BATCH_A, BATCH_B),
        by_groups,
        ulps=32,
    ),
    Case(
        "batch",
        lambda a: lax.ragged_dot_general(a, a, SIZES, BATCHED),
        (BATCH_A,),
        lambda a: np.einsum("ibk,jbk->bij", a, a) * (np.arange(5) < 4)[:, None, None],
        ulps=32,
        vmap=False,
    ),
    Case(
        "scaled",
        lambda a, b, s: lax.scaled_dot(
            a, b, lhs_scale=s, rhs_scale=s.T, preferred_element_type=np.float32
        ),
        (A[:4], A.T[:, :4], A[:4, :1]),
        lambda a, b, s: (a * s) @ (b * s.T),
        ulps=32,
        order=0,
        vmap=False,
    ),
]


@pytest.mark.parametrize("case", harness.params(CASES))
def test_case(case: Case) -> None:
    harness.check_case(case)


ERRORS = [
    (lambda: lax.ragged_dot(A, B, BATCH_SIZES), ["group_sizes", "(2, 3)", "f32[5,3]"]),
    (lambda: lax.ragged_dot(A, B, SIZES, group_offset=np.array([1])), ["group_offset"]),
    (
        lambda: lax.ragged_dot_general(
            A, B, SIZES, lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), ())
        ),
        ["group axis", "f32[3,3,2]"],
    ),
    (lambda: lax.scaled_dot(A, A.T, lhs_scale=A[:, :2]), ["(5, 2)", "(5, 3)"]),
]


@pytest.mark.parametrize("index", range(len(ERRORS)))
def test_error_texts(index: int) -> None:
    fun, parts = ERRORS[index]
    harness.check_error((TypeError, ValueError, NotImplementedError), parts, fun)  # type: ignore[arg-type]
