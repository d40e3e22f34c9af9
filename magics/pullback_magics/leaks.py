"""Traced values that a cell has left where they live on: in names, closures and objects.

Builds on captured.py. Tested in tests/magics/test_jit.py.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from types import CellType
from typing import Any

from pullback.core import pytree
from pullback.core.tracer import Tracer
from pullback_magics.captured import plain_function
from pullback_magics.targets import has_leaves
from pullback_magics.tokens import attributes


def leak_note(held: Sequence[str]) -> str:
    """What to do about what holds traced values."""
    return (
        f"note: {', '.join(held[:8])} holds values of the tracing, not arrays: give them names in "
        "the cell, which become arrays when it has run"
    )


def tracers(namespace: dict[str, Any]) -> dict[str, Tracer]:
    return {n: v for n, v in [*namespace.items()] if isinstance(v, Tracer)}


def traced_cells(values: Sequence[Any], known: Iterable[CellType]) -> list[CellType]:
    """Variables with traced values that functions among the values have captured.

    Args:
        values: what the cell gives.
        known: variables that are settled otherwise.
    """
    seen = {id(c) for c in known}
    found = []
    todo = [f for f in map(plain_function, values) if f is not None]
    while todo:
        for variable in todo.pop().__closure__ or ():
            if id(variable) in seen:
                continue
            seen.add(id(variable))
            try:
                held = variable.cell_contents
            except ValueError:  # not bound yet
                continue
            if isinstance(held, Tracer):
                found.append(variable)
            else:
                todo += [f for f in (plain_function(held),) if f is not None]
    return found


def holders(names: Iterable[str], values: Sequence[Any], namespace: dict[str, Any]) -> list[str]:
    """What of the user's holds traced values after tracing: constants and classes of the cell."""
    found = []
    for name, value in [*((n, namespace.get(n)) for n in names), *((None, v) for v in values)]:
        held = attributes(value)
        label = name or getattr(value, "__name__", type(value).__name__)
        if isinstance(value, type) and value.__module__ == "__main__":
            held = dict(vars(value))
        if isinstance(value, functools.partial):
            held = {"args": [*value.args], "keywords": value.keywords}
        if type(value) in (dict, list):
            held = {"": value} if has_leaves(value) else value
        found += [
            f"{label}.{attribute}".rstrip(".")
            for attribute, inner in held.items()
            if has_leaves(inner) and any(isinstance(x, Tracer) for x in pytree.tree_leaves(inner))
        ]
    return list(dict.fromkeys(found))
