"""Builders of elementwise primitives: broadcasting, dtype checks, rules shared by whole families.

A family row states a name, an operation of StableHLO or CHLO, the dtypes it accepts and its
derivative; everything else follows. Operands of an n-ary primitive broadcast as in NumPy, so
`add` of [b, h] and [h] is one equation, and its transpose sums over the stretched axes.

Builds on core. Tested in tests/lax/test_elementwise.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from pullback.core import dtypes, errors
from pullback.core.aval import ShapedArray, is_arraylike, make_aval, typeof
from pullback.core.batching import move_dim
from pullback.core.jvp import Zero, add_tangents, is_zero, zero_jvp, zero_of
from pullback.core.tracer import Primitive
from pullback.core.transpose import is_undefined, unbroadcast_axes

BOOL = ("bool",)
SIGNED = ("signed",)
INTEGER = ("signed", "unsigned")
FLOAT = ("float",)
COMPLEX = ("complex",)
INEXACT = FLOAT + COMPLEX
NUMBER = INTEGER + INEXACT
ORDERED = BOOL + INTEGER + FLOAT
BITS = BOOL + INTEGER
ANY = BOOL + NUMBER


class _ShapeOps:
    """Linear operations on shapes that the rules need, provided by the files on shapes and sums."""

    reshape: Callable[[Any, tuple[int, ...]], Any]
    broadcast_to: Callable[[Any, tuple[int, ...]], Any]
    sum: Callable[[Any, tuple[int, ...]], Any]


shape_ops = _ShapeOps()


@lru_cache(maxsize=256)
def kind_of(dtype: Any) -> str:
    """The kind of a dtype: bool, signed, unsigned, float, complex or other."""
    if dtype == dtypes.float0:
        return "float0"
    for kind, abstract in (
        ("bool", np.bool_),
        ("signed", np.signedinteger),
        ("unsigned", np.unsignedinteger),
        ("float", np.floating),
        ("complex", np.complexfloating),
    ):
        if dtypes.issubdtype(dtype, abstract):
            return kind
    return "other"


_KIND_TEXT = {
    "bool": "bool",
    "signed": "signed integer",
    "unsigned": "unsigned integer",
    "float": "floating point",
    "complex": "complex",
}


def describe(aval: ShapedArray) -> str:
    """A type as error messages show it: `float32[3,4]`."""
    return f"{dtypes.name(aval.dtype)}[{','.join(map(str, aval.shape))}]"


def check_kind(name: str, aval: ShapedArray, accepts: Sequence[str], position: str = "x") -> None:
    """Check the dtype of one operand.

    Raises:
        TypeError: the primitive does not take this dtype.
    """
    if kind_of(aval.dtype) in accepts:
        return
    wanted = ", ".join(_KIND_TEXT[k] for k in accepts)
    target = "float32" if "float" in accepts else "complex64" if "complex" in accepts else "int32"
    raise TypeError(
        f"{name} does not accept dtype {dtypes.name(aval.dtype)}: operand {position} is "
        f"{describe(aval)}. Accepted dtypes: {wanted}.\n"
        f"Instead: convert it first, e.g. {position}.astype({target!r})."
    )


def broadcast_shapes(name: str, avals: Sequence[ShapedArray]) -> tuple[int, ...]:
    """The shape that operands broadcast to, as in NumPy.

    Raises:
        TypeError: the shapes are incompatible.
    """
    shape = avals[0].shape
    if all(aval.shape == shape for aval in avals):
        return shape
    rank = max(aval.ndim for aval in avals)
    out = [1] * rank
    for aval in avals:
        for axis, size in enumerate(aval.shape, rank - aval.ndim):
            if size != 1 and out[axis] not in (1, size):
                types = [describe(a) for a in avals]
                raise errors.broadcast_error(name, types, [a.shape for a in avals])
            if size != 1:
                out[axis] = size
    return tuple(out)


def check_same_dtypes(name: str, avals: Sequence[ShapedArray], promoting: str = "") -> None:
    """Check that operands have one dtype.

    Raises:
        TypeError: the dtypes differ.
    """
    first = avals[0].dtype
    if all(aval.dtype == first for aval in avals):
        return
    tip = f", or use jnp.{promoting}, which promotes" if promoting else ""
    raise TypeError(
        f"lax.{name} requires arguments to have the same dtypes, got "
        f"{', '.join(dtypes.name(a.dtype) for a in avals)} "
        f"(operands {', '.join(describe(a) for a in avals)}).\n"
        f"Instead: convert one with x.astype(dtype){tip}."
    )


@lru_cache(maxsize=1024)
def _scalar(value: Any, dtype: Any) -> Any:
    return np.asarray(value).astype(dtype)[()]


def const_like(x: Any, value: Any) -> Any:
    """A scalar of the type of `x`: a Python number beside a weakly typed one."""
    aval = typeof(x)
    if aval.weak_type:
        kind = dtypes.weak_kind(aval.dtype)
        if dtypes.python_scalar_dtype(kind) == aval.dtype:
            return kind(value)
    return _scalar(value, aval.dtype)


def zero_scalar(aval: ShapedArray) -> Any:
    """The scalar zero of the dtype of `aval`."""
    return _scalar(0, aval.dtype)


def match_shape(t: Any, shape: tuple[int, ...]) -> Any:
    """The array broadcast to a shape, if it does not have it yet."""
    return t if typeof(t).shape == shape else shape_ops.broadcast_to(t, shape)


def unbroadcast(ct: Any, aval: ShapedArray) -> Any:
    """The cotangent of an operand of type `aval` that was broadcast: sums over stretched axes."""
    if is_zero(ct):
        return Zero(aval)
    shape = typeof(ct).shape
    if shape == aval.shape:
        return ct
    axes = unbroadcast_axes(shape, aval.shape)
    out = shape_ops.sum(ct, axes) if axes else ct
    return out if typeof(out).shape == aval.shape else shape_ops.reshape(out, aval.shape)


# -- batching ---------------------------------------------------------------------------------


def nary_batch(prim: Callable[[], Primitive]) -> Callable[..., Any]:
    """The batching rule of an elementwise primitive: ranks aligned, broadcasting does the rest."""

    def rule(axis: Any, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        aligned, dim = align(args, dims)
        return prim().bind(*aligned, **params), dim

    return rule


def align(args: Sequence[Any], dims: Sequence[int | None]) -> tuple[list[Any], int]:
    """Operands of which some have a mapped axis, so that broadcasting pairs the mapped axes.

    Returns:
        The operands and the position of the mapped axis in what they broadcast to.
    """
    ranks = [typeof(x).ndim - (d is not None) for x, d in zip(args, dims, strict=True)]
    rank = max(ranks)
    mapped = {d for d in dims if d is not None}
    full = all(r == rank for r, d in zip(ranks, dims, strict=True) if d is not None)
    if len(mapped) == 1 and full:
        (dim,) = mapped
        if all(d is not None or r <= rank - dim for r, d in zip(ranks, dims, strict=True)):
            return list(args), dim
    out = []
    for x, d, r in zip(args, dims, ranks, strict=True):
        if d is not None:
            x = move_dim(x, d, 0)
            if r < rank:
                shape = typeof(x).shape
                x = shape_ops.reshape(x, (shape[0],) + (1,) * (rank - r) + shape[1:])
        out.append(x)
    return out, 0


def unary_batch(prim: Callable[[], Primitive]) -> Callable[..., Any]:
    """The batching rule of a primitive that treats each element of its one operand alike."""

    def rule(axis: Any, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        return prim().bind(*args, **params), dims[0]

    return rule


# -- lowering ---------------------------------------------------------------------------------


def hlo_op(ctx: Any, op: str) -> Callable[..., Any]:
    """The builder of an operation by name: `sine` of StableHLO, `chlo.erf` of CHLO."""
    return getattr(ctx.chlo, op[5:]) if op.startswith("chlo.") else getattr(ctx.hlo, op)


def broadcast_operands(ctx: Any, values: Sequence[Any], shape: tuple[int, ...]) -> list[Any]:
    """IR operands broadcast to a shape."""
    return [
        v if a.shape == shape else ctx.broadcast_to(v, a, make_aval(shape, a.dtype))
        for v, a in zip(values, ctx.avals_in, strict=True)
    ]


def _unary_lower(op: str) -> Callable[..., Any]:
    def lower(ctx: Any, x: Any, accuracy: Any = None) -> Any:
        build = hlo_op(ctx, op)
        if accuracy is None:
            return build(x)
        return build(x, result_accuracy=accuracy.attribute(ctx))

    return lower


def _nary_lower(op: str) -> Callable[..., Any]:
    def lower(ctx: Any, *values: Any) -> Any:
        return hlo_op(ctx, op)(*broadcast_operands(ctx, values, ctx.aval_out.shape))

    return lower


# -- families ---------------------------------------------------------------------------------

Result = Callable[[Any], Any] | Any


def _result_dtype(out: Result, dtype: Any) -> Any:
    return dtype if out is None else out(dtype) if callable(out) else out


def unary(
    name: str,
    op: str | Callable[..., Any],
    accepts: Sequence[str],
    *,
    d: Callable[..., Any] | None = None,
    dt: Callable[..., Any] | None = None,
    constant: bool = False,
    transpose: Callable[..., Any] | None = None,
    nondifferentiable: str | None = None,
    out: Any = None,
    doc: str = "",
) -> Primitive:
    """A primitive of one operand.

    Args:
        name: its name.
        op: the StableHLO or CHLO operation, or a lowering function.
        accepts: the kinds of dtype it takes.
        d: (out, x) -> f'(x), for the tangent t * f'(x).
        dt: (t, out, x) -> the tangent, linear in t, where that is not best written as t * f'(x).
        constant: whether it is constant almost everywhere, so tangents are zero.
        transpose: the transpose rule, for operations linear in x.
        nondifferentiable: why there is no derivative.
        out: the dtype of the result, or a function of the operand's dtype.
        doc: what it computes, with its derivative.
    """

    def abstract(x: ShapedArray, **params: Any) -> ShapedArray:
        check_kind(name, x, accepts)
        return make_aval(x.shape, _result_dtype(out, x.dtype), x.weak_type)

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        result = prim.bind(x, **params)
        if is_zero(t):
            return result, zero_of(result)
        if dt is not None:
            return result, dt(t, result, x)
        return result, mul_p.bind(t, d(result, x))  # type: ignore[misc]

    differentiable = d is not None or dt is not None
    rule = jvp if differentiable else zero_jvp(lambda: prim) if constant else None
    prim = Primitive(
        name=name,
        abstract=abstract,
        lower=_unary_lower(op) if isinstance(op, str) else op,
        jvp=rule,
        transpose=transpose,
        batch=unary_batch(lambda: prim),
        nondifferentiable=nondifferentiable,
        doc=doc,
    )
    return prim


def nary(
    name: str,
    op: str | Callable[..., Any],
    accepts: Sequence[Sequence[str]],
    *,
    d: Sequence[Callable[..., Any] | None] | None = None,
    jvp: Callable[..., Any] | None = None,
    linearize: Callable[..., Any] | None = None,
    linear: bool = False,
    constant: bool = False,
    transpose: Callable[..., Any] | None = None,
    nondifferentiable: str | None = None,
    out: Any = None,
    check: Callable[[Sequence[ShapedArray]], None] | None = None,
    promoting: str = "",
    doc: str = "",
) -> Primitive:
    """A primitive of several operands that broadcast against each other.

    Args:
        name: its name.
        op: the operation, or a lowering function.
        accepts: per operand the kinds of dtype it takes.
        d: per operand (t, out, *operands) -> the part of the tangent due to t, linear in t; None
            for an operand without derivative.
        jvp: the whole rule, where it does not go by operands.
        linearize: the same for reverse mode, where it differs.
        linear: whether it is linear in all operands together, so tangents go through it.
        constant: whether it is constant almost everywhere.
        transpose: the transpose rule.
        nondifferentiable: why there is no derivative.
        out: the dtype of the result, or a function of the first operand's dtype.
        check: refuses combinations of operands; the default refuses different dtypes.
        promoting: the function of `numpy` that promotes, for error messages.
        doc: what it computes, with its derivative.
    """
    names = ("x", "y", "z") if len(accepts) < 4 else tuple(f"x{i}" for i in range(len(accepts)))

    def abstract(*avals: ShapedArray, **params: Any) -> ShapedArray:
        for aval, kinds, position in zip(avals, accepts, names, strict=False):
            check_kind(name, aval, kinds, position)
        if check is None:
            check_same_dtypes(name, avals, promoting)
        else:
            check(avals)
        shape = broadcast_shapes(name, avals)
        weak = all(a.weak_type for a in avals)
        return make_aval(shape, _result_dtype(out, avals[0].dtype), weak)

    def by_operand(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        result = prim.bind(*primals)
        total: Any = zero_of(result)
        for position, (t, part) in enumerate(zip(tangents, d, strict=True)):  # type: ignore[arg-type]
            if is_zero(t):
                continue
            if part is None:
                raise NotImplementedError(
                    f"{name} has no derivative with respect to operand {names[position]}.\n"
                    f"Instead: apply stop_gradient to it, or give a custom_jvp rule."
                )
            total = add_tangents(total, part(t, result, *primals))
        return result, total

    def linear_rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        result = prim.bind(*primals)
        if all(map(is_zero, tangents)):
            return result, zero_of(result)
        t_out = prim.bind(*[zero_scalar(t.aval) if is_zero(t) else t for t in tangents])
        return result, match_shape(t_out, typeof(result).shape)

    rule = jvp if d is None else by_operand
    if linear or constant:
        rule = linear_rule if linear else zero_jvp(lambda: prim)
    prim = Primitive(
        name=name,
        abstract=abstract,
        lower=_nary_lower(op) if isinstance(op, str) else op,
        jvp=rule,
        linearize=linearize,
        transpose=transpose,
        batch=nary_batch(lambda: prim),
        nondifferentiable=nondifferentiable,
        doc=doc,
    )
    return prim


def binary(name: str, op: Any, accepts: Sequence[str], **rules: Any) -> Primitive:
    """A primitive of two operands of one dtype; see `nary`."""
    return nary(name, op, (accepts, accepts), **rules)


def _mul_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    if is_undefined(x) and is_undefined(y):
        raise TypeError("mul: cannot transpose a product of two linear values.")
    if is_undefined(x):
        return [Zero(x.aval) if is_zero(ct) else unbroadcast(mul_p.bind(ct, y), x.aval), None]
    return [None, Zero(y.aval) if is_zero(ct) else unbroadcast(mul_p.bind(x, ct), y.aval)]


mul_p: Primitive = binary(
    "mul",
    "multiply",
    NUMBER,
    d=(lambda t, out, x, y: mul_p.bind(t, y), lambda t, out, x, y: mul_p.bind(x, t)),
    transpose=_mul_transpose,
    promoting="multiply",
    doc="x * y; d(xy) = y dx + x dy",
)


# -- what users call --------------------------------------------------------------------------


def check_operand(name: str, x: Any, position: int = 0) -> None:
    """Check that an argument of a public function is an array or a number.

    Raises:
        TypeError: it is something else.
    """
    if not is_arraylike(x):
        raise TypeError(
            f"{name}: argument {position} is {x!r:.60} of type {type(x).__name__}, not an array "
            f"or a number.\nInstead: make an array of it first, jnp.asarray(...)."
        )


_SCALAR_KINDS = {
    int: ("signed", "unsigned"),
    float: ("float", "complex"),
    complex: ("complex",),
}


def operands(name: str, *args: Any) -> tuple[Any, ...]:
    """Arguments of a strict n-ary function: Python numbers take the arrays' dtype, ranks agree.

    Raises:
        TypeError: an argument is no array, or ranks differ and none is a scalar.
    """
    aval = getattr(args[0], "aval", None)
    if aval is not None and all(getattr(x, "aval", None) is aval for x in args[1:]):
        return args
    for position, x in enumerate(args):
        check_operand(name, x, position)
    avals = [typeof(x) for x in args]
    first = avals[0].dtype
    if any(aval.dtype != first for aval in avals):
        args = _convert_numbers(args, avals)
    ranks = {aval.ndim for aval in avals if aval.ndim}
    if len(ranks) > 1:
        raise TypeError(
            f"{name}: arrays must have the same number of dimensions, got "
            f"{', '.join(describe(a) for a in avals)}.\n"
            f"Instead: reshape one, or use the jnp function, which broadcasts."
        )
    return args


def _convert_numbers(args: tuple[Any, ...], avals: Sequence[ShapedArray]) -> tuple[Any, ...]:
    """Python numbers turned to the dtype of the arrays beside them, where the kind fits."""
    wanted = {
        aval.dtype for x, aval in zip(args, avals, strict=True) if type(x) not in _SCALAR_KINDS
    }
    if len(wanted) != 1:
        return args
    (dtype,) = wanted
    kind = kind_of(dtype)
    return tuple(
        np.asarray(x, dtype)[()] if kind in _SCALAR_KINDS.get(type(x), ()) else x for x in args
    )
