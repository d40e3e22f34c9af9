"""Writing windows of an array at positions that are data: scatter, and its combining kinds.

Builds on scatter_rules.py. Tested in tests/lax/test_scatter.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.jvp import Zero, instantiate, is_zero, zero_of
from pullback.core.tracer import Primitive
from pullback.core.transpose import cotangent_aval, is_undefined
from pullback.lax.compare_select import eq_p, select_n_p
from pullback.lax.convert import convert_element_type_p
from pullback.lax.elementwise import add_p, div_p, mul_p, neg_p
from pullback.lax.families import ANY, NUMBER, check_kind, shape_ops
from pullback.lax.fill import iota_p
from pullback.lax.gather import GatherDimensionNumbers, GatherScatterMode, gather_transposed
from pullback.lax.operands import same_dtype, shape_of
from pullback.lax.scatter_rules import (
    ScatterDimensionNumbers,
    batch_scatter,
    check_scatter,
    lower_scatter,
    read_updates,
    scatter_params,
)
from pullback.lax.shape import reshaped, zeros


def _scatter_family(
    name: str,
    combine: Callable[[Any, Any, Any], Any],
    accepts: Sequence[str],
    jvp: Callable[..., Any],
    transpose: Callable[..., Any] | None,
    doc: str,
) -> Primitive:
    def abstract(
        x: ShapedArray, indices: ShapedArray, updates: ShapedArray, **params: Any
    ) -> ShapedArray:
        check_kind(name, x, accepts)
        same_dtype(name, x, updates)
        check_scatter(name, x, indices, updates.shape, params["dimension_numbers"])
        return make_aval(x.shape, x.dtype, x.weak_type)

    def lower(ctx: Any, x: Any, indices: Any, updates: Any, **params: Any) -> Any:
        return lower_scatter(
            ctx, x, indices, updates, params, lambda inner, a, b: [combine(inner.hlo, a, b)]
        )

    prim = Primitive(
        name=name,
        abstract=abstract,
        lower=lower,
        jvp=jvp,
        transpose=transpose,
        batch=lambda axis, args, dims, **params: batch_scatter(prim, axis, args, dims, params),
        doc=doc,
    )
    return prim


# --------------------------------------------------------------------------- add, sub


def _linear_jvp(prim: Callable[[], Primitive]) -> Callable[..., Any]:
    def rule(primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        x, indices, updates = primals
        tx, _, tu = tangents
        out = prim().bind(x, indices, updates, **params)
        if is_zero(tx) and is_zero(tu):
            return out, zero_of(out)
        if is_zero(tu):
            return out, tx
        return out, prim().bind(instantiate(tx), indices, tu, **params)

    return rule


def _sum_transpose(sign: int) -> Callable[..., Any]:
    def rule(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
        u_ct = None
        if is_undefined(updates):
            u_ct = Zero(updates.aval)
            if not is_zero(ct):
                u_ct = read_updates(ct, indices, updates.aval.shape, params)
                u_ct = neg_p.bind(u_ct) if sign < 0 else u_ct
        return [ct if is_undefined(x) else None, None, u_ct]

    return rule


scatter_add_p: Primitive = _scatter_family(
    "scatter_add",
    lambda hlo, a, b: hlo.add(a, b),
    NUMBER,
    _linear_jvp(lambda: scatter_add_p),
    _sum_transpose(1),
    "The operand with updates added at windows.",
)
scatter_sub_p: Primitive = _scatter_family(
    "scatter_sub",
    lambda hlo, a, b: hlo.subtract(a, b),
    NUMBER,
    _linear_jvp(lambda: scatter_sub_p),
    _sum_transpose(-1),
    "The operand with updates subtracted at windows.",
)


def _transposed_gather(
    x: Any,
    indices: Any,
    updates: Any,
    d: GatherDimensionNumbers,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: GatherScatterMode,
) -> Any:
    return scatter_add_p.bind(
        x,
        indices,
        updates,
        dimension_numbers=ScatterDimensionNumbers(*d),
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=mode,
    )


gather_transposed.scatter_add = _transposed_gather

# --------------------------------------------------------------------------- mul


def _mul_jvp(primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
    x, indices, updates = primals
    tx, _, tu = tangents
    out = scatter_mul_p.bind(x, indices, updates, **params)
    total: Any = zero_of(out)
    if not is_zero(tx):
        total = scatter_mul_p.bind(tx, indices, updates, **params)
    if is_zero(tu):
        return out, total
    if not params["unique_indices"]:
        raise NotImplementedError(
            "scatter_mul: the derivative in the updates needs unique_indices=True.\n"
            "Instead: pass unique_indices=True if no two windows overlap, e.g. "
            "x.at[i].multiply(y, unique_indices=True)."
        )
    old = read_updates(x, indices, shape_of(updates), params)
    into = zeros(typeof(out)) if is_zero(total) else total
    return out, scatter_add_p.bind(into, indices, mul_p.bind(tu, old), **params)


def _mul_transpose(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
    if is_undefined(updates):
        raise TypeError("scatter_mul is not linear in its updates.")
    if is_zero(ct):
        return [Zero(cotangent_aval(x)), None, None]
    return [scatter_mul_p.bind(ct, indices, updates, **params), None, None]


scatter_mul_p = _scatter_family(
    "scatter_mul",
    lambda hlo, a, b: hlo.multiply(a, b),
    NUMBER,
    _mul_jvp,
    _mul_transpose,
    "The operand multiplied with updates at windows.",
)

# --------------------------------------------------------------------------- min, max


def _extremum_jvp(prim: Callable[[], Primitive]) -> Callable[..., Any]:
    def rule(primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        """Elements that reach the extremum share its derivative equally."""
        x, indices, updates = primals
        tx, _, tu = tangents
        out = prim().bind(x, indices, updates, **params)
        if is_zero(tx) and is_zero(tu):
            return out, zero_of(out)
        dtype = typeof(x).dtype

        def reached(a: Any, b: Any) -> Any:
            return convert_element_type_p.bind(eq_p.bind(a, b), new_dtype=dtype, weak_type=False)

        at_x = reached(x, out)
        at_u = reached(updates, read_updates(out, indices, shape_of(updates), params))
        count = scatter_add_p.bind(at_x, indices, at_u, **params)
        total: Any = zero_of(out)
        if not is_zero(tx):
            total = mul_p.bind(tx, div_p.bind(at_x, count))
        if not is_zero(tu):
            share = div_p.bind(at_u, _no_zero(read_updates(count, indices, shape_of(at_u), params)))
            into = zeros(typeof(out)) if is_zero(total) else total
            total = scatter_add_p.bind(into, indices, mul_p.bind(tu, share), **params)
        return out, total

    return rule


def _no_zero(count: Any) -> Any:
    one = np.ones((), typeof(count).dtype)[()]
    zero = np.zeros((), typeof(count).dtype)[()]
    ones = shape_ops.broadcast_to(one, shape_of(count))
    return select_n_p.bind(eq_p.bind(count, zero), count, ones)


scatter_min_p: Primitive = _scatter_family(
    "scatter_min",
    lambda hlo, a, b: hlo.minimum(a, b),
    ANY,
    _extremum_jvp(lambda: scatter_min_p),
    None,
    "The minimum of the operand and updates at windows.",
)
scatter_max_p: Primitive = _scatter_family(
    "scatter_max",
    lambda hlo, a, b: hlo.maximum(a, b),
    ANY,
    _extremum_jvp(lambda: scatter_max_p),
    None,
    "The maximum of the operand and updates at windows.",
)

# --------------------------------------------------------------------------- scatter (write)


def _write_jvp(primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
    x, indices, updates = primals
    tx, _, tu = tangents
    out = scatter_p.bind(x, indices, updates, **params)
    if is_zero(tx) and is_zero(tu):
        return out, zero_of(out)
    if params["unique_indices"]:
        return out, scatter_p.bind(instantiate(tx), indices, instantiate(tu), **params)
    total: Any = zero_of(out)
    if not is_zero(tx):
        total = scatter_p.bind(tx, indices, zeros(typeof(updates)), **params)
    if is_zero(tu):
        return out, total
    kept = mul_p.bind(tu, _winners(x, indices, updates, params))
    into = zeros(typeof(out)) if is_zero(total) else total
    return out, scatter_add_p.bind(into, indices, kept, **params)


def _winners(x: Any, indices: Any, updates: Any, params: dict[str, Any]) -> Any:
    """1 for each update that is found in the result, 0 for one that another overwrites.

    Each update writes its own number; those that read it back have won.
    """
    shape = shape_of(updates)
    n = prod(shape)
    number = iota_p.bind(dtype=np.dtype(np.int32), shape=(n,), dimension=0)
    number = reshaped(add_p.bind(number, np.int32(1)), shape)
    blank = zeros(make_aval(shape_of(x), np.dtype(np.int32)))
    found = read_updates(scatter_p.bind(blank, indices, number, **params), indices, shape, params)
    dtype = typeof(updates).dtype
    return convert_element_type_p.bind(eq_p.bind(found, number), new_dtype=dtype, weak_type=False)


def _write_transpose(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
    if is_undefined(updates) and not params["unique_indices"]:
        raise TypeError("scatter is linear in its updates only with unique_indices=True.")
    x_ct, u_ct = None, None
    if is_undefined(x):
        x_ct = Zero(x.aval)
        if not is_zero(ct):
            blank = zeros(cotangent_aval(updates))
            x_ct = scatter_p.bind(ct, indices, blank, **params)
    if is_undefined(updates):
        u_ct = Zero(updates.aval)
        if not is_zero(ct):
            u_ct = read_updates(ct, indices, updates.aval.shape, params)
    return [x_ct, None, u_ct]


scatter_p = _scatter_family(
    "scatter",
    lambda hlo, a, b: b,
    ANY,
    _write_jvp,
    _write_transpose,
    "The operand with updates written at windows.",
)

# --------------------------------------------------------------------------- what users call


def scatter(
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Any:
    """The operand with updates written at windows; of updates at one place one wins.

    Args:
        operand: array.
        scatter_indices: integers; the last axis holds index vectors.
        updates: what to write, of the operand's dtype.
        dimension_numbers: which axes correspond.
        indices_are_sorted: a promise that the index vectors are sorted.
        unique_indices: a promise that windows do not overlap.
        mode: what happens to windows that reach out; None drops them. See `GatherScatterMode`.

    Returns:
        An array of the operand's shape and dtype.

    Raises:
        TypeError: sizes, axes or dtypes do not fit.
    """
    params = scatter_params("scatter", dimension_numbers, indices_are_sorted, unique_indices, mode)
    return scatter_p.bind(operand, scatter_indices, updates, **params)


def scatter_add(
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Any:
    """The operand with updates added at windows.

    The arguments are those of `scatter`.
    """
    params = scatter_params(
        "scatter_add", dimension_numbers, indices_are_sorted, unique_indices, mode
    )
    return scatter_add_p.bind(operand, scatter_indices, updates, **params)


def scatter_sub(
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Any:
    """The operand with updates subtracted at windows.

    The arguments are those of `scatter`.
    """
    params = scatter_params(
        "scatter_sub", dimension_numbers, indices_are_sorted, unique_indices, mode
    )
    return scatter_sub_p.bind(operand, scatter_indices, updates, **params)


def scatter_mul(
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Any:
    """The operand multiplied with updates at windows.

    The arguments are those of `scatter`.
    """
    params = scatter_params(
        "scatter_mul", dimension_numbers, indices_are_sorted, unique_indices, mode
    )
    return scatter_mul_p.bind(operand, scatter_indices, updates, **params)


def scatter_min(
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Any:
    """The minimum of the operand and updates at windows.

    The arguments are those of `scatter`.
    """
    params = scatter_params(
        "scatter_min", dimension_numbers, indices_are_sorted, unique_indices, mode
    )
    return scatter_min_p.bind(operand, scatter_indices, updates, **params)


def scatter_max(
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Any:
    """The maximum of the operand and updates at windows.

    The arguments are those of `scatter`.
    """
    params = scatter_params(
        "scatter_max", dimension_numbers, indices_are_sorted, unique_indices, mode
    )
    return scatter_max_p.bind(operand, scatter_indices, updates, **params)
