"""Pytrees: nested containers flattened to lists of leaves, and rebuilt.

Builds on pytree_nodes.py. Tested in tests/core/test_pytree.py.
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
    Partial,
    PyTreeDef,
    SequenceKey,
    cpp,
    default_registry,
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

KeyEntry = TypeVar("KeyEntry", bound=Hashable)
KeyPath = tuple[Any, ...]

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
            f"{name}: tree {index + 2} does not have the structure of the first: {place}"
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


_SIMPLE_KEY = {SequenceKey: "idx", DictKey: "key", GetAttrKey: "name", FlattenedIndexKey: "key"}


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """A key path as text.

    Args:
        keys: the path.
        simple: only the bare keys, without brackets and dots.
        separator: between the keys.

    Example:
        >>> keystr((DictKey("w"), SequenceKey(0))), keystr((DictKey("w"),), simple=True)
        ("['w'][0]", 'w')
    """
    if not simple:
        return separator.join(map(str, keys))
    texts = [getattr(k, _SIMPLE_KEY[type(k)]) if type(k) in _SIMPLE_KEY else k for k in keys]
    return separator.join(map(str, texts))


def leaf_path(treedef: PyTreeDef, index: int) -> str:
    """Where a leaf stands, in words: `argument 0['w']`, for the structure of (args, kwargs).

    Any other structure gives the plain path, such as `[0]['w']`.
    """
    paths = tree_flatten_with_path(tree_unflatten(treedef, range(treedef.num_leaves)))[0]
    path = paths[index][0]
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


# ------------------------------------------------------------------------------- one-level views


def flatten_one_level(tree: Any) -> tuple[Iterable[Any], Any]:
    """The children of a node and its metadata."""
    out = registry.flatten_one_level(tree)
    if out is None:
        raise ValueError(f"flatten_one_level: {type(tree).__qualname__} is a leaf, not a node.")
    return out


def flatten_one_level_with_keys(tree: Any) -> tuple[Iterable[tuple[Any, Any]], Any]:
    """The (key, child) pairs of a node and its metadata."""
    _, metadata = flatten_one_level(tree)
    pairs = registry.flatten_with_path(tree, lambda path, _: len(path) == 1)[0]
    return tuple([(path[0], child) for path, child in pairs]), metadata


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
        raise ValueError(f"tree_broadcast: the prefix does not fit the tree: {place}") from error
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


def _is_none(x: Any) -> bool:
    return x is None


def flatten_prefix(
    name: str,
    treedef: PyTreeDef,
    prefix: Any,
    is_leaf: Callable[[Any], bool] = _is_none,
    root: str = "",
) -> list[Any]:
    """The leaves of `prefix` (`in_axes` and the like) repeated to one per leaf of a structure.

    Args:
        name: what the prefix is, for errors: "vmap in_axes".
        treedef: the structure of the arguments or results.
        prefix: a tree of the same structure, cut off anywhere.
        is_leaf: what counts as a leaf of the prefix; None does, unless another test is given.
        root: how the whole is called in key paths: "args".

    Raises:
        ValueError: the prefix does not fit; the message names the key path.
    """
    if type(prefix) is int or prefix is None:
        return [prefix] * treedef.num_leaves
    out: list[Any] = []
    _spread(name, treedef, prefix, is_leaf, (), root, out)
    return out


def _spread(
    name: str,
    treedef: PyTreeDef,
    prefix: Any,
    is_leaf: Callable[[Any], bool],
    path: KeyPath,
    root: str,
    out: list[Any],
) -> None:
    node = None if is_leaf(prefix) else registry.flatten_one_level(prefix)
    if node is None:
        out.extend([prefix] * treedef.num_leaves)
        return
    children, metadata = node
    children = list(children)
    data, inner = treedef.node_data(), treedef.children()
    fits = (
        data is not None
        and data[0] is type(prefix)
        and len(children) == len(inner)
        and (type(prefix) not in (dict, collections.OrderedDict) or list(metadata) == list(data[1]))
    )
    if not fits:
        raise ValueError(_prefix_text(name, treedef, prefix, path, root))
    pairs = registry.flatten_with_path(prefix, lambda p, _: len(p) == 1)[0]
    for (key, child), sub in zip(pairs, inner, strict=True):
        _spread(name, sub, child, is_leaf, (*path, *key), root, out)


def _prefix_text(name: str, treedef: PyTreeDef, prefix: Any, path: KeyPath, root: str) -> str:
    data = treedef.node_data()
    at = f" at {root}{keystr(path)}" if path or root else ""
    if data is None:
        found = "a leaf (one array)"
    else:
        found = _node_text(data[0], len(treedef.children()), data[1])
    wanted = _node_text(type(prefix), len(registry.flatten_one_level(prefix)[0]), prefix)
    return (
        f"{name} does not fit the values{at}: it has {wanted}, there is {found}.\n"
        f"{name} = {prefix!r:.200}\n"
        "Instead: give one entry for all of it (an int or None), or containers of the same type, "
        "length and keys."
    )


_PLURAL = {tuple: "a tuple", list: "a list", dict: "a dict", type(None): "None"}


def _node_text(kind: type, size: int, keys: Any) -> str:
    text = _PLURAL.get(kind, f"a {kind.__qualname__}")
    if kind is dict:
        return f"{text} with keys {', '.join(map(repr, list(keys)[:6])) or 'none'}"
    return text if kind is type(None) else f"{text} of {size}"


def mismatch(
    first: Any, second: Any, is_leaf: Callable[[Any], bool] | None = None, path: KeyPath = ()
) -> str | None:
    """Where and how `second` lacks the structure of `first`, as text; None if it has it."""
    here = registry.flatten_one_level(first)
    if here is None or (is_leaf is not None and is_leaf(first)):
        return None
    at = f"at {keystr(path)}" if path else "at the root"
    there = registry.flatten_one_level(second)
    children, metadata = list(here[0]), here[1]
    if there is None or type(first) is not type(second):
        found = f"a leaf ({type(second).__qualname__})" if there is None else None
        if there is not None:
            found = _node_text(type(second), len(list(there[0])), second)
        return f"{at}, {_node_text(type(first), len(children), first)} against {found}."
    others = list(there[0])
    if len(children) != len(others) or metadata != there[1]:
        if isinstance(first, dict):
            only = [f"{k!r} only in the first" for k in first if k not in second]
            only += [f"{k!r} only in the other" for k in second if k not in first]
            return f"{at}, dicts with other keys: {', '.join(only[:6]) or 'another order'}."
        if len(children) != len(others):
            sizes = f"{len(children)} against {len(others)} items"
            return f"{at}, a {type(first).__qualname__} of {sizes}."
        return f"{at}, {type(first).__qualname__} with metadata {metadata!r} against {there[1]!r}."
    pairs = flatten_one_level_with_keys(first)[0]
    for (key, child), other in zip(pairs, others, strict=True):
        found = mismatch(child, other, is_leaf, (*path, key))
        if found is not None:
            return found
    return None
