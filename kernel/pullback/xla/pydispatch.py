"""The dispatcher in plain Python, for a jaxlib whose C++ one we cannot drive.

PULLBACK_DISPATCH=python asks for it.

Builds on nothing but the objects it is handed. Tested in tests/xla/test_pydispatch.py.
"""

from __future__ import annotations

import collections
import weakref
from collections.abc import Callable
from typing import Any

_all: weakref.WeakSet[PythonDispatch] = weakref.WeakSet()
_MAX_SIGNATURES = 512


def clear_all() -> None:
    """Forget every signature of every Python dispatcher."""
    for dispatcher in _all:
        dispatcher._clear_cache()


class PythonDispatch:
    """A signature seen before runs its executable, a new one asks `cache_miss`, as in C++.

    Args:
        name: what it shows.
        cache_miss: `(*args, **kwargs) -> (result, fast data or None, False)`.
        static_argnums, static_argnames: arguments that are compared by value.
        registry: the pytree registry in which arrays are nodes around C++ arrays.
        array_type: the C++ array class; a call with any other leaf goes to `cache_miss` each time.
        make_handler: `(aval, sharding, committed) -> result handler`.
        context: the settings that the C++ dispatcher would have in its key.
    """

    def __init__(
        self,
        name: str,
        cache_miss: Callable[..., Any],
        static_argnums: tuple[int, ...],
        static_argnames: tuple[str, ...],
        registry: Any,
        array_type: type,
        make_handler: Callable[[Any, Any, bool], Any],
        context: Callable[[], Any],
    ) -> None:
        self.__name__ = name
        self._cache_miss = cache_miss
        self._static_argnums = frozenset(static_argnums)
        self._static_argnames = frozenset(static_argnames)
        self._registry = registry
        self._array_type = array_type
        self._make_handler = make_handler
        self._context = context
        self._entries: collections.OrderedDict[Any, Any] = collections.OrderedDict()
        _all.add(self)

    def __repr__(self) -> str:
        return f"<PythonDispatch of {self.__name__}>"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return lambda *args, **kwargs: self(instance, *args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        static, dynamic, named = self._split(args, kwargs)
        leaves, tree = self._registry.flatten((dynamic, named))
        key = self._signature(leaves, tree, static)
        entry = self._entries.get(key) if key is not None else None
        if entry is None:
            return self._miss(key, args, kwargs)
        fast, handlers = entry
        given = zip([*fast.const_args, *leaves], fast.kept_var_bitvec, strict=True)
        outs = fast.xla_executable.execute_sharded([buf for buf, kept in given if kept])
        return fast.out_pytree_def.unflatten(outs.consume_with_handlers(handlers))

    def _split(self, args: Any, kwargs: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        if not self._static_argnums and not self._static_argnames:
            return (), args, kwargs
        dynamic = tuple(a for i, a in enumerate(args) if i not in self._static_argnums)
        static = [(i, a) for i, a in enumerate(args) if i in self._static_argnums]
        named = {k: v for k, v in kwargs.items() if k not in self._static_argnames}
        static += sorted((k, v) for k, v in kwargs.items() if k in self._static_argnames)
        return tuple(static), dynamic, named

    def _signature(self, leaves: list[Any], tree: Any, static: Any) -> Any:
        others = {type(leaf) for leaf in leaves} - {self._array_type}
        if others or any(leaf.is_deleted() for leaf in leaves):
            return None
        parts = tuple([(leaf.aval, leaf._sharding, leaf._committed) for leaf in leaves])
        return tree, parts, static, self._context()

    def _miss(self, key: Any, args: Any, kwargs: Any) -> Any:
        result, fast, _ = self._cache_miss(*args, **kwargs)
        if fast is not None and key is not None:
            outs = zip(fast.out_avals, fast.out_shardings, fast.out_committed, strict=True)
            self._entries[key] = fast, [self._make_handler(*out) for out in outs]
            if len(self._entries) > _MAX_SIGNATURES:
                self._entries.popitem(last=False)
        return result

    def _cache_size(self) -> int:
        return len(self._entries)

    def _clear_cache(self) -> None:
        self._entries.clear()
