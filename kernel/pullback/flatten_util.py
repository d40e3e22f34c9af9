"""Flattening a pytree of arrays into one vector and back.

Builds on numpy. Tested in tests/api/test_flatten_util.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pullback import numpy as jnp
from pullback.core import dtypes, pytree
from pullback.core.aval import typeof

__all__ = ["ravel_pytree"]


def ravel_pytree(tree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """All the numbers of a pytree in one vector, and the way back.

    Args:
        tree: a pytree of arrays and numbers.

    Returns:
        A vector of the promoted dtype, and a function from such a vector to a tree of the same
        structure, shapes and dtypes.

    Example:
        >>> vector, back = ravel_pytree({"a": 1.0, "b": jnp.arange(2.0)})
        >>> vector
        Array([1., 0., 1.], dtype=float32)
    """
    leaves, structure = pytree.tree_flatten(tree)
    if not leaves:
        return jnp.zeros(0), lambda vector: pytree.tree_unflatten(structure, [])
    avals = [typeof(x) for x in leaves]
    dtype = dtypes.result_type(*leaves)
    vector = jnp.concatenate([jnp.ravel(x).astype(dtype) for x in leaves])
    sizes = [math.prod(a.shape) for a in avals]

    def unravel(flat: Any) -> Any:
        shape = typeof(flat).shape
        if shape != (sum(sizes),):
            raise ValueError(
                f"the unravel function takes a vector of {sum(sizes)} elements, got shape {shape}"
            )
        parts, start = [], 0
        for aval, size in zip(avals, sizes, strict=True):
            part = jnp.reshape(flat[start : start + size], aval.shape)
            parts.append(part.astype(aval.dtype))
            start += size
        return pytree.tree_unflatten(structure, parts)

    return vector, unravel
