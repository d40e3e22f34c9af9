"""Gather, against a NumPy loop, in every mode."""

from __future__ import annotations

import harness
import ml_dtypes
import numpy as np
import pytest
from harness import Case

import pullback as pb
from pullback import lax

X = harness.rng(0).normal(size=(4, 3)).astype(np.float32)
X3 = harness.rng(1).normal(size=(2, 4, 3)).astype(np.float32)
C = (X + 1j * X[::-1]).astype(np.complex64)
IN = np.array([[0], [3], [1], [3]])
OUT = np.array([[0], [4], [-1], [2]])
PAIRS = np.array([[[0, 1], [3, 2]], [[2, 0], [1, 1]]])
ROWS = lax.GatherDimensionNumbers((1,), (0,), (0,))
WINDOWS = lax.GatherDimensionNumbers((0, 2), (), (1, 0))
BATCHED = lax.GatherDimensionNumbers((2,), (1,), (1,), (0,), (0,))


def reference(
    x: np.ndarray,
    indices: np.ndarray,
    d: lax.GatherDimensionNumbers,
    sizes: tuple,
    mode: str,
    fill: object,
) -> np.ndarray:
    """Gather by a loop over index vectors, as the StableHLO specification states it."""
    batch_shape = indices.shape[:-1]
    fixed = (*d.collapsed_slice_dims, *d.operand_batching_dims)
    window = [s for i, s in enumerate(sizes) if i not in fixed]
    out = np.zeros((*batch_shape, *window), x.dtype)
    for place in np.ndindex(*batch_shape):
        start = [0] * x.ndim
        for k, axis in enumerate(d.start_index_map):
            start[axis] = int(indices[place][k])
        for i, j in zip(d.operand_batching_dims, d.start_indices_batching_dims, strict=True):
            start[i] = place[j]
        limits = [n - s for n, s in zip(x.shape, sizes, strict=True)]
        inside = all(0 <= s <= limit for s, limit in zip(start, limits, strict=True))
        start = [min(max(s, 0), limit) for s, limit in zip(start, limits, strict=True)]
        part = x[tuple(slice(s, s + n) for s, n in zip(start, sizes, strict=True))]
        out[place] = part.reshape(window) if inside or mode == "clip" else fill
    n = out.ndim
    order = [0] * n
    rest = [i for i in range(n) if i not in d.offset_dims]
    for i, axis in enumerate(rest):
        order[axis] = i
    for i, axis in enumerate(d.offset_dims):
        order[axis] = len(rest) + i
    return out.transpose(order)


def case(
    name: str,
    x: np.ndarray,
    indices: np.ndarray,
    d: lax.GatherDimensionNumbers,
    sizes: tuple,
    mode: str = "clip",
    fill: object = np.nan,
    **options: object,
) -> Case:
    return Case(
        name,
        lambda a: lax.gather(a, indices, d, sizes, mode=mode, fill_value=fill),
        (x,),
        lambda a: reference(a, indices, d, sizes, mode, fill),
        **options,  # type: ignore[arg-type]
    )


CASES = [
    case("rows", X, IN, ROWS, (1, 2), "promise_in_bounds"),
    case("rows-clip", X, OUT, ROWS, (1, 2)),
    case("rows-fill", X, OUT, ROWS, (1, 3), "fill", order=0),
    case("rows-fill-value", X, OUT, ROWS, (1, 3), "fill", 7.0),
    case("rows-complex", C, OUT, ROWS, (1, 2), "fill", 0.5j),
    case("windows", X, PAIRS[..., ::-1], WINDOWS, (2, 2), "clip"),
    case("windows-fill", X, PAIRS[..., ::-1], WINDOWS, (2, 2), "fill", 0),
    case("batched", X3, OUT[None].repeat(2, 0), BATCHED, (1, 1, 3), "fill", 0),
    case("int8-indices", X, OUT.astype(np.int8), ROWS, (1, 2), "fill", 0, vmap=False),
    case("no-indices", X, IN[:0], ROWS, (1, 2)),
    case("empty-windows", X, IN, ROWS, (1, 0)),
    case("bf16", X.astype(ml_dtypes.bfloat16), IN, ROWS, (1, 2), order=0),
    case("bool", X > 0, OUT, ROWS, (1, 2), "fill", True),
]


@pytest.mark.parametrize("case", harness.params(CASES))
def test_case(case: Case) -> None:
    harness.check_case(case)


@pytest.mark.parametrize("mode", ["clip", "fill"])
@pytest.mark.parametrize("axes", [(0, None), (None, 0), (1, 0), (2, 1), (None, 1), (2, None)])
@pytest.mark.parametrize("dims", [ROWS, WINDOWS], ids=["rows", "windows"])
def test_vmap_of_operand_and_indices(dims: object, axes: tuple, mode: str) -> None:
    rows = dims is ROWS
    indices = OUT if rows else PAIRS[..., ::-1]
    fun = lambda x, i: lax.gather(x, i, dims, (1, 2) if rows else (2, 2), mode=mode, fill_value=0)  # noqa: E731
    copies = [(X, indices), (X[::-1], (indices + 1) % 4)]
    args = [
        copies[0][k] if a is None else np.stack([c[k] for c in copies], a)
        for k, a in enumerate(axes)
    ]
    want = [
        np.asarray(fun(*[copies[0][k] if a is None else c[k] for k, a in enumerate(axes)]))
        for c in copies
    ]
    np.testing.assert_array_equal(pb.vmap(fun, axes)(*args), np.stack(want))


def test_default_fill_by_dtype() -> None:
    far = np.array([[9]])
    for dtype, value in (
        (np.float32, np.nan),
        (np.int8, -128),
        (np.uint8, 255),
        (np.bool_, True),
        (np.complex64, np.nan),
    ):
        out = np.asarray(lax.gather(X.astype(dtype), far, ROWS, (1, 1), mode="fill"))
        np.testing.assert_array_equal(out.real if dtype is np.complex64 else out, [[value]])


def test_fill_by_nan_does_not_compile_twice() -> None:
    a = pb.make_jaxpr(lambda x: lax.gather(x, IN, ROWS, (1, 2), fill_value=float("nan")))(X)
    b = pb.make_jaxpr(lambda x: lax.gather(x, IN, ROWS, (1, 2), fill_value=np.float32("nan")))(X)
    assert a.eqns[0].params == b.eqns[0].params


def test_gradient_drops_what_was_filled() -> None:
    grad = pb.grad(
        lambda x: lax.reduce_sum(
            lax.gather(x, OUT, ROWS, (1, 3), mode="fill", fill_value=0), (0, 1)
        )
    )(X)
    np.testing.assert_array_equal(grad, np.array([1, 0, 1, 0])[:, None] * np.ones((4, 3)))


def test_index_take() -> None:
    np.testing.assert_array_equal(
        lax.index_take(X3, (np.array([1, -1]), np.array([0, -1])), (0, 2)), X3[[1, -1], :, [0, -1]]
    )


ERRORS = [
    (lambda: lax.gather(X, IN.astype("f4"), ROWS, (1, 2)), ["integers", "f32[4,1]"]),
    (lambda: lax.gather(X, IN, ROWS, (1, 4)), ["slice_sizes", "f32[4,3]", "(1, 4)"]),
    (lambda: lax.gather(X, IN, ROWS, (2, 2)), ["slice size 1"]),
    (lambda: lax.gather(X, IN, ROWS, (1,)), ["one entry per operand axis"]),
    (lambda: lax.gather(X, PAIRS, ROWS, (1, 2)), ["start_index_map"]),
    (lambda: lax.gather(X, IN, ROWS._replace(offset_dims=(2,)), (1, 2)), ["offset_dims"]),
    (lambda: lax.gather(X, IN, ROWS, (1, 2), mode="wrap"), ["'wrap'", "'clip'"]),
]


@pytest.mark.parametrize("index", range(len(ERRORS)))
def test_error_texts(index: int) -> None:
    fun, parts = ERRORS[index]
    harness.check_error((TypeError, ValueError), parts, fun)  # type: ignore[arg-type]
