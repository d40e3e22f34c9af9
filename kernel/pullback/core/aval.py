"""Abstract values: what is known of an array without running anything.

Builds on dtypes.py. Tested in tests/core/test_aval.py.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from pullback.core import dtypes


class ShapedArray:
    """The type of an array: shape, dtype and whether the dtype is weak.

    Instances come from `make_aval`, which interns them, so that equality is nearly always identity
    and a hash is computed once.
    """

    __slots__ = ("_hash", "dtype", "ndim", "shape", "size", "weak_type")

    def __init__(self, shape: tuple[int, ...], dtype: Any, weak_type: bool = False) -> None:
        self.shape = shape
        self.dtype = dtype
        self.weak_type = weak_type
        self.ndim = len(shape)
        self.size = prod(shape)
        self._hash = hash((shape, dtype, weak_type))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, ShapedArray)
            and self.shape == other.shape
            and self.dtype == other.dtype
            and self.weak_type == other.weak_type
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple:
        return make_aval, (self.shape, self.dtype, self.weak_type)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object: a scalar has no axis 0")
        return self.shape[0]

    def update(self, **changes: Any) -> ShapedArray:
        """The same type with some of shape, dtype and weak_type replaced."""
        get = changes.get
        return make_aval(
            tuple(get("shape", self.shape)),
            get("dtype", self.dtype),
            get("weak_type", self.weak_type),
        )

    def strip_weak_type(self) -> ShapedArray:
        """The same type with a strong dtype."""
        return make_aval(self.shape, self.dtype, False) if self.weak_type else self

    def str_short(self) -> str:
        """Short text such as `f32[3,4]`, as it stands in a printed jaxpr."""
        dims = ",".join(map(str, self.shape))
        return f"{dtypes.short_name(self.dtype)}[{dims}]"

    def __str__(self) -> str:
        weak = "~" if self.weak_type else ""
        return f"{weak}{dtypes.name(self.dtype)}[{','.join(map(str, self.shape))}]"

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({dtypes.name(self.dtype)}[{','.join(map(str, self.shape))}]{weak})"


_interned: dict[tuple, ShapedArray] = {}
_INTERN_LIMIT = 65536


def make_aval(shape: tuple[int, ...], dtype: Any, weak_type: bool = False) -> ShapedArray:
    """The interned abstract value of this shape, dtype and weak type."""
    key = (shape, dtype, weak_type)
    aval = _interned.get(key)
    if aval is None:
        if len(_interned) >= _INTERN_LIMIT:
            _interned.clear()
        aval = _interned[key] = ShapedArray(shape, dtype, weak_type)
    return aval


class AbstractToken:
    """The type of an ordering token of side effects: no data."""

    __slots__ = ()
    shape: tuple = ()
    dtype = dtypes.float0
    weak_type = False
    ndim = 0
    size = 0

    def str_short(self) -> str:
        """The text `token`."""
        return "token"

    __repr__ = __str__ = str_short


abstract_token = AbstractToken()


def tangent_aval(aval: ShapedArray) -> ShapedArray:
    """The type of tangents and cotangents of values of type `aval` (float0 for integers)."""
    if dtypes.is_inexact(aval.dtype):
        return aval
    return make_aval(aval.shape, dtypes.float0, False)


_typeof_handlers: dict[type, Callable[[Any], ShapedArray]] = {}


def register_typeof(cls: type, handler: Callable[[Any], ShapedArray]) -> None:
    """Make `typeof` know values of one more concrete type."""
    _typeof_handlers[cls] = handler


def typeof(x: Any) -> ShapedArray:
    """The abstract value of an array, tracer, NumPy value or Python scalar.

    Raises:
        TypeError: `x` is not a value that a traced program can hold.
    """
    handler = _typeof_handlers.get(type(x))
    if handler is not None:
        return handler(x)
    aval = getattr(x, "aval", None)
    if aval is not None:
        return aval
    for cls in type(x).__mro__:
        handler = _typeof_handlers.get(cls)
        if handler is not None:
            return handler(x)
    if hasattr(x, "__jax_array__"):
        return typeof(x.__jax_array__())
    raise TypeError(
        f"a value of type {type(x).__module__}.{type(x).__qualname__} is not a valid array type: {x!r:.80}\n"
        "Instead: pass arrays, NumPy arrays or numbers, or containers (pytrees) of them."
    )


def is_arraylike(x: Any) -> bool:
    """Whether `typeof` accepts `x`."""
    return (
        type(x) in _typeof_handlers
        or hasattr(x, "aval")
        or hasattr(x, "__jax_array__")
        or any(cls in _typeof_handlers for cls in type(x).__mro__)
    )


def _numpy_aval(x: Any) -> ShapedArray:
    return make_aval(x.shape, dtypes.canonicalize_dtype(x.dtype), False)


def _scalar_handler(kind: type) -> Callable[[Any], ShapedArray]:
    weak = kind is not bool
    return lambda x: make_aval((), dtypes.python_scalar_dtype(kind), weak)


register_typeof(np.ndarray, _numpy_aval)
register_typeof(np.generic, _numpy_aval)
for _kind in (bool, int, float, complex):
    register_typeof(_kind, _scalar_handler(_kind))
for _np_kind in "?bBhHiIlLqQefdFD":
    register_typeof(np.dtype(_np_kind).type, _numpy_aval)
