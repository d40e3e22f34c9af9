"""Scatter and its combining kinds, against a NumPy loop."""

from __future__ import annotations

import harness
import ml_dtypes
import numpy as np
import pytest
from harness import Case

import pullback as pb
from pullback import lax

X = harness.rng(0).normal(size=(4, 3)).astype(np.float32)
U = harness.rng(1).normal(size=(3, 2)).astype(np.float32)
X3 = harness.rng(2).normal(size=(2, 4, 3)).astype(np.float32)
C = (X + 1j * X[::-1]).astype(np.complex64)
ONCE = np.array([[0], [3], [1]])
TWICE = np.array([[3], [0], [3]])
OUT = np.array([[3], [4], [-1]])
ROWS = lax.ScatterDimensionNumbers((1,), (0,), (0,))
WINDOWS = lax.ScatterDimensionNumbers((0, 2), (), (1, 0))
CORNERS = np.array([[0, 1], [1, 2], [0, 3]])
BATCHED = lax.ScatterDimensionNumbers((2,), (1,), (1,), (0,), (0,))

KINDS = {
    "scatter": (lax.scatter, lambda a, b: b),
    "add": (lax.scatter_add, np.add),
    "sub": (lax.scatter_sub, np.subtract),
    "mul": (lax.scatter_mul, np.multiply),
    "min": (lax.scatter_min, np.minimum),
    "max": (lax.scatter_max, np.maximum),
}


def reference(
    x: np.ndarray,
    indices: np.ndarray,
    u: np.ndarray,
    d: lax.ScatterDimensionNumbers,
    mode: str,
    kind: str,
) -> np.ndarray:
    """Scatter by a loop over index vectors, as the StableHLO specification states it."""
    x = x.copy()
    fixed = (*d.inserted_window_dims, *d.operand_batching_dims)
    rest = [i for i in range(u.ndim) if i not in d.update_window_dims]
    u = u.transpose(*rest, *d.update_window_dims)
    sizes_iter = iter(u.shape[len(rest) :])
    sizes = [1 if i in fixed else next(sizes_iter) for i in range(x.ndim)]
    for place in np.ndindex(*indices.shape[:-1]):
        start = [0] * x.ndim
        for k, axis in enumerate(d.scatter_dims_to_operand_dims):
            start[axis] = int(indices[place][k])
        for i, j in zip(d.operand_batching_dims, d.scatter_indices_batching_dims, strict=True):
            start[i] = place[j]
        limits = [n - s for n, s in zip(x.shape, sizes, strict=True)]
        if mode == "clip":
            start = [min(max(s, 0), limit) for s, limit in zip(start, limits, strict=True)]
        if all(0 <= s <= limit for s, limit in zip(start, limits, strict=True)):
            window = tuple(slice(s, s + n) for s, n in zip(start, sizes, strict=True))
            x[window] = KINDS[kind][1](x[window], u[place].reshape(sizes))
    return x


def case(
    name: str,
    kind: str,
    x: np.ndarray,
    indices: np.ndarray,
    u: np.ndarray,
    d: lax.ScatterDimensionNumbers = ROWS,
    mode: str = "drop",
    unique: bool = False,
    **options: object,
) -> Case:
    return Case(
        f"{kind}-{name}",
        lambda a, b: KINDS[kind][0](a, indices, b, d, mode=mode, unique_indices=unique),
        (x, u),
        lambda a, b: reference(a, indices, b, d, mode, kind),
        **options,  # type: ignore[arg-type]
    )


CASES = [
    *[case("twice", kind, X, TWICE, U, argnums=(0,) if kind == "mul" else None) for kind in KINDS],
    *[case("unique", kind, X, ONCE, U, unique=True, vmap=False) for kind in ("scatter", "mul")],
    *[
        case("out", kind, X, OUT, U, vmap=False, argnums=(0,) if kind == "mul" else None)
        for kind in KINDS
    ],
    *[case("clip", kind, X, OUT, U, mode="clip", vmap=False) for kind in ("scatter", "add", "max")],
    case("complex", "add", C, TWICE, C[:3, :2]),
    case("complex", "scatter", C, TWICE, C[:3, :2], vmap=False),
    case("windows", "add", X, CORNERS, X3[:, :3, :2], WINDOWS),
    case("windows-clip", "scatter", X, CORNERS[:1], X3[:, :1, :2], WINDOWS, "clip", True),
    case("batched", "add", X3, TWICE[None].repeat(2, 0), X3[:, :3], BATCHED),
    case("batched", "max", X3, TWICE[None].repeat(2, 0), X3[:, :3] * 2, BATCHED, vmap=False),
    case("int", "add", X.astype("i4"), TWICE, U.astype("i4")),
    case("bool", "max", X > 0, TWICE, U > 0),
    case("uint8-indices", "scatter", X, ONCE.astype("u1"), U, vmap=False),
    case("bf16", "add", X.astype(ml_dtypes.bfloat16), TWICE, U.astype(ml_dtypes.bfloat16), order=0),
    case("nothing", "add", X, TWICE[:0], U[:0]),
    case("into-nothing", "add", X[:, :0], TWICE, U[:, :0]),
]


@pytest.mark.parametrize("case", harness.params(CASES))
def test_case(case: Case) -> None:
    harness.check_case(case)


@pytest.mark.parametrize("kind", ["scatter", "add", "max"])
@pytest.mark.parametrize(
    "axes", [(0, None, None), (None, 0, None), (None, 1, 0), (1, 1, 2), (2, None, 1)]
)
def test_vmap_of_each_operand(kind: str, axes: tuple) -> None:
    fun = lambda x, i, u: KINDS[kind][0](x, i, u, ROWS)  # noqa: E731
    copies = [(X, TWICE, U), (2 * X, OUT, 3 * U)]
    args = [
        copies[0][k] if a is None else np.stack([c[k] for c in copies], a)
        for k, a in enumerate(axes)
    ]
    want = [
        np.asarray(fun(*[copies[0][k] if a is None else c[k] for k, a in enumerate(axes)]))
        for c in copies
    ]
    np.testing.assert_allclose(pb.vmap(fun, axes)(*args), np.stack(want), rtol=1e-6)


def test_only_the_last_writer_has_a_derivative() -> None:
    def fun(u: object) -> object:
        return lax.reduce_sum(lax.scatter(X, TWICE, u, ROWS), (0, 1))

    out = np.asarray(lax.scatter(X, TWICE, U, ROWS))
    grad = np.asarray(pb.grad(fun)(U))
    winner = 2 if np.array_equal(out[3, :2], U[2]) else 0
    want = np.zeros((3, 2))
    want[[1, winner]] = 1
    np.testing.assert_array_equal(grad, want)


def test_tied_extremum_shares_the_derivative() -> None:
    x, u = np.zeros((2, 1), np.float32), np.zeros((2, 1), np.float32)
    indices = np.array([[0], [0]])
    fun = lambda x, u: lax.reduce_sum(lax.scatter_max(x, indices, u, ROWS), (0, 1))  # noqa: E731
    dx, du = pb.grad(fun, (0, 1))(x, u)
    np.testing.assert_allclose(dx, [[1 / 3], [1]], rtol=1e-6)
    np.testing.assert_allclose(du, [[1 / 3], [1 / 3]], rtol=1e-6)


APPLY = [
    Case(
        "apply",
        lambda x: lax.scatter_apply(
            x, ONCE, lax.sin, ROWS, update_shape=(3, 2), unique_indices=True
        ),
        (X,),
        lambda x: np.concatenate(
            [np.where(np.isin(np.arange(4), ONCE)[:, None], np.sin(x), x)[:, :2], x[:, 2:]], 1
        ),
    ),
    Case(
        "apply-twice",
        lambda x: lax.scatter_apply(x, TWICE, lambda v: lax.mul(v, 2.0), ROWS, update_shape=(3, 3)),
        (X,),
        lambda x: x * np.array([2, 1, 1, 4], np.float32)[:, None],
        order=0,
    ),
]


@pytest.mark.parametrize("case", harness.params(APPLY))
def test_apply(case: Case) -> None:
    harness.check_case(case)


def test_missing_derivatives_say_what_to_do() -> None:
    mul = lambda u: lax.reduce_sum(lax.scatter_mul(X, TWICE, u, ROWS), (0, 1))  # noqa: E731
    harness.check_error(NotImplementedError, ["unique_indices=True"], pb.grad(mul), U)
    apply = lambda x: lax.reduce_sum(  # noqa: E731
        lax.scatter_apply(x, TWICE, lax.sin, ROWS, update_shape=(3, 2)), (0, 1)
    )
    harness.check_error(NotImplementedError, ["unique_indices=True"], pb.grad(apply), X)


ERRORS = [
    (lambda: lax.scatter_add(X, ONCE.astype("f4"), U, ROWS), ["integers", "f32[3,1]"]),
    (lambda: lax.scatter_add(X, ONCE, U[:2], ROWS), ["sizes of the indices", "(2, 2)"]),
    (lambda: lax.scatter_add(X, ONCE, X[:3, [0, 0, 0, 0]], ROWS), ["windows must fit"]),
    (lambda: lax.scatter_add(X, ONCE, U.astype("f2"), ROWS), ["f32[4,3]", "f16[3,2]"]),
    (lambda: lax.scatter_add(X, ONCE, U[0], ROWS), ["update_window_dims"]),
    (lambda: lax.scatter_add(X > 0, ONCE, U > 0, ROWS), ["bool"]),
    (lambda: lax.scatter(X, ONCE, U, ROWS, mode="wrap"), ["'wrap'"]),
    (
        lambda: lax.scatter_apply(X, ONCE, lambda v: lax.gt(v, 0.0), ROWS, update_shape=(3, 2)),
        ["bool[]", "f32[4,3]"],
    ),
]


@pytest.mark.parametrize("index", range(len(ERRORS)))
def test_error_texts(index: int) -> None:
    fun, parts = ERRORS[index]
    harness.check_error((TypeError, ValueError), parts, fun)  # type: ignore[arg-type]
