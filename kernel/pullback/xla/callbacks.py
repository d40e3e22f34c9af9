"""Python functions that compiled programs call, and running such programs to their end.

An exception in such a function ends the program; the caller gets that exception, not XLA's report.
Builds on array.py. Tested in tests/api/test_effects.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.core.aval import ShapedArray

_failures: list[BaseException] = []
_failures_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class HostCall:
    """A Python function as a program calls it.

    Attributes:
        function: takes NumPy arrays, gives a sequence of values.
        out_avals: what it must give.
        ordered: whether a token comes first among arguments and results.
        kind: for messages.
    """

    function: Callable[..., Sequence[Any]]
    out_avals: tuple[ShapedArray, ...]
    ordered: bool
    kind: str

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        tokens = args[:1] if self.ordered else ()
        # The arguments lie in the program's memory, which is used again after the call.
        copies = [np.array(x) for x in args[len(tokens) :]]
        try:
            return (*tokens, *self.results(copies))
        except BaseException as error:
            with _failures_lock:
                _failures.append(error)
            raise

    def results(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """Call the function and check what it gives.

        Raises:
            TypeError: number, shapes or dtypes of the results are not those that were declared.
        """
        outs = [np.asarray(x) for x in self.function(*args)]
        wanted = self.out_avals
        if len(outs) != len(wanted):
            raise TypeError(
                f"{self.kind}: the function returned {len(outs)} arrays, but result_shape_dtypes "
                f"declares {len(wanted)}."
            )
        for i, (out, aval) in enumerate(zip(outs, wanted, strict=True)):
            if out.shape != aval.shape:
                raise TypeError(
                    f"{self.kind}: result {i} has shape {out.shape}, but result_shape_dtypes "
                    f"declares {aval.str_short()}."
                )
            if out.dtype != aval.dtype and not np.can_cast(out.dtype, aval.dtype, "same_kind"):
                raise TypeError(
                    f"{self.kind}: result {i} has dtype {out.dtype}, but result_shape_dtypes "
                    f"declares {aval.str_short()}.\nInstead: convert it, e.g. with .astype."
                )
        return tuple(o.astype(a.dtype, copy=False) for o, a in zip(outs, wanted, strict=True))


def run_to_end(execute: Callable[..., Any], bufs: Sequence[Any], handlers: Sequence[Any]) -> Any:
    """Run a program with callbacks and wait for it.

    Args:
        execute: the loaded executable's `execute_sharded`.
        bufs: C++ arrays.
        handlers: one result handler an output.

    Raises:
        Exception: what a callback raised.
    """
    with _failures_lock:
        _failures.clear()
    try:
        results = execute(bufs, with_tokens=True)
        token = results.consume_token()
        outs = results.consume_with_handlers(handlers)
        token.block_until_ready()
        return outs
    except Exception as error:
        with _failures_lock:
            mine = _failures[0] if _failures else None
        if mine is not None:
            raise mine from None
        raise error
