"""The option jax_debug_key_reuse: a typed key that is used a second time raises.

A key is used by sampling from it and by splitting it; folding numbers in is no use. What is
remembered is the array (or traced value) of the key's words, as long as it lives.

Builds on core/. Tested in tests/random/test_reuse.py.
"""

from __future__ import annotations

import weakref
from typing import Any

from pullback.core import errors, source

# id of a key's words -> (them, the function that used them, where)
_used: dict[int, tuple[weakref.ref, str, source.SourceInfo | None]] = {}


def note_use(name: str, words: Any) -> None:
    """Remember that the function `name` used a key.

    Raises:
        KeyReuseError: the key was used before.
    """
    number = id(words)
    found = _used.get(number)
    if found is not None and found[0]() is words:
        raise errors.KeyReuseError(
            errors.compose(
                f"a random key was used twice, by {found[1]} and then by {name}: the same random "
                "numbers come out again.",
                f"First used at {source.describe(found[2])}" if found[2] else "",
                errors.where_text(),
                "Instead: key, subkey = random.split(key), and use each key once; "
                "random.clone(key) says that the repetition is meant.",
            )
        )
    reference = weakref.ref(words, lambda _: _used.pop(number, None))
    _used[number] = reference, name, source.current_position()
