"""Cutting and joining: slice, pad, concatenate, split, stack, tile."""

from __future__ import annotations

import harness
import ml_dtypes
import numpy as np
import pytest
from harness import Case

import pullback as pb
from pullback import lax

X = harness.rng(0).normal(size=(4, 3)).astype(np.float32)
Y = harness.rng(1).normal(size=(4, 2)).astype(np.float32)
C = (X + 1j * X[::-1]).astype(np.complex64)
V = X[:, 0]
BF = X.astype(ml_dtypes.bfloat16)
E = np.zeros((0, 3), np.float32)
I = np.arange(12, dtype=np.int32).reshape(4, 3)


def padded(x: np.ndarray, value: np.ndarray) -> np.ndarray:
    """NumPy's twin of the pad in the cases: (1, 2, 1) and (-1, 1, 0)."""
    out = np.full((4 + 3 + 3, 3), value, x.dtype)
    out[1:8:2, :2] = x[:, 1:]
    return out


CASES = [
    Case("slice", lambda x: lax.slice(x, (1, 0), (4, 2)), (X,), lambda x: x[1:4, 0:2]),
    Case(
        "slice-strides",
        lambda x: lax.slice(x, (1, 0), (4, 3), (2, 2)),
        (C,),
        lambda x: x[1:4:2, ::2],
    ),
    Case("slice-stride-tail", lambda x: lax.slice(x, (0,), (4,), (3,)), (V,), lambda x: x[::3]),
    Case("slice-empty", lambda x: lax.slice(x, (2, 0), (2, 3), (2, 1)), (X,), lambda x: x[2:2]),
    Case("slice-bf16", lambda x: lax.slice(x, (1, 0), (2, 3)), (BF,), lambda x: x[1:2], order=0),
    Case("slice-of-empty", lambda x: lax.slice(x, (0, 1), (0, 2)), (E,), lambda x: x[:, 1:2]),
    Case("slice_in_dim", lambda x: lax.slice_in_dim(x, -3, None, 2, -2), (X,), lambda x: x[-3::2]),
    Case("index_in_dim", lambda x: lax.index_in_dim(x, -1, 1, False), (X,), lambda x: x[:, -1]),
    Case("index_in_dim-keep", lambda x: lax.index_in_dim(x, 1, 1), (I,), lambda x: x[:, 1:2]),
    Case("pad", lambda x, v: lax.pad(x, v, ((1, 2, 1), (-1, 1, 0))), (X, np.float32(2)), padded),
    Case("pad-complex", lambda x, v: lax.pad(x, v, ((1, 2, 1), (-1, 1, 0))), (C, C[0, 0]), padded),
    Case("pad-int", lambda x, v: lax.pad(x, v, ((1, 2, 1), (-1, 1, 0))), (I, np.int32(7)), padded),
    Case(
        "pad-cut-interior",
        lambda x: lax.pad(x, 0.0, ((-1, -2, 2),)),
        (V,),
        lambda x: np.array([0, 0, x[1], 0, 0, x[2], 0], x.dtype),
    ),
    Case(
        "pad-empty",
        lambda x, v: lax.pad(x, v, ((1, 0, 3), (0, 0, 0))),
        (E, np.float32(5)),
        lambda x, v: np.full((1, 3), v),
    ),
    Case(
        "concatenate",
        lambda x, y: lax.concatenate([x, y, x], -1),
        (X, Y),
        lambda x, y: np.concatenate([x, y, x], 1),
    ),
    Case(
        "concatenate-empty",
        lambda x, y: lax.concatenate([x, y], 0),
        (E, X),
        lambda x, y: np.concatenate([x, y]),
    ),
    Case("concatenate-one", lambda x: lax.concatenate([x], 0), (X,), lambda x: x),
    Case("split", lambda x: lax.split(x, (1, 0, 3)), (X,), lambda x: [x[:1], x[1:1], x[1:]]),
    Case("split-axis", lambda x: lax.split(x, (2, 1), -1), (C,), lambda x: [x[:, :2], x[:, 2:]]),
    Case(
        "stack", lambda x, y: lax.stack([x, y], -1), (V, V + 1), lambda x, y: np.stack([x, y], -1)
    ),
    Case("unstack", lambda x: lax.unstack(x, 1), (X,), lambda x: (x[:, 0], x[:, 1], x[:, 2])),
    Case("tile", lambda x: lax.tile(x, (2, 3)), (Y,), lambda x: np.tile(x, (2, 3))),
    Case("tile-empty", lambda x: lax.tile(x, (0, 3)), (Y,), lambda x: np.tile(x, (0, 3))),
]


@pytest.mark.parametrize("case", harness.params(CASES))
def test_case(case: Case) -> None:
    harness.check_case(case)


def test_split_with_one_result_read() -> None:
    grad = pb.grad(lambda x: lax.reduce_sum(lax.split(x, (1, 3))[1], (0, 1)))(X)
    np.testing.assert_array_equal(grad, np.r_[np.zeros((1, 3)), np.ones((3, 3))])


def test_unread_neighbours_of_a_split_make_one_block_of_zeros() -> None:
    def pulled(x):
        return pb.linear_transpose(lambda x: lax.split(x, (1, 1, 1, 1))[1], x)(X[:1])

    names = [e.primitive.name for e in pb.make_jaxpr(pulled)(X).jaxpr.eqns]
    assert names == ["broadcast_in_dim", "broadcast_in_dim", "concatenate"]
    np.testing.assert_array_equal(pulled(X)[0], np.r_[0 * X[:1], X[:1], 0 * X[2:]])


def test_python_number_takes_the_operand_dtype() -> None:
    assert lax.pad(I, 0, ((0, 0, 0), (0, 1, 0))).dtype == np.int32
    assert lax.pad(BF, 0.0, ((0, 0, 0), (0, 1, 0))).dtype == BF.dtype


def test_whole_slice_is_the_operand() -> None:
    x = pb.device_put(X)
    assert lax.slice(x, (0, 0), (4, 3), (1, 1)) is x
    assert lax.concatenate([x], 0) is x


ERRORS = [
    (lambda: lax.slice(X, (0, 0), (5, 3)), ["axis 0", "limit 5", "f32[4,3]"]),
    (lambda: lax.slice(X, (0,), (2,)), ["one entry per axis", "f32[4,3]"]),
    (lambda: lax.slice_in_dim(X, 0, 2, axis=2), ["axis 2", "dimension 2"]),
    (lambda: lax.pad(X, 0.0, ((0, 0, 0),)), ["one (low, high, interior) per axis", "f32[4,3]"]),
    (lambda: lax.pad(X, 0.0, ((-5, 0, 0), (0, 0, 0))), ["axis 0", "negative size -1"]),
    (lambda: lax.pad(X, np.int32(0), ((0, 0, 0),) * 2), ["f32[4,3]", "i32[]"]),
    (lambda: lax.concatenate([X, Y], 0), ["(4, 3)", "(4, 2)", "dimension 0"]),
    (lambda: lax.concatenate([], 0), ["at least one array"]),
    (lambda: lax.split(X, (1, 1)), ["add to 2", "f32[4,3]"]),
    (lambda: lax.tile(X, (2,)), ["(2,)", "(4, 3)"]),
]


@pytest.mark.parametrize("index", range(len(ERRORS)))
def test_error_texts(index: int) -> None:
    fun, parts = ERRORS[index]
    harness.check_error((TypeError, ValueError), parts, fun)  # type: ignore[arg-type]


def test_index_out_of_bounds() -> None:
    harness.check_error(IndexError, ["index 4", "size 4"], lax.index_in_dim, X, 4)
