"""LU factors with pivoting.

Builds on linalg_triangular.py. Source: Seeger et al., Auto-Differentiating Linear Algebra, 2017.
Tested in tests/lax/test_linalg.py.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from pullback.core import errors
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.jvp import zero_jvp
from pullback.core.tracer import Primitive
from pullback.lax.compare_select import eq_p, ge_p, lt_p, select_n_p
from pullback.lax.dynamic_slice import dynamic_index_in_dim
from pullback.lax.elementwise import add_p, sub_p
from pullback.lax.fill import iota_p
from pullback.lax.gather import GatherDimensionNumbers, GatherScatterMode, gather_p
from pullback.lax.lapack import INT32, batch_leading, check_matrix, factorization, lapack
from pullback.lax.linalg_triangular import solve_triangular
from pullback.lax.matrix import column, cut, eye, mm, nan_unless, scalar, tril, triu
from pullback.lax.operands import shape_of
from pullback.lax.shape import broadcast_in_dim_p, sum_axes
from pullback.lax.slice import pad_p
from pullback.lax.while_loop import while_loop

# --------------------------------------------------------------------------- permutations


def _permutation_abstract(pivots: ShapedArray, *, permutation_size: int) -> ShapedArray:
    if not pivots.ndim or np.dtype(pivots.dtype).kind not in "iu":
        raise TypeError(
            f"lu_pivots_to_permutation: pivots must be integer vectors, got {pivots.str_short()}."
        )
    if pivots.shape[-1] > permutation_size:
        raise errors.shape_error(
            f"lu_pivots_to_permutation: permutation_size {permutation_size} is smaller than the "
            f"number of pivots of {pivots.str_short()}."
        )
    return make_aval((*pivots.shape[:-1], permutation_size), INT32)


def _permutation(pivots: Any, size: int) -> Any:
    """Rows swapped one after the other, on the positions of the rows."""
    batch, k = shape_of(pivots)[:-1], shape_of(pivots)[-1]
    shape = (*batch, size)
    places = iota_p.bind(dtype=INT32, shape=shape, dimension=len(batch))
    if not k or not size:
        return places
    zero = np.int32(0)

    def swap(state: Any) -> Any:
        i, order = state
        j = dynamic_index_in_dim(pivots, i, len(batch))
        at_i, at_j = eq_p.bind(places, i), eq_p.bind(places, j)
        x = column(sum_axes(select_n_p.bind(at_i, zero, order), (len(batch),)))
        y = column(sum_axes(select_n_p.bind(at_j, zero, order), (len(batch),)))
        order = select_n_p.bind(at_j, order, broadcast(x, shape))
        return add_p.bind(i, np.int32(1)), select_n_p.bind(at_i, order, broadcast(y, shape))

    def broadcast(x: Any, to: tuple[int, ...]) -> Any:
        return broadcast_in_dim_p.bind(x, shape=to, broadcast_dimensions=tuple(range(len(to))))

    return while_loop(lambda s: lt_p.bind(s[0], np.int32(k)), swap, (np.int32(0), places))[1]


lu_pivots_to_permutation_p: Primitive = Primitive(
    name="lu_pivots_to_permutation",
    abstract=_permutation_abstract,
    lower=lambda ctx, x, *, permutation_size: ctx.fun(
        lambda p: _permutation(p, permutation_size), [x]
    )[0],
    jvp=zero_jvp(lambda: lu_pivots_to_permutation_p),
    batch=lambda axis, args, dims, **params: batch_leading(
        lu_pivots_to_permutation_p, axis, args, dims, params
    ),
    doc="The permutation that a sequence of row swaps makes.",
)


def lu_pivots_to_permutation(pivots: Any, permutation_size: int) -> Any:
    """The permutation that the row swaps of `lu` make.

    Args:
        pivots: int32 [..., k]: row i was swapped with row pivots[i].
        permutation_size: number of rows, at least k.

    Returns:
        int32 [..., permutation_size].
    """
    size = operator.index(permutation_size)
    return lu_pivots_to_permutation_p.bind(pivots, permutation_size=size)


def permute_rows(x: Any, permutation: Any) -> Any:
    """Matrices [..., m, n] with row i taken from row permutation[..., i]."""
    batch = tuple(range(typeof(x).ndim - 2))
    n = len(batch)
    shape = shape_of(x)
    return gather_p.bind(
        x,
        column(permutation),
        dimension_numbers=GatherDimensionNumbers(
            offset_dims=(n + 1,),
            collapsed_slice_dims=(n,),
            start_index_map=(n,),
            operand_batching_dims=batch,
            start_indices_batching_dims=batch,
        ),
        slice_sizes=(*[min(1, s) for s in shape[:-1]], shape[-1]),
        indices_are_sorted=False,
        unique_indices=True,
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
        fill_value=None,
    )


# --------------------------------------------------------------------------- lu


def _lu_abstract(x: ShapedArray) -> list[ShapedArray]:
    check_matrix("lu", x)
    *batch, m, n = x.shape
    return [
        make_aval(x.shape, x.dtype),
        make_aval((*batch, min(m, n)), INT32),
        make_aval((*batch, m), INT32),
    ]


def _lu(x: Any) -> list[Any]:
    *batch, m, n = shape_of(x)
    k = min(m, n)
    if not typeof(x).size:
        pivots = iota_p.bind(dtype=INT32, shape=(*batch, k), dimension=len(batch))
        return [x, pivots, _permutation(pivots, m)]
    out, pivots, info = lapack(
        "getrf", [x], [((m, n), typeof(x).dtype), ((k,), INT32), ((), INT32)]
    )
    pivots = sub_p.bind(pivots, np.int32(1))
    return [nan_unless(ge_p.bind(info, np.int32(0)), out), pivots, _permutation(pivots, m)]


def unit_lower(lu_matrix: Any) -> Any:
    """The L of packed factors, made square: [..., m, m]."""
    *batch, m, n = shape_of(lu_matrix)
    k = min(m, n)
    below = tril(cut(lu_matrix, m, k), -1)
    if m > k:
        config = [(0, 0, 0)] * (len(batch) + 1) + [(0, m - k, 0)]
        below = pad_p.bind(below, scalar(lu_matrix, 0), padding_config=tuple(config))
    return add_p.bind(below, eye((m, m), typeof(lu_matrix).dtype))


def square_upper(lu_matrix: Any) -> Any:
    """The U of packed factors, made square by rows of the identity: [..., n, n]."""
    *batch, m, n = shape_of(lu_matrix)
    k = min(m, n)
    upper = triu(cut(lu_matrix, k, n))
    if n == k:
        return upper
    config = [(0, 0, 0)] * len(batch) + [(0, n - k, 0), (0, 0, 0)]
    padded = pad_p.bind(upper, scalar(lu_matrix, 0), padding_config=tuple(config))
    corner = [(k, 0, 0), (k, 0, 0)]
    rest = eye((n - k, n - k), typeof(lu_matrix).dtype)
    return add_p.bind(padded, pad_p.bind(rest, scalar(lu_matrix, 0), padding_config=tuple(corner)))


def _lu_jvp(outs: Any, primals: Any, tangents: Any) -> list[Any]:
    """With X = L^-1 P dA U^-1: dL = L tril(X, -1), dU = triu(X) U."""
    lu_matrix, _, permutation = outs
    lower, upper = unit_lower(lu_matrix), square_upper(lu_matrix)
    t = permute_rows(tangents[0], permutation)
    inner = solve_triangular(
        lower,
        solve_triangular(upper, t, left_side=False, lower=False),
        unit_diagonal=True,
    )
    return [add_p.bind(mm(lower, tril(inner, -1)), mm(triu(inner), upper)), None, None]


lu_p = factorization("lu", _lu_abstract, _lu, "P A = L U by row pivoting, packed.", _lu_jvp)


def lu(x: Any) -> tuple[Any, Any, Any]:
    """The factors of P x = L U with row pivoting.

    Args:
        x: matrices [..., m, n].

    Returns:
        L (below the diagonal, its ones left out) and U packed [..., m, n]; the row swaps, int32
        [..., min(m, n)]; the permutation of rows, int32 [..., m].
    """
    return tuple(lu_p.bind(x))


def lu_solve(factors: tuple[Any, Any, Any], b: Any) -> Any:
    """The X with A X = B, given `lu(A)` of square matrices."""
    packed, _, permutation = factors
    b = permute_rows(b, permutation)
    y = solve_triangular(packed, b, unit_diagonal=True)
    return solve_triangular(packed, y, lower=False)
