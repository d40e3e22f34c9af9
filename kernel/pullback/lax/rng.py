"""Random bits by XLA's own generators, with their state in the program.

`random` does not use them: its keys give the same numbers everywhere, these differ by platform.
Builds on slice.py and convert.py. Tested in tests/lax/test_rng.py.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core import dtypes, errors
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import move_dim
from pullback.core.jvp import zero_of
from pullback.core.tracer import Primitive
from pullback.lax.convert import convert
from pullback.lax.operands import canonical_shape, refuse_sharding
from pullback.lax.shape import reshape
from pullback.lax.slice import concatenate, slice_in_dim


class RandomAlgorithm(enum.IntEnum):
    """XLA's generators; the default one is chosen by the platform."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


_NAMES = {0: "DEFAULT", 1: "THREE_FRY", 2: "PHILOX"}


def _rng_abstract(
    key: ShapedArray, *, shape: tuple[int, ...], dtype: Any, algorithm: int
) -> tuple[ShapedArray, ShapedArray]:
    return make_aval(key.shape, key.dtype), make_aval(shape, dtype)


def _rng_lower(ctx: Any, key: Any, *, algorithm: int, **params: Any) -> Sequence[Any]:
    state, bits = ctx.avals_out
    wide, pairs = ctx.type(make_aval((2,), np.dtype(np.uint64))), make_aval((2, 2), state.dtype)
    narrow = state.dtype == np.uint32  # XLA's state is uint64[2]
    if narrow:
        key = ctx.hlo.bitcast_convert(wide, ctx.hlo.reshape(ctx.type(pairs), key))
    attribute = ctx.ir.Attribute.parse(f"#stablehlo<rng_algorithm {_NAMES[algorithm]}>")
    new, made = ctx.hlo.RngBitGeneratorOp(wide, ctx.type(bits), attribute, key).results
    if narrow:
        new = ctx.hlo.bitcast_convert(ctx.type(pairs), new)
        new = ctx.hlo.reshape(ctx.type(state), new)
    return [new, made]


def _rng_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    outs = rng_bit_generator_p.bind(*primals, **params)
    return outs, [zero_of(o) for o in outs]


def _rng_batch(
    axis: Any, args: Sequence[Any], dims: Sequence[int], *, shape: tuple[int, ...], **params: Any
) -> tuple[list[Any], list[int]]:
    """The first key makes the bits of all and is advanced, as JAX does; the others stay."""
    keys = move_dim(args[0], dims[0], 0)
    first = reshape(slice_in_dim(keys, 0, 1), keys.shape[1:])
    new, bits = rng_bit_generator_p.bind(first, shape=(axis.size, *shape), **params)
    rest = slice_in_dim(keys, 1, axis.size)
    return [concatenate([reshape(new, (1, *keys.shape[1:])), rest], 0), bits], [0, 0]


rng_bit_generator_p: Primitive = Primitive(
    name="rng_bit_generator",
    doc="bits that look random, and the generator's next state",
    abstract=_rng_abstract,
    lower=_rng_lower,
    jvp=_rng_jvp,
    batch=_rng_batch,
    multiple_results=True,
)


def rng_bit_generator(
    key: Any,
    shape: Any,
    dtype: Any = np.uint32,
    algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: Any = None,
) -> tuple[Any, Any]:
    """Random bits and the state to make the next ones from. They differ between platforms.

    Args:
        key: the state, uint32[4] or uint64[2].
        shape: the shape of the bits.
        dtype: an unsigned integer dtype.
        algorithm: which generator.

    Returns:
        (new state, bits).

    Raises:
        TypeError: the state or the dtype is of another type.

    Example:
        >>> import pullback.numpy as jnp
        >>> state, bits = rng_bit_generator(jnp.arange(4, dtype="uint32"), (3,))
        >>> bits.shape, bits.dtype.name
        ((3,), 'uint32')
    """
    refuse_sharding("rng_bit_generator", out_sharding)
    aval = typeof(key)
    if (aval.shape, aval.dtype.name) not in (((4,), "uint32"), ((2,), "uint64")):
        raise TypeError(
            "rng_bit_generator: the state must be uint32[4] or uint64[2], got "
            f"{errors.aval_text(aval)}.\nInstead: jnp.concatenate([key_data, key_data]) of a key's words."
        )
    wanted = dtypes.requested_dtype(dtype, "rng_bit_generator")
    if wanted.kind != "u" or wanted.itemsize > 8:
        raise TypeError(f"rng_bit_generator: unsupported dtype {wanted.name}: bits are unsigned.")
    made = wanted if wanted.itemsize >= 4 else np.dtype(np.uint32)
    state, bits = rng_bit_generator_p.bind(
        key,
        shape=canonical_shape("rng_bit_generator", shape),
        dtype=made,
        algorithm=int(algorithm),
    )
    return state, convert(bits, wanted, False)
