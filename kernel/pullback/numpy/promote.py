"""Which dtype an operation runs in: operands brought to one dtype, with the fast paths of eager use.

Builds on core/dtypes.py and lax. Tested in tests/numpy/test_promotion.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback import lax
from pullback.core import dtypes, errors
from pullback.core.aval import ShapedArray, typeof
from pullback.core.tracer import Tracer
from pullback.xla.array import Array, array_from_numpy

PYTHON_SCALARS = frozenset({bool, int, float, complex})


def is_array(x: Any) -> bool:
    """Whether `x` is an array or stands for one in a trace."""
    return isinstance(x, (Array, Tracer))


def aval_of(name: str, x: Any, position: int = 0) -> ShapedArray:
    """The type of an argument of the function `name`.

    Raises:
        TypeError: `x` is a list, a string or something else that is not an array.
    """
    aval = getattr(x, "aval", None)
    if aval is not None:
        return aval
    if isinstance(x, np.ndarray) and x.dtype.kind in "OUSMmV" and not dtypes.is_supported(x.dtype):
        raise TypeError(
            f"{name}: argument {position} is a NumPy array of dtype {x.dtype}, which has no device "
            "representation.\nInstead: convert it to numbers first."
        )
    try:
        return typeof(x)
    except TypeError:
        raise TypeError(
            f"{name} requires ndarray or scalar arguments, got {type(x)} at position {position}.\n"
            f"Instead: convert it first, {name}(jnp.asarray(x), ...)."
        ) from None


def dtype_of(x: Any) -> np.dtype:
    """The (canonical) dtype of an operand."""
    aval = getattr(x, "aval", None)
    return typeof(x).dtype if aval is None else aval.dtype


def shape_of(x: Any) -> tuple[int, ...]:
    """The shape of an operand."""
    aval = getattr(x, "aval", None)
    return np.shape(x) if aval is None else aval.shape


def lift(name: str, x: Any, position: int = 0) -> Any:
    """`x` as an array or tracer, so that it has methods; lists are refused."""
    if isinstance(x, (Array, Tracer)):
        return x
    if hasattr(x, "__jax_array__"):
        return x.__jax_array__()
    aval = aval_of(name, x, position)
    return array_from_numpy(np.asarray(x, aval.dtype), aval.weak_type)


def lift_all(name: str, *args: Any) -> list[Any]:
    """Each argument as an array or tracer."""
    return [lift(name, x, i) for i, x in enumerate(args)]


def cast(x: Any, dtype: Any, weak: bool = False) -> Any:
    """`x` in this dtype and weak type; itself if nothing is to do.

    Python scalars and NumPy values are converted on the host, arrays by one operation.
    """
    if type(x) in PYTHON_SCALARS:
        return python_scalar(x, dtype, weak)
    if isinstance(x, (np.ndarray, np.generic)) and not weak:
        return x if x.dtype == dtype else np.asarray(x).astype(dtype)
    aval = typeof(x)
    if aval.dtype == dtype and (aval.weak_type == weak or not weak):
        return x
    return lax.convert_element_type_p.bind(x, new_dtype=dtype, weak_type=weak)


def strong(x: Any) -> Any:
    """`x` without weak type."""
    if not x.weak_type:
        return x
    return lax.convert_element_type_p.bind(x, new_dtype=x.dtype, weak_type=False)


def python_scalar(x: Any, dtype: np.dtype, weak: bool) -> Any:
    """A Python number as an operand of this dtype: a NumPy scalar, or itself where weak.

    Raises:
        OverflowError: an integer that does not fit the default integer type.
    """
    if weak:
        kind = dtypes.weak_kind(dtype)
        return x if type(x) is kind else kind(x)
    if type(x) is int and dtype.kind in "iu":
        wide = dtypes.python_scalar_dtype(int)
        limits = np.iinfo(dtype) if dtype.itemsize >= wide.itemsize else np.iinfo(wide)
        low = min(int(limits.min), int(np.iinfo(wide).min))
        if not low <= x <= int(limits.max):
            raise OverflowError(
                f"Python integer {x} does not fit {dtype.name} "
                f"(nor the default integer type {wide.name}).\n"
                "Instead: use a float, 1.0 * x, or 64-bit types: jax.enable_x64(True)."
            )
        return np.asarray(x, np.int64 if x < 0 else np.uint64).astype(dtype)[()]
    with np.errstate(over="ignore"):
        return np.asarray(x).astype(dtype)[()]


def in_range(value: Any, dtype: np.dtype) -> Any:
    """A Python number that is to get this dtype, as one that the dtype holds.

    Raises:
        TypeError: a complex number for a real dtype.
        OverflowError, ValueError: an integer dtype that does not hold it.
    """
    if dtype.kind in "iu":
        value = int(value)
        if not int(dtypes.iinfo(dtype).min) <= value <= int(dtypes.iinfo(dtype).max):
            raise OverflowError(
                f"Python integer {value} out of bounds for {dtype.name}.\n"
                f"Instead: jnp.array(x).astype({dtype.name!r}) takes the lowest bits."
            )
    elif type(value) is complex and dtype.kind not in "cb":
        raise _not_real(value, dtype)
    return value


def _not_real(value: complex, dtype: np.dtype) -> TypeError:
    return TypeError(
        f"a complex number, {value!r}, does not fit the real dtype {dtype.name}.\n"
        "Instead: z.real or abs(z), or a complex dtype."
    )


def wrapped(value: Any, dtype: np.dtype) -> Any:
    """A number in this dtype; of an integer that does not fit, its lowest bits."""
    if type(value) is complex and dtype.kind not in "cb":
        raise _not_real(value, dtype)
    if type(value) is int and dtype.kind in "iu":
        return python_scalar(value, dtype, False)
    if isinstance(value, np.generic):
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(value).astype(dtype)[()]
    return value


def _converter(kind: type, dtype: np.dtype, weak: bool) -> Callable[[Any], Any] | None:
    """How a Python scalar joins an array whose dtype it does not change, or None if it does."""
    order = {bool: 0, int: 1, float: 2, complex: 3}
    rank = {"b": 0, "i": 1, "u": 1, "c": 3}.get(dtype.kind, 2)
    if order[kind] > rank:
        return None
    if weak:
        weak_kind = dtypes.weak_kind(dtype)
        if kind is bool or (kind is not weak_kind and order[kind] > order[weak_kind]):
            return None
        return None if rank == 0 else weak_kind
    if kind in (float, bool) and dtype.kind in "fc" and dtype.itemsize in (4, 8, 16):
        simple = np.dtype(dtype).type
        if dtype.itemsize >= 8 and dtype.kind == "f":
            return simple
        return lambda x: simple(x) if -1e38 < x < 1e38 else python_scalar(x, dtype, False)
    if kind is int and dtype in (np.dtype(np.int32), np.dtype(np.float32)):
        simple = dtype.type
        return lambda x: (
            simple(x) if -2147483648 <= x <= 2147483647 else python_scalar(x, dtype, False)
        )
    return lambda x: python_scalar(x, dtype, False)


# (kind of Python scalar, dtype, weak) -> converter; bounded by the number of dtypes.
_converters: dict[tuple, Callable[[Any], Any] | None] = {}


def scalar_operand(value: Any, aval: ShapedArray) -> Any:
    """The Python scalar as an operand beside an array of type `aval`; None if the result's dtype
    is not the array's."""
    key = (type(value), aval.dtype, aval.weak_type)
    try:
        convert = _converters[key]
    except KeyError:
        convert = _converters[key] = _converter(type(value), aval.dtype, aval.weak_type)
    return None if convert is None else convert(value)


def promote_pair(name: str, x: Any, y: Any) -> tuple[Any, Any]:
    """Two operands in one dtype. The common cases take no more than a few lookups."""
    x_aval = getattr(x, "aval", None)
    y_aval = getattr(y, "aval", None)
    if x_aval is not None:
        if y_aval is not None:
            if x_aval.dtype is y_aval.dtype:
                return x, y
        elif type(y) in PYTHON_SCALARS:
            other = scalar_operand(y, x_aval)
            if other is not None:
                return x, other
    elif y_aval is not None and type(x) in PYTHON_SCALARS:
        other = scalar_operand(x, y_aval)
        if other is not None:
            return other, y
    first, second = promote(name, x, y)
    return first, second


def promote(name: str, *args: Any) -> list[Any]:
    """Operands in their common dtype, by JAX's lattice.

    Args:
        name: the calling function, for errors.
        args: arrays, NumPy values, Python scalars.

    Returns:
        The operands, converted where necessary.
    """
    args = tuple(x.__jax_array__() if hasattr(x, "__jax_array__") else x for x in args)
    avals = [aval_of(name, x, i) for i, x in enumerate(args)]
    dtype, weak = dtypes.common_type(avals)
    return [cast(x, dtype, weak) for x in args]


def promote_inexact(name: str, *args: Any) -> list[Any]:
    """Operands in their common floating or complex dtype; integers become the default float."""
    args = tuple(x.__jax_array__() if hasattr(x, "__jax_array__") else x for x in args)
    avals = [aval_of(name, x, i) for i, x in enumerate(args)]
    dtype, weak = dtypes.common_type(avals)
    return [cast(x, dtypes.to_inexact_dtype(dtype), weak) for x in args]


def to_inexact(name: str, x: Any) -> Any:
    """One operand in a floating or complex dtype."""
    aval = getattr(x, "aval", None)
    if aval is not None and dtypes.is_inexact(aval.dtype):
        return x
    return promote_inexact(name, x)[0]


def check_shapes(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that these broadcast to.

    Raises:
        ValueError: they do not broadcast.
    """
    first = shapes[0]
    if all(s == first for s in shapes[1:]):
        return first
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise errors.broadcast_error(name, [str(s) for s in shapes], shapes) from None


def broadcast(name: str, *args: Any) -> list[Any]:
    """Operands broadcast to their common shape."""
    shapes = [shape_of(x) for x in args]
    out = check_shapes(name, *shapes)
    return [x if s == out else broadcast_to(x, out) for x, s in zip(args, shapes, strict=True)]


def broadcast_to(x: Any, shape: Sequence[int]) -> Any:
    """`x` broadcast NumPy-style to `shape` (from the right)."""
    old = shape_of(x)
    shape = tuple(shape)
    if old == shape:
        return x
    if len(old) > len(shape) or any(
        o not in (1, n) for o, n in zip(old[::-1], shape[::-1], strict=False)
    ):
        raise errors.shape_error(
            f"Incompatible shapes for broadcasting: {old} and requested shape {shape}.",
            "from the right, each size must be the one asked for, or 1: x[:, None] adds an axis.",
        )
    lead = len(shape) - len(old)
    kept = [i for i, o in enumerate(old) if o == shape[lead + i]]
    if len(kept) != len(old):
        x = lax.reshape(x, tuple(old[i] for i in kept))
    return lax.broadcast_in_dim(x, shape, tuple(lead + i for i in kept))


def index_of(value: Any, what: str) -> int:
    """A Python integer out of `value`, which must be known while tracing.

    Raises:
        ConcretizationTypeError: it is not known.
        TypeError: it is no integer.
    """
    try:
        return operator.index(value)
    except errors.TracerIntegerConversionError:
        raise errors.ConcretizationTypeError(
            value, f"the {what} must be known while tracing: it is part of the program."
        ) from None
    except TypeError as error:
        if isinstance(value, Tracer):
            raise
        raise TypeError(f"{what} must be an integer, got {value!r}") from error


def canonical_axis(axis: Any, ndim: int) -> int:
    """A non-negative axis.

    Raises:
        ConcretizationTypeError: it is traced.
        ValueError: out of bounds.
    """
    number = index_of(axis, "axis") if isinstance(axis, Tracer) else operator.index(axis)
    if not -ndim <= number < ndim:
        raise ValueError(errors.axis_text(number, ndim))
    return number + ndim if number < 0 else number


def canonical_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Non-negative axes; None means all.

    Raises:
        ValueError: out of bounds, or named twice.
    """
    if axis is None:
        return tuple(range(ndim))
    if isinstance(axis, (tuple, list)):
        axes = tuple(canonical_axis(a, ndim) for a in axis)
        if len(set(axes)) != len(axes):
            raise ValueError(f"duplicate value in 'axis': {axis}")
        return axes
    return (canonical_axis(axis, ndim),)


def canonical_shape(shape: Any) -> tuple[int, ...]:
    """A shape as a tuple of Python integers.

    Raises:
        TypeError: an entry is traced, or not an integer, or negative.
    """
    if isinstance(shape, (int, np.integer)):
        shape = (shape,)
    elif isinstance(shape, (Array, Tracer, np.ndarray)) and np.ndim(shape) == 0:
        shape = (shape,)
    try:
        result = tuple(operator.index(d) for d in shape)
    except TypeError as error:
        entries = shape if isinstance(shape, (tuple, list)) else (shape,)
        if any(isinstance(d, Tracer) for d in entries):
            raise errors.traced_shape_error(shape) from error
        raise TypeError(
            f"Shapes must be 1D sequences of concrete values of integer type, got {shape!r}."
        ) from None
    if any(d < 0 for d in result):
        raise TypeError(f"shape must have every element be nonnegative, got {result}")
    return result
