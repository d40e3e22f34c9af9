"""What `checkify` looks at in single operations: NaNs, zero divisors, indices out of bounds.

Builds on check_error.py. Tested in tests/api/test_checkify.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.api.check_error import (
    DivisionByZeroError,
    Error,
    ErrorCategory,
    NaNError,
    OOBError,
    failed_at,
    first_of,
    init_error,
    site_of,
)
from pullback.core import dtypes
from pullback.core.aval import make_aval, typeof
from pullback.core.jaxpr import Eqn
from pullback.core.source import current_position
from pullback.lax.compare_select import eq_p, gt_p, lt_p, ne_p, or_p, select_n_p
from pullback.lax.convert import convert
from pullback.lax.dynamic_slice import dynamic_slice_p, dynamic_update_slice_p
from pullback.lax.elementwise import div_p
from pullback.lax.fill import iota_p
from pullback.lax.gather import gather_p
from pullback.lax.operands import shape_of
from pullback.lax.reduce import reduce_min_p, reduce_or_p
from pullback.lax.scatter import (
    scatter_add_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_p,
    scatter_sub_p,
)
from pullback.lax.scatter_apply import scatter_apply_p
from pullback.lax.shape import broadcast_in_dim_p, broadcast_to, reshaped
from pullback.lax.slice import concatenate

Kinds = frozenset[ErrorCategory]

# Operations that move or choose values, or turn signs, and so make no NaN; one that comes in was made
# elsewhere. Functions of the host are left to `check`.
_MAKE_NO_NAN = frozenset(
    "abs all_gather all_to_all bitcast_convert_type broadcast_in_dim ceil clamp complex concatenate "
    "conj convert_element_type copy copysign custom_lin device_put dynamic_slice "
    "dynamic_update_slice floor gather imag io_callback iota max min name neg nextafter "
    "optimization_barrier pmax pmin ppermute pure_callback real reduce_max reduce_min "
    "reduce_precision reduce_window_max reduce_window_min reshape rev round select_and_gather_add "
    "select_n sign slice sort split squeeze stack stop_gradient tile top_k transpose unstack".split()
)


def check_values(eqn: Eqn, operands: Sequence[Any], results: Sequence[Any], kinds: Kinds) -> Error:
    """The error of one operation that has been applied.

    Args:
        eqn: the equation.
        operands: the values of its operands.
        results: the values of its results.
        kinds: what to look for.
    """
    error = init_error
    prim = eqn.primitive
    if OOBError in kinds and prim in _STARTS:
        error = _index_error(prim.name, operands, _STARTS[prim](eqn, operands))
    if DivisionByZeroError in kinds and prim is div_p:
        zero = np.zeros((), typeof(operands[1]).dtype)[()]
        site = site_of(DivisionByZeroError, (), (), current_position())
        error = first_of(error, failed_at(site, _any(eq_p.bind(operands[1], zero)), ()))
    if NaNError in kinds and prim.name not in _MAKE_NO_NAN:
        error = first_of(error, _nan_error(prim.name, results))
    return error


def _any(x: Any) -> Any:
    axes = tuple(range(len(shape_of(x))))
    return reduce_or_p.bind(x, axes=axes) if axes else x


def _nan_error(name: str, results: Sequence[Any]) -> Error:
    found = [
        _any(ne_p.bind(x, x))
        for x in results
        if dtypes.is_inexact(typeof(x).dtype) and typeof(x).size
    ]
    if not found:
        return init_error
    bad = found[0]
    for other in found[1:]:
        bad = or_p.bind(bad, other)
    return failed_at(site_of(NaNError, (name,), (), current_position()), bad, ())


# Indices. A window starts at `starts[..., i]` on the operand's axis `axes[i]`, at `last[i]` at most.
Starts = tuple[Any, Sequence[int], Sequence[int]]


def _gather_starts(eqn: Eqn, operands: Sequence[Any]) -> Starts:
    axes = eqn.params["dimension_numbers"].start_index_map
    shape, sizes = shape_of(operands[0]), eqn.params["slice_sizes"]
    return operands[1], axes, [shape[a] - sizes[a] for a in axes]


def _scatter_starts(eqn: Eqn, operands: Sequence[Any]) -> Starts:
    dims = eqn.params["dimension_numbers"]
    shape, updates = shape_of(operands[0]), shape_of(operands[2])
    single = (*dims.inserted_window_dims, *dims.operand_batching_dims)
    windows = iter(dims.update_window_dims)
    sizes = [1 if a in single else updates[next(windows)] for a in range(len(shape))]
    axes = dims.scatter_dims_to_operand_dims
    return operands[1], axes, [shape[a] - sizes[a] for a in axes]


def _slice_starts(eqn: Eqn, operands: Sequence[Any]) -> Starts:
    return _scalar_starts(operands[0], operands[1:], eqn.params["slice_sizes"])


def _update_starts(eqn: Eqn, operands: Sequence[Any]) -> Starts:
    return _scalar_starts(operands[0], operands[2:], shape_of(operands[1]))


def _scalar_starts(x: Any, indices: Sequence[Any], sizes: Sequence[int]) -> Starts:
    shape = shape_of(x)
    rows = [broadcast_in_dim_p.bind(i, shape=(1,), broadcast_dimensions=()) for i in indices]
    starts = concatenate(rows, 0) if rows else np.zeros((0,), np.int32)
    return starts, range(len(shape)), [n - s for n, s in zip(shape, sizes, strict=True)]


_SCATTERS = (
    scatter_p,
    scatter_add_p,
    scatter_sub_p,
    scatter_mul_p,
    scatter_min_p,
    scatter_max_p,
    scatter_apply_p,
)
_STARTS: dict[Any, Callable[[Eqn, Sequence[Any]], Starts]] = {
    gather_p: _gather_starts,
    dynamic_slice_p: _slice_starts,
    dynamic_update_slice_p: _update_starts,
    **dict.fromkeys(_SCATTERS, _scatter_starts),
}

_SPEC = (make_aval((3,), np.dtype(np.int32)),)


def _index_error(name: str, operands: Sequence[Any], found: Starts) -> Error:
    """The first index out of bounds, with its axis and the size of that."""
    starts, axes, last = found
    size = typeof(starts).size
    if not size:
        return init_error
    dtype = typeof(starts).dtype
    if dtype.itemsize < 4:  # such an index may not hold the bound
        starts, dtype = convert(starts, np.dtype(np.int32), False), np.dtype(np.int32)
    bounds = np.minimum(np.array(last, np.int64), np.iinfo(dtype).max).astype(dtype)
    shape = shape_of(starts)
    outside = gt_p.bind(starts, broadcast_to(bounds, shape))
    if dtype.kind == "i":
        outside = or_p.bind(lt_p.bind(starts, np.zeros((), dtype)[()]), outside)
    outside = reshaped(outside, (size,))
    number = iota_p.bind(dtype=np.dtype(np.int32), shape=(size,), dimension=0)
    at = reduce_min_p.bind(select_n_p.bind(outside, np.int32(size - 1), number), axes=(0,))
    n_axes, sizes = len(axes), shape_of(operands[0])
    repeat = size // n_axes
    columns = (
        convert(reshaped(starts, (size,)), np.dtype(np.int32), False),
        np.tile(np.array(axes, np.int32), repeat),
        np.tile(np.array([sizes[a] for a in axes], np.int32), repeat),
    )
    values = concatenate([dynamic_slice_p.bind(c, at, slice_sizes=(1,)) for c in columns], 0)
    site = site_of(OOBError, (name, sizes), _SPEC, current_position())
    return failed_at(site, _any(outside), (values,))
