"""The threefry generator: keys to random bits, bit for bit JAX's, under both settings.

Builds on lax. Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011
(Threefry-2x32, 20 rounds). Tested in tests/random/test_threefry.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from pullback import lax
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import AxisData, move_dim
from pullback.core.config import config
from pullback.core.tracer import Primitive

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)
_UINT = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def _rotate_left(x: Any, distance: int) -> Any:
    left = lax.shift_left(x, np.uint32(distance))
    right = lax.shift_right_logical(x, np.uint32(32 - distance))
    return lax.bitwise_or(left, right)


def _rounds(k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """Twenty rounds of Threefry-2x32, with a key injection after every four."""
    keys = (k0, k1, lax.bitwise_xor(lax.bitwise_xor(k0, k1), _PARITY))
    x0, x1 = lax.add(x0, k0), lax.add(x1, k1)
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            x0 = lax.add(x0, x1)
            x1 = lax.bitwise_xor(_rotate_left(x1, distance), x0)
        x0 = lax.add(x0, keys[(group + 1) % 3])
        x1 = lax.add(x1, lax.add(keys[(group + 2) % 3], np.uint32(group + 1)))
    return x0, x1


def _rolled(k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """The same rounds as a loop over the five groups.

    XLA's CPU compiler fuses straight-line rounds into one expression that repeats shared parts, and
    with two hashes in a row takes seconds (8.9 s against 0.25 s, two cores, December 2026).
    """
    third = lax.bitwise_xor(lax.bitwise_xor(k0, k1), _PARITY)
    even, odd = (np.array(r, np.uint32) for r in _ROTATIONS)

    def group(state: Any) -> Any:
        count, a, b, keys, now, following = state
        for j in range(4):
            left = lax.squeeze(lax.slice(now, (j,), (j + 1,)), (0,))
            right = lax.sub(np.uint32(32), left)
            a = lax.add(a, b)
            turned = lax.bitwise_or(
                lax.shift_left(b, lax.broadcast(left, b.shape)),
                lax.shift_right_logical(b, lax.broadcast(right, b.shape)),
            )
            b = lax.bitwise_xor(turned, a)
        count = lax.add(count, np.uint32(1))
        a = lax.add(a, keys[0])
        b = lax.add(b, lax.add(keys[1], lax.broadcast(count, b.shape)))
        return count, a, b, (keys[1], keys[2], keys[0]), following, now

    start = (np.uint32(0), lax.add(x0, k0), lax.add(x1, k1), (k1, third, k0), even, odd)
    end = lax.while_loop(lambda state: lax.lt(state[0], np.uint32(5)), group, start)
    return end[1], end[2]


def _abstract(*avals: ShapedArray) -> tuple[ShapedArray, ShapedArray]:
    for aval in avals:
        if aval.dtype != np.uint32:
            raise TypeError(f"threefry2x32 takes uint32 arrays, got {aval.str_short()}")
    shape = np.broadcast_shapes(*(a.shape for a in avals))
    out = make_aval(tuple(shape), np.dtype(np.uint32))
    return out, out


def _lower(ctx: Any, *values: Any) -> list[Any]:
    out = ctx.aval_out
    wide = [ctx.broadcast_to(v, a, out) for v, a in zip(values, ctx.avals_in, strict=True)]
    return ctx.fun(_rolled if ctx.platform == "cpu" else _rounds, wide, [out] * 4)


def _batch(axis: AxisData, args: Sequence[Any], dims: Sequence[int | None]) -> tuple[list, list]:
    rank = max(typeof(x).ndim - (d is not None) for x, d in zip(args, dims, strict=True))
    aligned = []
    for x, d in zip(args, dims, strict=True):
        if d is None:
            aligned.append(x)
            continue
        x = move_dim(x, d, 0)
        shape = typeof(x).shape
        ones = (1,) * (rank - len(shape) + 1)
        aligned.append(lax.reshape(x, (shape[0], *ones, *shape[1:])))
    return threefry2x32_p.bind(*aligned), [0, 0]


threefry2x32_p = Primitive(
    name="threefry2x32",
    doc="two words of random bits from two words of key and two of counter",
    multiple_results=True,
    abstract=_abstract,
    lower=_lower,
    nondifferentiable="it maps integers to integers",
    batch=_batch,
)


def hash_counts(key: Any, counts: Any) -> Any:
    """Random bits for an array of counters, which are hashed in two halves.

    Args:
        key: uint32[2].
        counts: uint32 of any shape.

    Returns:
        uint32 of the counts' shape.
    """
    shape = typeof(counts).shape
    size = prod(shape)
    flat = lax.reshape(counts, (size,))
    if size % 2:
        flat = lax.concatenate([flat, np.zeros(1, np.uint32)], 0)
    half = (size + size % 2) // 2
    k0, k1 = key_words(key)
    first, second = threefry2x32_p.bind(
        k0, k1, lax.slice(flat, (0,), (half,)), lax.slice(flat, (half,), (2 * half,))
    )
    out = lax.concatenate([first, second], 0)
    return lax.reshape(lax.slice(out, (0,), (size,)) if size % 2 else out, shape)


def key_words(key: Any) -> tuple[Any, Any]:
    """The two words of a key, as scalars."""
    return lax.index_in_dim(key, 0, 0, False), lax.index_in_dim(key, 1, 0, False)


def _counters(shape: tuple[int, ...]) -> tuple[Any, Any]:
    """The upper and lower words of each element's position."""
    size = prod(shape)
    if size >= 2**32:
        raise ValueError(f"a random array of {size} elements is too large: at most 2**32 - 1")
    low = lax.reshape(lax.iota(np.dtype(np.uint32), size), shape)
    return np.zeros((), np.uint32)[()], low


def seed_to_key(seed: Any) -> Any:
    """The key of a seed: its upper and lower 32 bits.

    Args:
        seed: an integer scalar array.

    Returns:
        uint32[2].
    """
    dtype = typeof(seed).dtype
    low = lax.convert_element_type(
        lax.bitwise_and(seed, np.asarray(0xFFFFFFFF).astype(dtype)[()])
        if dtype.itemsize == 8
        else seed,
        np.dtype(np.uint32),
    )
    if dtype.itemsize == 8:
        high = lax.convert_element_type(
            lax.shift_right_logical(seed, dtype.type(32)), np.dtype(np.uint32)
        )
    else:
        high = lax.full((), 0, np.dtype(np.uint32))
    return lax.concatenate([lax.reshape(high, (1,)), lax.reshape(low, (1,))], 0)


def split_key(key: Any, shape: tuple[int, ...]) -> Any:
    """New keys from one: uint32[*shape, 2]."""
    if config.jax_threefry_partitionable:
        high, low = _counters(shape)
        k0, k1 = key_words(key)
        first, second = threefry2x32_p.bind(k0, k1, high, low)
        last = len(shape)
        return lax.concatenate(
            [lax.expand_dims(first, (last,)), lax.expand_dims(second, (last,))], last
        )
    counts = lax.iota(np.dtype(np.uint32), 2 * prod(shape))
    return lax.reshape(hash_counts(key, counts), (*shape, 2))


def fold_in_key(key: Any, data: Any) -> Any:
    """A new key from one and a number: uint32[2]."""
    return hash_counts(key, seed_to_key(data))


def random_bits(key: Any, width: int, shape: tuple[int, ...]) -> Any:
    """Random bits of 8, 16, 32 or 64 bits an element.

    Args:
        key: uint32[2].
        width: bits an element.
        shape: the result's.

    Returns:
        Unsigned integers of that width.
    """
    if config.jax_threefry_partitionable:
        return _bits_partitionable(key, width, shape)
    return _bits_original(key, width, shape)


def _bits_partitionable(key: Any, width: int, shape: tuple[int, ...]) -> Any:
    high, low = _counters(shape)
    k0, k1 = key_words(key)
    first, second = threefry2x32_p.bind(k0, k1, high, low)
    dtype = np.dtype(_UINT[width])
    if width == 64:
        return _join(first, second)
    mixed = lax.bitwise_xor(first, second)
    return mixed if width == 32 else lax.convert_element_type(mixed, dtype)


def _join(high: Any, low: Any) -> Any:
    u64 = np.dtype(np.uint64)
    high, low = lax.convert_element_type(high, u64), lax.convert_element_type(low, u64)
    return lax.bitwise_or(lax.shift_left(high, np.uint64(32)), low)


def _bits_original(key: Any, width: int, shape: tuple[int, ...]) -> Any:
    size = prod(shape)
    n_words = -(-width * size // 32)
    if n_words >= 2**32 - 1:
        raise ValueError(f"a random array of {size} elements is too large")
    words = hash_counts(key, lax.iota(np.dtype(np.uint32), n_words))
    dtype = np.dtype(_UINT[width])
    if width == 64:
        half = n_words // 2
        words = _join(lax.slice(words, (0,), (half,)), lax.slice(words, (half,), (n_words,)))
    elif width < 32:
        parts = 32 // width
        shifts = lax.mul(lax.broadcasted_iota(np.dtype(np.uint32), (parts, 1), 0), np.uint32(width))
        wide = lax.broadcast_in_dim(words, (parts, n_words), (1,))
        shifts = lax.broadcast_in_dim(shifts, (parts, n_words), (0, 1))
        pieces = lax.bitwise_and(lax.shift_right_logical(wide, shifts), np.uint32(2**width - 1))
        words = lax.convert_element_type(
            lax.reshape(lax.transpose(pieces, (1, 0)), (parts * n_words,)), dtype
        )
        words = lax.slice(words, (0,), (size,))
    return lax.reshape(words, shape)
