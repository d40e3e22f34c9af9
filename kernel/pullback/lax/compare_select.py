"""Comparison, selection, clamping, and operations on bits.

Builds on families.py. Source: StableHLO specification: compare, select, clamp, and, or, xor,
shift_left; IEEE 754-2019 section 5.10 for total order. Tested in tests/lax/test_compare_select.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.jvp import Zero, add_tangents, is_zero, zero_of
from pullback.core.tracer import Primitive
from pullback.core.transpose import is_undefined
from pullback.core.words import moves_elements
from pullback.lax.families import (
    ANY,
    BITS,
    FLOAT,
    INTEGER,
    ORDERED,
    align,
    binary,
    broadcast_operands,
    broadcast_shapes,
    check_operand,
    check_same_dtypes,
    describe,
    kind_of,
    match_shape,
    nary_batch,
    operands,
    unary,
    unbroadcast,
    zero_scalar,
)

# -- comparison -------------------------------------------------------------------------------


def _compare_type(ctx: Any, kind: str, total: bool) -> Any:
    if total and kind == "float":
        name = "TOTALORDER"
    elif kind in ("float", "complex"):
        name = "FLOAT"
    else:
        name = "SIGNED" if kind == "signed" else "UNSIGNED"
    return ctx.hlo.ComparisonTypeAttr.get(name)


def _comparison(name: str, direction: str, symbol: str, accepts: Sequence[str]) -> Primitive:
    total = name.endswith("_to")

    def lower(ctx: Any, x: Any, y: Any) -> Any:
        kind = kind_of(ctx.avals_in[0].dtype)
        x, y = broadcast_operands(ctx, (x, y), ctx.aval_out.shape)
        return ctx.hlo.compare(
            x,
            y,
            ctx.hlo.ComparisonDirectionAttr.get(direction),
            compare_type=_compare_type(ctx, kind, total),
        )

    order = ", in the total order of floats (-NaN < -inf < -0 < +0 < inf < NaN)" if total else ""
    return binary(
        name,
        lower,
        accepts,
        constant=True,
        out=np.dtype(bool),
        doc=f"whether x {symbol} y{order}",
    )


eq_p = _comparison("eq", "EQ", "==", ANY)
ne_p = _comparison("ne", "NE", "!=", ANY)
lt_p = _comparison("lt", "LT", "<", ORDERED)
le_p = _comparison("le", "LE", "<=", ORDERED)
gt_p = _comparison("gt", "GT", ">", ORDERED)
ge_p = _comparison("ge", "GE", ">=", ORDERED)
eq_to_p = _comparison("eq_to", "EQ", "==", ORDERED)
lt_to_p = _comparison("lt_to", "LT", "<", ORDERED)
le_to_p = _comparison("le_to", "LE", "<=", ORDERED)


def eq(x: Any, y: Any) -> Any:
    """Whether x == y, elementwise: a bool array. NaN equals nothing."""
    return eq_p.bind(*operands("eq", x, y))


def ne(x: Any, y: Any) -> Any:
    """Whether x != y, elementwise: a bool array."""
    return ne_p.bind(*operands("ne", x, y))


def lt(x: Any, y: Any) -> Any:
    """Whether x < y, elementwise: a bool array; not for complex numbers."""
    return lt_p.bind(*operands("lt", x, y))


def le(x: Any, y: Any) -> Any:
    """Whether x <= y, elementwise: a bool array; not for complex numbers."""
    return le_p.bind(*operands("le", x, y))


def gt(x: Any, y: Any) -> Any:
    """Whether x > y, elementwise: a bool array; not for complex numbers."""
    return gt_p.bind(*operands("gt", x, y))


def ge(x: Any, y: Any) -> Any:
    """Whether x >= y, elementwise: a bool array; not for complex numbers."""
    return ge_p.bind(*operands("ge", x, y))


# -- selection --------------------------------------------------------------------------------


def _select_n_abstract(which: ShapedArray, *cases: ShapedArray) -> ShapedArray:
    if not cases:
        raise TypeError("select_n: needs at least one case")
    kind = kind_of(which.dtype)
    if kind not in BITS:
        raise TypeError(
            f"select_n: `which` must be boolean or integer, got {describe(which)}.\n"
            f"Instead: compare first, e.g. which > 0."
        )
    if kind == "bool" and len(cases) > 2:
        raise TypeError(
            f"select_n: boolean `which` cannot choose among {len(cases)} cases.\n"
            f"Instead: give integers 0 to {len(cases) - 1} as `which`."
        )
    check_same_dtypes("select_n", cases, "where")
    shape = broadcast_shapes("select_n", (which, *cases))
    return make_aval(shape, cases[0].dtype, all(c.weak_type for c in cases))


def _select_n_lower(ctx: Any, which: Any, *cases: Any) -> Any:
    aval = ctx.avals_in[0]
    which, *choices = broadcast_operands(ctx, (which, *cases), ctx.aval_out.shape)
    if kind_of(aval.dtype) == "bool":
        return choices[0] if len(cases) == 1 else ctx.hlo.select(which, choices[1], choices[0])
    full = make_aval(ctx.aval_out.shape, aval.dtype)
    less = ctx.hlo.ComparisonDirectionAttr.get("LT")
    compare_type = _compare_type(ctx, kind_of(aval.dtype), False)

    def choose(first: int, last: int) -> Any:
        if last - first == 1:
            return choices[first]
        middle = (first + last) // 2
        below = ctx.hlo.compare(which, ctx.const(middle, full), less, compare_type=compare_type)
        return ctx.hlo.select(below, choose(first, middle), choose(middle, last))

    return choose(0, len(cases))


def _select_n_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    which, *cases = primals
    out = select_n_p.bind(which, *cases)
    tangents = tangents[1:]
    if all(map(is_zero, tangents)):
        return out, zero_of(out)
    parts = [zero_scalar(t.aval) if is_zero(t) else t for t in tangents]
    return out, match_shape(select_n_p.bind(which, *parts), typeof(out).shape)


def _select_n_transpose(ct: Any, which: Any, *cases: Any) -> list[Any]:
    if is_undefined(which):
        raise TypeError("select_n: cannot transpose with respect to `which`.")
    if is_zero(ct):
        return [None, *(Zero(c.aval) if is_undefined(c) else None for c in cases)]
    zero = zero_scalar(typeof(ct))
    cts: list[Any] = [None]
    for position, case in enumerate(cases):
        if not is_undefined(case):
            cts.append(None)
            continue
        parts = [ct if i == position else zero for i in range(len(cases))]
        cts.append(unbroadcast(select_n_p.bind(which, *parts), case.aval))
    return cts


select_n_p: Primitive = Primitive(
    name="select_n",
    abstract=_select_n_abstract,
    lower=_select_n_lower,
    jvp=_select_n_jvp,
    transpose=_select_n_transpose,
    batch=nary_batch(lambda: select_n_p),
    doc="cases[which], elementwise; indices out of range take the nearest case; linear in cases",
)


def select_n(which: Any, *cases: Any) -> Any:
    """Elements of the cases, chosen by `which`.

    Args:
        which: bool (False takes case 0, True case 1) or integer array; a scalar, or of the cases'
            shape. Indices out of range take the nearest case.
        cases: arrays of one shape and dtype.

    Returns:
        An array of that shape and dtype.

    Raises:
        TypeError: shapes or dtypes differ.
    """
    if not cases:
        raise ValueError("select_n: needs at least one case")
    for position, x in enumerate((which, *cases)):
        check_operand("select_n", x, position)
    avals = [typeof(x) for x in cases]
    shape = avals[0].shape
    if any(a.shape != shape for a in avals):
        raise TypeError(
            f"select_n: cases must have the same shapes, got "
            f"{', '.join(describe(a) for a in avals)}.\n"
            f"Instead: jnp.where(condition, x, y) broadcasts them."
        )
    which_shape = typeof(which).shape
    if which_shape not in ((), shape):
        raise TypeError(
            f"select_n: `which` must be a scalar or have the shape of the cases, got shape "
            f"{which_shape} and cases of shape {shape}.\n"
            f"Instead: jnp.where(condition, x, y) broadcasts them."
        )
    return select_n_p.bind(which, *operands("select_n", *cases))


@moves_elements(1, 2)
def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """`on_true` where `pred` holds, else `on_false`.

    Args:
        pred: bool array, a scalar or of the others' shape.
        on_true: array.
        on_false: array of that shape and dtype.
    """
    return select_n(pred, on_false, on_true)


# -- clamp ------------------------------------------------------------------------------------


def _clamp_abstract(low: ShapedArray, x: ShapedArray, high: ShapedArray) -> ShapedArray:
    check_same_dtypes("clamp", (low, x, high), "clip")
    for name, bound in (("min", low), ("max", high)):
        if bound.shape and bound.ndim > x.ndim:
            raise TypeError(
                f"clamp: {name} is {describe(bound)}, of higher rank than {describe(x)}"
            )
    shape = broadcast_shapes("clamp", (low, x, high))
    return make_aval(shape, x.dtype, low.weak_type and x.weak_type and high.weak_type)


def _clamp_lower(ctx: Any, low: Any, x: Any, high: Any) -> Any:
    return ctx.hlo.clamp(*broadcast_operands(ctx, (low, x, high), ctx.aval_out.shape))


def _clamp_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    low, x, high = primals
    out = clamp_p.bind(low, x, high)
    # Strictly between the bounds the derivative is x's, beyond one it is that bound's, and on one
    # it is zero, as in JAX.
    beyond = (
        lambda: and_p.bind(gt_p.bind(low, x), lt_p.bind(low, high)),
        lambda: and_p.bind(gt_p.bind(x, low), lt_p.bind(x, high)),
        lambda: lt_p.bind(high, x),
    )
    total: Any = zero_of(out)
    for t, where in zip(tangents, beyond, strict=True):
        if not is_zero(t):
            part = select_n_p.bind(where(), zero_scalar(typeof(t)), t)
            total = add_tangents(total, match_shape(part, typeof(out).shape))
    return out, total


def _clamp_batch(axis: Any, args: Sequence[Any], dims: Sequence[int | None]) -> tuple[Any, int]:
    aligned, dim = align(args, dims)
    if dims[1] is None:
        # The operand must have the rank of the result.
        x, shape = aligned[1], broadcast_shapes("clamp", [typeof(v) for v in aligned])
        aligned[1] = match_shape(x, shape)
    return clamp_p.bind(*aligned), dim


clamp_p = Primitive(
    name="clamp",
    abstract=_clamp_abstract,
    lower=_clamp_lower,
    jvp=_clamp_jvp,
    batch=_clamp_batch,
    doc="min(max(x, low), high)",
)


def clamp(min: Any, x: Any, max: Any) -> Any:
    """x limited to the interval from `min` to `max`.

    Args:
        min: lower bounds, a scalar or of x's shape.
        x: array.
        max: upper bounds, a scalar or of x's shape.

    Raises:
        TypeError: dtypes differ, or a bound has another shape.
    """
    min, x, max = operands("clamp", min, x, max)
    shape = typeof(x).shape
    for name, bound in (("min", min), ("max", max)):
        if typeof(bound).shape not in ((), shape):
            raise TypeError(
                f"clamp requires {name}.shape == x.shape or {name}.shape == (), got {name}.shape="
                f"{typeof(bound).shape}, x.shape={shape}.\nInstead: jnp.clip broadcasts."
            )
    return clamp_p.bind(min, x, max)


# -- bits -------------------------------------------------------------------------------------

_INTEGERS_ONLY = "it works on integers and truth values."


def _bits(name: str, op: str, accepts: Sequence[str], promoting: str, doc: str) -> Primitive:
    return binary(name, op, accepts, constant=True, promoting=promoting, doc=doc)


and_p = _bits("and", "and_", BITS, "bitwise_and", "x & y")
or_p = _bits("or", "or_", BITS, "bitwise_or", "x | y")
xor_p = _bits("xor", "xor", BITS, "bitwise_xor", "x ^ y")
not_p = unary("not", "not_", BITS, constant=True, doc="~x")
shift_left_p = _bits("shift_left", "shift_left", INTEGER, "left_shift", "x << y")
shift_right_arithmetic_p = _bits(
    "shift_right_arithmetic", "shift_right_arithmetic", INTEGER, "right_shift", "x >> y, signed"
)
shift_right_logical_p = _bits(
    "shift_right_logical", "shift_right_logical", INTEGER, "right_shift", "x >> y, filled by zeros"
)
population_count_p = unary(
    "population_count", "popcnt", INTEGER, constant=True, doc="how many bits of x are 1"
)
clz_p = unary(
    "clz", "count_leading_zeros", INTEGER, constant=True, doc="how many leading bits of x are 0"
)
mulhi_p = _bits("mulhi", "chlo.mulhi", INTEGER, "", "the upper half of the bits of x * y")
nextafter_p = binary(
    "nextafter",
    "chlo.next_after",
    FLOAT,
    nondifferentiable="it steps between neighbouring floating-point numbers.",
    promoting="nextafter",
    doc="the floating-point number after x in the direction of y",
)
is_finite_p = unary(
    "is_finite", "is_finite", FLOAT, constant=True, out=np.dtype(bool), doc="neither inf nor NaN"
)


def bitwise_and(x: Any, y: Any) -> Any:
    """The bits that are 1 in both x and y; for bool, the logical and."""
    return and_p.bind(*operands("bitwise_and", x, y))


def bitwise_or(x: Any, y: Any) -> Any:
    """The bits that are 1 in x or y; for bool, the logical or."""
    return or_p.bind(*operands("bitwise_or", x, y))


def bitwise_xor(x: Any, y: Any) -> Any:
    """The bits in which x and y differ."""
    return xor_p.bind(*operands("bitwise_xor", x, y))


def bitwise_not(x: Any) -> Any:
    """Every bit inverted; for bool, the logical not."""
    check_operand("bitwise_not", x)
    return not_p.bind(x)


def shift_left(x: Any, y: Any) -> Any:
    """The bits of x shifted left by y; 0 where y is negative or not below the bit width."""
    return shift_left_p.bind(*operands("shift_left", x, y))


def shift_right_arithmetic(x: Any, y: Any) -> Any:
    """The bits of x shifted right by y, the sign bit repeated."""
    return shift_right_arithmetic_p.bind(*operands("shift_right_arithmetic", x, y))


def shift_right_logical(x: Any, y: Any) -> Any:
    """The bits of x shifted right by y, filled with zeros."""
    return shift_right_logical_p.bind(*operands("shift_right_logical", x, y))


def population_count(x: Any) -> Any:
    """How many bits of each integer are 1."""
    check_operand("population_count", x)
    return population_count_p.bind(x)


def clz(x: Any) -> Any:
    """How many of the leading bits of each integer are 0."""
    check_operand("clz", x)
    return clz_p.bind(x)


def mulhi(x: Any, y: Any, /) -> Any:
    """The upper half of the bits of the product of two integers."""
    return mulhi_p.bind(*operands("mulhi", x, y))


def nextafter(x1: Any, x2: Any) -> Any:
    """The next floating-point number after x1 in the direction of x2."""
    return nextafter_p.bind(*operands("nextafter", x1, x2))


def is_finite(x: Any) -> Any:
    """Whether each floating element is neither infinite nor NaN: a bool array."""
    check_operand("is_finite", x)
    return is_finite_p.bind(x)
