"""When and under which name operations run: compile-time evaluation and name scopes.

Builds on core/tracer.py. Tested in tests/api/test_evaltime.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pullback.core.tracer import eval_context, state


def ensure_compile_time_eval() -> Any:
    """A context in which operations on known values run at once, also while tracing.

    Example:
        >>> import pullback.numpy as jnp
        >>> with ensure_compile_time_eval():
        ...     n = int(jnp.arange(3).sum())
        >>> n
        3
    """
    return eval_context()


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
