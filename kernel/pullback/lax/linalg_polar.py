"""The polar decomposition by the dynamically weighted Halley iteration.

Builds on linalg_qr.py and while_loop.py. Source: Nakatsukasa, Bai and Gygi, Optimizing Halley's
iteration for computing the matrix polar decomposition, 2010. Tested in tests/lax/test_linalg.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.core import dtypes, errors
from pullback.core.aval import typeof
from pullback.lax.compare_select import and_p, ge_p, lt_p, or_p, select_n_p
from pullback.lax.complex import abs_p
from pullback.lax.elementwise import (
    add_p,
    cbrt_p,
    div_p,
    integer_pow_p,
    max_p,
    mul_p,
    sqrt_p,
    sub_p,
)
from pullback.lax.lapack import check_matrix
from pullback.lax.linalg_qr import qr_p
from pullback.lax.matrix import as_complex, eye, hermitian, is_complex, mh, mm, scalar
from pullback.lax.operands import shape_of
from pullback.lax.reduce import reduce_max_p
from pullback.lax.shape import sum_axes
from pullback.lax.slice import concatenate, slice_in_dim
from pullback.lax.while_loop import while_loop


def _norm(x: Any) -> Any:
    """The Frobenius norm."""
    return sqrt_p.bind(sum_axes(integer_pow_p.bind(abs_p.bind(x), y=2), (0, 1)))


def _weights(low: Any) -> tuple[Any, Any, Any, Any]:
    """The coefficients a, b, c of one step and the next lower bound of the singular values."""

    def number(value: float) -> Any:
        return scalar(low, value)

    square = mul_p.bind(low, low)
    four = mul_p.bind(
        number(4), div_p.bind(sub_p.bind(number(1), square), mul_p.bind(square, square))
    )
    d = _cube_root(four)
    root = sqrt_p.bind(add_p.bind(number(1), d))
    inner = sub_p.bind(number(8), mul_p.bind(number(4), d))
    inner = add_p.bind(
        inner,
        div_p.bind(mul_p.bind(number(8), sub_p.bind(number(2), square)), mul_p.bind(square, root)),
    )
    a = add_p.bind(root, mul_p.bind(number(0.5), sqrt_p.bind(inner)))
    b = mul_p.bind(number(0.25), integer_pow_p.bind(sub_p.bind(a, number(1)), y=2))
    c = sub_p.bind(add_p.bind(a, b), number(1))
    top = mul_p.bind(low, add_p.bind(a, mul_p.bind(b, square)))
    return a, b, c, div_p.bind(top, add_p.bind(number(1), mul_p.bind(c, square)))


def _cube_root(x: Any) -> Any:
    from_below = max_p.bind(x, scalar(x, 0))
    return cbrt_p.bind(from_below)


def _like(number: Any, x: Any) -> Any:
    return as_complex(number) if is_complex(x) else number


def _step(u: Any, low: Any) -> tuple[Any, Any]:
    """One iteration by a QR factorization of [sqrt(c) U; I]."""
    m, n = shape_of(u)
    a, b, c, low = _weights(low)
    root = sqrt_p.bind(c)
    stacked = concatenate([mul_p.bind(u, _like(root, u)), eye((n, n), typeof(u).dtype)], 0)
    q, _ = qr_p.bind(stacked, pivoting=False, full_matrices=False)
    upper, below = slice_in_dim(q, 0, m), slice_in_dim(q, m, m + n)
    ratio = div_p.bind(b, c)
    factor = div_p.bind(sub_p.bind(a, ratio), root)
    moved = mul_p.bind(mm(upper, mh(below)), _like(factor, u))
    return add_p.bind(mul_p.bind(u, _like(ratio, u)), moved), low


def qdwh(
    x: Any,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[int, int] | None = None,
) -> tuple[Any, Any, Any, Any]:
    """The polar decomposition x = U H, U with orthonormal columns, H Hermitian.

    Args:
        x: matrix [m, n] of full rank, m >= n.
        is_hermitian: of no use.
        max_iterations: how many steps at most; None is 10.
        eps: the precision wanted; None is that of the dtype.
        dynamic_shape: not supported.

    Returns:
        (u, h, number of steps, whether it converged).

    Raises:
        ValueError: fewer rows than columns, or more than two axes.
    """
    check_matrix("qdwh", typeof(x))
    shape = shape_of(x)
    if len(shape) != 2 or shape[0] < shape[1]:
        raise errors.shape_error(
            f"qdwh: the operand must be one matrix with at least as many rows as columns, got "
            f"shape {shape}."
        )
    if dynamic_shape is not None:
        raise NotImplementedError("qdwh: dynamic_shape is not supported; slice the matrix first.")
    limit = np.int32(10 if max_iterations is None else max_iterations)
    part = dtypes.real_dtype(typeof(x).dtype)
    epsilon = float(dtypes.finfo(part).eps) if eps is None else float(eps)
    modulus = abs_p.bind(x)
    one, inf = (reduce_max_p.bind(sum_axes(modulus, (axis,)), axes=(0,)) for axis in (0, 1))
    bound = sqrt_p.bind(mul_p.bind(one, inf))
    bound = select_n_p.bind(lt_p.bind(scalar(bound, 0), bound), scalar(bound, 1), bound)
    start = div_p.bind(x, _like(bound, x))
    low = np.asarray(epsilon).astype(part)[()]
    tolerance = np.asarray((4 * epsilon) ** (1 / 3)).astype(part)[()]
    gap = np.asarray(10 * epsilon / 2).astype(part)[()]

    def unfinished(state: Any) -> Any:
        i, u, bound_low, change = state
        far = sub_p.bind(scalar(bound_low, 1), bound_low)
        moving = or_p.bind(ge_p.bind(far, gap), ge_p.bind(change, mul_p.bind(tolerance, _norm(u))))
        return and_p.bind(lt_p.bind(i, limit), moving)

    def body(state: Any) -> Any:
        i, u, bound_low, _ = state
        new, bound_low = _step(u, bound_low)
        change = _norm(sub_p.bind(new, u))
        return add_p.bind(i, np.int32(1)), new, bound_low, change

    first = (np.int32(0), start, low, np.asarray(np.inf).astype(part)[()])
    steps, u, last_low, change = while_loop(unfinished, body, first)
    # One Newton-Schulz step brings the rounding errors down: U (3 I - U^H U) / 2.
    correction = mm(u, mm(mh(u), u))
    u = sub_p.bind(mul_p.bind(u, scalar(u, 1.5)), mul_p.bind(correction, scalar(u, 0.5)))
    converged = and_p.bind(
        lt_p.bind(sub_p.bind(scalar(last_low, 1), last_low), gap),
        lt_p.bind(change, mul_p.bind(tolerance, _norm(u))),
    )
    return u, hermitian(mm(mh(u), x)), steps, converged
