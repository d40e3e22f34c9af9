"""Checks that every operation must pass, run from a table of sample inputs.

A `Case` states a function and samples; `check_case` compares
  value       with a NumPy reference, and with the type that abstract evaluation gives;
  jit         with plain evaluation;
  vmap        with a loop, over every choice of mapped operands and axes;
  derivatives with finite differences to order two, forward and reverse, and reverse with forward
              by inner products.
Each check is also a function of its own. Derivatives are taken in 64-bit types, so differences are
exact to 1e-6. Shapes are small and few: each new one costs a compilation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.core import dtypes
from pullback.core.config import enable_x64

# Relative (and for values near zero absolute) tolerance of values, by dtype, in units of the
# dtype's spacing at 1.
VALUE_ULPS = 8
GRAD_RTOL = 2e-5
STEP = 1e-5


@dataclass(frozen=True, slots=True)
class Case:
    """One function with one set of operands, and what to expect of it.

    Attributes:
        name: id of the test.
        fun: takes the operands; static parameters are bound beforehand.
        args: operands, NumPy arrays or scalars.
        reference: a NumPy function of the same operands, or None.
        ulps: tolerance of values.
        order: how often to differentiate (0: not at all).
        argnums: operands to differentiate by; None for all of inexact dtype.
        modes: of differentiation: forward, reverse or both.
        vmap: whether to check vmap.
        grad_rtol: tolerance of derivatives.
        grad_args: operands for derivatives, if `args` lie where there is none.
    """

    name: str
    fun: Callable[..., Any]
    args: tuple[Any, ...]
    reference: Callable[..., Any] | None = None
    ulps: float = VALUE_ULPS
    order: int = 2
    argnums: tuple[int, ...] | None = None
    modes: tuple[str, ...] = ("fwd", "rev")
    vmap: bool = True
    grad_rtol: float = GRAD_RTOL
    grad_args: tuple[Any, ...] | None = None


def params(cases: Sequence[Case]) -> list[Any]:
    """The cases as pytest parameters, named."""
    return [pytest.param(case, id=case.name) for case in cases]


def rng(seed: int = 0) -> np.random.Generator:
    """A generator with a fixed seed."""
    return np.random.default_rng(seed)


# -- comparing --------------------------------------------------------------------------------


def leaves(tree: Any) -> list[Any]:
    """The arrays of a result: one array, or a sequence of them."""
    return list(pb.tree.leaves(tree)) if isinstance(tree, tuple | list | dict) else [tree]


def to_numpy(x: Any) -> np.ndarray:
    """The values of an array as NumPy computes with them: small floats as float32."""
    array = np.asarray(x)
    small = dtypes.is_inexact(array.dtype) and array.dtype.itemsize < 4
    return array.astype(np.float32) if small else array


def spacing(dtype: Any) -> float:
    """The distance of 1 to the next number of a dtype; 0 for integers."""
    return float(dtypes.finfo(dtype).eps) if dtypes.is_inexact(dtype) else 0.0


def assert_close(actual: Any, expected: Any, ulps: float = VALUE_ULPS, what: str = "") -> None:
    """Results equal to within `ulps` spacings of the result's dtype; shapes must agree."""
    for a, e in zip(leaves(actual), leaves(expected), strict=True):
        eps = spacing(np.asarray(a).dtype)
        a, e = to_numpy(a), to_numpy(e)
        assert a.shape == e.shape, f"{what}: shape {a.shape}, expected {e.shape}"
        if eps == 0:
            np.testing.assert_array_equal(a, e, err_msg=what)
        else:
            tiny = eps * ulps
            np.testing.assert_allclose(a, e.astype(a.dtype), rtol=tiny, atol=tiny, err_msg=what)


# -- values -----------------------------------------------------------------------------------


def check_value(case: Case) -> Any:
    """The result has the type that abstract evaluation gives, and the reference's values."""
    out = case.fun(*case.args)
    shapes = pb.eval_shape(case.fun, *case.args)
    for value, shape in zip(leaves(out), leaves(shapes), strict=True):
        aval = pb.core.aval.typeof(value)
        expected = (shape.shape, shape.dtype, shape.weak_type)
        assert (aval.shape, aval.dtype, aval.weak_type) == expected, case.name
        assert np.asarray(value).dtype == shape.dtype, case.name
        assert np.shape(value) == shape.shape, case.name
    if case.reference is not None:
        small = [to_numpy(x) for x in case.args]
        with np.errstate(all="ignore"):
            assert_close(out, case.reference(*small), case.ulps, f"{case.name}: value")
    return out


def check_jit(case: Case, out: Any = None) -> None:
    """The compiled function gives what plain evaluation gives."""
    out = case.fun(*case.args) if out is None else out
    assert_close(pb.jit(case.fun)(*case.args), out, 4, f"{case.name}: jit")


# -- vmap -------------------------------------------------------------------------------------


def check_vmap(
    fun: Callable[..., Any],
    args: Sequence[Any],
    *,
    size: int = 2,
    axes: Sequence[int] = (0, -1),
    ulps: float = 4,
    name: str = "",
) -> None:
    """vmap equals a loop, for every choice of mapped operands, at the first and the last axis."""
    args = [np.asarray(x) for x in args]
    # Copies that differ, but stay in the domain: rolled along the flattened operand.
    copies = [[np.roll(x, k) for k in range(size)] for x in args]
    for mapped in itertools.product((False, True), repeat=len(args)):
        if not any(mapped):
            continue
        choices = [x if m else c[0] for x, m, c in zip(copies, mapped, copies, strict=True)]
        expected = [
            leaves(fun(*[c[k] if m else c for c, m in zip(choices, mapped, strict=True)]))
            for k in range(size)
        ]
        for axis in axes if any(x.ndim for x in args) else axes[:1]:
            for out_axis in (0, -1) if axis == axes[-1] else (0,):
                in_axes = tuple(axis if m else None for m in mapped)
                stacked = [
                    np.stack(c, axis) if m else c for c, m in zip(choices, mapped, strict=True)
                ]
                got = pb.vmap(fun, in_axes=in_axes, out_axes=out_axis)(*stacked)
                want = [np.stack(parts, out_axis) for parts in zip(*expected, strict=True)]
                assert_close(leaves(got), want, ulps, f"{name}: vmap {in_axes} -> {out_axis}")


# -- derivatives ------------------------------------------------------------------------------


def direction(x: np.ndarray, seed: int) -> np.ndarray:
    """A random direction of an array's shape and dtype."""
    out = rng(seed).uniform(-1, 1, x.shape)
    if np.iscomplexobj(x):
        out = out + 1j * rng(seed + 100).uniform(-1, 1, x.shape)
    return out.astype(x.dtype)


def real_product(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    """The real part of the sum of products: the pairing of tangents with cotangents."""
    return float(
        sum(np.sum(np.real(np.asarray(x) * np.asarray(y))) for x, y in zip(xs, ys, strict=True))
    )


def numerical_jvp(
    fun: Callable[..., Any], args: Sequence[Any], tangents: Sequence[Any], step: float = STEP
) -> list[np.ndarray]:
    """Central differences of fourth order. Source: Abramowitz and Stegun 25.3.6."""

    def at(k: float) -> list[np.ndarray]:
        moved = [(x + k * step * t).astype(x.dtype) for x, t in zip(args, tangents, strict=True)]
        return [np.asarray(y) for y in leaves(fun(*moved))]

    points = zip(at(-2), at(-1), at(1), at(2), strict=True)
    return [(a - 8 * b + 8 * c - d) / (12 * step) for a, b, c, d in points]


def check_grads(
    fun: Callable[..., Any],
    args: Sequence[Any],
    *,
    order: int = 2,
    modes: Sequence[str] = ("fwd", "rev"),
    rtol: float = GRAD_RTOL,
    name: str = "",
    seed: int = 1,
) -> None:
    """Derivatives equal finite differences, to the given order, in the given modes.

    Args:
        fun: function of floating or complex arrays.
        args: 64-bit arrays.
        order: how often to differentiate.
        modes: "fwd" for jvp, "rev" for vjp.
        rtol: tolerance, also absolute.
        name: for the message.

    A function with integer or boolean results must have float0 tangents.
    """
    args = [np.asarray(x) for x in args]
    if order == 0:
        return
    tangents = [direction(x, seed + i) for i, x in enumerate(args)]
    expected = numerical_jvp(fun, args, tangents)
    out, forward = pb.jvp(fun, tuple(args), tuple(tangents))
    what = f"{name}: order {order} to go"
    if not all(dtypes.is_inexact(np.asarray(y).dtype) for y in leaves(out)):
        kinds = [np.asarray(t).dtype for t in leaves(forward)]
        assert all(kind == dtypes.float0 for kind in kinds), f"{what}: tangents {kinds}"
        return
    for got, want in zip(leaves(forward), expected, strict=True):
        np.testing.assert_allclose(np.asarray(got), want, rtol, rtol, err_msg=f"{what}, forward")
    if "rev" in modes:
        primal, pullback = pb.vjp(fun, *args)
        assert_close(primal, out, 16, f"{what}: primal under vjp")
        cts = [direction(np.asarray(y), seed + 7 + i) for i, y in enumerate(leaves(out))]
        ct_args = pullback(cts[0] if not isinstance(out, tuple | list) else type(out)(cts))
        left, right = real_product(cts, leaves(forward)), real_product(ct_args, tangents)
        scale = real_product([np.abs(c) for c in cts], [np.abs(f) for f in leaves(forward)])
        assert abs(left - right) <= 1e-11 * (1 + scale), f"{what}: inner products {left} {right}"
    if order == 1:
        return
    n = len(args)
    if "fwd" in modes:
        check_grads(
            lambda *xs: pb.jvp(fun, xs[:n], xs[n:])[1],
            [*args, *tangents],
            order=order - 1,
            modes=modes,
            rtol=rtol,
            name=f"{name} jvp",
        )
    if "rev" in modes:
        tree = type(out) if isinstance(out, tuple | list) else None
        check_grads(
            lambda *xs: pb.vjp(fun, *xs[:n])[1](tree(xs[n:]) if tree else xs[n]),
            [*args, *cts],
            order=order - 1,
            modes=modes,
            rtol=rtol,
            name=f"{name} vjp",
        )


def check_transpose(
    fun: Callable[..., Any], args: Sequence[Any], name: str = "", rtol: float = 1e-5
) -> None:
    """The transpose of a linear function pairs with it: <ct, f(x)> = <f^T(ct), x>."""
    args = [np.asarray(x) for x in args]
    out = fun(*args)
    cts = [direction(np.asarray(y), 5 + i) for i, y in enumerate(leaves(out))]
    back = pb.linear_transpose(fun, *args)
    ct_args = back(cts[0] if not isinstance(out, tuple | list) else type(out)(cts))
    left, right = real_product(cts, leaves(out)), real_product(ct_args, args)
    assert abs(left - right) <= rtol * (1 + abs(left)), f"{name}: {left} {right}"


def check_derivatives(case: Case) -> None:
    """The derivatives of a case by its inexact operands, in 64-bit types."""
    source = case.args if case.grad_args is None else case.grad_args
    args = [np.asarray(x) for x in source]
    argnums = case.argnums
    if argnums is None:
        argnums = tuple(i for i, x in enumerate(args) if dtypes.is_inexact(x.dtype))
    if not argnums or not case.order:
        return
    wide = [
        x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
        if dtypes.is_inexact(x.dtype)
        else x
        for x in args
    ]

    def chosen(*xs: Any) -> Any:
        full = list(wide)
        for i, x in zip(argnums, xs, strict=True):
            full[i] = x
        return case.fun(*full)

    with enable_x64(True):
        check_grads(
            chosen,
            [wide[i] for i in argnums],
            order=case.order,
            modes=case.modes,
            rtol=case.grad_rtol,
            name=case.name,
        )


# -- all of it --------------------------------------------------------------------------------


def check_case(case: Case) -> None:
    """Every check that the case asks for."""
    out = check_value(case)
    check_jit(case, out)
    if case.vmap:
        check_vmap(case.fun, case.args, name=case.name)
    check_derivatives(case)


def check_error(
    error: type[Exception], parts: Sequence[str], fun: Callable[..., Any], *args: Any
) -> None:
    """The call raises, and the message holds each of the parts."""
    with pytest.raises(error) as caught:
        fun(*args)
    text = str(caught.value)
    for part in parts:
        assert part in text, f"{part!r} is not in {text!r}"
