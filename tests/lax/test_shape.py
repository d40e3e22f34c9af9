"""Operations that move elements: broadcast, reshape, transpose, squeeze, rev, sum; and filling."""

from __future__ import annotations

import harness
import ml_dtypes
import numpy as np
import pytest
from harness import Case

import pullback as pb
from pullback import lax
from pullback.core.jaxpr import check_jaxpr

X = harness.rng(0).normal(size=(2, 3)).astype(np.float32)
C = (X + 1j * X[::-1]).astype(np.complex64)
X3 = harness.rng(1).normal(size=(2, 1, 3)).astype(np.float32)
I = np.arange(6, dtype=np.int32).reshape(2, 3)
BF = X.astype(ml_dtypes.bfloat16)
E = np.zeros((0, 3), np.float32)

CASES = [
    Case(
        "broadcast_in_dim",
        lambda x: lax.broadcast_in_dim(x, (4, 2, 3), (1, 2)),
        (X,),
        lambda x: np.broadcast_to(x, (4, 2, 3)),
    ),
    Case(
        "broadcast_in_dim-stretched",
        lambda x: lax.broadcast_in_dim(x, (2, 2, 4, 3), (0, 2, 3)),
        (X3,),
        lambda x: np.broadcast_to(x[:, None], (2, 2, 4, 3)),
    ),
    Case(
        "broadcast_in_dim-scalar",
        lambda x: lax.broadcast_in_dim(x, (2, 2), ()),
        (np.float32(3),),
        lambda x: np.full((2, 2), x),
    ),
    Case("broadcast", lambda x: lax.broadcast(x, (2,)), (C,), lambda x: np.stack([x, x])),
    Case("broadcast-empty", lambda x: lax.broadcast(x, (2,)), (E,), lambda x: np.stack([x, x])),
    Case("reshape", lambda x: lax.reshape(x, (3, 2)), (X,), lambda x: x.reshape(3, 2)),
    Case("reshape-order", lambda x: lax.reshape(x, (6,), (1, 0)), (X,), lambda x: x.T.ravel()),
    Case("reshape-empty", lambda x: lax.reshape(x, (3, 0, 2)), (E,), lambda x: x.reshape(3, 0, 2)),
    Case("collapse", lambda x: lax.collapse(x, 1), (X3,), lambda x: x.reshape(2, 3)),
    Case("transpose", lambda x: lax.transpose(x, (2, 0, 1)), (X3,), lambda x: x.transpose(2, 0, 1)),
    Case("transpose-bf16", lambda x: lax.transpose(x, (1, 0)), (BF,), lambda x: x.T, order=0),
    Case("squeeze", lambda x: lax.squeeze(x, (-2,)), (X3,), lambda x: x[:, 0]),
    Case("expand_dims", lambda x: lax.expand_dims(x, (0, -1)), (C,), lambda x: x[None, ..., None]),
    Case("broadcast_to_rank", lambda x: lax.broadcast_to_rank(x, 3), (X,), lambda x: x[None]),
    Case("rev", lambda x: lax.rev(x, (0, 1)), (X,), lambda x: x[::-1, ::-1]),
    Case("reduce_sum", lambda x: lax.reduce_sum(x, (0,)), (X,), lambda x: x.sum(0)),
    Case("reduce_sum-axes", lambda x: lax.reduce_sum(x, (-1, 0)), (X3,), lambda x: x.sum((0, 2))),
    Case("reduce_sum-complex", lambda x: lax.reduce_sum(x, (0, 1)), (C,), np.sum),
    Case("reduce_sum-int", lambda x: lax.reduce_sum(x, (1,)), (I,), lambda x: x.sum(1)),
    Case("reduce_sum-empty", lambda x: lax.reduce_sum(x, (0,)), (E,), lambda x: x.sum(0)),
    Case("reduce_sum-none", lambda x: lax.reduce_sum(x, ()), (X,), lambda x: x),
]


@pytest.mark.parametrize("case", harness.params(CASES))
def test_case(case: Case) -> None:
    harness.check_case(case)


def test_iota() -> None:
    np.testing.assert_array_equal(lax.iota(np.int32, 3), [0, 1, 2])
    out = lax.broadcasted_iota(np.float32, (2, 3), 1)
    np.testing.assert_array_equal(out, [[0, 1, 2], [0, 1, 2]])
    assert np.asarray(out).dtype == np.float32
    assert lax.broadcasted_iota(np.uint8, (0, 3), -1).shape == (0, 3)


def test_full_takes_dtype_from_the_value() -> None:
    weak = lax.full((2,), 1)
    assert weak.weak_type and weak.dtype == np.int32
    strong = lax.full((2,), np.float32(1))
    assert not strong.weak_type and strong.dtype == np.float32
    np.testing.assert_array_equal(lax.full((2, 1), 3, np.int8), np.full((2, 1), 3, np.int8))
    assert pb.jit(lambda x: lax.full((2,), x, np.float32))(2).dtype == np.float32


def test_full_like() -> None:
    out = lax.full_like(X, 2)
    assert out.shape == (2, 3) and out.dtype == np.float32
    assert lax.full_like(pb.ShapeDtypeStruct((2,), np.int8), 0).dtype == np.int8
    assert lax.full_like(X, 0, shape=(), dtype=np.int32).shape == ()
    assert lax.full_like(1.0, 0).weak_type
    assert lax.empty((2, 0), np.float32).shape == (2, 0)


def test_broadcast_shapes() -> None:
    assert lax.broadcast_shapes((2, 1), (3,), ()) == (2, 3)


def test_identities_write_no_equation() -> None:
    def fun(x: object) -> object:
        x = lax.reshape(x, (2, 3))
        x = lax.transpose(x, (0, 1))
        return lax.broadcast_in_dim(lax.squeeze(x, ()), (2, 3), (0, 1))

    jaxpr = pb.make_jaxpr(fun)(X).jaxpr
    check_jaxpr(jaxpr)
    assert not jaxpr.eqns


ERRORS = [
    (lambda: lax.broadcast_in_dim(X, (2, 4), (0, 1)), ["axis 1 of size 3", "f32[2,3]", "4"]),
    (lambda: lax.broadcast_in_dim(X, (2, 3), (1, 0)), ["increasing", "(1, 0)"]),
    (lambda: lax.reshape(X, (4,)), ["f32[2,3] of 6", "(4,) of 4"]),
    (lambda: lax.transpose(X, (0, 0)), ["(0, 0)", "f32[2,3]"]),
    (lambda: lax.squeeze(X, (0,)), ["shape=(2, 3)", "dimensions=(0,)"]),
    (lambda: lax.reduce_sum(X, (2,)), ["axis 2", "dimension 2"]),
    (lambda: lax.reduce_sum(X, (0, 0)), ["twice", "(0, 0)"]),
    (lambda: lax.full((2,), X), ["scalar", "(2, 3)"]),
    (lambda: lax.broadcast_shapes((2,), (3,)), ["(2,)", "(3,)"]),
    (lambda: lax.iota(bool, 2), ["bool"]),
    (lambda: pb.jit(lambda n: lax.full((n,), 0.0))(3), ["Shapes must be", "traced"]),
    (lambda: lax.full((-1,), 0.0), ["nonnegative", "-1"]),
]


@pytest.mark.parametrize("index", range(len(ERRORS)))
def test_error_texts(index: int) -> None:
    fun, parts = ERRORS[index]
    harness.check_error((TypeError, ValueError), parts, fun)  # type: ignore[arg-type]
