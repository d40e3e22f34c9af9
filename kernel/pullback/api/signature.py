"""Arguments by number and by name, and static arguments as parts of a key.

Builds on nothing but Python's signatures. Tested in tests/api/test_jit.py.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any


def _as_tuple(x: Any) -> tuple:
    if x is None:
        return ()
    if isinstance(x, int | str):
        return (x,)
    return tuple(x)


def names_and_numbers(
    fun: Callable[..., Any], nums: Any, names: Any
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Complete argnums by argnames and the other way round, from the signature."""
    numbers, given_names = _as_tuple(nums), _as_tuple(names)
    try:
        params = list(inspect.signature(fun).parameters.values())
    except (ValueError, TypeError):
        return numbers, given_names
    positional = [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in params)
    keywords = any(p.kind is p.VAR_KEYWORD for p in params)
    for number in numbers:
        if not variadic and not -len(positional) <= number < len(positional):
            raise ValueError(
                f"argnum {number} is out of range: {name_of(fun)} takes {len(positional)} "
                f"positional arguments ({', '.join(positional)}).\n"
                "Instead: count from 0, or give names: static_argnames, donate_argnames."
            )
    all_names = [p.name for p in params if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    for name in given_names:
        if name not in all_names and not keywords:
            close = difflib.get_close_matches(name, all_names, n=1)
            raise ValueError(
                f"argname {name!r} is not an argument of {name_of(fun)}: it has "
                f"{', '.join(all_names) or 'none'}.\n"
                + (f"Did you mean {close[0]!r}?" if close else "Instead: use one of these names.")
            )
    if variadic:
        full = list(numbers)
    else:
        full = [n % len(positional) for n in numbers]
    kinds = {p.name: p.kind for p in params}
    if not given_names:
        given_names = tuple(
            positional[n]
            for n in full
            if 0 <= n < len(positional)
            and kinds[positional[n]] is not inspect.Parameter.POSITIONAL_ONLY
        )
    elif not numbers:
        full = [positional.index(n) for n in given_names if n in positional]
    return tuple(full), tuple(given_names)


def name_of(fun: Any) -> str:
    if isinstance(fun, functools.partial):
        return name_of(fun.func)
    return getattr(fun, "__name__", type(fun).__name__)


class Static:
    """A static argument in a cache key, compared by type and value."""

    __slots__ = ("_hash", "value")

    def __init__(self, value: Any, where: str, name: str) -> None:
        self.value = value
        try:
            self._hash = hash(value)
        except TypeError as e:
            raise ValueError(
                f"static argument {where} of {name} is not hashable: {type(value).__name__} "
                f"({value!r:.60})\n"
                "Instead: pass a tuple or a frozen dataclass, or make the argument non-static."
            ) from e

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Static)
            and type(self.value) is type(other.value)
            and self.value == other.value
        )
