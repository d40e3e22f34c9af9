"""Values that a function takes from outside its arguments, and whether they have changed.

A traced program keeps the globals that it read as constants. `snapshot` notes them; `changes`
says later which are others now. Tested in tests/magics/test_captured.py.
"""

from __future__ import annotations

import dis
import hashlib
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.core import pytree
from pullback.views.text import clip, value_text
from pullback.xla.array import Array

_HASHED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Token:
    """What is remembered of a value: enough to see that it changed, and to say what it was."""

    key: tuple[Any, ...]
    text: str
    kept: Any  # holds what `key` identifies by id, so that the id stays its own


def token(value: Any) -> Token:
    """The token of a value."""
    if isinstance(value, Array):
        return Token(("array", id(value)), short_text(value), value)
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(value.tobytes()).digest() if value.nbytes <= _HASHED_BYTES else b""
        return Token(
            ("numpy", id(value), value.shape, str(value.dtype), digest), short_text(value), value
        )
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return Token((type(value), repr(value)), clip(repr(value), 40), None)
    if isinstance(value, dict | list | tuple | set | frozenset):
        leaves, tree = pytree.tree_flatten(value)
        if not (len(leaves) == 1 and leaves[0] is value):
            parts = [token(leaf) for leaf in leaves]
            key = ("tree", str(tree), *[p.key for p in parts])
            return Token(key, clip(type(value).__name__, 40), [p.kept for p in parts])
    return Token(("object", id(value)), short_text(value), value)


def short_text(value: Any) -> str:
    """A value in a few words, without addresses."""
    if isinstance(value, Array | np.ndarray):
        dims = ",".join(map(str, value.shape))
        return clip(f"{value.dtype}[{dims}] {value_text(value)}", 60)
    if isinstance(value, bool | int | float | complex | str | bytes | type(None)):
        return clip(repr(value), 40)
    return clip(getattr(value, "__name__", type(value).__name__), 40)


def _global_names(code: types.CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def plain_function(value: Any) -> types.FunctionType | None:
    """The Python function that a value is or wraps (a jitted one, a partial), if it is one."""
    for _ in range(20):
        if isinstance(value, types.FunctionType):
            inner = getattr(value, "__wrapped__", None)
            if inner is None:
                return value
            value = inner
        else:
            value = getattr(value, "__wrapped__", None) or getattr(value, "func", None)
            if value is None:
                return None
    return None


def captured_names(functions: list[Any], namespace: dict[str, Any]) -> dict[str, str]:
    """Names of the user's that functions read as globals, with the function that reads each.

    Functions of the user's that they call are looked into as well; modules and functions
    themselves are not among the names unless they are the user's own variables.
    """
    found: dict[str, str] = {}
    seen: set[types.FunctionType] = set()
    todo = [f for f in map(plain_function, functions) if f is not None]
    while todo:
        function = todo.pop()
        if function in seen or function.__globals__ is not namespace:
            continue
        seen.add(function)
        for name in _global_names(function.__code__):
            if name not in namespace or isinstance(namespace[name], types.ModuleType):
                continue
            found.setdefault(name, function.__name__)
            inner = plain_function(namespace[name])
            if inner is not None:
                todo.append(inner)
    return found


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The values of captured names when a program was traced."""

    tokens: dict[str, Token]
    readers: dict[str, str]


def snapshot(names: dict[str, str], namespace: dict[str, Any]) -> Snapshot:
    """Note the values of names."""
    present = [n for n in names if n in namespace]
    return Snapshot({n: token(namespace[n]) for n in present}, dict(names))


def changes(old: Snapshot, namespace: dict[str, Any]) -> list[tuple[str, str]]:
    """(name, what became of it) for each captured name that is another now."""
    found = []
    for name, before in old.tokens.items():
        if name not in namespace:
            found.append((name, f"{name} was {before.text} and is gone"))
            continue
        now = token(namespace[name])
        if now.key != before.key:
            if now.text != before.text:
                found.append((name, f"{name} was {before.text}, now {now.text}"))
            elif plain_function(namespace[name]) is not None:
                found.append((name, f"function {name} was defined again"))
            else:
                found.append((name, f"{name} ({now.text}) has been replaced or changed"))
    return found


@dataclass(slots=True)
class _Watched:
    """A jitted function, the function within, and what that captured when it was traced last."""

    result: Any
    plain: Any
    taken: Snapshot | None = None


class Watch:
    """Points out, after the cell that does it, that a captured global of a traced function changed."""

    def __init__(self, namespace: dict[str, Any], say: Callable[[str], None]) -> None:
        self.namespace = namespace
        self.say = say
        self.functions: dict[str, _Watched] = {}

    def add(self, name: str, result: Any, plain: Any) -> None:
        """Watch a jitted function bound to a name (it replaces one of the same name)."""
        self.functions[name] = _Watched(result, plain)

    def traced(self, name: str, plain: Any) -> None:
        """Note the captured values: the function is being traced now."""
        watched = self.functions.get(name)
        if watched is not None and watched.plain is plain:
            names = captured_names([plain], self.namespace)
            names.pop(name, None)
            watched.taken = snapshot(names, self.namespace)

    def after_cell(self, *_: Any) -> None:
        """Say what changed, once a change."""
        for name, watched in list(self.functions.items()):
            if self.namespace.get(name) is not watched.result:
                del self.functions[name]
            elif watched.taken is not None:
                found = changes(watched.taken, self.namespace)
                if found:
                    self.say(
                        f"note: {name} still uses what it captured when it was traced: "
                        f"{'; '.join(text for _, text in found)}. Run the cell that defines {name} "
                        "again, or pass the value as an argument."
                    )
                    watched.taken = None
