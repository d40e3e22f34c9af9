"""Operators and methods of arrays and tracers, attached to both classes.

Builds on all of numpy/. Tested in tests/numpy/test_array_methods.py.
"""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import lax
from pullback.core import dtypes
from pullback.core.tracer import Tracer
from pullback.numpy import (
    arithmetic,
    creation,
    elementwise,
    joining,
    manipulation,
    positions,
    products,
    promote,
    ranks,
    reductions,
    selection,
    sorting,
    statistics,
)
from pullback.numpy.at import IndexUpdateHelper
from pullback.numpy.indexing import getitem_array, read
from pullback.xla import quick
from pullback.xla.array import Array

_OPERANDS = (Array, Tracer, np.ndarray, np.generic, int, float, complex)
scalar_operand = promote.scalar_operand
rank_watching = ranks.watching
PYTHON_SCALARS = promote.PYTHON_SCALARS


def _takes(other: Any) -> bool:
    return isinstance(other, _OPERANDS) or hasattr(other, "__jax_array__")


def _operator(name: str, fun: Callable[[Any, Any], Any], bind: Any, swap: bool, refuse: str) -> Any:
    """An operator method. Arrays of one dtype, and Python scalars, go straight to the primitive."""

    def method(self: Any, other: Any) -> Any:
        try:
            aval = self.aval
            kind = type(other)
            if kind in PYTHON_SCALARS:
                if aval.dtype.kind not in refuse:
                    operand = scalar_operand(other, aval)
                    if operand is not None:
                        return bind(operand, self) if swap else bind(self, operand)
            elif (
                other.aval.dtype is aval.dtype
                and aval.dtype.kind not in refuse
                and not rank_watching
            ):
                return bind(other, self) if swap else bind(self, other)
        except AttributeError:
            if not _takes(other):
                return NotImplemented
        return fun(other, self) if swap else fun(self, other)

    method.__name__ = name
    method.__qualname__ = f"Array.{name}"
    return method


def _quick_operator(
    name: str, fun: Callable[[Any, Any], Any], prim: Any, swap: bool, refuse: str
) -> tuple[Any, Any]:
    """An operator's methods of Tracer and of Array, where known types go to their executable."""
    method = _operator(name, fun, prim.bind, swap, refuse)
    return method, quick.binary(prim, method, swap, refuse, scalar_operand)


def _plain(name: str, fun: Callable[[Any, Any], Any], swap: bool = False) -> Any:
    def method(self: Any, other: Any) -> Any:
        if not _takes(other):
            return NotImplemented
        return fun(other, self) if swap else fun(self, other)

    method.__name__ = name
    method.__qualname__ = f"Array.{name}"
    return method


def _pow(self: Any, other: Any) -> Any:
    if type(other) is int and self.dtype.kind in "fc":
        return lax.integer_pow_p.bind(self, y=other)
    return arithmetic.power(self, other) if _takes(other) else NotImplemented


def _operators() -> tuple[dict[str, Any], dict[str, Any]]:
    """The operator methods of tracers, and those of arrays."""
    found: dict[str, Any] = {
        "__neg__": lambda self: elementwise.negative(self),
        "__pos__": lambda self: elementwise.positive(self),
        "__abs__": lambda self: elementwise.abs(self),
        "__invert__": lambda self: elementwise.invert(self),
        "__pow__": _pow,
        "__rpow__": _plain("__rpow__", arithmetic.power, True),
    }
    # name, function, primitive, kinds of dtype that must take the slow way
    direct = [
        ("add", arithmetic.add, lax.add_p, "b"),
        ("sub", arithmetic.subtract, lax.sub_p, ""),
        ("mul", arithmetic.multiply, lax.mul_p, "b"),
        ("truediv", arithmetic.divide, lax.div_p, "iub"),
    ]
    arrays: dict[str, Any] = {}
    for name, fun, prim, refuse in direct:
        for method, swap in (f"__{name}__", False), (f"__r{name}__", True):
            found[method], arrays[method] = _quick_operator(method, fun, prim, swap, refuse)
    compared = [
        ("eq", arithmetic.equal, lax.eq_p, ""),
        ("ne", arithmetic.not_equal, lax.ne_p, ""),
        ("lt", arithmetic.less, lax.lt_p, "c"),
        ("le", arithmetic.less_equal, lax.le_p, "c"),
        ("gt", arithmetic.greater, lax.gt_p, "c"),
        ("ge", arithmetic.greater_equal, lax.ge_p, "c"),
    ]
    for name, fun, prim, refuse in compared:
        method = f"__{name}__"
        found[method], arrays[method] = _quick_operator(method, fun, prim, False, refuse)
    rest = [
        ("floordiv", arithmetic.floor_divide),
        ("mod", arithmetic.remainder),
        ("divmod", arithmetic.divmod),
        ("matmul", products.matmul),
        ("and", arithmetic.bitwise_and),
        ("or", arithmetic.bitwise_or),
        ("xor", arithmetic.bitwise_xor),
        ("lshift", arithmetic.left_shift),
        ("rshift", arithmetic.right_shift),
    ]
    for name, fun in rest:
        found[f"__{name}__"] = _plain(f"__{name}__", fun)
        found[f"__r{name}__"] = _plain(f"__r{name}__", fun, True)
    return found, {**found, **arrays}


# ---------------------------------------------------------------- methods


def _astype(self: Any, dtype: Any = None, copy: bool = False, device: Any = None) -> Any:
    """A copy with another dtype (None: the default float)."""
    return creation.astype(self, dtype, copy=copy, device=device)


def _reshape(self: Any, *args: Any, order: str = "C", out_sharding: Any = None) -> Any:
    """The elements in another shape: x.reshape(2, 3) or x.reshape((2, 3))."""
    del out_sharding
    shape = args[0] if len(args) == 1 else args
    return manipulation.reshape(self, shape, order)


def _transpose(self: Any, *args: Any) -> Any:
    """The axes in another order: x.transpose(1, 0), x.transpose((1, 0)), or reversed."""
    if not args:
        return manipulation.transpose(self)
    axes = args[0] if len(args) == 1 and not isinstance(args[0], int) else args
    return manipulation.transpose(self, axes)


def _flatten(self: Any, order: str = "C", *, out_sharding: Any = None) -> Any:
    """The elements as a 1-D array."""
    return manipulation.ravel(self, order)


def _view(self: Any, dtype: Any = None, type: None = None) -> Any:
    """The same bits read as another dtype; the last axis grows or shrinks with the size."""
    if type is not None:
        raise NotImplementedError("`type` argument of array.view() is not supported.")
    target = dtypes.requested_dtype(float if dtype is None else dtype, "view")
    if self.dtype == np.bool_:
        self = lax.convert_element_type(self, np.uint8)
    if target == self.dtype:
        return self
    if target == np.bool_:
        return lax.bitcast_convert_type(self, np.uint8) != 0
    old, new = self.dtype.itemsize, target.itemsize
    if old == new:
        return lax.bitcast_convert_type(self, target)
    if not self.ndim or (old < new and self.shape[-1] * old % new):
        raise ValueError(
            f"view: the last axis of shape {self.shape} ({old} bytes each) does not divide into "
            f"{target.name} ({new} bytes)"
        )
    if old > new:
        wide = lax.bitcast_convert_type(self, target)
        return lax.reshape(wide, (*self.shape[:-1], self.shape[-1] * (old // new)))
    ratio = new // old
    split = lax.reshape(self, (*self.shape[:-1], self.shape[-1] // ratio, ratio))
    return lax.bitcast_convert_type(split, target)


def _to_device(self: Any, device: Any, *, stream: Any = None) -> Any:
    """A copy on another device."""
    return creation.place(self, device)


def _searchsorted(
    self: Any, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan"
) -> Any:
    """Where `v` belongs in this sorted array."""
    return sorting.searchsorted(self, v, side, sorter, method=method)


def _clip(self: Any, min: Any = None, max: Any = None) -> Any:
    """The elements moved into [min, max]."""
    return arithmetic.clip(self, min, max)


def _compress(self: Any, condition: Any, axis: int | None = None, **options: Any) -> Any:
    """The slices where the condition holds."""
    return selection.compress(condition, self, axis, **options)


def _repeat(self: Any, repeats: Any, axis: int | None = None, **options: Any) -> Any:
    """Each element repeated."""
    return joining.repeat(self, repeats, axis, **options)


def _contains(self: Any, value: Any) -> bool:
    return bool(reductions.any(arithmetic.equal(self, value)))


def _namespace(self: Any, *, api_version: str | None = None) -> Any:
    """The module of the array API's functions."""
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(f"api_version={api_version!r} is not available")
    return sys.modules["pullback.numpy"]


_METHODS: dict[str, Callable[..., Any]] = {
    "__array_namespace__": _namespace,
    "__contains__": _contains,
    "all": reductions.all,
    "any": reductions.any,
    "argmax": reductions.argmax,
    "argmin": reductions.argmin,
    "argpartition": sorting.argpartition,
    "argsort": sorting.argsort,
    "astype": _astype,
    "choose": selection.choose,
    "clip": _clip,
    "compress": _compress,
    "conj": elementwise.conjugate,
    "conjugate": elementwise.conjugate,
    "copy": creation.copy,
    "cumprod": reductions.cumprod,
    "cumsum": reductions.cumsum,
    "diagonal": positions.diagonal,
    "dot": products.dot,
    "flatten": _flatten,
    "max": reductions.max,
    "mean": statistics.mean,
    "min": reductions.min,
    "nonzero": positions.nonzero,
    "prod": reductions.prod,
    "ptp": reductions.ptp,
    "ravel": manipulation.ravel,
    "repeat": _repeat,
    "reshape": _reshape,
    "round": elementwise.round,
    "searchsorted": _searchsorted,
    "sort": sorting.sort,
    "squeeze": manipulation.squeeze,
    "std": statistics.std,
    "sum": reductions.sum,
    "swapaxes": manipulation.swapaxes,
    "take": selection.take,
    "to_device": _to_device,
    "trace": positions.trace,
    "transpose": _transpose,
    "var": statistics.var,
    "view": _view,
}


def _tracer_iter(self: Any) -> Any:
    if not self.shape:
        raise TypeError("iteration over a 0-d array: this traced value is a scalar")
    return iter(joining.unstack(self))


def _refuse_setitem(self: Any, index: Any, value: Any) -> None:
    raise TypeError(
        f"{type(self).__name__} object does not support item assignment: arrays are immutable.\n"
        "Instead: x = x.at[index].set(value), see x.at"
    )


def unpickled(rebuild: Callable[..., Array], arguments: tuple[Any, ...]) -> Array:
    """An array from its pickle; as this stands here, a new process gets the operators with it."""
    return rebuild(*arguments)


def _reduce(array: Array) -> tuple[Any, ...]:
    return unpickled, array.__reduce__()


def _attach(cls: Any, operators: dict[str, Any], getitem: Callable[[Any, Any], Any]) -> None:
    for name, method in {**operators, **_METHODS}.items():
        setattr(cls, name, method)
    cls.__getitem__ = getitem
    cls.__round__ = lambda self, ndigits=None: elementwise.round(self, ndigits or 0)
    cls.at = property(IndexUpdateHelper, doc="Elements to replace: x.at[index].set(values).")
    cls.T = property(manipulation.transpose, doc="The axes reversed.")
    cls.mT = property(manipulation.matrix_transpose, doc="The last two axes exchanged.")
    cls.real = property(elementwise.real, doc="The real part.")
    cls.imag = property(elementwise.imag, doc="The imaginary part.")
    cls.flat = property(lambda self: iter(self.reshape(-1)), doc="An iterator over elements.")


_of_tracers, _of_arrays = _operators()
_attach(Array, _of_arrays, getitem_array)
_attach(Tracer, _of_tracers, read)
for _name, _method in ("__iter__", _tracer_iter), ("__setitem__", _refuse_setitem):
    setattr(Tracer, _name, _method)
copyreg.pickle(Array, _reduce)
