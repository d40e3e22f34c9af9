"""Arrays of dtype float0, the tangents of integers, hold nothing: compiled programs go without them.

Builds on core/pytree.py. Tested in tests/api/test_float0.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.core import pytree
from pullback.core.dtypes import float0


class NoTangent:
    """A node without leaves that stands for a float0 array of a shape in a tree's structure."""

    __slots__ = ("shape",)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


def is_float0(x: Any) -> bool:
    """Whether `x` is an array of dtype float0."""
    return isinstance(x, np.ndarray) and x.dtype == float0


# Unflattening gives the array back.
pytree.register_pytree_node(
    NoTangent, lambda node: ((), node.shape), lambda shape, _: np.zeros(shape, float0)
)


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Leaves and structure, float0 arrays being part of the structure."""
    leaves, structure = pytree.tree_flatten(tree)
    if any(map(is_float0, leaves)):
        hidden = [NoTangent(x.shape) if is_float0(x) else x for x in leaves]
        return pytree.tree_flatten(structure.unflatten(hidden))
    return leaves, structure


def mapped(x: np.ndarray, size: int, axis: int) -> np.ndarray:
    """A float0 array with one more axis."""
    shape = list(x.shape)
    shape.insert(axis % (x.ndim + 1), size)
    return np.zeros(shape, float0)
