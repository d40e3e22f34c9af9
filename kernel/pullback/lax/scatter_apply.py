"""Applying a function to windows of an array at positions that are data.

Builds on scatter.py. Tested in tests/lax/test_scatter.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.jaxpr import Jaxpr, eval_jaxpr
from pullback.core.tracer import Primitive
from pullback.lax.operands import canonical_shape, jvp_by, shape_of
from pullback.lax.reducer import check_reducer, map_scalars, scalar_jaxpr
from pullback.lax.scatter import scatter_p
from pullback.lax.scatter_rules import (
    ScatterDimensionNumbers,
    batch_scatter,
    check_scatter,
    lower_scatter,
    read_updates,
    scatter_params,
)
from pullback.lax.shape import zeros


def _abstract(
    x: ShapedArray, indices: ShapedArray, blank: ShapedArray, *, jaxpr: Jaxpr, **params: Any
) -> ShapedArray:
    check_scatter("scatter_apply", x, indices, blank.shape, params["dimension_numbers"])
    return make_aval(x.shape, x.dtype, x.weak_type)


def _lower(ctx: Any, x: Any, indices: Any, blank: Any, *, jaxpr: Jaxpr, **params: Any) -> Any:
    scalar = make_aval((), ctx.avals_in[0].dtype)

    def body(inner: Any, old: Any, _: Any) -> list[Any]:
        return inner.fun(lambda a: eval_jaxpr(jaxpr, (), a), [old], [scalar])

    return lower_scatter(ctx, x, indices, blank, params, body)


def _unique(x: Any, indices: Any, blank: Any, *, jaxpr: Jaxpr, **params: Any) -> Any:
    """The same for windows that do not overlap: read, apply, write."""
    if not params["unique_indices"]:
        raise NotImplementedError(
            "scatter_apply: the derivative needs unique_indices=True.\n"
            "Instead: pass unique_indices=True if no two windows overlap, e.g. "
            "x.at[i].apply(f, unique_indices=True)."
        )
    shape = shape_of(blank)
    (new,) = map_scalars(jaxpr, read_updates(x, indices, shape, params))
    return scatter_p.bind(x, indices, new, **params)


scatter_apply_p: Primitive = Primitive(
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
    jaxpr = scalar_jaxpr("scatter_apply", lambda x: [func(x)], [make_aval((), dtype)])
    check_reducer("scatter_apply", jaxpr, [typeof(operand)])
    blank = zeros(make_aval(canonical_shape("scatter_apply", update_shape), dtype))
    return scatter_apply_p.bind(operand, scatter_indices, blank, jaxpr=jaxpr, **params)
