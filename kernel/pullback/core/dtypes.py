"""Dtypes: which exist, how they promote (JAX's lattice, weak types included), how they are named.

Source: JAX, "Type promotion semantics"; tests/core/data/promotion.json holds what JAX 0.10.2
answers, and every entry of it is tested. Builds on config.py. Tested in tests/core/test_dtypes.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from pullback.core.config import config


class TypePromotionError(ValueError):
    """Dtypes that have no common dtype.

    Example:
        >>> promote_types("bfloat16", "float16")
        dtype('float32')
    """


class extended(np.generic):  # noqa: N801  (a public name of JAX)
    """The kind of dtypes that NumPy does not have."""


class prng_key(extended):  # noqa: N801
    """The kind of typed random keys."""


class KeyDType:
    """The dtype of typed random keys: `impl` names the generator; the base is uint32 words.

    Attributes:
        impl: name of the generator, such as "threefry2x32".
        tag: its short tag, such as "fry".
        base_shape: trailing axes of the uint32 array beneath, such as (2,).
    """

    __slots__ = ("base_shape", "impl", "tag")
    kind = "k"
    type = prng_key
    base_dtype = np.dtype(np.uint32)

    def __init__(self, impl: str, tag: str, base_shape: tuple[int, ...]) -> None:
        self.impl = impl
        self.tag = tag
        self.base_shape = base_shape

    @property
    def itemsize(self) -> int:
        """Bytes of one key."""
        return 4 * int(np.prod(self.base_shape))

    @property
    def name(self) -> str:
        """The text `key<fry>`."""
        return f"key<{self.tag}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyDType) and other.impl == self.impl

    def __hash__(self) -> int:
        return hash((KeyDType, self.impl))

    def __reduce__(self) -> tuple:
        return KeyDType, (self.impl, self.tag, self.base_shape)

    def __repr__(self) -> str:
        return self.name


bool_ = np.dtype(np.bool_)
float0 = np.dtype([("float0", np.void, 0)])

_SMALL_INTS = ("uint2", "uint4", "int2", "int4")
_SMALL_FLOATS = (
    *("float4_e2m1fn", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn"),
    *("float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
)


def _extra(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name))


bfloat16 = _extra("bfloat16")
_UNSIGNED = (*map(_extra, _SMALL_INTS[:2]), *map(np.dtype, ("uint8", "uint16", "uint32", "uint64")))
_SIGNED = (*map(_extra, _SMALL_INTS[2:]), *map(np.dtype, ("int8", "int16", "int32", "int64")))
_FLOATS = (
    *map(_extra, _SMALL_FLOATS),
    bfloat16,
    *map(np.dtype, ("float16", "float32", "float64")),
)
_COMPLEX = (np.dtype("complex64"), np.dtype("complex128"))
_EXTRA = frozenset(map(_extra, (*_SMALL_INTS, *_SMALL_FLOATS, "bfloat16")))

unsigned_dtypes = frozenset(_UNSIGNED)
signed_dtypes = frozenset(_SIGNED)
float_dtypes = frozenset(_FLOATS)
complex_dtypes = frozenset(_COMPLEX)
integer_dtypes = unsigned_dtypes | signed_dtypes
inexact_dtypes = float_dtypes | complex_dtypes
all_dtypes = integer_dtypes | inexact_dtypes | {bool_}
_BY_NAME = {d.name: d for d in all_dtypes}

python_scalar_dtypes: dict[type, np.dtype] = {
    bool: bool_,
    int: np.dtype("int64"),
    float: np.dtype("float64"),
    complex: np.dtype("complex128"),
}
_WEAK = frozenset({int, float, complex})  # a set: a dtype equals a Python type in a tuple
_SHORTER = {
    np.dtype("int64"): np.dtype("int32"),
    np.dtype("uint64"): np.dtype("uint32"),
    np.dtype("float64"): np.dtype("float32"),
    np.dtype("complex128"): np.dtype("complex64"),
}


# ------------------------------------------------------------------------------- the lattice


def _edges(strict: bool) -> dict[Any, tuple]:
    """What each node promotes to directly. A Python type as a node is the weak type of its kind."""
    edges: dict[Any, tuple] = dict.fromkeys(all_dtypes, ())
    edges[int] = (*_UNSIGNED, *_SIGNED, float) if strict else (*_UNSIGNED[:3], *_SIGNED[:3])
    edges[float] = (*_FLOATS, complex) if strict else (*_FLOATS[:-2], complex)
    edges[complex] = _COMPLEX if strict else _COMPLEX[:1]
    if strict:
        return edges
    u8, u16, u32, u64 = _UNSIGNED[2:]
    i8, i16, i32, i64 = _SIGNED[2:]
    f16, f32, f64 = _FLOATS[-3:]
    c64, c128 = _COMPLEX
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
    nodes = [x if x in _WEAK else dtype(x) for x in (a, b)]
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
    if out in _WEAK:
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
        types = [(_SHORTER.get(dt, dt), weak) for dt, weak in types]
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


# --------------------------------------------------------------------------- reading dtypes


def dtype(x: Any) -> Any:
    """The dtype that `x` has or names; not canonicalised.

    Args:
        x: a dtype, its name, a scalar type, an array, a tracer or a Python scalar.

    Raises:
        TypeError: `x` neither has nor names a dtype.
    """
    if isinstance(x, (np.dtype, KeyDType)):
        return x
    if isinstance(x, type):
        return python_scalar_dtypes[x] if x in python_scalar_dtypes else _of_type(x)
    if isinstance(x, str):
        return _BY_NAME[x] if x in _BY_NAME else np.dtype(x)
    found = getattr(x, "dtype", None)
    if isinstance(found, (np.dtype, KeyDType)):
        return found
    if type(x) in python_scalar_dtypes:
        return python_scalar_dtypes[type(x)]
    for kind, of_kind in python_scalar_dtypes.items():
        if isinstance(x, kind):
            return of_kind
    return np.dtype(x)


def _of_type(x: type) -> np.dtype:
    own = getattr(x, "dtype", None)  # scalar types such as jnp.float32 carry their dtype
    return own if isinstance(own, np.dtype) else np.dtype(x)


def dtype_and_weak(x: Any) -> tuple[Any, bool]:
    """The dtype and weak type of an argument of `result_type`."""
    weak = getattr(x, "weak_type", None)
    if weak is not None and not isinstance(x, type):
        return x.dtype, bool(weak)
    kind = x if isinstance(x, type) else type(x)
    if kind in _WEAK:
        return python_scalar_dtypes[kind], True
    found = dtype(x)
    if isinstance(found, np.dtype) and found not in all_dtypes and found != float0:
        raise TypeError(f"dtype {found} is not a valid array dtype: {_why_not(found)}")
    return found, False


def is_weakly_typed(x: Any) -> bool:
    """Whether `x` is a Python number or an array that came from them alone."""
    weak = getattr(x, "weak_type", None)
    return type(x) in _WEAK if weak is None else bool(weak)


def weak_kind(dt: Any) -> type:
    """The Python type whose weak type stands for this dtype's kind."""
    if dt in float_dtypes:
        return float
    if dt in integer_dtypes:
        return int
    return complex if dt in complex_dtypes else bool


def scalar_type_of(x: Any) -> type:
    """The Python type of `x`'s kind: bool, int, float or complex."""
    dt = dtype(x)
    if dt not in all_dtypes:
        raise TypeError(f"no Python scalar type for {x!r:.80}")
    return weak_kind(dt)


def python_scalar_dtype(kind: type) -> np.dtype:
    """The dtype of Python's bool, int, float or complex under the current x64 setting."""
    dt = python_scalar_dtypes[kind]
    return dt if config.jax_enable_x64 else _SHORTER.get(dt, dt)


def is_supported(dt: Any) -> bool:
    """Whether arrays of this dtype exist on devices."""
    return dt in all_dtypes


def is_inexact(dt: Any) -> bool:
    """Whether values of this dtype have derivatives: floating or complex."""
    return dt in inexact_dtypes


def _why_not(dt: np.dtype) -> str:
    if dt.kind == "O":
        return "Python objects live on no device. Instead: convert to numbers first."
    if dt.kind in "UST":
        return "texts live on no device. Instead: encode them as integers."
    if dt.kind in "mM":
        return "dates live on no device. Instead: x.astype('int64')."
    return "arrays hold booleans, integers, floating or complex numbers."


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
        raise TypeError(f"dtype {found} is not a valid array dtype: {_why_not(found)}")
    out = found if config.jax_enable_x64 else _SHORTER.get(found, found)
    out = _BY_NAME.get(out.name, out)
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
    if out != found and found in _SHORTER and not isinstance(dtype_like, type | None):
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


# --------------------------------------------------------------------------------- relations


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


def real_dtype(dt: Any) -> np.dtype:
    """The dtype of the real part."""
    found = dtype(dt)
    return {_COMPLEX[0]: _FLOATS[-2], _COMPLEX[1]: _FLOATS[-1]}.get(found, found)


def complex_dtype(dt: Any) -> np.dtype:
    """The complex dtype that holds numbers with such a real part."""
    found = to_inexact_dtype(dt)
    if found in complex_dtypes:
        return found
    return _COMPLEX[1] if found == _FLOATS[-1] else _COMPLEX[0]


_ABSTRACT_MEMBERS: dict[Any, frozenset] = {
    np.generic: all_dtypes,
    np.number: integer_dtypes | inexact_dtypes,
    np.integer: integer_dtypes,
    np.signedinteger: signed_dtypes,
    np.unsignedinteger: unsigned_dtypes,
    np.inexact: inexact_dtypes,
    np.floating: float_dtypes,
    np.complexfloating: complex_dtypes,
}


def issubdtype(a: Any, b: Any) -> bool:
    """Whether dtype `a` is `b` or lies in the abstract kind `b` (such as `np.floating`).

    Example:
        >>> issubdtype("bfloat16", np.floating)
        True
    """
    if isinstance(a, type) and issubclass(a, np.generic) and a in _ABSTRACT_MEMBERS:
        return isinstance(b, type) and issubclass(a, b)
    if isinstance(a, type) and issubclass(a, extended):
        return isinstance(b, type) and issubclass(a, b)
    found = dtype(a)
    if isinstance(b, type) and issubclass(b, extended):
        return isinstance(found, KeyDType)
    if isinstance(found, KeyDType):
        return b is np.generic or b == found
    members = _ABSTRACT_MEMBERS.get(b) if isinstance(b, type) else None
    if members is not None:
        return found in members or (found not in all_dtypes and np.issubdtype(found, b))
    try:
        wanted = dtype(b)
    except TypeError:
        return bool(np.issubdtype(found, b))
    return found == wanted


_KINDS: dict[str, frozenset] = {
    "bool": frozenset({bool_}),
    "signed integer": signed_dtypes,
    "unsigned integer": unsigned_dtypes,
    "integral": integer_dtypes,
    "real floating": float_dtypes,
    "complex floating": complex_dtypes,
    "numeric": integer_dtypes | inexact_dtypes,
}


def isdtype(dt: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind.

    Args:
        dt: a dtype.
        kind: a dtype, one of the array API's kind names, or a tuple of them.

    Source: Python array API standard, `isdtype`.
    """
    found = dtype(dt)
    if isinstance(kind, tuple):
        return any(isdtype(found, k) for k in kind)
    if isinstance(kind, str):
        if kind in _KINDS:
            return found in _KINDS[kind]
        if kind not in _BY_NAME:
            raise ValueError(
                f"isdtype: {kind!r} is neither a dtype nor a kind. Kinds: {', '.join(_KINDS)}."
            )
    if isinstance(kind, type) and kind in _ABSTRACT_MEMBERS:
        return found in _ABSTRACT_MEMBERS[kind]
    return found == dtype(kind)


def finfo(dt: Any) -> Any:
    """Limits of a floating dtype (of the real part of a complex one)."""
    found = dtype(dt)
    if found not in inexact_dtypes:
        raise ValueError(f"finfo: {name(found)} is not a floating dtype. Instead: iinfo.")
    return ml_dtypes.finfo(found) if found in _EXTRA else np.finfo(found)


def iinfo(dt: Any) -> Any:
    """Limits of an integer dtype."""
    found = dtype(dt)
    if found not in integer_dtypes:
        raise ValueError(f"iinfo: {name(found)} is not an integer dtype. Instead: finfo.")
    return ml_dtypes.iinfo(found) if found in _EXTRA else np.iinfo(found)


def itemsize_bits(dt: Any) -> int:
    """Bits of one value, below a byte for the small integers."""
    found = dtype(dt)
    if found in _EXTRA:
        return int((iinfo if found in integer_dtypes else finfo)(found).bits)
    return 8 * found.itemsize


# ------------------------------------------------------------------------------------- names


def name(dt: Any) -> str:
    """The name of a dtype: float32, bfloat16, float0, key<fry>."""
    if isinstance(dt, type):
        return dt.__name__
    return "float0" if dt == float0 else dt.name


def _short(dt: np.dtype) -> str:
    text = dt.name
    for long, letter in (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i")):
        if text.startswith(long):
            return letter + text.removeprefix(long)
    return text.replace("complex", "c")


_SHORT_NAMES: dict[Any, str] = {d: _short(d) for d in all_dtypes} | {float0: "float0"}


def short_name(dt: Any) -> str:
    """The short name of a dtype, as in a printed jaxpr: f32, bf16, u8, bool."""
    return _SHORT_NAMES.get(dt) or name(dt)
