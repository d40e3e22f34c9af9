"""Promotion of dtypes (JAX's lattice, weak types included) and their form under the x64 setting.

Source: JAX, "Type promotion semantics"; tests/core/data/promotion.json holds what JAX 0.10.2
answers, and every entry of it is tested. Builds on dtype_kinds.py and config.py. Tested in
tests/core/test_dtypes.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from pullback.core.config import config
from pullback.core.dtype_kinds import (
    BY_NAME,
    COMPLEX,
    FLOATS,
    SHORTER,
    SIGNED,
    UNSIGNED,
    WEAK,
    KeyDType,
    all_dtypes,
    bfloat16,
    bool_,
    complex_dtypes,
    dtype,
    dtype_and_weak,
    extended,
    finfo,
    float0,
    float0_array,
    float_dtypes,
    iinfo,
    inexact_dtypes,
    integer_dtypes,
    is_inexact,
    is_supported,
    is_weakly_typed,
    isdtype,
    issubdtype,
    itemsize_bits,
    name,
    prng_key,
    python_scalar_dtypes,
    real_dtype,
    scalar_type_of,
    short_name,
    signed_dtypes,
    unsigned_dtypes,
    weak_kind,
    why_not,
)

__all__ = [
    "KeyDType",
    "TypePromotionError",
    "all_dtypes",
    "bfloat16",
    "bool_",
    "canonicalize_dtype",
    "common_type",
    "complex_dtype",
    "complex_dtypes",
    "dtype",
    "dtype_and_weak",
    "extended",
    "finfo",
    "float0",
    "float0_array",
    "float_dtypes",
    "iinfo",
    "inexact_dtypes",
    "integer_dtypes",
    "is_inexact",
    "is_supported",
    "is_weakly_typed",
    "isdtype",
    "issubdtype",
    "itemsize_bits",
    "jax_dtype",
    "lattice_result_type",
    "name",
    "prng_key",
    "promote_types",
    "python_scalar_dtype",
    "python_scalar_dtypes",
    "real_dtype",
    "requested_dtype",
    "result_type",
    "scalar_type_of",
    "short_name",
    "signed_dtypes",
    "to_floating_dtype",
    "to_inexact_dtype",
    "to_numeric_dtype",
    "unsigned_dtypes",
    "weak_kind",
]


class TypePromotionError(ValueError):
    """Dtypes that have no common dtype.

    Example:
        >>> promote_types("bfloat16", "float16")
        dtype('float32')
    """


# ------------------------------------------------------------------------------- the lattice


def _edges(strict: bool) -> dict[Any, tuple]:
    """What each node promotes to directly. A Python type as a node is the weak type of its kind."""
    edges: dict[Any, tuple] = dict.fromkeys(all_dtypes, ())
    edges[int] = (*UNSIGNED, *SIGNED, float) if strict else (*UNSIGNED[:3], *SIGNED[:3])
    edges[float] = (*FLOATS, complex) if strict else (*FLOATS[:-2], complex)
    edges[complex] = COMPLEX if strict else COMPLEX[:1]
    if strict:
        return edges
    u8, u16, u32, u64 = UNSIGNED[2:]
    i8, i16, i32, i64 = SIGNED[2:]
    f16, f32, f64 = FLOATS[-3:]
    c64, c128 = COMPLEX
    edges |= {bool_: (int,), u8: (u16, i16), u16: (u32, i32), u32: (u64, i64), u64: (float,)}
    edges |= {i8: (i16,), i16: (i32,), i32: (i64,), i64: (float,), bfloat16: (f32,), f16: (f32,)}
    edges |= {f32: (f64, c64), f64: (c128,), c64: (c128,)}
    return edges


def _upper_bounds(strict: bool) -> dict[Any, frozenset]:
    edges = _edges(strict)
    bounds: dict[Any, frozenset] = {}

    def reach(node: Any) -> frozenset:
        if node not in bounds:
            bounds[node] = frozenset({node}).union(*map(reach, edges[node]))
        return bounds[node]

    for node in edges:
        reach(node)
    return bounds


_bounds = {"standard": _upper_bounds(strict=False), "strict": _upper_bounds(strict=True)}


def _join(nodes: Iterable[Any], mode: str) -> Any:
    """The least upper bound of lattice nodes."""
    bounds = _bounds[mode]
    nodes = set(nodes)
    for node in nodes:
        if node not in bounds:
            raise _no_promotion(nodes, mode, f"{name(node)} takes part in no promotion")
    common = frozenset.intersection(*[bounds[n] for n in nodes])
    least = [c for c in common if common <= bounds[c]]
    if len(least) != 1:
        raise _no_promotion(nodes, mode, "they have no common dtype")
    return least[0]


def _node_name(node: Any) -> str:
    return f"Python {node.__name__} (weak)" if isinstance(node, type) else name(node)


def _no_promotion(nodes: set, mode: str, why: str) -> TypePromotionError:
    listed = ", ".join(sorted(map(_node_name, nodes)))
    where = " under jax_numpy_dtype_promotion='strict'" if mode == "strict" else ""
    return TypePromotionError(
        f"implicit promotion of {listed} is not defined{where}: {why}.\n"
        "Instead: convert one operand explicitly, e.g. x.astype(y.dtype)."
    )


# (a, b) -> promoted, by mode; bounded by the number of dtypes.
_pairs: dict[tuple, Any] = {}


def promote_types(a: Any, b: Any) -> Any:
    """The dtype that two dtypes promote to.

    Args:
        a, b: dtypes or what names one; the Python types int, float and complex stand for weak ones.

    Returns:
        The dtype; for two weak types the dtype of the wider one.

    Raises:
        TypePromotionError: they have no common dtype.

    Example:
        >>> promote_types("int8", "uint8")
        dtype('int16')
    """
    if a is b and a in all_dtypes:
        return a
    mode = config.jax_numpy_dtype_promotion
    try:
        return _pairs[mode, a, b]
    except (KeyError, TypeError):
        pass
    nodes = [x if x in WEAK else dtype(x) for x in (a, b)]
    out = _join(nodes, mode)
    out = python_scalar_dtypes.get(out, out)
    try:
        _pairs[mode, a, b] = out
    except TypeError:  # an unhashable way to name a dtype
        return out
    return out


def _node(dt: Any, weak: bool) -> Any:
    return weak_kind(dt) if weak else dt


@lru_cache(maxsize=4096)
def _lattice_result(types: tuple, mode: str) -> tuple[Any, bool]:
    """The dtype and weak type of operands given as (dtype, weak) pairs."""
    kinds, weak = zip(*types, strict=True)
    if len(types) == 1:
        return kinds[0], weak[0] and kinds[0] != bool_
    if len(set(kinds)) == 1 and not all(weak):
        return kinds[0], False
    if all(weak) and mode == "standard":
        out = _join(kinds, mode)
        return python_scalar_dtypes.get(out, out), out is not bool and out != bool_
    out = _join([_node(d, w) for d, w in types], mode)
    if out in WEAK:
        return python_scalar_dtypes[out], True
    return out, False


def common_type(avals: Sequence[Any]) -> tuple[Any, bool]:
    """The dtype and weak type of an operation on operands with these `dtype` and `weak_type`."""
    first = avals[0]
    dt, weak = first.dtype, first.weak_type
    for aval in avals:
        if aval.dtype is not dt or aval.weak_type != weak:
            break
    else:
        return dt, weak
    out, weak = _lattice_result(
        tuple([(a.dtype, a.weak_type) for a in avals]), config.jax_numpy_dtype_promotion
    )
    return canonicalize_dtype(out), weak


def lattice_result_type(*args: Any) -> tuple[Any, bool]:
    """The dtype (not canonicalised) and weak type of an operation on the arguments.

    Args:
        *args: arrays, tracers, avals, Python scalars, dtypes or names of dtypes.
    """
    types = [dtype_and_weak(x) for x in args]
    if len(types) > 1 and not config.jax_enable_x64:
        types = [(SHORTER.get(dt, dt), weak) for dt, weak in types]
    return _lattice_result(tuple(types), config.jax_numpy_dtype_promotion)


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """The dtype that an operation on the arguments gives, under the current x64 setting.

    Args:
        *args: arrays, Python scalars, dtypes or names of dtypes.
        return_weak_type_flag: give (dtype, weak) instead.

    Raises:
        ValueError: no argument.
        TypePromotionError: they have no common dtype.

    Example:
        >>> result_type(np.ones(2, np.float16), 1.0)
        dtype('float16')
    """
    if not args:
        raise ValueError("result_type: at least one array or dtype is required, got none.")
    out, weak = lattice_result_type(*args)
    out = canonicalize_dtype(out, allow_extended_dtype=True)
    return (out, weak) if return_weak_type_flag else out


# ---------------------------------------------------------------------------- canonical form

# dtype -> canonical dtype, by x64 setting; bounded by the number of dtypes.
_canonical: dict[bool, dict[Any, Any]] = {False: {}, True: {}}


def canonicalize_dtype(dtype_like: Any, allow_extended_dtype: bool = False) -> Any:
    """The dtype that stands for this one under the current x64 setting.

    Args:
        dtype_like: a dtype or what names one.
        allow_extended_dtype: pass key dtypes through.

    Raises:
        TypeError: not a dtype that arrays can have.
    """
    table = _canonical[config.jax_enable_x64]
    try:
        return table[dtype_like]
    except (KeyError, TypeError):
        pass
    found = dtype(dtype_like)
    if isinstance(found, KeyDType):
        if allow_extended_dtype:
            return found
        raise TypeError(f"{found} is a dtype of keys; an array dtype is wanted here.")
    if found not in all_dtypes and found != float0:
        found = found.newbyteorder("=")
    if found not in all_dtypes and found != float0:
        raise TypeError(f"dtype {found} is not a valid array dtype: {why_not(found)}")
    out = found if config.jax_enable_x64 else SHORTER.get(found, found)
    out = BY_NAME.get(out.name, out)
    if isinstance(dtype_like, (np.dtype, type, str)):
        table[dtype_like] = out
    return out


def requested_dtype(dtype_like: Any, function: str) -> Any:
    """The canonical dtype of one that a user asked `function` for; says so if it gets shorter.

    Raises:
        TypeError: not a dtype that arrays can have.
        ValueError: it would get shorter and jax_explicit_x64_dtypes is "error".
    """
    found = dtype(dtype_like)
    if isinstance(found, KeyDType):
        return found
    out = canonicalize_dtype(found)
    if out != found and found in SHORTER and not isinstance(dtype_like, type | None):
        _shortened(found, out, function)
    elif out != found and isinstance(dtype_like, type) and dtype_like not in python_scalar_dtypes:
        _shortened(found, out, function)
    return out


def _shortened(found: np.dtype, out: np.dtype, function: str) -> None:
    text = (
        f"{function}: dtype {found.name} was asked for, but 64-bit types are off; {out.name} is "
        "used. Instead: config.update('jax_enable_x64', True) before the first array is made."
    )
    what = config.jax_explicit_x64_dtypes
    if what == "error":
        raise ValueError(text)
    if what == "warn":
        warnings.warn(text, stacklevel=4)


jax_dtype = canonicalize_dtype


def python_scalar_dtype(kind: type) -> np.dtype:
    """The dtype of Python's bool, int, float or complex under the current x64 setting."""
    dt = python_scalar_dtypes[kind]
    return dt if config.jax_enable_x64 else SHORTER.get(dt, dt)


def to_inexact_dtype(dt: Any) -> Any:
    """The dtype itself if it is floating or complex, else the floating one of its width."""
    dt = dtype(dt)
    if dt in inexact_dtypes:
        return dt
    wide = dt.itemsize >= 8 and dt in integer_dtypes
    return canonicalize_dtype(np.float64 if wide else np.float32)


def to_numeric_dtype(dt: Any) -> Any:
    """The dtype itself, or int32 (int64 with x64) for bool."""
    return python_scalar_dtype(int) if dtype(dt) == bool_ else dtype(dt)


def to_floating_dtype(dt: Any) -> Any:
    """The dtype of the real parts of `to_inexact_dtype`."""
    return real_dtype(to_inexact_dtype(dt))


def complex_dtype(dt: Any) -> np.dtype:
    """The complex dtype that holds numbers with such a real part."""
    found = to_inexact_dtype(dt)
    if found in complex_dtypes:
        return found
    return COMPLEX[1] if found == FLOATS[-1] else COMPLEX[0]
