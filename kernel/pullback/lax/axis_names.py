"""Names of mapped axes, and what of them vmap does not serve.

Builds on core/tracer.py. Tested in tests/lax/test_collective.py.
"""

from __future__ import annotations

from math import prod
from typing import Any

from pullback.core import tracer as core_tracer

Names = tuple[Any, ...]


def as_names(axis_name: Any) -> Names:
    """One or several axis names as a tuple."""
    return tuple(axis_name) if isinstance(axis_name, tuple | list) else (axis_name,)


def axis_size(axis_name: Any) -> int:
    """The number of instances along a mapped axis (or the product over several).

    Raises:
        NameError: the name is not in scope.
    """
    return prod(core_tracer.axis_size(n) for n in as_names(axis_name))


def refuse_groups(name: str, groups: Any) -> None:
    """Refuse axis_index_groups under vmap."""
    if groups is not None:
        raise NotImplementedError(
            f"{name}: axis_index_groups are not supported under vmap.\n"
            "Instead: use two mapped axes, and name the inner one."
        )


def one_name(what: str, names: Names) -> None:
    """Refuse several axis names of which one is a vmap axis."""
    if len(names) > 1:
        raise NotImplementedError(
            f"{what}: several axis names {names} of which one is a vmap axis are not supported.\n"
            f"Instead: apply {what} to one axis after the other."
        )
