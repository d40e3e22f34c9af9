"""When and under which name operations run: compile-time evaluation and name scopes.

Builds on core/tracer.py. Tested in tests/api/test_evaltime.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pullback.core.tracer import Primitive, Trace, Tracer, eval_trace, set_current, state


class CompileTimeTrace(Trace):
    """Evaluates operations on known values; those on traced ones go to the trace around."""

    def __init__(self, parent: Trace) -> None:
        self.parent: Trace = parent

    def process(self, prim: Primitive, args: tuple, params: dict) -> Any:
        if any(isinstance(x, Tracer) for x in args):
            with set_current(self.parent):
                return self.parent.process(prim, args, params)
        # A Python function among the parameters may close over traced values: it comes back here.
        with set_current(eval_trace if prim.stage is None else self):
            return eval_trace.process(prim, args, params)

    def describe(self) -> str:
        return "compile-time evaluation"


@contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """A context in which operations on known values run at once, also while tracing.

    Operations on traced values are traced as they are outside.

    Example:
        >>> import pullback.numpy as jnp
        >>> with ensure_compile_time_eval():
        ...     n = int(jnp.arange(3).sum())
        >>> n
        3
    """
    around = state.trace
    with set_current(around if around is eval_trace else CompileTimeTrace(around)):
        yield


@contextmanager
def named_scope(name: str) -> Iterator[None]:
    """A context that groups the operations traced inside under a name, for profiles and graphs.

    Raises:
        TypeError: the name is not a string.
    """
    if not isinstance(name, str):
        raise TypeError(f"named_scope expects a string, got {type(name).__name__}: {name!r:.60}")
    previous = state.name_stack
    state.name_stack = (*previous, name)
    try:
        yield
    finally:
        state.name_stack = previous


def named_call(fun: Callable[..., Any], *, name: str | None = None) -> Callable[..., Any]:
    """The function with its operations grouped under its name."""
    label = name or fun.__name__

    @functools.wraps(fun)
    def named(*args: Any, **kwargs: Any) -> Any:
        with named_scope(label):
            return fun(*args, **kwargs)

    return named
