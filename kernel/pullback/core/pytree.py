"""Pytrees: nested containers flattened to lists of leaves, and rebuilt.

Builds on pytree_nodes.py and pytree_prefix.py. Tested in tests/core/test_pytree.py.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from pullback.core.pytree_nodes import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    KeyPath,
    Partial,
    PyTreeDef,
    SequenceKey,
    cpp,
    default_registry,
    flatten_one_level,
    flatten_one_level_with_keys,
    keystr,
    mirror_into,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
    registry,
    static,
)
from pullback.core.pytree_prefix import flatten_prefix, mismatch

KeyEntry = TypeVar("KeyEntry", bound=Hashable)

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "all_leaves",
    "broadcast_prefix",
    "build_tree",
    "default_registry",
    "flatten_one_level",
    "flatten_one_level_with_keys",
    "flatten_prefix",
    "is_tree_node",
    "keystr",
    "leaf_key_path",
    "leaf_path",
    "mirror_into",
    "mismatch",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "registry",
    "static",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]

# ------------------------------------------------------------------- flattening and rebuilding


def tree_flatten(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a tree and its structure.

    Args:
        tree: tuples, lists, dicts (by sorted keys), None (no leaves), registered classes; anything
            else is a leaf.
        is_leaf: stops at what it accepts.

    Example:
        >>> tree_flatten({"b": 1, "a": (2, 3)})
        ([2, 3, 1], PyTreeDef({'a': (*, *), 'b': *}))
    """
    try:
        return registry.flatten(tree, is_leaf)
    except ValueError as error:
        raise _explain(error) from error.__cause__


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The tree of this structure with these leaves."""
    return treedef.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of a tree."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> PyTreeDef:
    """The structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def _explain(error: ValueError) -> ValueError:
    if "sorting pytree dictionary keys" not in str(error):
        return error
    return ValueError(
        "a dict in the tree has keys that cannot be sorted, so its leaves have no order.\n"
        "Instead: use keys of one type, e.g. all strings, or an OrderedDict."
    )


def tree_map(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """The tree of `f`'s results on the leaves.

    Args:
        f: gets one leaf of `tree` and, of each of `rest`, what stands at its place.
        tree: gives the structure.
        *rest: trees with at least this structure.
        is_leaf: stops at what it accepts.

    Raises:
        ValueError: one of `rest` has another structure; the message names the place.

    Example:
        >>> tree_map(lambda x, y: x + y, {"a": 1}, {"a": 10})
        {'a': 11}
    """
    leaves, treedef = tree_flatten(tree, is_leaf)
    if not rest:
        return treedef.unflatten(map(f, leaves))
    columns = [_flatten_up_to(treedef, tree, r, i, "tree_map", is_leaf) for i, r in enumerate(rest)]
    return treedef.unflatten([f(*xs) for xs in zip(leaves, *columns, strict=True)])


def _flatten_up_to(
    treedef: PyTreeDef, tree: Any, other: Any, index: int, name: str, is_leaf: Any
) -> list[Any]:
    try:
        return treedef.flatten_up_to(other)
    except (ValueError, TypeError) as error:
        place = mismatch(tree, other, is_leaf)
        if place is None:
            raise
        raise ValueError(
            f"{name}: tree {index + 2} does not have the structure of the first: {place}\n"
            "Instead: give trees of the same containers; what stands at a leaf of the first may be "
            "anything."
        ) from error


def tree_reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = dataclasses.MISSING,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """The leaves folded from the left with `function`."""
    leaves = tree_leaves(tree, is_leaf)
    if initializer is dataclasses.MISSING:
        return functools.reduce(function, leaves)
    return functools.reduce(function, leaves, initializer)


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = dataclasses.MISSING,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """The leaves folded pairwise, in logarithmic depth; `operation` must be associative."""
    values = tree_leaves(tree, is_leaf)
    if not values:
        if identity is dataclasses.MISSING:
            raise TypeError(
                "tree_reduce_associative: the tree has no leaves and no identity was given.\n"
                "Instead: pass identity=, the value of an empty tree."
            )
        return identity
    while len(values) > 1:
        pairs = [operation(a, b) for a, b in zip(values[::2], values[1::2], strict=False)]
        values = pairs + values[len(values) // 2 * 2 :]
    return values[0]


def tree_all(tree: Any, *, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether all leaves are true."""
    return all(tree_leaves(tree, is_leaf))


def tree_transpose(outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, tree: Any) -> Any:
    """A tree of trees turned inside out.

    Args:
        outer_treedef: the structure outside.
        inner_treedef: the structure inside, or None to take it from the first subtree.
        tree: of structure outer around inner.

    Example:
        >>> tree_transpose(tree_structure([0, 0]), None, [(1, 2), (3, 4)])
        ([1, 3], [2, 4])
    """
    subtrees = outer_treedef.flatten_up_to(tree)
    if inner_treedef is None:
        inner_treedef = tree_structure(subtrees[0]) if subtrees else tree_structure(0)
    rows = []
    for i, subtree in enumerate(subtrees):
        leaves, found = tree_flatten(subtree)
        if found != inner_treedef:
            raise TypeError(
                f"tree_transpose: subtree {i} has the structure {found}, not {inner_treedef}."
            )
        rows.append(leaves)
    return inner_treedef.unflatten(
        [outer_treedef.unflatten([row[j] for row in rows]) for j in range(inner_treedef.num_leaves)]
    )


def all_leaves(iterable: Iterable[Any], is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether every item is a leaf."""
    if is_leaf is None:
        return cpp.all_leaves(registry, iterable)
    items = list(iterable)
    leaves = tree_leaves(items, is_leaf)
    return len(leaves) == len(items) and all(a is b for a, b in zip(items, leaves, strict=True))


# ------------------------------------------------------------------------------------ key paths


def _path_predicate(is_leaf: Callable | None, takes_path: bool) -> Callable | None:
    if is_leaf is None or takes_path:
        return is_leaf
    return lambda _, node: is_leaf(node)


def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """The leaves with their key paths, and the structure.

    Args:
        tree: the tree.
        is_leaf: stops at what it accepts; gets (path, node) with `is_leaf_takes_path`.
        is_leaf_takes_path: see there.

    Example:
        >>> [(keystr(path), leaf) for path, leaf in tree_flatten_with_path({"w": [1, 2]})[0]]
        [("['w'][0]", 1), ("['w'][1]", 2)]
    """
    try:
        return registry.flatten_with_path(tree, _path_predicate(is_leaf, is_leaf_takes_path))
    except ValueError as error:
        raise _explain(error) from error.__cause__


def tree_leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """The leaves of a tree with their key paths."""
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def tree_map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """Like `tree_map`, where `f` gets the key path first."""
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    columns = [
        _flatten_up_to(treedef, tree, r, i, "tree_map_with_path", None) for i, r in enumerate(rest)
    ]
    return treedef.unflatten([f(*pair, *xs) for pair, *xs in zip(pairs, *columns, strict=True)])


def leaf_key_path(treedef: PyTreeDef, index: int) -> KeyPath:
    """The key path of a leaf, given the structure alone."""
    path: list[Any] = []
    while (data := treedef.node_data()) is not None:
        children, number = treedef.children(), 0
        while index >= children[number].num_leaves:
            index -= children[number].num_leaves
            number += 1
        path.append(_child_keys(data, len(children))[number])
        treedef = children[number]
    return tuple(path)


def _child_keys(node_data: tuple[type, Any], size: int) -> list[Any]:
    """The keys of a node's children, as far as its type and metadata tell them."""
    kind, metadata = node_data
    if kind in (tuple, list):
        return [SequenceKey(i) for i in range(size)]
    if kind in (dict, collections.OrderedDict):
        return [DictKey(k) for k in metadata]
    if kind is collections.defaultdict:
        return [DictKey(k) for k in metadata[1]]
    names = getattr(kind, "_fields", None)
    if names is None and dataclasses.is_dataclass(kind):
        names = [f.name for f in dataclasses.fields(kind)]
    if names is not None and len(names) == size:
        return [GetAttrKey(n) for n in names]
    return [FlattenedIndexKey(i) for i in range(size)]


def leaf_path(treedef: PyTreeDef, index: int) -> str:
    """Where a leaf stands, in words: `argument 0['w']`, for the structure of (args, kwargs).

    Any other structure gives the plain path, such as `[0]['w']`.
    """
    path = leaf_key_path(treedef, index)
    node = treedef.node_data()
    is_call = (
        node is not None
        and node[0] is tuple
        and treedef.num_nodes > 2
        and len(treedef.children()) == 2
        and (treedef.children()[1].node_data() or (None,))[0] is dict
    )
    if not is_call or len(path) < 2:
        return keystr(path)
    key = path[1]
    name = getattr(key, "idx", getattr(key, "key", key))
    return f"argument {name}{keystr(path[2:])}"


# ------------------------------------------------------------------------------- structures


def is_tree_node(typ: type) -> bool:
    """Whether instances of a class are nodes."""
    return registry.is_node(typ)


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether a structure is a single leaf."""
    return treedef.num_nodes == 1 and treedef.num_leaves == 1


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the root's children."""
    return treedef.children()


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple of trees."""
    return cpp.treedef_tuple(registry, list(treedefs))


def build_tree(treedef: PyTreeDef, xs: Any) -> Any:
    """The tree of this structure with the leaves of nested lists of the same arities."""
    return treedef.from_iterable_tree(xs)


# ------------------------------------------------------------------------------ prefixes of trees


def broadcast_prefix(
    prefix_tree: Any, full_tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> list[Any]:
    """The leaves of a prefix, each repeated for every leaf of the subtree beneath its place.

    Example:
        >>> broadcast_prefix((1, 2), ((0, 0), {"a": 0}))
        [1, 1, 2]
    """
    leaves, treedef = tree_flatten(prefix_tree, is_leaf)
    try:
        subtrees = treedef.flatten_up_to(full_tree)
    except (ValueError, TypeError) as error:
        place = mismatch(prefix_tree, full_tree, is_leaf)
        if place is None:
            raise
        raise ValueError(
            f"tree_broadcast: the prefix does not fit the tree: {place}\n"
            "Instead: the prefix is a tree of the same containers, cut off anywhere."
        ) from error
    out: list[Any] = []
    for leaf, subtree in zip(leaves, subtrees, strict=True):
        out.extend([leaf] * tree_structure(subtree, is_leaf).num_leaves)
    return out


def tree_broadcast(
    prefix_tree: Any, full_tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """A tree of `full_tree`'s structure with the leaves of a prefix of it."""
    leaves = broadcast_prefix(prefix_tree, full_tree, is_leaf)
    return tree_structure(full_tree, is_leaf).unflatten(leaves)
