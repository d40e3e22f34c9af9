"""`debug.breakpoint`: stop a compiled program and look at the values that Python code only traced.

The frames are taken while tracing; what is traced in their variables becomes operands of a call of
the host, which puts the values of the run in their place.

Builds on effects.py and debugger.py. Tested in tests/api/test_breakpoint.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import IO, Any

from pullback.api.debugger import DebuggerFrame, run_debugger
from pullback.api.effects import debug_callback, pure_callback
from pullback.core import pytree
from pullback.core.source import api_boundary, is_user_frame
from pullback.core.tracer import Tracer
from pullback.lax.convert import stop_gradient


@dataclass(frozen=True, slots=True, eq=False)
class _TakenFrame:
    """A frame without its traced values.

    Attributes:
        frame: with None where a variable holds traced values.
        leaves: per such variable its leaves, traced ones as their number among the operands.
        trees: per such variable its structure.
    """

    frame: DebuggerFrame
    leaves: dict[str, list[Any]]
    trees: dict[str, Any]

    def with_values(self, values: Sequence[Any]) -> DebuggerFrame:
        """The frame with the values of the operands."""
        found = dict(self.frame.locals)
        for name, leaves in self.leaves.items():
            full = [values[x.number] if isinstance(x, _Operand) else x for x in leaves]
            found[name] = pytree.tree_unflatten(self.trees[name], full)
        f = self.frame
        return DebuggerFrame(f.filename, f.lineno, f.function, found, f.globals)


@dataclass(frozen=True, slots=True)
class _Operand:
    number: int


def _frames(
    frame: FrameType | None, filter_frames: bool, num_frames: int | None
) -> Iterator[FrameType]:
    """The frame and those that called it, innermost first."""
    left = num_frames
    while frame is not None and (left is None or left > 0):
        if not filter_frames or is_user_frame(frame):
            yield frame
            left = None if left is None else left - 1
        frame = frame.f_back


def _take(frame: FrameType, operands: list[Any]) -> _TakenFrame:
    """The frame; its traced values are added to the operands."""
    leaves_of: dict[str, list[Any]] = {}
    trees: dict[str, Any] = {}
    names: dict[str, Any] = {}
    # The variables of a module or notebook are read when the program stops.
    own = {} if frame.f_locals is frame.f_globals else frame.f_locals
    for name, value in own.items():
        try:
            leaves, tree = pytree.tree_flatten(value, lambda v: isinstance(v, Iterator))
        except (TypeError, ValueError):  # a container with keys that cannot be sorted
            leaves, tree = [value], None
        traced = [isinstance(x, Tracer) and x._trace.live for x in leaves]
        names[name] = value
        if tree is None or not any(traced):
            continue
        names[name] = None
        trees[name] = tree
        leaves_of[name] = [
            _Operand(len(operands) + sum(traced[:i])) if t else x
            for i, (x, t) in enumerate(zip(leaves, traced, strict=True))
        ]
        operands += [x for x, t in zip(leaves, traced, strict=True) if t]
    code = frame.f_code
    taken = DebuggerFrame(code.co_filename, frame.f_lineno, code.co_name, names, frame.f_globals)
    return _TakenFrame(taken, leaves_of, trees)


@api_boundary
def breakpoint(
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: Any = None,
    stdin: IO[str] | None = None,
    stdout: IO[str] | None = None,
) -> Any:
    """Stop here each time the program runs, and ask at a prompt what to look at.

    Args:
        backend: "cli" or None: the prompt in the terminal or under the cell.
        filter_frames: leave out frames of the engine.
        num_frames: how many frames to keep, the innermost first; all by default.
        ordered: keep the order of the program's ordered calls.
        token: an array or pytree; the program stops when it is computed. It is returned, and must
            be used for the stop to happen.
        stdin, stdout: where to read commands and to write, instead of the prompt.

    Returns:
        `token`.

    Raises:
        bdb.BdbQuit: `q` was answered.
        RuntimeError: no command can be read.

    Example:
        >>> import io
        >>> import pullback as jax
        >>> @jax.jit
        ... def f(x):
        ...     y = 2 * x
        ...     jax.debug.breakpoint(num_frames=1, stdin=io.StringIO("p y + 1\\nc\\n"))
        ...     return y
        >>> f(3)  # doctest: +SKIP
    """
    if backend not in (None, "cli"):
        raise ValueError(
            f"debug.breakpoint: no debugger is called {backend!r}.\nInstead: backend='cli', or none."
        )
    if token is not None and ordered:
        raise ValueError(
            "debug.breakpoint: `ordered` and `token` are mutually exclusive arguments."
        )
    operands: list[Any] = []
    caller = sys._getframe(2)  # above this function and its boundary
    taken = [_take(f, operands) for f in _frames(caller, filter_frames, num_frames)]

    def stop(*values: Any) -> None:
        run_debugger([f.with_values(values) for f in taken], stdin, stdout)

    if token is None:
        debug_callback(stop, *operands, ordered=ordered)
        return None

    def stop_and_return(given: Any, *values: Any) -> Any:
        stop(*values)
        return given

    token, operands = stop_gradient((token, operands))
    return pure_callback(stop_and_return, token, token, *operands)
