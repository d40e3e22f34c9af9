"""Arrays from Python values, NumPy arrays and rules: array, zeros, arange, linspace, eye ...

Outside of a trace, constant arrays are made on the host and handed to the device, which costs no
compilation. Builds on promote.py and xla/array.py. Tested in tests/numpy/test_creation.py.
"""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from pullback import lax
from pullback.api.place import device_put
from pullback.core import dtypes
from pullback.core.stage import JaxprTrace
from pullback.core.tracer import Tracer, eval_trace, state
from pullback.core.words import moves_elements
from pullback.numpy import promote
from pullback.numpy.fused import fused
from pullback.xla.array import Array, array_from_numpy
from pullback.xla.dlpack import from_dlpack as _from_dlpack

_HOST_LIMIT = 1 << 22  # elements; larger constant arrays are written by the device


def staged() -> bool:
    """Whether operations go into a program rather than being run now."""
    trace: Any = state.trace
    while trace is not eval_trace:
        if isinstance(trace, JaxprTrace):
            return True
        trace = trace.parent
    return False


def place(x: Any, device: Any) -> Any:
    """`x` on a device or sharding; as it is if that is None."""
    return x if device is None else device_put(x, device)


def constant(value: np.ndarray, weak: bool = False, device: Any = None) -> Array:
    """A device array of a fresh NumPy array (not copied: nobody else may write to it)."""
    return place(array_from_numpy(value, weak, copy=False), device)


# ---------------------------------------------------------------- from values


@moves_elements(0)
def array(
    object: Any,
    dtype: Any = None,
    *args: Any,
    copy: bool | None = True,
    order: str | None = "K",
    ndmin: int = 0,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """An array of numbers, nested lists, or anything array-like.

    Args:
        object: array, number, nested sequence, or object with an array or buffer interface.
        dtype: of the result; None finds it (Python numbers give the default int and float).
        copy: False may share memory, where the device can.
        order: "K", "C" or "A"; arrays here have C order.
        ndmin: the least number of dimensions; ones are put in front.
        device: where to; None for the default.
        out_sharding: how to spread it over devices.

    Returns:
        The array.

    Raises:
        TypeError: the values are not numbers.
        ValueError: None, ragged lists, or order="F".

    Example:
        >>> array([1.0, 2.0])
        Array([1., 2.], dtype=float32)
    """
    if args:
        copy, *_ = args
    if order not in (None, "K", "C", "A"):
        raise NotImplementedError(f"order={order!r}: arrays on devices have C order.")
    if device is None:
        device = out_sharding
    kind = type(object)
    if dtype is None and ndmin == 0 and kind in promote.PYTHON_SCALARS:
        return place(_scalar(object), device)
    dtype = None if dtype is None else dtypes.requested_dtype(dtype, "array")
    result = _convert(object, dtype, copy)
    if ndmin > result.ndim:
        result = lax.broadcast_in_dim(
            result,
            (1,) * (ndmin - result.ndim) + result.shape,
            tuple(range(ndmin - result.ndim, ndmin)),
        )
    return place(result, device)


@moves_elements(0)
def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """An array of `a`, itself if it is one of that dtype. Arguments as in `array`."""
    if dtype is None and device is None and not copy and isinstance(a, (Array, Tracer)):
        return a
    if copy is None:
        copy = False
        fresh = isinstance(a, np.ndarray)
        return array(
            a, dtype, copy=fresh, order=order or "K", device=device, out_sharding=out_sharding
        )
    return array(a, dtype, copy=copy, order=order or "K", device=device, out_sharding=out_sharding)


def _scalar(value: Any) -> Array:
    kind = type(value)
    dtype = dtypes.python_scalar_dtype(kind)
    return array_from_numpy(
        np.asarray(promote.python_scalar(value, dtype, False)), kind is not bool, copy=False
    )


def _convert(value: Any, dtype: Any, copy: bool | None) -> Any:
    if isinstance(value, (Array, Tracer)):
        if dtype is not None:
            if dtype == value.dtype and isinstance(value, Array) and copy and not value.weak_type:
                return value.__copy__()
            return convert(value, dtype)
        return value.__copy__() if copy and isinstance(value, Array) else value
    if hasattr(value, "__jax_array__"):
        return _convert(value.__jax_array__(), dtype, copy)
    if value is None:
        raise ValueError(
            "None is not a valid value for jnp.array.\nInstead: use jnp.nan, or leave it out."
        )
    if isinstance(value, (list, tuple)):
        return _convert_sequence(value, dtype)
    if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
        target = dtype or dtypes.python_scalar_dtype(_kind(value))
        weak = dtype is None and _kind(value) is not builtins.bool
        value = _kind(value)(value)
        if dtype is not None:
            value = promote.in_range(value, target)
        return constant(np.asarray(promote.python_scalar(value, target, False)), weak)
    host = value if isinstance(value, (np.ndarray, np.generic)) else _host_array(value)
    return _from_host(host, dtype, copy)


def _kind(value: Any) -> type:
    for kind in (builtins.bool, int, float, complex):
        if isinstance(value, kind):
            return kind
    raise TypeError(f"not a number: {value!r}")


def _host_array(value: Any) -> np.ndarray:
    if isinstance(value, str) or not any(
        hasattr(value, name)
        for name in ("__array__", "__array_interface__", "__buffer__", "__dlpack__", "__len__")
    ):
        try:
            memoryview(value)
        except TypeError:
            raise TypeError(
                f"Value {value!r} of type {type(value)} is not a valid array: "
                "Unexpected input type for array. Only arrays of numeric types are supported."
            ) from None
    return np.asarray(value)


def _from_host(host: Any, dtype: Any, copy: bool | None) -> Array:
    if host.dtype.kind in "OUSMm" or (
        host.dtype.kind == "V" and not dtypes.is_supported(host.dtype)
    ):
        if host.dtype == dtypes.float0:
            return host
        raise TypeError(
            f"Value with dtype {host.dtype} is not a valid array type. "
            "Only arrays of numeric types are supported.\nInstead: convert it to numbers first."
        )
    target = dtype or dtypes.canonicalize_dtype(host.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        fresh = host.dtype != target
        host = np.asarray(host).astype(target) if fresh else np.asarray(host)
    return array_from_numpy(host, copy=not fresh and copy is not False)


def _leaves(value: Any, found: list[Any]) -> None:
    for item in value:
        if isinstance(item, (list, tuple)):
            _leaves(item, found)
        else:
            found.append(item)


def _convert_sequence(value: Any, dtype: Any) -> Any:
    found: list[Any] = []
    _leaves(value, found)
    kinds = set(map(type, found))
    if any(issubclass(k, (Array, Tracer)) or hasattr(k, "__jax_array__") for k in kinds):
        return _stack_nested(value, dtype)
    if not kinds:
        host = np.asarray(value)
        return _from_host(host, dtype or dtypes.python_scalar_dtype(float), None)
    if type(None) in kinds:
        raise ValueError(
            "None is not a valid value for jnp.array.\nInstead: use jnp.nan, or leave it out."
        )
    if dtype is None:
        dtype = _sequence_dtype(found, kinds)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            if dtype.kind in "iu" and kinds <= {builtins.bool, int}:
                host = np.asarray(value)
                if host.dtype.kind == "O" or _out_of_range(host, dtype):
                    raise OverflowError(f"a Python integer in the list does not fit {dtype.name}")
                return constant(host.astype(dtype))
            return constant(np.array(value, dtype))
    except ValueError as error:
        raise ValueError(
            f"cannot make an array of these nested lists: {error}\n"
            "Instead: give all rows the same length."
        ) from error


def _out_of_range(host: np.ndarray, dtype: np.dtype) -> bool:
    if host.size == 0 or host.dtype.kind not in "iu":
        return False
    info = dtypes.iinfo(dtype)
    return bool(host.max() > int(info.max) or host.min() < int(info.min))


def _sequence_dtype(found: list[Any], kinds: set[type]) -> np.dtype:
    if kinds <= promote.PYTHON_SCALARS:
        ranks = (builtins.bool, int, float, complex)
        widest = max(kinds, key=ranks.index)
        return dtypes.python_scalar_dtype(widest)
    for item in found:
        if isinstance(item, (str, bytes)):
            raise TypeError(
                f"Value {item!r} with dtype {np.asarray(item).dtype} is not a valid array type. "
                "Only arrays of numeric types are supported.\n"
                "Instead: encode texts as integers, or keep them in a list beside the array."
            )
    return dtypes.result_type(*found)


def _stack_nested(value: Any, dtype: Any) -> Any:
    """Nested lists that hold arrays or tracers, stacked level by level."""
    found: list[Any] = []
    _leaves(value, found)
    if dtype is None:
        dtype = dtypes.result_type(*found)

    def build(item: Any) -> Any:
        if not isinstance(item, (list, tuple)):
            return promote.lift("array", promote.cast(item, dtype))
        parts = [build(i) for i in item]
        if not parts:
            return constant(np.zeros((0,), dtype))
        shapes = {p.shape for p in parts}
        if len(shapes) > 1:
            raise ValueError(
                "cannot make an array of parts with different shapes: "
                f"{', '.join(map(str, sorted(shapes)))}"
            )
        return _stack(parts)

    result = build(value)
    return promote.cast(result, dtype)


@fused()
def _stack(parts: list[Any]) -> Any:
    shape = parts[0].shape
    rows = [lax.broadcast_in_dim(p, (1, *shape), tuple(range(1, len(shape) + 1))) for p in parts]
    return lax.concatenate(rows, 0)


def convert(x: Any, dtype: Any) -> Any:
    """`x` with this (canonical) dtype and no weak type; complex to real drops the imaginary part."""
    if x.dtype.kind == "c" and dtype.kind not in "c":
        if dtype.kind == "b":
            return x != 0
        x = lax.real(x)
    if x.dtype == dtype and not x.weak_type:
        return x
    return lax.convert_element_type_p.bind(x, new_dtype=dtype, weak_type=False)


def astype(x: Any, dtype: Any, /, *, copy: bool = False, device: Any = None) -> Any:
    """`x` with another dtype.

    Args:
        x: array.
        dtype: the new dtype; None for the default float.
        copy: make a new array even if nothing changes.
        device: where to.

    Returns:
        An array of x's shape.
    """
    x = promote.lift("astype", x)
    dtype = dtypes.requested_dtype(float if dtype is None else dtype, "astype")
    result = convert(x, dtype)
    if copy and result is x and isinstance(x, Array):
        result = x.__copy__()
    return place(result, device)


def copy(a: Any, order: str | None = None) -> Any:
    """A new array with the same values."""
    return array(promote.lift("copy", a), copy=True, order=order or "K")


# ---------------------------------------------------------------- filled


def _filled(shape: Any, value: Any, dtype: Any, weak: bool, device: Any) -> Any:
    shape = promote.canonical_shape(shape)
    if staged():
        return lax.full(shape, python_value(value, dtype, weak), dtype)
    size = math.prod(shape)
    if size > _HOST_LIMIT:
        result = lax.full(shape, value, dtype)
        return place(promote.cast(result, dtype, weak), device)
    return constant(np.full(shape, value, dtype), weak, device)


def python_value(value: Any, dtype: Any, weak: bool) -> Any:
    """A constant to write into a program: a Python number if weak, else a NumPy scalar."""
    return (
        promote.python_scalar(value, dtype, weak)
        if type(value) in promote.PYTHON_SCALARS
        else value
    )


def zeros(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array of zeros.

    Args:
        shape: integer or sequence of integers.
        dtype: None for the default float.
        device, out_sharding: where to.

    Returns:
        The array.
    """
    dtype = dtypes.requested_dtype(float if dtype is None else dtype, "zeros")
    return _filled(shape, 0, dtype, False, device or out_sharding)


def ones(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array of ones. Arguments as in `zeros`."""
    dtype = dtypes.requested_dtype(float if dtype is None else dtype, "ones")
    return _filled(shape, 1, dtype, False, device or out_sharding)


def empty(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array of zeros: memory is never left uninitialised. Arguments as in `zeros`."""
    return zeros(shape, dtype, device=device, out_sharding=out_sharding)


def full(
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """An array with one value everywhere.

    Args:
        shape: integer or sequence of integers.
        fill_value: a number, or an array that broadcasts to the shape.
        dtype: None for the value's.
        device, out_sharding: where to.

    Returns:
        The array.
    """
    device = device or out_sharding
    aval = promote.aval_of("full", fill_value, 1)
    weak = dtype is None and aval.weak_type
    dtype = aval.dtype if dtype is None else dtypes.requested_dtype(dtype, "full")
    if type(fill_value) in promote.PYTHON_SCALARS or (
        isinstance(fill_value, np.generic) and np.ndim(fill_value) == 0
    ):
        return _filled(shape, promote.wrapped(fill_value, dtype), dtype, weak, device)
    value = promote.cast(promote.lift("full", fill_value), dtype, weak)
    return place(promote.broadcast_to(value, promote.canonical_shape(shape)), device)


def _like(name: str, a: Any, dtype: Any, shape: Any) -> tuple[Any, Any, bool]:
    """Shape, dtype and weak type of an array like `a`."""
    if hasattr(a, "shape") and hasattr(a, "dtype"):
        old_shape, old_dtype = a.shape, dtypes.canonicalize_dtype(a.dtype)
        weak = bool(getattr(a, "weak_type", False))
    else:
        aval = promote.aval_of(name, np.asarray(a) if isinstance(a, (list, tuple)) else a)
        old_shape, old_dtype, weak = aval.shape, aval.dtype, aval.weak_type
    if dtype is None:
        return (old_shape if shape is None else shape), old_dtype, weak
    dtype = dtypes.requested_dtype(dtype, name)
    return (old_shape if shape is None else shape), dtype, False


def zeros_like(
    a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Any:
    """Zeros of a's shape and dtype, unless others are given."""
    shape, dtype, weak = _like("zeros_like", a, dtype, shape)
    return _filled(shape, 0, dtype, weak, device or out_sharding)


def ones_like(
    a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Any:
    """Ones of a's shape and dtype, unless others are given."""
    shape, dtype, weak = _like("ones_like", a, dtype, shape)
    return _filled(shape, 1, dtype, weak, device or out_sharding)


def empty_like(prototype: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Any:
    """Zeros of the prototype's shape and dtype, unless others are given."""
    return zeros_like(prototype, dtype, shape, device=device)


def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """One value everywhere, in a's shape and dtype, unless others are given."""
    shape, dtype, weak = _like("full_like", a, dtype, shape)
    if np.ndim(fill_value) == 0 and type(fill_value) in promote.PYTHON_SCALARS:
        value = promote.wrapped(fill_value, dtype)
        return _filled(shape, value, dtype, weak, device or out_sharding)
    value = promote.cast(promote.lift("full_like", fill_value), dtype, weak)
    return place(promote.broadcast_to(value, promote.canonical_shape(shape)), device)


# ---------------------------------------------------------------- from other sources


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array that shares (if it can) the memory of a dlpack object of another library."""
    return _from_dlpack(x, device, copy)


def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Array:
    """A 1-D array of a buffer's bytes, as in NumPy."""
    return asarray(np.frombuffer(buffer, np.dtype(dtype), count, offset))


def fromiter(*args: Any, **kwargs: Any) -> Array:
    """A 1-D array of an iterable's values, as in NumPy."""
    return asarray(np.fromiter(*args, **kwargs))


def fromstring(string: str, dtype: Any = float, count: int = -1, *, sep: str) -> Array:
    """A 1-D array of the numbers in a text, as in NumPy."""
    return asarray(np.fromstring(string, np.dtype(dtype), count, sep=sep))


def fromfile(*args: Any, **kwargs: Any) -> Any:
    """Not supported.

    Raises:
        NotImplementedError: always; reading files while tracing would happen once.
    """
    raise NotImplementedError(
        "jnp.fromfile() is not implemented because it may be non-pure.\n"
        "Instead: jnp.asarray(np.fromfile(...))."
    )


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """The array in a .npy file, as `numpy.load`; bfloat16 and float8 come back as they were."""
    out = np.load(file, *args, **kwargs)
    return asarray(out) if isinstance(out, np.ndarray) else out
