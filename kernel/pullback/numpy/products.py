"""Products of arrays: dot, matmul, tensordot, inner, outer, vdot, kron, cross.

Each is one dot_general where it can be. Builds on lax/dot.py. Tested in tests/numpy/test_products.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback import lax
from pullback.core import dtypes, errors
from pullback.numpy import promote
from pullback.numpy.fused import fused
from pullback.numpy.manipulation import moveaxis, ravel

Numbers = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]


def _operands(name: str, a: Any, b: Any, preferred: Any) -> tuple[Any, Any, Any]:
    """Two arrays of one dtype and the dtype to accumulate in, if one was asked for."""
    a, b = promote.promote_pair(name, a, b)
    a, b = promote.lift(name, a), promote.lift(name, b, 1)
    if preferred is None:
        return a, b, None
    return a, b, dtypes.requested_dtype(preferred, name)


def general(a: Any, b: Any, numbers: Numbers, precision: Any = None, preferred: Any = None) -> Any:
    """lax.dot_general whose result is weakly typed only if both operands are."""
    return lax.dot_general(a, b, numbers, precision=precision, preferred_element_type=preferred)


def _mismatch(name: str, a: Any, b: Any, left: int, right: int) -> errors.ShapeError:
    fits = a.ndim == b.ndim == 2 and a.shape[-1] == b.shape[-1]
    return errors.shape_error(
        f"{name}: contracting sizes differ: {a.shape[left]} (axis {left} of the first operand) and "
        f"{b.shape[right]} (axis {right} of the second), got shapes {a.shape} and {b.shape}.",
        "transpose one of them, a @ b.T." if fits else "the two sizes must be equal.",
    )


def dot(
    a: Any,
    b: Any,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The dot product: the last axis of a against the second-to-last (or only) axis of b.

    Args:
        a, b: arrays; a scalar multiplies.
        precision: of the multiplications, see lax.Precision.
        preferred_element_type: dtype to accumulate in and return.
        out_sharding: accepted for compatibility.

    Returns:
        An array of shape a.shape[:-1] + b.shape[:-2] + b.shape[-1:].
    """
    del out_sharding
    a, b, preferred = _operands("dot", a, b, preferred_element_type)
    if a.ndim == 0 or b.ndim == 0:
        return _scale(a, b, preferred)
    right = max(b.ndim - 2, 0)
    if a.shape[-1] != b.shape[right]:
        raise _mismatch("dot", a, b, a.ndim - 1, right)
    return _dot(a, b, precision, preferred)


@fused("precision", "preferred")
def _dot(a: Any, b: Any, precision: Any, preferred: Any) -> Any:
    numbers = (((a.ndim - 1,), (max(b.ndim - 2, 0),)), ((), ()))
    return general(a, b, numbers, precision, preferred)


def _scale(a: Any, b: Any, preferred: Any) -> Any:
    result = lax.and_p.bind(a, b) if a.dtype == np.bool_ else lax.mul_p.bind(a, b)
    if preferred is None or result.dtype == preferred:
        return result
    return lax.convert_element_type(result, preferred)


def matmul(
    a: Any,
    b: Any,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The matrix product `a @ b`; leading axes are batches and broadcast.

    Args:
        a: [..., n, k], or a vector [k].
        b: [..., k, m], or a vector [k].
        precision, preferred_element_type, out_sharding: as in `dot`.

    Returns:
        [..., n, m]; the axis of a vector is missing.
    """
    del out_sharding
    for position, x in enumerate((a, b)):
        if promote.aval_of("matmul", x, position).ndim == 0:
            raise ValueError(
                f"matmul input operand {position} must have ndim at least 1, but it has ndim 0.\n"
                "Instead: multiply by a scalar with *."
            )
    a, b, preferred = _operands("matmul", a, b, preferred_element_type)
    right = max(b.ndim - 2, 0)
    if a.shape[-1] != b.shape[right]:
        raise _mismatch("matmul", a, b, a.ndim - 1, right)
    if b.ndim <= 2:
        return _dot(a, b, precision, preferred)
    return _matmul(a, b, precision, preferred)


@fused("precision", "preferred")
def _matmul(a: Any, b: Any, precision: Any, preferred: Any) -> Any:
    if a.ndim == b.ndim and a.shape[:-2] == b.shape[:-2]:
        batch = tuple(range(a.ndim - 2))
        numbers = (((a.ndim - 1,), (b.ndim - 2,)), (batch, batch))
        return general(a, b, numbers, precision, preferred)
    a_vector, b_vector = a.ndim == 1, b.ndim == 1
    a = a[None, :] if a_vector else a
    b = b[:, None] if b_vector else b
    batch = promote.check_shapes("matmul", a.shape[:-2], b.shape[:-2])
    rank = len(batch)
    # Axes of size 1 (or missing) in one operand need not be repeated: they become free axes of it.
    a_dims = (1,) * (rank - (a.ndim - 2)) + a.shape[:-2]
    b_dims = (1,) * (rank - (b.ndim - 2)) + b.shape[:-2]
    shared = [i for i in range(rank) if a_dims[i] == b_dims[i] != 1]
    a_free = [i for i in range(rank) if i not in shared and a_dims[i] != 1]
    b_free = [i for i in range(rank) if i not in shared and b_dims[i] != 1]
    a = lax.reshape(a, (*(a_dims[i] for i in sorted(shared + a_free)), *a.shape[-2:]))
    b = lax.reshape(b, (*(b_dims[i] for i in sorted(shared + b_free)), *b.shape[-2:]))
    a_at = {axis: n for n, axis in enumerate(sorted(shared + a_free))}
    b_at = {axis: n for n, axis in enumerate(sorted(shared + b_free))}
    numbers = (
        ((a.ndim - 1,), (b.ndim - 2,)),
        (tuple(a_at[i] for i in shared), tuple(b_at[i] for i in shared)),
    )
    out = general(a, b, numbers, precision, preferred)
    # The result has axes: shared, a_free, n, b_free, m.
    where = {axis: n for n, axis in enumerate(shared + a_free)}
    rows = len(shared) + len(a_free)
    where.update({axis: rows + 1 + n for n, axis in enumerate(b_free)})
    present = [i for i in range(rank) if i in where]
    perm = (*(where[i] for i in present), rows, out.ndim - 1)
    out = lax.transpose(out, perm)
    tail = out.shape[-2:]
    if a_vector:
        tail = tail[1:]
    if b_vector:
        tail = tail[:-1]
    return lax.reshape(out, (*batch, *tail))


def matvec(x1: Any, x2: Any, /) -> Any:
    """Matrices [..., n, k] times vectors [..., k]."""
    x1, x2, preferred = _operands("matvec", x1, x2, None)
    if x1.ndim < 2 or x2.ndim < 1:
        raise ValueError(
            f"matvec needs a matrix and a vector, got shapes {x1.shape} and {x2.shape}"
        )
    return matmul(x1, x2[..., None], preferred_element_type=preferred)[..., 0]


def vecmat(x1: Any, x2: Any, /) -> Any:
    """Conjugated vectors [..., n] times matrices [..., n, m]."""
    x1, x2, preferred = _operands("vecmat", x1, x2, None)
    if x1.ndim < 1 or x2.ndim < 2:
        raise ValueError(
            f"vecmat needs a vector and a matrix, got shapes {x1.shape} and {x2.shape}"
        )
    x1 = lax.conj(x1) if x1.dtype.kind == "c" else x1
    return matmul(x1[..., None, :], x2, preferred_element_type=preferred)[..., 0, :]


def vdot(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """The scalar product of the flattened arrays; a is conjugated."""
    a, b = promote.lift_all("vdot", a, b)
    if a.dtype.kind == "c":
        a = lax.conj(a)
    return dot(
        ravel(a), ravel(b), precision=precision, preferred_element_type=preferred_element_type
    )


def vecdot(
    x1: Any,
    x2: Any,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """Scalar products along an axis; x1 is conjugated, other axes broadcast."""
    x1, x2, preferred = _operands("vecdot", x1, x2, preferred_element_type)
    if not x1.ndim or not x2.ndim:
        raise ValueError("vecdot: both operands must have at least one axis")
    x1, x2 = moveaxis(x1, axis, -1), moveaxis(x2, axis, -1)
    if x1.shape[-1] != x2.shape[-1]:
        raise ValueError(f"vecdot: sizes differ along axis {axis}: {x1.shape} and {x2.shape}")
    x1 = lax.conj(x1) if x1.dtype.kind == "c" else x1
    out = matmul(
        x1[..., None, :], x2[..., :, None], precision=precision, preferred_element_type=preferred
    )
    return out[..., 0, 0]


def tensordot(
    a: Any,
    b: Any,
    axes: Any = 2,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Products summed over pairs of axes.

    Args:
        a, b: arrays.
        axes: how many axes (the last of a, the first of b), or the axes of each.
        precision, preferred_element_type, out_sharding: as in `dot`.

    Returns:
        An array with the other axes of a, then those of b.
    """
    del out_sharding
    a, b, preferred = _operands("tensordot", a, b, preferred_element_type)
    if isinstance(axes, (int, np.integer)):
        n = int(axes)
        if n > min(a.ndim, b.ndim):
            raise TypeError(
                f"Number of tensordot axes (axes {n}) exceeds input ranks ({a.shape} and {b.shape})"
            )
        left, right = tuple(range(a.ndim - n, a.ndim)), tuple(range(n))
    elif isinstance(axes, (tuple, list)) and len(axes) == 2:
        pair = [tuple(x) if isinstance(x, Sequence) else (x,) for x in axes]
        if len(pair[0]) != len(pair[1]):
            raise TypeError(
                f"tensordot requires axes lists to have equal length, got {axes[0]} and {axes[1]}."
            )
        left = promote.canonical_axes(pair[0], a.ndim)
        right = promote.canonical_axes(pair[1], b.ndim)
    else:
        raise TypeError(f"tensordot axes must be an int or a pair of sequences, got {axes!r}")
    for i, j in zip(left, right, strict=True):
        if a.shape[i] != b.shape[j]:
            raise _mismatch("tensordot", a, b, i, j)
    return general(a, b, ((left, right), ((), ())), precision, preferred)


def inner(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Products summed over the last axes of both."""
    if not promote.shape_of(a) or not promote.shape_of(b):
        a, b, preferred = _operands("inner", a, b, preferred_element_type)
        return _scale(a, b, preferred)
    return tensordot(
        a, b, (-1, -1), precision=precision, preferred_element_type=preferred_element_type
    )


def outer(a: Any, b: Any, out: None = None) -> Any:
    """The product of every pair of elements: [a.size, b.size]."""
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.outer is not supported.")
    a, b = promote.promote_pair("outer", a, b)
    return _outer(a, b)


@fused()
def _outer(a: Any, b: Any) -> Any:
    a, b = (lax.reshape(x, (int(np.prod(promote.shape_of(x))),)) for x in (a, b))
    product = lax.and_p if a.dtype == np.bool_ else lax.mul_p
    return product.bind(a[:, None], b[None, :])


def kron(a: Any, b: Any) -> Any:
    """The Kronecker product."""
    a, b = promote.lift_all("kron", *promote.promote_pair("kron", a, b))
    return _kron(a, b)


@fused()
def _kron(a: Any, b: Any) -> Any:
    rank = max(a.ndim, b.ndim)
    a_dims = (1,) * (rank - a.ndim) + a.shape
    b_dims = (1,) * (rank - b.ndim) + b.shape
    left = lax.reshape(a, tuple(n for d in a_dims for n in (d, 1)))
    right = lax.reshape(b, tuple(n for d in b_dims for n in (1, d)))
    return lax.reshape(
        lax.mul_p.bind(left, right), tuple(i * j for i, j in zip(a_dims, b_dims, strict=True))
    )


def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    """The cross product of vectors of length 3 (or 2: then only its third component).

    Args:
        a, b: arrays whose other axes broadcast.
        axisa, axisb: where the vectors lie.
        axisc: where they lie in the result.
        axis: for all three.

    Returns:
        The array of cross products.
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = promote.lift_all("cross", *promote.promote_pair("cross", a, b))
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    if a.shape[-1] not in (2, 3) or b.shape[-1] not in (2, 3):
        raise ValueError("Dimension must be either 2 or 3 for cross product")
    result = _cross(a, b)
    flat = a.shape[-1] == 2 and b.shape[-1] == 2
    return result if flat else moveaxis(result, -1, axisc)


@fused()
def _cross(a: Any, b: Any) -> Any:
    a0, a1 = a[..., 0], a[..., 1]
    b0, b1 = b[..., 0], b[..., 1]
    third = a0 * b1 - a1 * b0
    if a.shape[-1] == 2 and b.shape[-1] == 2:
        return third
    zero_a = lax.full_like(a0, 0)
    zero_b = lax.full_like(b0, 0)
    a2 = a[..., 2] if a.shape[-1] == 3 else zero_a
    b2 = b[..., 2] if b.shape[-1] == 3 else zero_b
    parts = (a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, third)
    return lax.concatenate([p[..., None] for p in parts], parts[0].ndim)
