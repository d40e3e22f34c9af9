"""The magics as functions, for scripts and for programs that build on them.

`pullback.magics` gives these names. Tested in tests/magics/test_functions.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from pullback.views.html import Bundle
from pullback_magics.cell_gradients import bind, cell_gradient, check_read
from pullback_magics.cell_sources import register_source
from pullback_magics.cells import parse_cell
from pullback_magics.devices import devices_view
from pullback_magics.faults import MagicError
from pullback_magics.gradients import gradient
from pullback_magics.gradients import tape as tape_view
from pullback_magics.graph import graph_view
from pullback_magics.options import name_list
from pullback_magics.output import show
from pullback_magics.programs import CellProgram, Run
from pullback_magics.targets import Target
from pullback_magics.timing import timing_view


def _target(fun: Callable[..., Any], args: tuple[Any, ...]) -> Target:
    name = getattr(fun, "__name__", type(fun).__name__)
    try:
        names = list(inspect.signature(fun).parameters)
    except (TypeError, ValueError):
        names = []
    names = names[: len(args)] + [f"argument {i}" for i in range(len(names), len(args))]
    return Target(f"{name}({', '.join(names)})", name, fun, tuple(names), args, fun)


def grad(
    fun: Callable[..., Any],
    *args: Any,
    wrt: int | Sequence[int] = 0,
    value: bool = False,
    tape: bool = False,
) -> Any:
    """The gradient of `fun` at `args` (`%grad`).

    Args:
        fun: a function with a scalar result.
        args: its arguments.
        wrt: numbers of the arguments to differentiate by.
        value: give (value, gradient).
        tape: display each equation's value and cotangent.
    """
    numbers = [wrt] if isinstance(wrt, int) else list(wrt)
    target = _target(fun, args)
    found = gradient(target, numbers)
    if tape:
        show(tape_view(target, numbers))
    result = found.result(value)
    if isinstance(wrt, int) or len(numbers) > 1:
        return result
    return (result[0], (result[1],)) if value else (result,)


def graph(
    fun: Callable[..., Any],
    *args: Any,
    grad: bool = False,
    stage: str = "jaxpr",
    depth: int | None = None,
) -> Any:
    """The traced program of `fun` at `args` as something that displays itself (`%graph`).

    Args:
        grad: show values, cotangents and the backward pass.
        stage: "jaxpr", "linear", "stablehlo" or "hlo".
        depth: levels of inner programs drawn out.
    """
    return graph_view(_target(fun, args), backward=grad, stage=stage, depth=depth)


def timing(fun: Callable[..., Any], *args: Any, repeats: int | None = None) -> Bundle:
    """The times of `fun` at `args` (`%timing`); `data` holds the numbers in seconds."""
    return timing_view(_target(fun, args), repeats)


def devices(platform: str | None = None) -> Bundle:
    """The devices as a table (`%devices`)."""
    return devices_view(platform)


def jit_cell(
    source: str, namespace: dict[str, Any], static: Sequence[str] = (), donate: Sequence[str] = ()
) -> tuple[Any, Run]:
    """Run statements as one compiled program (`%%jit`).

    Args:
        source: the statements.
        namespace: where names are read from and bound in.
        static: names to compile in as constants.
        donate: inputs whose memory may be reused.

    Returns:
        The value of the last expression, and the report (`Run`).
    """
    program = CellProgram(parse_cell(source, source))
    run = program.run(namespace, register_source(None, source), static, donate)
    return run.bind(namespace), run


def grad_cell(source: str, namespace: dict[str, Any], wrt: str | Sequence[str]) -> Any:
    """Run statements and give the gradient of the last expression (`%%grad`).

    Args:
        source: the statements.
        namespace: where names are read from and bound in.
        wrt: names to differentiate by, as a list or as "w,b"; several give a tuple.
    """
    cell = parse_cell(source, source)
    asked = name_list(wrt) if isinstance(wrt, str) else list(wrt)
    for name in asked:
        check_read(cell, name, namespace, lambda message, _: MagicError(message))
    found, bound, _ = cell_gradient(cell, asked, register_source(None, source), namespace)
    bind(cell, bound, namespace)
    return found.result(with_value=False)


__all__ = ["devices", "grad", "grad_cell", "graph", "jit_cell", "timing"]
