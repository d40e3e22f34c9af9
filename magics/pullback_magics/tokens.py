"""What is remembered of a value: enough to see that it has changed, and to say what it was.

Builds on targets.py and views/text.py. Tested in tests/magics/test_captured.py.
"""

from __future__ import annotations

import hashlib
import types
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pullback.core import pytree
from pullback.views.text import clip, value_text
from pullback.xla.array import Array
from pullback_magics.targets import has_leaves, path_text

_HASHED_BYTES = 1 << 20
# How far attributes of objects are looked into, and at how many of one value.
_DEPTH = 3
_MAX_ATTRIBUTES = 500
_NO_OBJECTS = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)


@dataclass(frozen=True, slots=True)
class Token:
    """What is remembered of a value: enough to see that it changed, and to say what it was.

    Attributes:
        key: equal for equal values.
        text: the value in a few words.
        kept: holds what `key` identifies by id, so that the id stays its own.
        parts: tokens of elements and attributes, by how they are written after a name.
    """

    key: tuple[Any, ...]
    text: str
    kept: Any
    parts: dict[str, Token] = field(default_factory=dict)


def token(value: Any) -> Token:
    """The token of a value."""
    return _token(value, _DEPTH, [_MAX_ATTRIBUTES])


def _token(value: Any, depth: int, left: list[int]) -> Token:
    """The token of a value.

    Args:
        value: any value of the user's.
        depth: levels of attributes to look into.
        left: how many attributes may still be looked at; counted down.
    """
    if isinstance(value, Array):
        return Token(("array", id(value)), short_text(value), value)
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(value.tobytes()).digest() if value.nbytes <= _HASHED_BYTES else b""
        return Token(
            ("numpy", id(value), value.shape, str(value.dtype), digest), short_text(value), value
        )
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return Token((type(value), repr(value)), clip(repr(value), 40), None)
    key: tuple[Any, ...]
    if isinstance(value, set | frozenset):
        inner = [_token(element, 0, left) for element in value]
        key = ("set", type(value), frozenset(part.key for part in inner))
        return Token(key, type(value).__name__, [part.kept for part in inner])
    if isinstance(value, dict) and not has_leaves(value):
        named = {f"[{k!r}]": _token(inner, depth, left) for k, inner in value.items()}
        key = ("dict", *[(name, part.key) for name, part in named.items()])
        return Token(key, clip(type(value).__name__, 40), None, named)
    if isinstance(value, dict | list | tuple) and has_leaves(value):
        paths, tree = pytree.tree_flatten_with_path(value)
        named = {path_text(path): _token(leaf, depth, left) for path, leaf in paths}
        key = ("tree", str(tree), *[(name, part.key) for name, part in named.items()])
        return Token(key, clip(type(value).__name__, 40), None, named)
    held = attributes(value) if depth else {}
    left[0] -= len(held)
    if left[0] < 0:
        held = {}
    named = {f".{name}": _token(inner, depth - 1, left) for name, inner in held.items()}
    key = ("object", id(value), *[(name, part.key) for name, part in named.items()])
    return Token(key, short_text(value), value, named)


def attributes(value: Any) -> dict[str, Any]:
    """What a traced function may read from an object: its attributes, and those of its class.

    Of a class of the user's, its own values; nothing of modules, functions and the engine's objects.
    """
    if isinstance(value, _NO_OBJECTS) or type(value).__module__.partition(".")[0] == "pullback":
        return {}
    if isinstance(value, type):
        if value.__module__ != "__main__":
            return {}
        found = {n: v for n, v in vars(value).items() if not n.startswith("__")}
        return {n: v for n, v in found.items() if not (callable(v) or hasattr(v, "__get__"))}
    found = dict(attributes(type(value)))
    for cls in reversed(type(value).__mro__):
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__") and hasattr(value, name):
                found[name] = getattr(value, name)
    found.update(getattr(value, "__dict__", None) or {})
    return found


def short_text(value: Any) -> str:
    """A value in a few words, without addresses."""
    if isinstance(value, Array | np.ndarray):
        dims = ",".join(map(str, value.shape))
        return clip(f"{value.dtype}[{dims}] {value_text(value)}", 60)
    if isinstance(value, bool | int | float | complex | str | bytes | type(None)):
        return clip(repr(value), 40)
    return clip(getattr(value, "__name__", type(value).__name__), 40)
