"""Norms, ranks, powers and tensor forms on decompositions.

Builds on decompositions.py. Tested in tests/numpy/.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback import lax
from pullback.core import dtypes
from pullback.numpy import products, promote, selection
from pullback.numpy.decompositions import _matrices, inv, lift, solve, svd
from pullback.numpy.einsum import einsum
from pullback.numpy.fused import fused
from pullback.numpy.manipulation import moveaxis, ravel
from pullback.numpy.ranges import eye
from pullback.numpy.reductions import keep, reduce_axes

# ---------------------------------------------------------------- norms and the like


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The norm of vectors or matrices.

    Args:
        x: array.
        ord: for vectors any number, inf or -inf; for matrices "fro", "nuc", 1, -1, 2, -2, inf or
            -inf; None for the 2-norm of the elements.
        axis: one axis for vectors, two for matrices; None for all.
        keepdims: keep the axes with size 1.

    Returns:
        A real array without the axes.
    """
    x = lift("norm", promote.promote_inexact("norm", x)[0])
    if axis is None:
        if ord is None:
            return _vector_norm(x, 2, tuple(range(x.ndim)), bool(keepdims))
        axes = tuple(range(x.ndim))
        if x.ndim > 2:
            raise ValueError(
                "Improper number of axes for norm: give axis= for arrays with more than 2 axes"
            )
    else:
        axes = promote.canonical_axes(axis, x.ndim)
    if len(axes) == 1:
        return _vector_norm(x, 2 if ord is None else _known_ord(ord), axes, bool(keepdims))
    if len(axes) == 2:
        return _matrix_norm(x, "fro" if ord is None else _known_ord(ord), axes, bool(keepdims))
    raise ValueError(f"Improper number of axes for norm: {axes}")


def _known_ord(ord: Any) -> Any:
    return ord if isinstance(ord, (str, int, float)) else float(ord)


@fused("ord", "axes", "keepdims")
def _vector_norm(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if isinstance(ord, str):
        raise ValueError(f"Invalid order '{ord}' for vector norm.")
    if ord == 2:
        square = lax.real(x * lax.conj(x)) if x.dtype.kind == "c" else x * x
        return lax.sqrt(reduce_axes("sum", square, axes, keepdims))
    size = lax.abs(x)
    if ord == math.inf:
        return reduce_axes("max", size, axes, keepdims)
    if ord == -math.inf:
        return reduce_axes("min", size, axes, keepdims)
    if ord == 0:
        return reduce_axes("sum", lax.convert_element_type(x != 0, size.dtype), axes, keepdims)
    if ord == 1:
        return reduce_axes("sum", size, axes, keepdims)
    power = np.asarray(ord, size.dtype)
    total = reduce_axes("sum", lax.pow_p.bind(size, power), axes, keepdims)
    return lax.pow_p.bind(total, np.asarray(1 / ord, size.dtype))


@fused("ord", "axes", "keepdims")
def _matrix_norm(x: Any, ord: Any, axes: tuple[int, int], keepdims: bool) -> Any:
    rows, columns = axes
    if ord in ("fro", "f"):
        return _vector_norm(x, 2, axes, keepdims)
    if ord in (1, -1, math.inf, -math.inf):
        summed, kept = (rows, columns) if abs(ord) == 1 else (columns, rows)
        total = reduce_axes("sum", lax.abs(x), (summed,), True)
        out = reduce_axes("max" if ord > 0 else "min", total, (kept,), True)
        return out if keepdims else lax.squeeze(out, tuple(sorted(axes)))
    if ord in (2, -2, "nuc"):
        s = svd(moveaxis(x, axes, (-2, -1)), compute_uv=False)
        kind = {2: "max", -2: "min", "nuc": "sum"}[ord]
        out = reduce_axes(kind, s, (s.ndim - 1,))
        if keepdims:
            out = keep(out, x.shape, axes)
        return out
    raise ValueError(f"Invalid order '{ord}' for matrix norm.")


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """The norm of vectors along axes (all elements if None)."""
    x = lift("vector_norm", promote.promote_inexact("vector_norm", x)[0])
    axes = promote.canonical_axes(axis, x.ndim)
    return _vector_norm(x, _known_ord(ord), axes, bool(keepdims))


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """The norm of the matrices in the last two axes."""
    return norm(x, ord, (-2, -1), keepdims)


def cond(x: Any, p: Any = None) -> Any:
    """The condition number: the norm of x times the norm of its inverse."""
    x = _matrices("cond", x)
    if p in (None, 2, -2):
        s = svd(x, compute_uv=False)
        ratio = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
        return ratio
    if x.shape[-1] != x.shape[-2]:
        raise ValueError("cond: matrices must be square for this norm")
    result = norm(x, p, (-2, -1)) * norm(inv(x), p, (-2, -1))
    return selection.where(result != result, np.inf, result)


def matrix_rank(M: Any, rtol: Any = None, *, hermitian: bool = False, tol: Any = None) -> Any:
    """How many singular values exceed rtol times the largest one."""
    M = lift("matrix_rank", promote.promote_inexact("matrix_rank", M)[0])
    if M.ndim < 2:
        return (M != 0).any().astype(np.int32)
    rtol = tol if rtol is None else rtol
    s = svd(M, full_matrices=False, compute_uv=False, hermitian=hermitian)
    if rtol is None:
        rtol = max(M.shape[-2:]) * float(dtypes.finfo(s.dtype).eps)
    rtol = lift("matrix_rank", rtol)
    return (s > rtol[..., None] * s.max(-1, keepdims=True)).sum(-1)


def matrix_power(a: Any, n: int) -> Any:
    """The n-th power of square matrices; negative powers by the inverse."""
    a = lift("matrix_power", promote.promote_inexact("matrix_power", a)[0])
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise TypeError("Last 2 dimensions of the array must be square")
    n = promote.index_of(n, "exponent")
    if n < 0:
        a, n = inv(a), -n
    return _matrix_power(a, n)


@fused("n")
def _matrix_power(a: Any, n: int) -> Any:
    if n == 0:
        return promote.broadcast_to(eye(a.shape[-1], dtype=a.dtype), a.shape)
    result = None
    while n:
        if n & 1:
            result = a if result is None else products.matmul(result, a)
        n >>= 1
        if n:
            a = products.matmul(a, a)
    return result


def multi_dot(arrays: Sequence[Any], *, precision: Any = None) -> Any:
    """The product of several matrices, in the order that costs least."""
    arrays = promote.lift_all("multi_dot", *arrays)
    if len(arrays) < 2:
        raise ValueError(f"multi_dot requires at least two arrays; got len(arrays)={len(arrays)}")
    if any(a.ndim != 2 for a in arrays[1:-1]) or any(
        a.ndim not in (1, 2) for a in (arrays[0], arrays[-1])
    ):
        raise ValueError(
            "multi_dot: inner arrays must be matrices, the first and last may be vectors"
        )
    names = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    terms = [names[i] + names[i + 1] for i in range(len(arrays))]
    if arrays[0].ndim == 1:
        terms[0] = names[1]
    if arrays[-1].ndim == 1:
        terms[-1] = names[len(arrays) - 1]
    first = "" if arrays[0].ndim == 1 else names[0]
    last = "" if arrays[-1].ndim == 1 else names[len(arrays)]
    return einsum(
        ",".join(terms) + "->" + first + last, *arrays, optimize="optimal", precision=precision
    )


def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse of `a` with respect to tensordot over its first `ind` axes."""
    a = lift("tensorinv", a)
    ind = promote.index_of(ind, "ind")
    if ind <= 0:
        raise ValueError(f"ind must be a positive integer; got ind={ind}")
    front, back = a.shape[:ind], a.shape[ind:]
    n = math.prod(back)
    if n != math.prod(front):
        raise ValueError(f"product of dimensions before and after ind={ind} differ: {a.shape}")
    return inv(a.reshape(n, -1)).reshape(*back, *front)


def tensorsolve(a: Any, b: Any, axes: Sequence[int] | None = None) -> Any:
    """x with tensordot(a, x, x.ndim) = b."""
    a, b = promote.lift_all("tensorsolve", a, b)
    if axes is not None:
        a = moveaxis(a, tuple(axes), tuple(range(a.ndim - len(axes), a.ndim)))
    out = a.shape[b.ndim :]
    if math.prod(out) != math.prod(a.shape[: b.ndim]):
        raise ValueError("Input arrays must have prod(a.shape[:b.ndim]) == prod(a.shape[b.ndim:])")
    return solve(a.reshape(-1, math.prod(out)), ravel(b)).reshape(out)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The cross product of vectors of length 3."""
    x1, x2 = promote.lift_all("cross", x1, x2)
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError(
            f"Both input arrays must be arrays of 3-dimensional vectors, got {x1.shape} and {x2.shape}"
        )
    return products.cross(x1, x2, axis=axis)


def outer(x1: Any, x2: Any, /) -> Any:
    """The product of every pair of elements of two vectors."""
    x1, x2 = promote.lift_all("outer", x1, x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(
            f"Input arrays must be one-dimensional, but they are {x1.ndim} and {x2.ndim}"
        )
    return products.outer(x1, x2)
