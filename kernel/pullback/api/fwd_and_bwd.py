"""`fwd_and_bwd`: forward and backward pass as two functions, each compiled once.

Builds on autodiff.py and jit.py. Tested in tests/api/test_fwd_and_bwd.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.api.autodiff import vjp
from pullback.api.differentiable import name_of, select_arguments
from pullback.api.jit import jit
from pullback.core import errors
from pullback.core.source import api_boundary


@api_boundary
def fwd_and_bwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool = False,
    jitted: bool = True,
) -> tuple[Callable[..., Any], Callable[[Any, Any], Any]]:
    """The forward pass of a function, and the backward pass that uses what it has kept.

    `y, pull = vjp(f, x)` makes a new pullback each time, which `jit` would compile each time. Here the
    backward pass is one function of the kept values and the cotangent.

    Args:
        fun: a function of arrays and pytrees.
        argnums: the positional arguments to differentiate by.
        has_aux: `fun` returns (value, aux).
        jitted: compile both, so that all arguments must be arrays; else neither.

    Returns:
        `fwd` and `bwd`. fwd(*args) gives (value, kept), with `has_aux` (value, kept, aux).
        bwd(kept, cotangent) gives the cotangent of the argument, or a tuple for a sequence of argnums.

    Example:
        >>> fwd, bwd = fwd_and_bwd(lambda x, y: x * y, argnums=(0, 1))
        >>> value, kept = fwd(2.0, 3.0)
        >>> [float(ct) for ct in bwd(kept, 1.0)]
        [3.0, 2.0]
    """
    if not callable(fun):
        raise errors.not_a_function("fwd_and_bwd", fun)
    single = isinstance(argnums, int)

    def fwd(*args: Any, **kwargs: Any) -> Any:
        varied, put = select_arguments(args, argnums, name_of(fun))

        def of_varied(*new: Any) -> Any:
            return fun(*(new if put is None else put(new)), **kwargs)

        of_varied.__name__ = name_of(fun)
        return vjp(of_varied, *varied, has_aux=has_aux)

    def bwd(kept: Any, cotangent: Any) -> Any:
        cts = kept(cotangent)
        return cts[0] if single else cts

    fwd.__name__, bwd.__name__ = f"{name_of(fun)}_fwd", f"{name_of(fun)}_bwd"
    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)
