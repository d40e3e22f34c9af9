"""Finding traced values that outlive their trace, while `checking_leaks()` is on.

Builds on tracer.py. Tested in tests/errors/test_leaks.py.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import CellType, FrameType

from pullback.core import errors
from pullback.core.tracer import Tracer


def _dead_tracers() -> list[Tracer]:
    return [x for x in gc.get_objects() if isinstance(x, Tracer) and not x._trace.live]


def watch() -> Callable[[], None]:
    """Note the dead tracers there are; gives a function that raises if there are more.

    Raises:
        LeakedTracerError: (the function given) a tracer is held after its trace has ended.
    """
    before = {id(x) for x in _dead_tracers()}

    def check() -> None:
        gc.collect()
        leaked = [x for x in _dead_tracers() if id(x) not in before]
        if leaked:
            raise errors.LeakedTracerError(leaked[0], _holder(leaked[0], leaked))

    return check


def _holder(tracer: Tracer, found: list[Tracer]) -> str:
    """What holds a tracer, in words."""
    for holder in gc.get_referrers(tracer):
        if holder is found or isinstance(holder, FrameType | Tracer):
            continue
        if isinstance(holder, CellType):
            return "a variable of an enclosing function"
        if isinstance(holder, dict):
            return _dict_holder(holder, tracer)
        return f"a {type(holder).__name__}"
    return "something that cannot be named"


def _dict_holder(holder: dict, tracer: Tracer) -> str:
    key = next((k for k, v in holder.items() if v is tracer), None)
    if "__builtins__" in holder or "__spec__" in holder:
        return f"the global variable {key!r}"
    for owner in gc.get_referrers(holder):
        if getattr(owner, "__dict__", None) is holder:
            return f"the attribute {key!r} of a {type(owner).__name__}"
    return f"a dict, under {key!r}"
