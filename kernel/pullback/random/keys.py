"""Random keys: raw ones (uint32[2]) and typed ones (`KeyArray`), seeds, splitting, folding in.

Builds on threefry.py and api/jit.py. Tested in tests/random/test_keys.py.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from pullback import lax
from pullback import numpy as jnp
from pullback.api.jit import jit
from pullback.core import dtypes, pytree
from pullback.core.aval import is_arraylike, typeof
from pullback.core.config import config
from pullback.core.source import api_boundary
from pullback.numpy.ndarray import Array as AnyArray
from pullback.random import reuse, threefry
from pullback.xla.array import Array

_IMPLEMENTATIONS = ("threefry2x32", "fry")


class _KeysAt:
    """`keys.at[index]`: keys replaced, in a new array."""

    __slots__ = ("_index", "_keys")

    def __init__(self, keys: KeyArray, index: Any = None) -> None:
        self._keys = keys
        self._index = index

    def __getitem__(self, index: Any) -> _KeysAt:
        return _KeysAt(self._keys, _word_index(index))

    def set(self, keys: Any, **options: Any) -> KeyArray:
        """The keys with these in their place."""
        if not isinstance(keys, KeyArray):
            raise TypeError(
                f"keys are replaced by keys, not by {type(keys).__name__}.\n"
                "Instead: random.wrap_key_data makes keys of their words."
            )
        return KeyArray(self._keys._base.at[self._index].set(keys._base, **options))

    def get(self, **options: Any) -> KeyArray:
        """The keys there."""
        return KeyArray(self._keys._base.at[self._index].get(**options))


def _word_index(index: Any) -> tuple:
    """The index of keys as one of their words."""
    index = index if isinstance(index, tuple) else (index,)
    whole = any(i is Ellipsis for i in index)
    return (*index, slice(None)) if whole else (*index, Ellipsis, slice(None))


class KeyArray:
    """An array of typed random keys: a pytree around their uint32 words.

    The words have one more axis, of length 2, at the end. Keys cannot be added or printed by value;
    `key_data` gives the words.
    """

    __slots__ = ("__weakref__", "_base")
    element_words = True

    def __init__(self, base: Any) -> None:
        self._base = base

    shape = property(lambda self: self._base.shape[:-1])
    ndim = property(lambda self: len(self._base.shape) - 1)
    size = property(lambda self: prod(self._base.shape[:-1]))
    dtype = property(lambda self: dtypes.KeyDType())
    itemsize = property(lambda self: 8)
    nbytes = property(lambda self: 8 * self.size)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object: a single key has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[KeyArray]:
        if not self.shape:
            raise TypeError("iteration over a 0-d key array: it is a single key")
        return (self[i] for i in range(self.shape[0]))

    def __getitem__(self, index: Any) -> KeyArray:
        index = index if isinstance(index, tuple) else (index,)
        at = None
        if config.jax_debug_key_reuse and all(type(i) is int for i in index):
            at = tuple(i % n for i, n in zip(index, self.shape, strict=False) if n)
        words = self._base[_word_index(index)]
        if at is not None:
            reuse.note_element(self._base, at, words)
        return KeyArray(words)

    at = property(_KeysAt)
    T = property(lambda self: jnp.transpose(self))
    device = property(lambda self: self._base.device)
    sharding = property(lambda self: self._base.sharding)
    committed = property(lambda self: self._base.committed)
    is_fully_addressable = property(lambda self: self._base.is_fully_addressable)
    is_fully_replicated = property(lambda self: self._base.is_fully_replicated)

    def devices(self) -> Any:
        """The devices that hold the keys."""
        return self._base.devices()

    def is_deleted(self) -> bool:
        """Whether the memory was given up."""
        return self._base.is_deleted()

    def copy(self) -> KeyArray:
        """The same keys in memory of their own."""
        return KeyArray(self._base.copy())

    def squeeze(self, axis: Any = None) -> KeyArray:
        """The keys without axes of size 1."""
        return jnp.squeeze(self, axis)

    def transpose(self, *axes: Any) -> KeyArray:
        """The keys with their axes in another order."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return jnp.transpose(self, order or None)

    def swapaxes(self, axis1: int, axis2: int) -> KeyArray:
        """The keys with two axes exchanged."""
        return jnp.swapaxes(self, axis1, axis2)

    def take(self, indices: Any, axis: int | None = None) -> KeyArray:
        """The keys at these positions."""
        return jnp.take(self, indices, axis)

    def __bool__(self) -> bool:
        raise TypeError("keys are neither true nor false.\nInstead: compare them, key1 == key2.")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError(
            "random keys have no NumPy dtype, so they do not convert to a NumPy array.\n"
            "Instead: np.asarray(random.key_data(keys)) gives their words."
        )

    def reshape(self, *shape: Any) -> KeyArray:
        """The keys in another shape."""
        new = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        new = (new,) if isinstance(new, int) else tuple(new)
        return KeyArray(self._base.reshape((*new, 2)) if -1 not in new else self._infer(new))

    def _infer(self, new: tuple[int, ...]) -> Any:
        known = prod(d for d in new if d != -1)
        return self._base.reshape((*(self.size // max(known, 1) if d == -1 else d for d in new), 2))

    def flatten(self) -> KeyArray:
        """The keys in one axis."""
        return self.reshape(-1)

    ravel = flatten

    def block_until_ready(self) -> KeyArray:
        """Wait for the keys' words; give the keys."""
        self._base.block_until_ready()
        return self

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, KeyArray):
            return NotImplemented
        return (self._base == other._base).all(axis=-1)

    def __ne__(self, other: object) -> Any:
        if not isinstance(other, KeyArray):
            return NotImplemented
        return (self._base != other._base).any(axis=-1)

    def __hash__(self) -> int:
        raise TypeError(
            "unhashable type: KeyArray.\nInstead: tuple(random.key_data(key).tolist())."
        )

    def _no_arithmetic(self, other: Any) -> Any:
        raise TypeError(
            "keys are not numbers: arithmetic on them is not defined\n"
            "Instead: use random.split or random.fold_in to make new keys, random.key_data for "
            "their bits."
        )

    __add__ = __radd__ = __sub__ = __mul__ = __rmul__ = _no_arithmetic

    def __repr__(self) -> str:
        if isinstance(self._base, Array):
            return f"Array({self.shape}, dtype=key<fry>) overlaying:\n{np.asarray(self._base)!s}"
        return f"KeyArray{list(self.shape)} of {self._base!r}"


AnyArray.register(KeyArray)  # isinstance(key, Array), as in JAX


pytree.register_pytree_node(KeyArray, lambda k: ((k._base,), None), lambda _, c: KeyArray(c[0]))


def _check_impl(impl: Any) -> None:
    if impl is not None and str(impl) not in _IMPLEMENTATIONS:
        raise ValueError(
            f"unknown random generator {impl!r}: this engine has 'threefry2x32'\n"
            "Instead: leave impl out."
        )


_seed_jit = jit(threefry.seed_to_key)


def _seed(seed: Any) -> Any:
    if isinstance(seed, int) and not isinstance(seed, bool):
        seed += config.jax_random_seed_offset
        if not -(2**63) <= seed < 2**63:
            raise OverflowError(f"Python int too large to convert to a 64-bit seed: {seed}")
        seed = np.asarray(seed, np.int64).astype(dtypes.canonicalize_dtype(np.int64))[()]
    elif not is_arraylike(seed):
        raise TypeError(f"PRNG key seed must be an integer; got {seed!r:.60}")
    aval = typeof(seed)
    if aval.ndim:
        raise TypeError(
            f"PRNG key seed must be a scalar; got an array of shape {aval.shape}\n"
            "Instead: vmap(key)(seeds)."
        )
    if not dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(
            f"PRNG key seed must be an integer; got dtype {aval.dtype}.\n"
            "Instead: random.key(int(seed)), or keep apart what floats tell apart with fold_in."
        )
    return _seed_jit(seed)


@api_boundary
def PRNGKey(seed: Any, *, impl: Any = None) -> Any:  # noqa: N802  (JAX's name)
    """A raw random key, uint32[2], from an integer seed.

    Raises:
        TypeError: the seed is not an integer scalar.
        OverflowError: it does not fit in 64 bits.

    Example:
        >>> PRNGKey(0)
        Array([0, 0], dtype=uint32)
    """
    _check_impl(impl)
    return KeyArray(_seed(seed)) if config.jax_enable_custom_prng else _seed(seed)


@api_boundary
def key(seed: Any, *, impl: Any = None) -> KeyArray:
    """A typed random key from an integer seed.

    Raises:
        TypeError: the seed is not an integer scalar.
        OverflowError: it does not fit in 64 bits.
    """
    _check_impl(impl)
    return KeyArray(_seed(seed))


def _note_raw_key(name: str) -> None:
    """Warn of a raw key, or refuse it, as jax_legacy_prng_key says."""
    text = (
        f"{name}: a raw uint32 key was given, under jax_legacy_prng_key="
        f"{config.jax_legacy_prng_key!r}.\nInstead: make keys with random.key(seed)."
    )
    if config.jax_legacy_prng_key == "error":
        raise ValueError(text)
    warnings.warn(text, stacklevel=4)


def words_of(name: str, key: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The words of a single key, raw or typed, and what makes new keys of that kind.

    Raises:
        TypeError, ValueError: not a key, or an array of several.
    """
    if isinstance(key, KeyArray):
        if key.ndim:
            raise ValueError(
                f"{name} accepts a single key, but was given a key array of shape {key.shape}\n"
                f"Instead: use vmap for batching: vmap(random.{name})(keys)."
            )
        if config.jax_debug_key_reuse and name != "fold_in":
            reuse.note_use(name, key._base)
        return key._base, KeyArray
    if config.jax_legacy_prng_key != "allow":
        _note_raw_key(name)
    if not is_arraylike(key):
        raise TypeError(
            f"{name}: unexpected PRNG key type {type(key).__name__}: {key!r:.60}\n"
            f"Instead: random.{name}(random.key(0), ...)."
        )
    aval = typeof(key)
    if aval.dtype != np.uint32 or aval.shape[-1:] != (2,):
        raise TypeError(
            f"{name} needs a random key (uint32[2], from random.key or PRNGKey), got "
            f"{aval.str_short()}.\n"
            f"Instead: random.{name}(random.key(0), ...); random.split(key) gives more keys."
        )
    if aval.ndim != 1:
        raise ValueError(
            f"{name} accepts a single key, but was given a key array of shape {aval.shape}\n"
            f"Instead: use vmap for batching: vmap(random.{name})(keys)."
        )
    return key, lambda words: words


_split_jit = jit(threefry.split_key, static_argnames="shape")
_fold_jit = jit(threefry.fold_in_key)
_bits_jit = jit(threefry.random_bits, static_argnames=("width", "shape"))


def shape_tuple(shape: Any) -> tuple[int, ...]:
    """A shape given as an int or a sequence, as a tuple."""
    if isinstance(shape, Sequence | np.ndarray):
        return tuple(operator.index(d) for d in shape)
    return (operator.index(shape),)


@api_boundary
def split(key: Any, num: int | Sequence[int] = 2) -> Any:
    """New, independent keys from one.

    Args:
        key: a single key, raw or typed.
        num: how many, or the shape of the array of keys.

    Returns:
        Keys of the same kind with leading shape `num`.
    """
    shape = shape_tuple(num)
    if any(d < 0 for d in shape):
        raise ValueError(
            f"split: the number of keys cannot be negative, got {num!r}.\n"
            "Instead: random.split(key, 3) gives three keys."
        )
    words, wrap = words_of("split", key)
    return wrap(_split_jit(words, shape=shape))


@api_boundary
def fold_in(key: Any, data: Any) -> Any:
    """A new key from a key and a number, for example a step count.

    Args:
        key: a single key, raw or typed.
        data: an integer scalar.
    """
    words, wrap = words_of("fold_in", key)
    if isinstance(data, int):
        if data < 0 or data >= 2**32:
            data = np.uint32(data & 0xFFFFFFFF) if -(2**31) <= data < 0 else np.uint32(data)
        data = np.uint32(data)
    if typeof(data).ndim:
        raise TypeError(f"fold_in accepts a scalar, got an array of shape {typeof(data).shape}")
    return wrap(_fold_jit(words, lax.convert_element_type(data, np.dtype(np.uint32))))


@api_boundary
def bits(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Uniform random bits as unsigned integers.

    Args:
        key: a single key.
        shape: the result's.
        dtype: uint8, uint16, uint32 or uint64; `uint` by default.
    """
    found = dtypes.canonicalize_dtype(np.uint64 if dtype is None else dtype)
    if not dtypes.issubdtype(found, np.unsignedinteger):
        raise ValueError(f"dtype argument to bits must be an unsigned int dtype, got {found}")
    words, _ = words_of("bits", key)
    return _bits_jit(words, width=found.itemsize * 8, shape=shape_tuple(shape))


def key_data(keys: Any) -> Any:
    """The uint32 words of typed or raw keys."""
    return keys._base if isinstance(keys, KeyArray) else keys


def wrap_key_data(key_bits_array: Any, *, impl: Any = None) -> KeyArray:
    """Typed keys from their uint32 words (last axis of length 2)."""
    _check_impl(impl)
    aval = typeof(key_bits_array)
    if aval.dtype != np.uint32 or aval.shape[-1:] != (2,):
        raise TypeError(f"wrap_key_data takes uint32[..., 2], got {aval.str_short()}")
    return KeyArray(key_bits_array)


def key_impl(keys: Any) -> str:
    """The name of the generator that keys are for."""
    return "threefry2x32"


def clone(key: Any) -> Any:
    """The same key, marked as meant to be used again."""
    if config.jax_debug_key_reuse and isinstance(key, KeyArray):
        return KeyArray(lax.bitwise_or(key._base, np.uint32(0)))
    return key
