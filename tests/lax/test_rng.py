"""rng_bit_generator: XLA's generators (values of the CPU, jax 0.10.2)."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import lax
from pullback import numpy as jnp

STATE = jnp.arange(4, dtype=jnp.uint32)
BITS = [895509795, 3230209149, 3834998268]


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32"])
def test_philox_is_the_default_and_narrow_bits_are_the_lowest(dtype):
    for call in (lax.rng_bit_generator, pb.jit(lax.rng_bit_generator, static_argnums=(1, 2))):
        state, bits = call(STATE, (3,), dtype)
        assert bits.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(bits, np.array(BITS, np.uint64).astype(dtype))
        assert state.tolist() == [0, 1, 3, 3]
    again = lax.rng_bit_generator(STATE, (3,), dtype, lax.RandomAlgorithm.RNG_PHILOX)[1]
    np.testing.assert_array_equal(again, bits)


def test_threefry():
    state, bits = lax.rng_bit_generator(STATE, (3,), algorithm=lax.RandomAlgorithm.RNG_THREE_FRY)
    assert state.tolist() == [0, 1, 4, 3]
    assert bits.tolist() == [2689575991, 2205648888, 150810639]


def test_under_vmap_the_first_state_makes_all_bits():
    states, bits = pb.vmap(lambda k: lax.rng_bit_generator(k, (2,)))(jnp.stack([STATE, STATE + 1]))
    assert states.tolist() == [[0, 1, 3, 3], [1, 2, 3, 4]]
    assert bits.tolist() == [BITS[:2], [BITS[2], 2007387529]]


def test_bits_are_constants_of_a_derivative():
    def fun(x):
        return x * (lax.rng_bit_generator(STATE, ())[1] % 7).astype(x.dtype)

    assert pb.grad(fun)(2.0) == BITS[0] % 7


def test_refusals():
    with pytest.raises(TypeError, match=r"uint32\[4\] or uint64\[2\], got uint32\[3\]"):
        lax.rng_bit_generator(jnp.zeros(3, jnp.uint32), (3,))
    with pytest.raises(TypeError, match="unsupported dtype float32"):
        lax.rng_bit_generator(STATE, (3,), np.float32)
