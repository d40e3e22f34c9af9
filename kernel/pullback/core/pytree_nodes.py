"""Which classes are pytree nodes: the registry, and the ways to register a class.

The registry is our own instance of jaxlib's C++ one, so that flattening is a single C++ call. This
is the one place of core/ that imports jaxlib: the class walks containers, without devices or
compilation, every transformation stands on it, and a hook to hand it in would cost a Python call
per flattening.

Builds on jaxlib's `PyTreeRegistry`. Tested in tests/core/test_pytree.py.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from jaxlib._jax import pytree as cpp

PyTreeDef = cpp.PyTreeDef
SequenceKey = cpp.SequenceKey
DictKey = cpp.DictKey
GetAttrKey = cpp.GetAttrKey
FlattenedIndexKey = cpp.FlattenedIndexKey
KeyPath = tuple[Any, ...]
_Class = TypeVar("_Class", bound=Any)

registry = cpp.PyTreeRegistry()
registry.__module__ = __name__  # so that treedefs can be pickled: C++ pickles the registry by name
registry.__name__ = "registry"
default_registry = registry

# (class, flatten, unflatten) of everything registered, and the registries that are told of it.
_nodes: list[tuple[type, Callable, Callable]] = []
_mirrors: list[Any] = []


def _register(
    nodetype: type, flatten: Callable, unflatten: Callable, with_keys: Callable | None = None
) -> None:
    try:
        registry.register_node(nodetype, flatten, unflatten, with_keys)
    except ValueError:
        raise ValueError(
            f"register_pytree_node: {nodetype.__qualname__} is registered already.\n"
            "Instead: register each class once, in the cell that defines it."
        ) from None
    _nodes.append((nodetype, flatten, unflatten))
    for other in _mirrors:
        other.register_node(nodetype, flatten, unflatten)


def mirror_into(other: Any) -> None:
    """Register in another C++ registry whatever was and will be registered here."""
    for nodetype, flatten, unflatten in _nodes:
        if not other.is_node(nodetype):
            other.register_node(nodetype, flatten, unflatten)
    _mirrors.append(other)


# ---------------------------------------------------------------------------------- registering


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Iterable[Any]], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]] | None = None,
) -> None:
    """Make instances of a class nodes.

    Args:
        nodetype: the class; its subclasses are registered on their own.
        flatten_func: (node) -> (children, hashable metadata).
        unflatten_func: (metadata, children) -> node.
        flatten_with_keys_func: (node) -> ((key, child) pairs, metadata), for key paths.
    """
    _register(nodetype, flatten_func, unflatten_func, flatten_with_keys_func)


def register_pytree_node_class(cls: _Class) -> _Class:
    """Make a class with `tree_flatten()` and `tree_unflatten(aux, children)` a node."""
    register_pytree_node(cls, lambda node: node.tree_flatten(), cls.tree_unflatten)
    return cls


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]],
    unflatten_func: Callable[[Any, Iterable[Any]], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Make instances of a class nodes whose children have keys.

    Args:
        nodetype: the class.
        flatten_with_keys: (node) -> ((key, child) pairs, hashable metadata).
        unflatten_func: (metadata, children) -> node.
        flatten_func: (node) -> (children, metadata), faster where no keys are wanted.
    """

    def without_keys(node: Any) -> tuple[Iterable[Any], Any]:
        pairs, metadata = flatten_with_keys(node)
        return [child for _, child in pairs], metadata

    _register(nodetype, flatten_func or without_keys, unflatten_func, flatten_with_keys)


def register_pytree_with_keys_class(cls: _Class) -> _Class:
    """Make a class with `tree_flatten_with_keys()` and `tree_unflatten(aux, children)` a node."""
    flatten = (lambda node: node.tree_flatten()) if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(
        cls, lambda node: node.tree_flatten_with_keys(), cls.tree_unflatten, flatten
    )
    return cls


def register_static(cls: _Class) -> _Class:
    """Make instances of a class nodes without leaves: they are compared, not traced."""
    register_pytree_with_keys(cls, lambda x: ((), x), lambda x, _: x, lambda x: ((), x))
    return cls


def static(**kwargs: Any) -> Any:
    """A dataclass field that `register_dataclass` treats as metadata, not as a child."""
    metadata = {**(kwargs.pop("metadata", None) or {}), "static": True}
    return dataclasses.field(metadata=metadata, **kwargs)


def register_dataclass(
    nodetype: Any = None,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Any:
    """Make a dataclass a node.

    Args:
        nodetype: the class; without it a decorator is returned.
        data_fields: fields that are children. Left out, all init fields but static ones.
        meta_fields: fields that are hashable metadata. Left out, those made with `static()` or
            `field(metadata={"static": True})`.
        drop_fields: fields that take part in neither and get their defaults back.

    Raises:
        TypeError: only one of the two lists is given, or they are left out for another class.
        ValueError: the lists do not name each init field once.
    """
    if nodetype is None:
        return lambda cls: register_dataclass(cls, data_fields, meta_fields, drop_fields)
    if (data_fields is None) != (meta_fields is None):
        raise TypeError("register_dataclass: give both data_fields and meta_fields, or neither.")
    if data_fields is None or meta_fields is None:
        if not dataclasses.is_dataclass(nodetype):
            raise TypeError(
                f"register_dataclass: {nodetype.__qualname__} is not a dataclass.\n"
                "Instead: put @dataclasses.dataclass below the decorator, or name the fields."
            )
        fields = [f for f in dataclasses.fields(nodetype) if f.init and f.name not in drop_fields]
        data_fields = [f.name for f in fields if not f.metadata.get("static", False)]
        meta_fields = [f.name for f in fields if f.metadata.get("static", False)]
    data, meta = tuple(data_fields), tuple(meta_fields)
    _check_fields(nodetype, data, meta, drop_fields)
    _register_fields(nodetype, data, meta)
    return nodetype


def _check_fields(cls: type, data: tuple, meta: tuple, drop: Sequence[str]) -> None:
    twice = [n for n, count in collections.Counter((*data, *meta)).items() if count > 1]
    if twice:
        raise ValueError(f"register_dataclass: {cls.__qualname__}: {twice} named more than once.")
    if not dataclasses.is_dataclass(cls):
        return
    wanted = {f.name for f in dataclasses.fields(cls) if f.init} - set(drop)
    missing, extra = sorted(wanted - {*data, *meta}), sorted({*data, *meta} - wanted)
    if missing or extra:
        raise ValueError(
            f"register_dataclass: {cls.__qualname__}: init fields not named: {missing}; "
            f"named but not init fields: {extra}.\nInstead: name each init field once, "
            "in data_fields, meta_fields or drop_fields."
        )


def _register_fields(cls: Any, data: tuple[str, ...], meta: tuple[str, ...]) -> None:
    keys = tuple(map(GetAttrKey, data))

    def flatten(node: Any) -> tuple[tuple, tuple]:
        return tuple([getattr(node, n) for n in data]), tuple([getattr(node, n) for n in meta])

    def with_keys(node: Any) -> tuple[tuple, tuple]:
        children, metadata = flatten(node)
        return tuple(zip(keys, children, strict=True)), metadata

    def unflatten(metadata: tuple, children: Iterable[Any]) -> Any:
        named = dict(zip(data, children, strict=True))
        named.update(zip(meta, metadata, strict=True))
        return cls(**named)

    _nodes.append((cls, flatten, unflatten))
    try:
        registry.register_dataclass_node(cls, list(data), list(meta))
    except ValueError:
        _nodes.pop()
        raise ValueError(f"register_dataclass: {cls.__qualname__} is registered already.") from None
    for other in _mirrors:
        other.register_dataclass_node(cls, list(data), list(meta))


_register(
    collections.OrderedDict,
    lambda d: (tuple(d.values()), tuple(d)),
    lambda keys, values: collections.OrderedDict(zip(keys, values, strict=True)),
    lambda d: (tuple([(DictKey(k), v) for k, v in d.items()]), tuple(d)),
)
_register(
    collections.defaultdict,
    lambda d: (tuple([d[k] for k in sorted(d)]), (d.default_factory, tuple(sorted(d)))),
    lambda aux, values: collections.defaultdict(aux[0], zip(aux[1], values, strict=True)),
    lambda d: (
        tuple([(DictKey(k), d[k]) for k in sorted(d)]),
        (d.default_factory, tuple(sorted(d))),
    ),
)


class _Fixed:
    """A partial application held whole, as metadata: functools would merge it into another."""

    __slots__ = ("fun",)

    def __init__(self, fun: Callable) -> None:
        self.fun = fun

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fun(*args, **kwargs)

    def __hash__(self) -> int:
        return hash(self.fun)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Fixed) and self.fun == other.fun

    def __repr__(self) -> str:
        return repr(self.fun)


class Partial(functools.partial):
    """`functools.partial` as a node: the arguments are children, the function is metadata.

    Example:
        >>> tree_leaves(Partial(pow, 2))
        [2]
    """

    def __new__(cls, func: Callable, /, *args: Any, **kw: Any) -> Partial:
        held = _Fixed(func) if isinstance(func, functools.partial) else func
        return super().__new__(cls, held, *args, **kw)


_register(
    Partial,
    lambda p: ((p.args, p.keywords), p.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
    lambda p: (((GetAttrKey("args"), p.args), (GetAttrKey("keywords"), p.keywords)), p.func),
)


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
