"""Values that a function takes from outside its arguments, and whether they have changed.

A traced program keeps the globals that it read as constants. `snapshot` notes them; `changes`
says later which are others now. Tested in tests/magics/test_captured.py.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pullback_magics.tokens import Token, token


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


def _functions_of(value: Any) -> list[types.FunctionType]:
    """The function that a value is or wraps; the methods of an object or class of the user's."""
    plain = plain_function(value)
    if plain is not None:
        return [plain]
    cls = value if isinstance(value, type) else type(value)
    if cls.__module__ != "__main__":
        return []
    every = [v for c in cls.__mro__ if c.__module__ == "__main__" for v in vars(c).values()]
    unwrapped = [getattr(v, "__func__", None) or getattr(v, "fget", None) or v for v in every]
    return [f for f in map(plain_function, unwrapped) if f is not None]


def captured_names(functions: list[Any], namespace: dict[str, Any]) -> dict[str, str]:
    """Names of the user's that functions read as globals, with the function that reads each.

    Functions of the user's that they call are looked into as well; modules and functions
    themselves are not among the names unless they are the user's own variables.
    """
    found: dict[str, str] = {}
    seen: set[types.FunctionType] = set()
    todo = [inner for value in functions for inner in _functions_of(value)]
    while todo:
        function = todo.pop()
        if function in seen or function.__globals__ is not namespace:
            continue
        seen.add(function)
        for name in _global_names(function.__code__):
            if name not in namespace or isinstance(namespace[name], types.ModuleType):
                continue
            found.setdefault(name, function.__name__)
            todo += _functions_of(namespace[name])
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
            if plain_function(namespace[name]) is not None and now.text == before.text:
                found.append((name, f"function {name} was defined again"))
            else:
                found.append((name, difference(name, before, now)))
    return found


def difference(name: str, before: Token, now: Token) -> str:
    """How two tokens differ, in words: `opt.lr was 0.1, now 0.2`."""
    if before.parts.keys() == now.parts.keys():
        for label, part in now.parts.items():
            if part.key != before.parts[label].key:
                return difference(f"{name}{label}", before.parts[label], part)
    if now.text != before.text:
        return f"{name} was {before.text}, now {now.text}"
    return f"{name} ({now.text}) has been replaced or changed"


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
