"""Options of random keys: typed keys by default, raw ones warned of or refused, a seed offset."""

import numpy as np
import pytest

import pullback as jax
from pullback import random
from pullback.core.config import Scope


def test_custom_prng_makes_typed_keys():
    with jax.enable_custom_prng(True):
        assert str(random.PRNGKey(0).dtype) == "key<fry>"
    assert random.PRNGKey(0).dtype == np.uint32


def test_raw_keys_are_warned_of_or_refused():
    raw = random.PRNGKey(0)
    with jax.legacy_prng_key("warn"), pytest.warns(UserWarning, match="normal: a raw uint32 key"):
        random.normal(raw)
    with jax.legacy_prng_key("error"):
        with pytest.raises(ValueError, match="random.key"):
            random.normal(raw)
        random.normal(random.key(0))


def test_seed_offset():
    with Scope({"jax_random_seed_offset": 5}):
        assert random.PRNGKey(1).tolist() == [0, 6]
    assert random.PRNGKey(1).tolist() == [0, 1]
