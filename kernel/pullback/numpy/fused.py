"""Composite functions that run as one executable when they are called on plain arrays.

Builds on api/jit.py. Tested in tests/numpy/test_fused.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from pullback.api.jit import jit
from pullback.core.tracer import eval_trace, state

F = TypeVar("F", bound=Callable[..., Any])


def fused(*static: str) -> Callable[[F], F]:
    """A decorator: at evaluation the function is compiled whole, under a trace it is inlined.

    Args:
        static: names of the parameters that are not arrays; their values must be hashable.

    Example:
        >>> @fused("axis")
        ... def spread(x, axis):
        ...     return lax.reduce_max(x, (axis,)) - lax.reduce_min(x, (axis,))
    """

    def decorate(fun: F) -> F:
        compiled: Callable[..., Any] | None = None

        @wraps(fun)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            nonlocal compiled
            if state.trace is not eval_trace:
                return fun(*args, **kwargs)
            if compiled is None:
                compiled = jit(fun, static_argnames=static or None)
            return compiled(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate
