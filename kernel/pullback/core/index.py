"""Which names of an index file (a package's `__init__`) Tab and `dir` offer to the user.

Builds on the standard library; tested in tests/core/test_index.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

_HELPERS = frozenset({"Any", "annotations", "public_names"})


def public_names(namespace: Mapping[str, object], *also: str) -> list[str]:
    """The sorted names of an index that are meant for users.

    Args:
        namespace: the index's globals. Files of the package, which importing from them leaves
            there, and what the index itself needs are left out.
        also: names to offer all the same: subpackages, and names loaded when first asked for.
    """
    own = {name for name, value in namespace.items() if not isinstance(value, ModuleType)}
    return sorted({*(own - _HELPERS), *also})
