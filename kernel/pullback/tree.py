"""Pytrees under short names: `tree.map`, `tree.leaves` ... An index of core/pytree.py."""

from pullback.core.pytree import static
from pullback.core.pytree import tree_all as all
from pullback.core.pytree import tree_broadcast as broadcast
from pullback.core.pytree import tree_flatten as flatten
from pullback.core.pytree import tree_flatten_with_path as flatten_with_path
from pullback.core.pytree import tree_leaves as leaves
from pullback.core.pytree import tree_leaves_with_path as leaves_with_path
from pullback.core.pytree import tree_map as map
from pullback.core.pytree import tree_map_with_path as map_with_path
from pullback.core.pytree import tree_reduce as reduce
from pullback.core.pytree import tree_reduce_associative as reduce_associative
from pullback.core.pytree import tree_structure as structure
from pullback.core.pytree import tree_transpose as transpose
from pullback.core.pytree import tree_unflatten as unflatten

__all__ = [
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "static",
    "structure",
    "transpose",
    "unflatten",
]
