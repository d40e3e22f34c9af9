"""Applying a function to windows of an array at positions that are data.

Builds on scatter.py. Tested in tests/lax/test_scatter.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import AxisData, batch_flat
from pullback.core.jaxpr import Jaxpr, close, eval_jaxpr
from pullback.core.stage import trace_to_jaxpr
from pullback.core.tracer import Primitive
from pullback.lax.inner import intern_jaxpr
from pullback.lax.operands import canonical_shape, jvp_by, shape_of
from pullback.lax.scatter import scatter_p
from pullback.lax.scatter_rules import (
    ScatterDimensionNumbers,
    batch_scatter,
    check_scatter,
    lower_scatter,
    read_updates,
    scatter_params,
)
from pullback.lax.shape import broadcast_in_dim_p, reshaped, zeros


def _abstract(
    x: ShapedArray, indices: ShapedArray, blank: ShapedArray, *, jaxpr: Jaxpr, **params: Any
) -> ShapedArray:
    check_scatter("scatter_apply", x, indices, blank.shape, params["dimension_numbers"])
    return make_aval(x.shape, x.dtype, x.weak_type)


def _lower(ctx: Any, x: Any, indices: Any, blank: Any, *, jaxpr: Jaxpr, **params: Any) -> Any:
    return lower_scatter(
        ctx, x, indices, blank, params, lambda inner, old, _: inner.call(jaxpr, [old])
    )


def _unique(x: Any, indices: Any, blank: Any, *, jaxpr: Jaxpr, **params: Any) -> Any:
    """The same for windows that do not overlap: read, apply, write."""
    if not params["unique_indices"]:
        raise NotImplementedError(
            "scatter_apply: the derivative needs unique_indices=True.\n"
            "Instead: pass unique_indices=True if no two windows overlap, e.g. "
            "x.at[i].apply(f, unique_indices=True)."
        )
    shape = shape_of(blank)
    old = reshaped(read_updates(x, indices, shape, params), (typeof(blank).size,))
    new = map_scalar(jaxpr, old)
    return scatter_p.bind(x, indices, reshaped(new, shape), **params)


def map_scalar(jaxpr: Jaxpr, *args: Any) -> Any:
    """A jaxpr of scalars applied to each element of vectors."""
    axis = AxisData(None, shape_of(args[0])[0])
    (out,), (dim,) = batch_flat(lambda *xs: eval_jaxpr(jaxpr, (), *xs), axis, args, [0] * len(args))
    if dim is None:
        return broadcast_in_dim_p.bind(out, shape=(axis.size,), broadcast_dimensions=())
    return out


scatter_apply_p = Primitive(
    name="scatter_apply",
    abstract=_abstract,
    lower=_lower,
    jvp=jvp_by(_unique),
    batch=lambda axis, args, dims, **params: batch_scatter(
        scatter_apply_p, axis, args, dims, params
    ),
    doc="The operand with a function applied at windows, once per index vector.",
)


def scatter_apply(
    operand: Any,
    scatter_indices: Any,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Any = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Any:
    """The operand with a function applied at windows, as often as they are indexed.

    Args:
        operand: array.
        scatter_indices: integers; the last axis holds index vectors.
        func: takes and gives a scalar of the operand's dtype; must not close over traced values.
        dimension_numbers: which axes correspond, as in `scatter`.
        update_shape: the shape that updates would have.
        indices_are_sorted, unique_indices, mode: as in `scatter`.

    Raises:
        TypeError: sizes do not fit, or the function gives another type.
        NotImplementedError: the function closes over arrays.
    """
    params = scatter_params(
        "scatter_apply", dimension_numbers, indices_are_sorted, unique_indices, mode
    )
    dtype = typeof(operand).dtype
    jaxpr, consts = trace_to_jaxpr(lambda x: [func(x)], [make_aval((), dtype)], name="update")
    if consts:
        raise NotImplementedError(
            "scatter_apply: func closes over arrays.\n"
            "Instead: use numbers in func, or read with gather, compute, and write with scatter."
        )
    (out,) = jaxpr.out_avals
    if out.shape or out.dtype != dtype:
        raise TypeError(
            f"scatter_apply: func must give a scalar of the operand's dtype, got "
            f"{out.str_short()} for {typeof(operand).str_short()}."
        )
    blank = zeros(make_aval(canonical_shape("scatter_apply", update_shape), dtype))
    return scatter_apply_p.bind(
        operand, scatter_indices, blank, jaxpr=intern_jaxpr(close(jaxpr)), **params
    )
