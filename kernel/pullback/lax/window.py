"""Reductions over sliding windows: sums, extrema and functions of the user.

Builds on reduce_generic.py; the derivative of the extrema is in select_window.py.
Tested in tests/lax/test_window.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from pullback.core import errors, pytree
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import AxisData, batch_flat, bdim_at_front
from pullback.core.jaxpr import Jaxpr
from pullback.core.jvp import Zero, is_zero, zero_of
from pullback.core.tracer import Primitive
from pullback.core.transpose import cotangent_aval
from pullback.lax.conv_shapes import canonical_padding, dilated, positive
from pullback.lax.elementwise import max_p, min_p
from pullback.lax.families import NUMBER, ORDERED, check_kind
from pullback.lax.fill import scalar_of
from pullback.lax.limits import highest, lowest, zero_value
from pullback.lax.operands import jvp_by, shape_of
from pullback.lax.reduce_generic import MONOIDS, tree_reducer
from pullback.lax.reducer import fill_region, is_value, known_monoid, map_scalars
from pullback.lax.select_window import select_and_gather_add_p
from pullback.lax.shape import broadcast_to
from pullback.lax.slice import pad_p, slice
from pullback.lax.window_shapes import (
    check_windows,
    insert_axis,
    lower_window,
    result_shape,
)

WindowParams = dict[str, Any]


def _window_reduction(
    name: str,
    op: str,
    init: Callable[[Any], Any],
    accepts: Sequence[str],
    jvp: Callable[..., Any] | None,
    transpose: Callable[..., Any] | None,
    doc: str,
) -> Primitive:
    def abstract(x: ShapedArray, **p: Any) -> ShapedArray:
        check_kind(name, x, accepts)
        check_windows(name, x, p)
        return make_aval(result_shape(x.shape, p), x.dtype, x.weak_type)

    def lower(ctx: Any, x: Any, **p: Any) -> Any:
        dtype = ctx.aval_out.dtype
        scalar = make_aval((), dtype)
        start = ctx.const(init(dtype), scalar)
        out = lower_window(ctx, [x], [start], p)
        if isinstance(out, list):
            return out[0]
        ctx.scalar_region(out.regions[0], getattr(ctx.hlo, op), dtype)
        return out.results[0]

    def batch(axis: AxisData, args: Any, dims: Any, **p: Any) -> tuple[Any, int]:
        return prim.bind(args[0], **insert_axis(p, dims[0])), dims[0]

    prim = Primitive(
        name=name,
        abstract=abstract,
        lower=lower,
        jvp=jvp,
        transpose=transpose,
        batch=batch,
        label=lambda params: f"{name} {params['window_dimensions']}",
        doc=doc,
    )
    return prim


def _sum_transpose(ct: Any, x: Any, **p: Any) -> list[Any]:
    """Each element gets the cotangents of the windows that hold it: sums over spread windows."""
    aval = cotangent_aval(x)
    if is_zero(ct):
        return [Zero(aval)]
    config = []
    for axis, stride in enumerate(p["window_strides"]):
        n = dilated(aval.shape[axis], p["base_dilation"][axis])
        window = dilated(p["window_dimensions"][axis], p["window_dilation"][axis])
        spread = dilated(shape_of(ct)[axis], stride)
        low = window - 1 - p["padding"][axis][0]
        config.append((low, n + window - 1 - low - spread, stride - 1))
    padded = pad_p.bind(ct, zero_value(aval.dtype), padding_config=tuple(config))
    ones, none = (1,) * aval.ndim, ((0, 0),) * aval.ndim
    out = reduce_window_sum_p.bind(
        padded,
        window_dimensions=p["window_dimensions"],
        window_strides=p["base_dilation"],
        padding=none,
        base_dilation=ones,
        window_dilation=p["window_dilation"],
    )
    return [out]


reduce_window_sum_p = _window_reduction(
    "reduce_window_sum",
    "add",
    zero_value,
    NUMBER,
    None,
    _sum_transpose,
    "The sum over each window.",
)


def _extremum_jvp(prim: Callable[[], Primitive], select: str, combine: Primitive) -> Any:
    by_taps = jvp_by(lambda x, **p: _by_taps(combine, _edge(select, typeof(x).dtype), x, p))

    def rule(primals: Any, tangents: Any, **p: Any) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        if is_zero(t):
            out = prim().bind(x, **p)
            return out, zero_of(out)
        if any(d != 1 for d in (*p["base_dilation"], *p["window_dilation"])):
            return by_taps(primals, tangents, **p)
        out = prim().bind(x, **p)
        return out, select_and_gather_add_p.bind(t, x, select=select, **p)

    return rule


def _edge(select: str, dtype: Any) -> Any:
    return lowest(dtype) if select == "ge" else highest(dtype)


def _by_taps(combine: Primitive, init: Any, x: Any, p: WindowParams) -> Any:
    """The same reduction as one strided slice for each place in the window, combined."""
    taps = window_taps(x, init, p)
    out = next(taps)
    for tap in taps:
        out = combine.bind(out, tap)
    return out


def window_taps(x: Any, init: Any, p: WindowParams) -> Any:
    """For each place in the window, what all windows hold there (an iterator of arrays)."""
    config = tuple(
        [(lo, hi, d - 1) for (lo, hi), d in zip(p["padding"], p["base_dilation"], strict=True)]
    )
    padded = pad_p.bind(x, init, padding_config=config)
    out = result_shape(shape_of(x), p)
    strides = p["window_strides"]
    for place in product(*[range(n) for n in p["window_dimensions"]]):
        start = [i * d for i, d in zip(place, p["window_dilation"], strict=True)]
        limit = [
            s + max(0, (n - 1) * step + 1) if n else s
            for s, n, step in zip(start, out, strides, strict=True)
        ]
        yield slice(padded, start, limit, strides)


reduce_window_max_p: Primitive = _window_reduction(
    "reduce_window_max",
    "maximum",
    lowest,
    ORDERED,
    _extremum_jvp(lambda: reduce_window_max_p, "ge", max_p),
    None,
    "The maximum of each window; its derivative is that of the first element that reaches it.",
)
reduce_window_min_p: Primitive = _window_reduction(
    "reduce_window_min",
    "minimum",
    highest,
    ORDERED,
    _extremum_jvp(lambda: reduce_window_min_p, "le", min_p),
    None,
    "The minimum of each window; its derivative is that of the first element that reaches it.",
)

# --------------------------------------------------------------------------- a user's function


def _generic_abstract(*avals: ShapedArray, jaxpr: Jaxpr, **p: Any) -> list[ShapedArray]:
    n = len(avals) // 2
    for x, init in zip(avals[:n], avals[n:], strict=True):
        check_windows("reduce_window", x, p)
        if x.shape != avals[0].shape or init.shape or init.dtype != x.dtype:
            raise errors.shape_error(
                "reduce_window: operands must have one shape and each initial value must be a "
                f"scalar of its operand's dtype; got {', '.join(a.str_short() for a in avals)}."
            )
    shape = result_shape(avals[0].shape, p)
    return [make_aval(shape, x.dtype) for x in avals[:n]]


def _generic_lower(ctx: Any, *values: Any, jaxpr: Jaxpr, **p: Any) -> list[Any]:
    n = len(values) // 2
    op = lower_window(ctx, values[:n], values[n:], p)
    if isinstance(op, list):
        return op
    fill_region(ctx, op.regions[0], jaxpr)
    return list(op.results)


def _generic_by_taps(*args: Any, jaxpr: Jaxpr, **p: Any) -> list[Any]:
    k = len(args) // 2
    shape = result_shape(shape_of(args[0]), p)
    out = [broadcast_to(i, shape) for i in args[k:]]
    for taps in zip(
        *[window_taps(x, i, p) for x, i in zip(args, args[k:], strict=False)], strict=True
    ):
        out = map_scalars(jaxpr, *out, *taps)
    return out


def _generic_batch(
    axis: AxisData, args: Any, dims: Any, *, jaxpr: Jaxpr, **p: Any
) -> tuple[list[Any], list[int | None]]:
    n = len(args) // 2
    if any(d is not None for d in dims[n:]):
        return batch_flat(lambda *xs: _generic_by_taps(*xs, jaxpr=jaxpr, **p), axis, args, dims)
    operands = [bdim_at_front(x, d, axis.size) for x, d in zip(args[:n], dims, strict=False)]
    return reduce_window_p.bind(*operands, *args[n:], jaxpr=jaxpr, **insert_axis(p, 0)), [0] * n


reduce_window_p = Primitive(
    name="reduce_window",
    abstract=_generic_abstract,
    lower=_generic_lower,
    jvp=jvp_by(_generic_by_taps, multiple=True),
    batch=_generic_batch,
    multiple_results=True,
    doc="Each window combined by an associative function, from initial values.",
)

_KNOWN = {
    "add": (reduce_window_sum_p, NUMBER),
    "max": (reduce_window_max_p, ORDERED),
    "min": (reduce_window_min_p, ORDERED),
}


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Any,
    window_strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Each sliding window of the operand combined by an associative function.

    Args:
        operand: array, or pytree of arrays of one shape.
        init_value: scalar, or pytree of scalars: neutral elements of the function.
        computation: takes two (pytrees of) scalars, gives one; used in any order.
        window_dimensions: size of the window on each axis.
        window_strides: steps between windows; None is 1.
        padding: 'SAME', 'VALID', 'SAME_LOWER', or a (low, high) pair per axis.
        base_dilation, window_dilation: spacing of the operand's and the window's elements.

    Returns:
        An array with one element per window (a pytree of them).

    Raises:
        TypeError: shapes, dtypes or numbers of axes do not fit.

    Example:
        >>> from pullback import lax
        >>> import numpy as np
        >>> print(lax.reduce_window(np.arange(6.0, dtype=np.float32), 0.0, lax.add, (2,), (2,)))
        [1. 5. 9.]
    """
    leaves, tree = pytree.tree_flatten(operand)
    inits, init_tree = pytree.tree_flatten(init_value)
    if not leaves or tree != init_tree:
        raise errors.shape_error(
            "reduce_window: operand and init_value must have one structure with at least one "
            f"array, got {tree} and {init_tree}."
        )
    avals = [typeof(x) for x in leaves]
    inits = [i if shape_of(i) else scalar_of(i, a.dtype) for i, a in zip(inits, avals, strict=True)]
    p = window_params(
        avals[0].shape, window_dimensions, window_strides, padding, base_dilation, window_dilation
    )
    jaxpr = tree_reducer("reduce_window", computation, tree, avals)
    monoid = known_monoid(jaxpr)
    if monoid in _KNOWN and not shape_of(inits[0]):
        prim, _ = _KNOWN[monoid]
        if is_value(inits[0], MONOIDS[monoid][2](avals[0].dtype)):
            return pytree.tree_unflatten(tree, [prim.bind(leaves[0], **p)])
    return pytree.tree_unflatten(tree, reduce_window_p.bind(*leaves, *inits, jaxpr=jaxpr, **p))


def window_params(
    shape: tuple[int, ...],
    window_dimensions: Any,
    window_strides: Any,
    padding: Any,
    base_dilation: Any,
    window_dilation: Any,
) -> WindowParams:
    """The parameters of a window reduction out of what users write.

    Raises:
        TypeError: not one number per axis.
    """
    name, n = "reduce_window", len(shape)
    window = tuple(map(operator.index, window_dimensions))
    strides = positive(name, "window_strides", window_strides, n)
    base = positive(name, "base_dilation", base_dilation, n)
    spread = positive(name, "window_dilation", window_dilation, n)
    if len(window) != n:
        raise errors.shape_error(
            f"reduce_window: window_dimensions must have one size per axis of shape {shape}, "
            f"got {window}.",
            "give 1 for axes that the window does not cover.",
        )
    sizes = [dilated(s, d) for s, d in zip(shape, base, strict=True)]
    taps = [dilated(s, d) for s, d in zip(window, spread, strict=True)]
    return {
        "window_dimensions": window,
        "window_strides": strides,
        "padding": canonical_padding(name, padding, sizes, taps, strides),
        "base_dilation": base,
        "window_dilation": spread,
    }


def reduce_window_shape_tuple(
    operand_shape: Any,
    window_dimensions: Any,
    window_strides: Any,
    padding: Any,
    base_dilation: Any = None,
    window_dilation: Any = None,
) -> tuple[int, ...]:
    """The shape of `reduce_window`."""
    shape = tuple(operand_shape)
    p = window_params(
        shape, window_dimensions, window_strides, padding, base_dilation, window_dilation
    )
    return result_shape(shape, p)
