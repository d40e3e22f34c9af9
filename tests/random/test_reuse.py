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


def test_elements_of_an_array_of_keys():
    keys = random.split(random.key(0), 3)
    random.normal(keys[0]), random.normal(keys[1])
    with pytest.raises(errors.KeyReuseError):
        random.normal(keys[0])
    with pytest.raises(errors.KeyReuseError):
        random.split(keys[-2])
    random.normal(keys[2])
    table = random.split(random.key(1), (2, 2))
    random.normal(table[0, 1])
    with pytest.raises(errors.KeyReuseError):
        random.normal(table[0][1])
    first, second = random.split(random.key(2))
    random.normal(first), random.normal(second)


@pytest.mark.parametrize("outer", [lambda f: f, jax.jit])
def test_a_compiled_function_uses_its_key(outer):
    @jax.jit
    def draw(key, x):
        return random.normal(key) + x

    f = outer(draw)
    key = random.key(0)
    f(key, 1.0)
    for _ in range(2):
        with pytest.raises(errors.KeyReuseError, match="by draw|by normal"):
            f(key, 1.0)
    f(random.key(1), 1.0)
    with pytest.raises(errors.KeyReuseError):
        random.normal(key)
    twice = outer(lambda key: draw(key, 0.0) + draw(key, 0.0))
    with pytest.raises(errors.KeyReuseError, match="by draw and then by draw"):
        twice(random.key(2))


def test_a_compiled_function_that_uses_an_element_or_none():
    f = jax.jit(lambda keys: random.normal(keys[0]))
    keys = random.split(random.key(0))
    f(keys)
    with pytest.raises(errors.KeyReuseError):
        f(keys)
    same = jax.jit(lambda key: key)
    key = random.key(1)
    same(key), same(key)
    random.normal(key)


def test_compiled_before_the_option_was_set():
    f = jax.jit(lambda key: random.normal(key))
    key = random.key(3)
    with jax.debug_key_reuse(False):
        assert f(key) == f(key) == f(key)
    f(key)
    with pytest.raises(errors.KeyReuseError):
        f(key)
