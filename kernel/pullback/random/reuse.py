"""The option jax_debug_key_reuse: a typed key that is used a second time raises.

A key is used by sampling from it, by splitting it, and by giving it to a compiled function that does
so; folding numbers in is no use. What is remembered is the array (or traced value) of the key's
words, or the position in the array that it was taken from, as long as that lives.

Builds on core/ and api/program.py. Tested in tests/random/test_reuse.py.
"""

from __future__ import annotations

import weakref
from typing import Any

from pullback.api import program
from pullback.core import errors, source

Path = tuple[Any, ...]

# (id of the words of a key or an array of keys, positions in it) -> (the words, the function that
# used the key, where).
_used: dict[tuple[int, Path], tuple[weakref.ref, str, source.SourceInfo | None]] = {}
# id of a key's words -> (them, the words of the array that it was taken from, its position there).
_taken: dict[int, tuple[weakref.ref, Any, Path]] = {}


def _origin(words: Any) -> tuple[Any, Path]:
    found = _taken.get(id(words))
    if found is not None and found[0]() is words:
        return found[1], found[2]
    return words, ()


def note_element(array: Any, position: Path, words: Any) -> None:
    """Remember that words of keys were taken from those of an array of keys, at a position."""
    root, path = _origin(array)
    number = id(words)
    reference = weakref.ref(words, lambda _: _taken.pop(number, None))
    _taken[number] = reference, root, (*path, *position)


def is_used(words: Any) -> bool:
    """Whether the key with these words, or one taken from it, was used."""
    root, path = _origin(words)
    return any(
        found[0]() is root and key[0] == id(root) and key[1][: len(path)] == path
        for key, found in tuple(_used.items())
    )


def note_use(name: str, words: Any) -> None:
    """Remember that the function `name` used a key.

    Raises:
        KeyReuseError: the key was used before.
    """
    root, path = _origin(words)
    number = id(root), path
    found = _used.get(number)
    if found is not None and found[0]() is root:
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
    reference = weakref.ref(root, lambda _: _used.pop(number, None))
    _used[number] = reference, name, source.current_position()


program.key_uses.is_used = is_used
program.key_uses.note = note_use
