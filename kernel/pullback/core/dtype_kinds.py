"""Dtypes: which exist, of which kinds they are, and their names and limits.

Builds on NumPy and ml_dtypes. Tested in tests/core/test_dtypes.py.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np


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

    def __init__(
        self, impl: str = "threefry2x32", tag: str = "fry", base_shape: tuple[int, ...] = (2,)
    ) -> None:
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
UNSIGNED: tuple[np.dtype, ...] = (
    *map(_extra, _SMALL_INTS[:2]),
    *map(np.dtype, ("uint8", "uint16", "uint32", "uint64")),
)
SIGNED: tuple[np.dtype, ...] = (
    *map(_extra, _SMALL_INTS[2:]),
    *map(np.dtype, ("int8", "int16", "int32", "int64")),
)
FLOATS: tuple[np.dtype, ...] = (
    *map(_extra, _SMALL_FLOATS),
    bfloat16,
    *map(np.dtype, ("float16", "float32", "float64")),
)
COMPLEX: tuple[np.dtype, ...] = (np.dtype("complex64"), np.dtype("complex128"))
_EXTRA: frozenset[np.dtype] = frozenset(map(_extra, (*_SMALL_INTS, *_SMALL_FLOATS, "bfloat16")))

unsigned_dtypes = frozenset(UNSIGNED)
signed_dtypes = frozenset(SIGNED)
float_dtypes = frozenset(FLOATS)
complex_dtypes = frozenset(COMPLEX)
integer_dtypes = unsigned_dtypes | signed_dtypes
inexact_dtypes = float_dtypes | complex_dtypes
all_dtypes: frozenset[np.dtype] = frozenset((bool_, *UNSIGNED, *SIGNED, *FLOATS, *COMPLEX))
BY_NAME = {d.name: d for d in all_dtypes}

python_scalar_dtypes: dict[type, np.dtype] = {
    bool: bool_,
    int: np.dtype("int64"),
    float: np.dtype("float64"),
    complex: np.dtype("complex128"),
}
WEAK = frozenset({int, float, complex})  # a set: a dtype equals a Python type in a tuple
SHORTER = {
    np.dtype("int64"): np.dtype("int32"),
    np.dtype("uint64"): np.dtype("uint32"),
    np.dtype("float64"): np.dtype("float32"),
    np.dtype("complex128"): np.dtype("complex64"),
}


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
        return BY_NAME[x] if x in BY_NAME else np.dtype(x)
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
    if kind in WEAK:
        return python_scalar_dtypes[kind], True
    found = dtype(x)
    if isinstance(found, np.dtype) and found not in all_dtypes and found != float0:
        raise TypeError(f"dtype {found} is not a valid array dtype: {why_not(found)}")
    return found, False


def is_weakly_typed(x: Any) -> bool:
    """Whether `x` is a Python number or an array that came from them alone."""
    weak = getattr(x, "weak_type", None)
    return type(x) in WEAK if weak is None else bool(weak)


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


def is_supported(dt: Any) -> bool:
    """Whether arrays of this dtype exist on devices."""
    return dt in all_dtypes


def float0_array(shape: tuple[int, ...]) -> np.ndarray:
    """An array of dtype float0: the tangent of integers and booleans, without data."""
    return np.zeros(shape, dtype=float0)


def is_inexact(dt: Any) -> bool:
    """Whether values of this dtype have derivatives: floating or complex."""
    return dt in inexact_dtypes


def why_not(dt: np.dtype) -> str:
    if dt.kind == "O":
        return "Python objects live on no device. Instead: convert to numbers first."
    if dt.kind in "UST":
        return "texts live on no device. Instead: encode them as integers."
    if dt.kind in "mM":
        return "dates live on no device. Instead: x.astype('int64')."
    return "arrays hold booleans, integers, floating or complex numbers."


# --------------------------------------------------------------------------------- relations


def real_dtype(dt: Any) -> np.dtype:
    """The dtype of the real part."""
    found = dtype(dt)
    return {COMPLEX[0]: FLOATS[-2], COMPLEX[1]: FLOATS[-1]}.get(found, found)


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
        if kind not in BY_NAME:
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
