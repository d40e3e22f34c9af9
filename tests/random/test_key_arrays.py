"""Typed keys in functions that move elements, and what arrays have that keys have too."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import lax, random
from pullback import numpy as jnp

KEY = random.key(7)
KEYS = random.split(KEY, 6)
WORDS = np.asarray(random.key_data(KEYS))


def check(got, words):
    assert isinstance(got, pb.Array)
    assert got.dtype == KEY.dtype
    assert got.shape == words.shape[:-1]
    np.testing.assert_array_equal(random.key_data(got), words)


@pytest.mark.parametrize(
    ("fun", "words"),
    [
        (lambda k: jnp.stack([k[0], k[3]]), WORDS[[0, 3]]),
        (lambda k: jnp.array([k[0], k[3]]), WORDS[[0, 3]]),
        (jnp.asarray, WORDS),
        (lambda k: jnp.concatenate([k, k[:2]]), np.concatenate([WORDS, WORDS[:2]])),
        (lambda k: jnp.where(jnp.arange(6) > 2, k, k[0]), np.r_[WORDS[[0, 0, 0]], WORDS[3:]]),
        (lambda k: jnp.reshape(k, (2, 3)), WORDS.reshape(2, 3, 2)),
        (lambda k: k.reshape(2, 3).T, WORDS.reshape(2, 3, 2).swapaxes(0, 1)),
        (lambda k: jnp.expand_dims(k, 0).squeeze(0), WORDS),
        (lambda k: jnp.broadcast_to(k[1], (3,)), WORDS[[1, 1, 1]]),
        (lambda k: jnp.take(k, jnp.array([5, 1]), 0), WORDS[[5, 1]]),
        (lambda k: jnp.roll(k, 1), np.roll(WORDS, 1, 0)),
        (lambda k: jnp.flip(k), WORDS[::-1]),
        (lambda k: jnp.tile(k, 2), np.tile(WORDS, (2, 1))),
        (lambda k: jnp.split(k, 2)[1], WORDS[3:]),
        (lambda k: k.at[1].set(k[4]), WORDS[[0, 4, 2, 3, 4, 5]]),
        (lambda k: k.at[1:3].get(), WORDS[1:3]),
        (lambda k: k[..., 2], WORDS[2]),
        (lambda k: lax.dynamic_index_in_dim(k, 2, keepdims=False), WORDS[2]),
        (lambda k: lax.dynamic_slice_in_dim(k, 2, 3), WORDS[2:5]),
        (lambda k: lax.dynamic_update_slice(k, k[:1], (3,)), WORDS[[0, 1, 2, 0, 4, 5]]),
        (lambda k: lax.select(True, k[0], k[1]), WORDS[0]),
    ],
)
def test_moving_keys_moves_their_words(fun, words):
    check(fun(KEYS), words)
    check(pb.jit(fun)(KEYS), words)
    check(pb.vmap(fun)(jnp.stack([KEYS, KEYS])), np.stack([words, words]))


def test_shape_functions():
    assert (jnp.shape(KEYS), jnp.ndim(KEYS), jnp.size(KEYS)) == ((6,), 1, 6)


def test_attributes_of_arrays():
    assert KEY.devices() == {pb.devices()[0]}
    assert KEY.sharding == random.key_data(KEY).sharding
    assert not KEY.is_deleted()
    assert KEY.is_fully_addressable
    assert (KEY.copy() == KEY).all()
    assert random.key_impl(KEY) == "threefry2x32"


def test_keys_are_no_numbers():
    for call in (
        np.asarray,
        np.array,
        bool,
        jnp.sum,
        jnp.sin,
        lambda k: jnp.stack([k, 1]),
        lambda k: jnp.where(True, k, 0),
    ):
        with pytest.raises(TypeError):
            call(KEY)
    with pytest.raises(TypeError, match="keys are replaced by keys"):
        KEYS.at[0].set(3)
    with pytest.raises(TypeError, match="stack requires ndarray"):
        jnp.stack(["a", "b"])
