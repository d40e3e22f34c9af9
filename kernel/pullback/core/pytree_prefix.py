"""Structures that should fit each other: prefixes such as `in_axes`, and where two trees differ.

Builds on pytree_nodes.py. Tested in tests/core/test_pytree.py.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from pullback.core.pytree_nodes import (
    KeyPath,
    PyTreeDef,
    flatten_one_level_with_keys,
    keystr,
    registry,
)


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
        f"{name} does not fit the values{at}: it gives {wanted} for {found}.\n"
        f"It is {prefix!r:.200} there.\n"
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
    first: Any,
    second: Any,
    is_leaf: Callable[[Any], bool] | None = None,
    path: KeyPath = (),
    *,
    exact: bool = False,
) -> str | None:
    """Where and how `second` lacks the structure of `first`, as text; None if it has it.

    Args:
        first: a pytree.
        second: a pytree; where `first` has a leaf it may have anything, unless `exact`.
        is_leaf: what counts as a leaf of `first`.
        path: where both stand, for the text.
        exact: leaves of `first` must be leaves of `second`.
    """
    here = registry.flatten_one_level(first)
    at = f"at {keystr(path)}" if path else "at the root"
    if here is None or (is_leaf is not None and is_leaf(first)):
        there = registry.flatten_one_level(second) if exact else None
        if there is None:
            return None
        found = _node_text(type(second), len(list(there[0])), second)
        return f"{at}, a leaf ({type(first).__qualname__}) against {found}."
    there = registry.flatten_one_level(second)
    children, metadata = list(here[0]), here[1]
    if there is None or type(first) is not type(second):
        found = f"a leaf ({type(second).__qualname__})"
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
        below = mismatch(child, other, is_leaf, (*path, key), exact=exact)
        if below is not None:
            return below
    return None
