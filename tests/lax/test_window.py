"""Reductions over sliding windows, against a NumPy loop."""

from __future__ import annotations

import harness
import ml_dtypes
import numpy as np
import pytest
from harness import Case

import pullback as pb
from pullback import lax

X = harness.rng(0).normal(size=(5, 4)).astype(np.float32)
C = (X + 1j * X[::-1]).astype(np.complex64)
V = X[:, 0]


def reference(
    x: np.ndarray,
    init: float,
    ufunc: np.ufunc,
    window: tuple,
    strides: tuple | None = None,
    padding: tuple | None = None,
    base: tuple | None = None,
    spread: tuple | None = None,
) -> np.ndarray:
    n = x.ndim
    strides, base, spread = (v or (1,) * n for v in (strides, base, spread))
    padding = padding or ((0, 0),) * n
    sizes = [1 + d * (s - 1) for s, d in zip(x.shape, base, strict=True)]
    wide = np.full([s + lo + hi for s, (lo, hi) in zip(sizes, padding, strict=True)], init, x.dtype)
    inner = [slice(lo, lo + s, d) for s, d, (lo, _) in zip(sizes, base, padding, strict=True)]
    wide[tuple(inner)] = x
    reach = [1 + d * (w - 1) for w, d in zip(window, spread, strict=True)]
    out_shape = [(s - r) // t + 1 for s, r, t in zip(wide.shape, reach, strides, strict=True)]
    out = np.zeros(out_shape, x.dtype)
    for place in np.ndindex(*out_shape):
        at = [
            slice(p * t, p * t + r, d)
            for p, t, r, d in zip(place, strides, reach, spread, strict=True)
        ]
        out[place] = ufunc.reduce(wide[tuple(at)], None)
    return out


def joint(a: object, b: object) -> object:
    return lax.add(lax.add(a, b), lax.mul(a, b))


KINDS = {
    "sum": (0.0, lax.add, np.add),
    "max": (-np.inf, lax.max, np.maximum),
    "min": (np.inf, lax.min, np.minimum),
}
SHAPES: list[tuple[str, tuple, dict]] = [
    ("plain", (2, 3), {}),
    ("strides", (3, 2), {"strides": (2, 3), "padding": ((1, 2), (0, 1))}),
    ("dilated", (2, 2), {"base": (1, 2), "spread": (3, 1), "padding": ((0, 0), (1, 0))}),
]
NAMES = {"strides": "window_strides", "base": "base_dilation", "spread": "window_dilation"}


def call(x: object, kind: str, window: tuple, options: dict) -> object:
    init, fun, _ = KINDS[kind]
    named = {NAMES.get(k, k): v for k, v in options.items()}
    return lax.reduce_window(x, init, fun, window, **named)


CASES = [
    *[
        Case(
            f"{kind}-{name}",
            lambda x, k=kind, w=window, o=options: call(x, k, w, o),
            (X,),
            lambda x, k=kind, w=window, o=options: reference(x, KINDS[k][0], KINDS[k][2], w, **o),
            vmap=name == "strides" or kind == "max",
        )
        for kind in KINDS
        for name, window, options in SHAPES
    ],
    Case(
        "sum-complex",
        lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (2, 1)),
        (C,),
        lambda x: reference(x, 0, np.add, (2, 2), (2, 1)),
        vmap=False,
    ),
    Case(
        "max-int",
        lambda x: lax.reduce_window(x, np.iinfo(np.int32).min, lax.max, (2, 2)),
        ((X * 9).astype("i4"),),
        lambda x: reference(x, -(2**31), np.maximum, (2, 2)),
    ),
    Case(
        "max-bf16",
        lambda x: lax.reduce_window(x, -np.inf, lax.max, (2,)),
        (V.astype(ml_dtypes.bfloat16),),
        lambda x: reference(x, -np.inf, np.maximum, (2,)),
        order=0,
    ),
    Case(
        "max-from-value",
        lambda x, i: lax.reduce_window(x, i, lax.max, (2,)),
        (V, np.float32(0.1)),
        lambda x, i: np.maximum(reference(x, -np.inf, np.maximum, (2,)), i),
    ),
    Case(
        "product",
        lambda x: lax.reduce_window(x, 1.0, lax.mul, (2, 2), (1, 2)),
        (X,),
        lambda x: reference(x, 1, np.multiply, (2, 2), (1, 2)),
    ),
    Case(
        "function",
        lambda x: lax.reduce_window(x, 0.0, joint, (3,), padding="SAME"),
        (V,),
        lambda x: reference(1 + x, 1, np.multiply, (3,), None, ((1, 1),)) - 1,
        ulps=64,
    ),
    Case(
        "same",
        lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 3), (2, 2), "SAME"),
        (X,),
        lambda x: reference(x, 0, np.add, (2, 3), (2, 2), ((0, 1), (0, 1))),
        vmap=False,
    ),
    Case(
        "empty",
        lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2)),
        (X[:1],),
        lambda x: np.zeros((0, 3)),
    ),
    Case(
        "of-empty",
        lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 1), padding=((1, 1), (0, 0))),
        (X[:0],),
        lambda x: np.full((1, 4), -np.inf),
        order=0,
    ),
]


@pytest.mark.parametrize("case", harness.params(CASES))
def test_case(case: Case) -> None:
    harness.check_case(case)


def test_several_operands() -> None:
    """The maximum of each window with its position."""

    def larger(a: tuple, b: tuple) -> tuple:
        first = lax.ge(a[0], b[0])
        return lax.select(first, a[0], b[0]), lax.select(first, a[1], b[1])

    at = np.arange(5, dtype=np.int32)
    values, where = lax.reduce_window((V, at), (-np.inf, 0), larger, (3,))
    np.testing.assert_array_equal(values, reference(V, -np.inf, np.maximum, (3,)))
    np.testing.assert_array_equal(where, [i + np.argmax(V[i : i + 3]) for i in range(3)])


def test_ties_give_the_derivative_to_the_first() -> None:
    x = np.zeros(4, np.float32)
    fun = lambda x: lax.reduce_sum(lax.reduce_window(x, -np.inf, lax.max, (2,), (2,)), (0,))  # noqa: E731
    np.testing.assert_array_equal(pb.grad(fun)(x), [1, 0, 1, 0])


def test_known_functions_become_their_primitive() -> None:
    (eqn,) = pb.make_jaxpr(lambda x: call(x, "max", (2, 2), {}))(X).eqns
    assert eqn.primitive.name == "reduce_window_max"


def test_shape_tuple() -> None:
    assert lax.reduce_window_shape_tuple((5, 4), (2, 3), (2, 1), "SAME") == (3, 4)


ERRORS = [
    (lambda: lax.reduce_window(X, 0.0, lax.add, (2,)), ["(5, 4)", "(2,)"]),
    (lambda: lax.reduce_window(X, 0.0, lax.add, (2, 0)), ["positive", "(2, 0)"]),
    (lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), (1,)), ["window_strides"]),
    (lambda: lax.reduce_window(X, V, joint, (2, 2)), ["scalar", "f32[5]"]),
    (lambda: lax.reduce_window((X, X), 0.0, joint, (2, 2)), ["one structure"]),
    (lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), padding="LESS"), ["'LESS'"]),
]


@pytest.mark.parametrize("index", range(len(ERRORS)))
def test_error_texts(index: int) -> None:
    fun, parts = ERRORS[index]
    harness.check_error((TypeError, ValueError), parts, fun)  # type: ignore[arg-type]
