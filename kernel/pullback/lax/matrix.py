"""Small operations on matrices in the last two axes, for linear algebra.

Builds on shape.py and dot.py. Tested in tests/lax/test_linalg.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.core import dtypes
from pullback.core.aval import typeof
from pullback.lax.compare_select import eq_p, ge_p, select_n_p
from pullback.lax.complex import complex_p, conj_p, imag_p, real_p
from pullback.lax.convert import convert_element_type_p
from pullback.lax.dot import dot_general_p
from pullback.lax.elementwise import add_p, mul_p
from pullback.lax.fill import iota_p
from pullback.lax.operands import shape_of
from pullback.lax.precision import Precision
from pullback.lax.shape import broadcast_in_dim_p, expand_dims, sum_axes, transpose_p
from pullback.lax.slice import slice

_EXACT = (Precision.HIGHEST, Precision.HIGHEST)


def is_complex(x: Any) -> bool:
    """Whether an array holds complex numbers."""
    return dtypes.issubdtype(typeof(x).dtype, np.complexfloating)


def scalar(x: Any, value: Any) -> Any:
    """A number of the dtype of `x`."""
    return np.asarray(value).astype(typeof(x).dtype)[()]


def mt(x: Any) -> Any:
    """The transposed matrices."""
    n = typeof(x).ndim
    return transpose_p.bind(x, permutation=(*range(n - 2), n - 1, n - 2))


def conj(x: Any) -> Any:
    """The complex conjugate."""
    return conj_p.bind(x) if is_complex(x) else x


def mh(x: Any) -> Any:
    """The conjugate transposed matrices."""
    return conj(mt(x))


def mm(a: Any, b: Any) -> Any:
    """The products of matrices with equal leading axes."""
    n = typeof(a).ndim
    batch = tuple(range(n - 2))
    return dot_general_p.bind(
        a,
        b,
        dimension_numbers=(((n - 1,), (n - 2,)), (batch, batch)),
        precision=_EXACT,
        preferred_element_type=None,
    )


def _offsets(m: int, n: int) -> list[Any]:
    i32 = np.dtype(np.int32)
    return [iota_p.bind(dtype=i32, shape=(m, n), dimension=d) for d in (0, 1)]


def lower_mask(m: int, n: int, k: int = 0) -> Any:
    """True on and below the k-th diagonal."""
    row, column = _offsets(m, n)
    return ge_p.bind(add_p.bind(row, np.int32(k)), column)


def diagonal_mask(m: int, n: int) -> Any:
    """True on the diagonal."""
    row, column = _offsets(m, n)
    return eq_p.bind(row, column)


def tril(x: Any, k: int = 0) -> Any:
    """The part on and below the k-th diagonal, zero elsewhere."""
    *_, m, n = shape_of(x)
    return select_n_p.bind(lower_mask(m, n, k), scalar(x, 0), x)


def triu(x: Any, k: int = 0) -> Any:
    """The part on and above the k-th diagonal, zero elsewhere."""
    *_, m, n = shape_of(x)
    return select_n_p.bind(lower_mask(m, n, k - 1), x, scalar(x, 0))


def only_diagonal(x: Any) -> Any:
    """The diagonal, zero elsewhere."""
    return select_n_p.bind(diagonal_mask(*shape_of(x)[-2:]), scalar(x, 0), x)


def off_diagonal(x: Any) -> Any:
    """All but the diagonal, which is zero."""
    return select_n_p.bind(diagonal_mask(*shape_of(x)[-2:]), x, scalar(x, 0))


def diagonal(x: Any) -> Any:
    """The diagonal of square matrices as vectors."""
    return sum_axes(only_diagonal(x), (typeof(x).ndim - 1,))


def eye(shape: tuple[int, ...], dtype: Any) -> Any:
    """Identity matrices in the last two axes of a shape."""
    one = convert_element_type_p.bind(diagonal_mask(*shape[-2:]), new_dtype=dtype, weak_type=False)
    n = len(shape)
    if n == 2:
        return one
    return broadcast_in_dim_p.bind(one, shape=shape, broadcast_dimensions=(n - 2, n - 1))


def by_columns(x: Any, v: Any) -> Any:
    """Matrices with column j multiplied by v[j]."""
    return mul_p.bind(x, row(v))


def by_rows(x: Any, v: Any) -> Any:
    """Matrices with row i multiplied by v[i]."""
    return mul_p.bind(x, column(v))


def row(v: Any) -> Any:
    """Vectors as matrices of one row."""
    return expand_dims(v, (typeof(v).ndim - 1,))


def column(v: Any) -> Any:
    """Vectors as matrices of one column."""
    return expand_dims(v, (typeof(v).ndim,))


def as_complex(x: Any) -> Any:
    """A real array in the complex dtype of its precision."""
    return x if is_complex(x) else complex_p.bind(x, scalar(x, 0))


def real(x: Any) -> Any:
    """The real part."""
    return real_p.bind(x) if is_complex(x) else x


def imag_times_i(x: Any) -> Any:
    """i times the imaginary part, of complex arrays."""
    part = imag_p.bind(x)
    return complex_p.bind(scalar(part, 0), part)


def hermitian(x: Any) -> Any:
    """The Hermitian part (x + x^H) / 2."""
    return mul_p.bind(add_p.bind(x, mh(x)), scalar(x, 0.5))


def hermitian_from(x: Any, lower: bool) -> Any:
    """The Hermitian matrix whose lower (upper) triangle is that of `x`."""
    inner, outer = (tril(x), tril(x, -1)) if lower else (triu(x), triu(x, 1))
    if is_complex(x):
        inner = add_p.bind(outer, as_complex(real(only_diagonal(x))))
    return add_p.bind(inner, mh(outer))


def nan_unless(ok: Any, x: Any) -> Any:
    """`x` where its matrix's `ok` is true, else NaN."""
    for _ in range(typeof(x).ndim - typeof(ok).ndim):
        ok = column(ok)
    nan = complex(np.nan, np.nan) if is_complex(x) else np.nan
    return select_n_p.bind(ok, scalar(x, nan), x)


def cut(x: Any, rows: int, columns: int) -> Any:
    """The upper left corner of matrices."""
    shape = shape_of(x)
    return slice(x, (0,) * len(shape), (*shape[:-2], rows, columns))
