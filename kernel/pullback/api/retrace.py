"""Why a call of a jitted function could not use a trace that was there, in words.

Builds on core/. Tested in tests/api/test_cache_misses.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any

from pullback.core import pytree
from pullback.core.aval import ShapedArray
from pullback.core.config import config_changes

# (types of the leaves, their structure, static arguments by number and by name, config, axis names).
Key = tuple[Any, ...]


SAME_LINE = (
    "first call of this function, but another one made at the same place was traced before; "
    "jit it once, outside of the loop or function that makes it anew"
)
# The code of functions whose tracing was explained.
_explained: weakref.WeakSet[CodeType] = weakref.WeakSet()


def seen_before(fun: Any) -> bool:
    """Whether the tracing of a function with the same code was explained before; now it is."""
    code = getattr(fun, "__code__", None)
    if not isinstance(code, CodeType):
        return False
    seen = any(code is other for other in _explained)
    _explained.add(code)
    return seen


def reason(key: Key, known: Iterable[Key], name_of: Callable[[Any, int], str]) -> str:
    """The difference to the closest of the traces that were there, the latest of them.

    Args:
        key: what the call asked for.
        known: the keys of the traces that were there, the oldest first.
        name_of: (structure, number of a leaf) -> the leaf as the user calls it.
    """
    found = [differences(key, other, name_of) for other in known]
    if not found:
        return "first call"
    closest = min(reversed(found), key=len)
    more = f", and {len(closest) - 3} more differences" if len(closest) > 3 else ""
    return "; ".join(closest[:3]) + more


def differences(new: Key, old: Key, name_of: Callable[[Any, int], str]) -> list[str]:
    """In words, how the key of a call differs from that of a trace."""
    out = []
    if new[1] != old[1]:
        dummies = [pytree.tree_unflatten(t, list(range(t.num_leaves))) for t in (old[1], new[1])]
        out.append(_structure(dummies[0], dummies[1]))
    else:
        pairs = enumerate(zip(new[0], old[0], strict=True))
        out += [
            f"{name_of(new[1], i)} was {_type(b)}, now {_type(a)}" for i, (a, b) in pairs if a != b
        ]
    for what, now, before in (("static argument ", new[2], old[2]), ("static ", new[3], old[3])):
        values, previous = dict(now), dict(before)
        for number in [*previous, *(n for n in values if n not in previous)]:
            a, b = values.get(number), previous.get(number)
            if a != b:
                shown = ["not given" if x is None else f"{x.value!r:.40}" for x in (b, a)]
                out.append(f"{what}{number} was {shown[0]}, now {shown[1]}")
    out += [f"option {name} was {b!r}, now {a!r}" for name, b, a in config_changes(old[4], new[4])]
    if new[5] != old[5]:
        out.append(f"the mapped axes around it were {_axes(old[5])}, now {_axes(new[5])}")
    return out


def _type(aval: ShapedArray) -> str:
    return aval.str_short() + (" of a Python number" if aval.weak_type else "")


def _axes(env: tuple) -> str:
    return ", ".join(f"{name!r} of size {size}" for name, size in env) or "none"


def _structure(old: Any, new: Any) -> str:
    (old_args, old_named), (new_args, new_named) = old, new
    if len(old_args) != len(new_args):
        return f"the call had {len(old_args)} positional arguments, now {len(new_args)}"
    gone = [f"{k} was given by name, now it is not" for k in old_named if k not in new_named]
    come = [f"{k} was not given by name, now it is" for k in new_named if k not in old_named]
    if gone or come:
        return "; ".join([*gone, *come])
    return f"the structure of the arguments changed: {pytree.mismatch(old, new) or ''}".rstrip(": ")
