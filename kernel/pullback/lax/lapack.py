"""Calls of LAPACK, as primitives that only stand inside lowerings, and what families of
factorizations share.

Builds on matrix.py and xla/compat.py. Source: LAPACK Users' Guide, 3rd ed., 1999.
Tested in tests/lax/test_linalg.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core import errors
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import AxisData, bdim_at_front
from pullback.core.jvp import is_zero, zero_of
from pullback.core.tracer import Primitive
from pullback.xla import compat

_LETTERS = {
    np.dtype(np.float32): "s",
    np.dtype(np.float64): "d",
    np.dtype(np.complex64): "c",
    np.dtype(np.complex128): "z",
}
# Routines that have another name for complex (Hermitian, unitary) matrices.
_COMPLEX_NAMES = {"syevd": "heevd", "orgqr": "ungqr", "ormqr": "unmqr", "sytrd": "hetrd"}

INT32 = np.dtype(np.int32)


def check_matrix(name: str, x: ShapedArray, square: bool = False) -> None:
    """Check that an operand holds matrices of a dtype that LAPACK takes.

    Raises:
        ValueError: fewer than two axes, or not square.
        TypeError: another dtype.
    """
    if x.ndim < 2:
        raise errors.shape_error(
            f"{name}: the operand must have at least 2 axes, got {x.str_short()}.",
            "make it a matrix, x[:, None] or x[None, :].",
        )
    if square and x.shape[-1] != x.shape[-2]:
        raise errors.shape_error(
            f"{name}: matrices must be square, got {x.str_short()}.",
            "the last two axes must be equal; qr and svd take any matrix.",
        )
    if x.dtype not in _LETTERS:
        raise TypeError(
            f"{name}: the operand must be float32, float64, complex64 or complex128, got "
            f"{x.str_short()}.\nInstead: convert it first, x.astype('float32')."
        )


def _column_major(aval: ShapedArray, vector: bool) -> tuple[int, ...]:
    n = aval.ndim
    if vector or n < 2:
        return tuple(range(n - 1, -1, -1))
    return (n - 2, n - 1, *range(n - 3, -1, -1))


def _attribute(ctx: Any, value: Any) -> Any:
    ir = ctx.ir
    if isinstance(value, bool):
        return ir.BoolAttr.get(value)
    if isinstance(value, str):
        return ir.IntegerAttr.get(ir.IntegerType.get_unsigned(8), ord(value))
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(32), value)


def _lapack_lower(
    ctx: Any, *values: Any, routine: str, batch_ndim: int, attributes: tuple, outs: tuple
) -> list[Any]:
    if ctx.platform != "cpu":
        raise NotImplementedError(
            f"LAPACK's {routine} runs on the CPU only; the program is compiled for "
            f"{ctx.platform}.\nInstead: move the matrix, device_put(x, devices('cpu')[0])."
        )
    compat.register_lapack()
    letter = _LETTERS[ctx.avals_in[0].dtype]
    name = _COMPLEX_NAMES.get(routine, routine) if letter in "cz" else routine
    layouts = [
        [_column_major(a, a.ndim <= batch_ndim + 1) for a in avals]
        for avals in (ctx.avals_in, ctx.avals_out)
    ]
    return ctx.custom_call(
        f"lapack_{letter}{name}_ffi",
        values,
        [ctx.type(a) for a in ctx.avals_out],
        backend_config={key: _attribute(ctx, value) for key, value in attributes},
        operand_layouts=layouts[0],
        result_layouts=layouts[1],
    )


def _no_batch(*args: Any, **params: Any) -> Any:
    raise TypeError("calls of LAPACK stand inside lowerings only, where nothing is batched")


lapack_p = Primitive(
    name="lapack",
    abstract=lambda *avals, outs, **params: list(outs),
    lower=_lapack_lower,
    nondifferentiable="it stands inside lowerings only",
    batch=_no_batch,
    multiple_results=True,
    label=lambda params: params["routine"],
    doc="One LAPACK routine applied to each matrix.",
)


def lapack(
    routine: str, operands: Sequence[Any], outs: Sequence[tuple[tuple, Any]], **attributes: Any
) -> list[Any]:
    """Call a LAPACK routine for each matrix of its operands.

    Args:
        routine: name without the letter of the precision, e.g. `getrf`.
        operands: arrays with the same leading axes.
        outs: shape (without the leading axes) and dtype of each result.
        attributes: options, letters as strings.
    """
    batch = max((typeof(x).shape for x in operands), key=len)[:-2]
    return lapack_p.bind(
        *operands,
        routine=routine,
        batch_ndim=len(batch),
        attributes=tuple(attributes.items()),
        outs=tuple([make_aval((*batch, *shape), np.dtype(dtype)) for shape, dtype in outs]),
    )


def factorization(
    name: str,
    abstract: Callable[..., list[ShapedArray]],
    compute: Callable[..., Sequence[Any]],
    doc: str,
    jvp: Callable[..., Any] | None = None,
    rule: Callable[..., Any] | None = None,
    nondifferentiable: str | None = None,
) -> Primitive:
    """A primitive on matrices with any leading axes that is computed by LAPACK.

    Args:
        name: its name.
        abstract: types of the results.
        compute: the operands and parameters to the results, by `lapack` and other operations.
        doc: what it computes.
        jvp: (results, primals, tangents, **params) -> tangents of the results; no tangent is zero
            unless there are several operands.
        rule: the whole derivative rule, where results come from another call under it.
        nondifferentiable: why there is no derivative.
    """

    def lower(ctx: Any, *values: Any, **params: Any) -> list[Any]:
        return ctx.fun(lambda *xs: compute(*xs, **params), values)

    def by_tangents(primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        outs = prim.bind(*primals, **params)
        if all(is_zero(t) for t in tangents):
            return outs, [zero_of(o) for o in outs]
        t_outs = jvp(outs, primals, tangents, **params)  # type: ignore[misc]
        return outs, [zero_of(o) if t is None else t for o, t in zip(outs, t_outs, strict=True)]

    prim = Primitive(
        name=name,
        abstract=abstract,
        lower=lower,
        jvp=by_tangents if jvp is not None else rule,
        nondifferentiable=nondifferentiable,
        batch=lambda axis, args, dims, **params: batch_leading(prim, axis, args, dims, params),
        multiple_results=True,
        doc=doc,
    )
    return prim


def batch_leading(
    prim: Primitive, axis: AxisData, args: Any, dims: Any, params: dict[str, Any]
) -> tuple[Any, Any]:
    """The batching rule of operations that take any leading axes."""
    args = [bdim_at_front(x, d, axis.size) for x, d in zip(args, dims, strict=True)]
    out = prim.bind(*args, **params)
    return (out, [0] * len(out)) if prim.multiple_results else (out, 0)
