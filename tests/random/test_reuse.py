"""jax_debug_key_reuse: the second use of a key raises."""

import gc

import pytest

import pullback as jax
from pullback import errors, random
from pullback.random import reuse


@pytest.fixture(autouse=True)
def watched():
    with jax.debug_key_reuse(True):
        yield


def test_two_samples_from_one_key():
    key = random.key(0)
    random.normal(key)
    with pytest.raises(errors.KeyReuseError) as caught:
        random.uniform(key)
    text = str(caught.value)
    assert "used twice, by normal and then by uniform" in text
    assert "random.normal(key)" in text and "random.uniform(key)" in text
    assert "random.split(key)" in text


def test_splitting_uses_a_key():
    key = random.key(0)
    first, second = random.split(key)
    random.normal(first), random.normal(second)
    with pytest.raises(errors.KeyReuseError, match="split"):
        random.normal(key)


def test_folding_in_does_not():
    key = random.key(0)
    samples = [random.normal(random.fold_in(key, i)) for i in range(3)]
    assert len(set(map(float, samples))) == 3
    random.normal(key)


def test_a_clone_may_be_used_again():
    key = random.key(0)
    assert random.normal(key) == random.normal(random.clone(key))


def test_inside_a_compiled_function():
    @jax.jit
    def f(key):
        return random.normal(key) + random.uniform(key)

    with pytest.raises(errors.KeyReuseError, match="uniform"):
        f(random.key(0))


def test_raw_keys_are_not_watched():
    key = random.PRNGKey(0)
    assert random.normal(key) == random.normal(key)


def test_it_is_off_by_default():
    with jax.debug_key_reuse(False):
        key = random.key(0)
        assert random.normal(key) == random.normal(key)


def test_nothing_is_kept():
    gc.collect()
    before = len(reuse._used)
    for i in range(20):
        random.normal(random.key(i))
    gc.collect()
    assert len(reuse._used) <= before
