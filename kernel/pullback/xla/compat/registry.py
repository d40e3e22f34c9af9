"""The pytree registry of the C++ dispatcher: in it an Array is a node around its C++ array.

Builds on jaxlib. Tested in tests/xla/test_compat.py.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from jaxlib import _jax

PyTreeRegistry = _jax.pytree.PyTreeRegistry
PyTreeDef = _jax.pytree.PyTreeDef


def _make_registry() -> Any:
    registry = PyTreeRegistry()
    registry.register_node(
        collections.OrderedDict,
        lambda d: (tuple(d.values()), tuple(d)),
        lambda keys, values: collections.OrderedDict(zip(keys, values, strict=True)),
    )
    registry.register_node(
        collections.defaultdict,
        lambda d: (tuple(d[k] for k in sorted(d)), (d.default_factory, tuple(sorted(d)))),
        lambda aux, values: collections.defaultdict(aux[0], zip(aux[1], values, strict=True)),
    )
    return registry


# In it an Array is a node around its C++ array; in the user's registry it is a leaf.
dispatch_registry = _make_registry()


_array_classes: set[type] = set()


def register_array_class(cls: type) -> None:
    """Make `cls` (slot `_buf`, constructor `cls(buf)`) the node around C++ arrays."""
    if cls in _array_classes:
        return

    def flatten(array: Any) -> tuple[tuple[Any], None]:
        return (array._buf,), None

    def unflatten(_: None, bufs: Any, make: Callable[[Any], Any] = cls) -> Any:
        return make(bufs[0])

    dispatch_registry.register_node(cls, flatten, unflatten)
    _array_classes.add(cls)
