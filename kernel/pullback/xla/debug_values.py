"""Stopping at the first NaN or infinity: the options jax_debug_nans and jax_debug_infs.

While one of them is on, the results of every operation and program are looked at. A program with a
bad result is run again operation by operation, to name the one that made it.

Builds on dispatch.py. Tested in tests/xla/test_debug_values.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core import dtypes, errors
from pullback.core.config import Config, config
from pullback.core.jaxpr import Jaxpr, eval_jaxpr
from pullback.core.tracer import Primitive, eval_trace
from pullback.xla import dispatch
from pullback.xla.array import Array

_OPTIONS = ("jax_debug_nans", "jax_debug_infs")
# Name of a primitive over inner jaxprs -> (args, params): runs it operation by operation. Filled by
# api/find_fault.py.
searches: dict[str, Callable[[Sequence[Any], dict[str, Any]], None]] = {}
# Threads in which an option is on; 0 stands for the process.
_watching: set[int] = set()


def _fault(results: Sequence[Any]) -> tuple[str, Array, int] | None:
    """What is wrong with the first bad result, the result, and in how many elements."""
    for x in results:
        if not isinstance(x, Array) or not dtypes.is_inexact(x.dtype) or x.is_deleted():
            continue
        value = np.asarray(x)
        if value.dtype.kind not in "fc":
            value = value.astype(np.float32)
        for option, what, test in zip(_OPTIONS, ("nan", "inf"), (np.isnan, np.isinf), strict=True):
            count = int(np.count_nonzero(test(value))) if getattr(config, option) else 0
            if count:
                return what, x, count
    return None


def _error(name: str, fault: tuple[str, Array, int], more: str = "") -> FloatingPointError:
    what, x, count = fault
    return FloatingPointError(
        errors.compose(
            f"invalid value ({what}) encountered in {name}: {count} of {x.size} elements of its "
            f"result {errors.aval_text(x.aval)}.",
            more,
            errors.where_text(),
            "Instead: keep the operand where the operation is defined, before it is applied: "
            f"jnp.where(x > 0, x, 1.0); jax.debug_{what}s(False) lets the value pass.",
        )
    )


def check_results(prim: Primitive, results: Sequence[Any]) -> None:
    """Raise if an operation made a NaN or an infinity, as far as the options say."""
    fault = _fault(results)
    if fault is not None:
        raise _error(prim.name, fault)


def _run_watched(prim: Primitive, args: tuple, params: dict) -> Any:
    """Run a primitive; where it is a loop or branch with a bad result, find out what made it."""
    try:
        return dispatch.run_primitive(prim, args, params)
    except FloatingPointError as whole:
        search = searches.get(prim.name)
        if search is None:
            raise
        try:
            search(args, params)
        except FloatingPointError as found:
            raise found from None
        raise whole from None


def check_program(jaxpr: Jaxpr, args: Sequence[Any], results: Sequence[Any], name: str) -> None:
    """Raise if a program did, naming the operation in it where it can be found."""
    fault = _fault(results)
    if fault is None:
        return
    if any(isinstance(x, Array) and x.is_deleted() for x in args):
        raise _error(name, fault, "It was not searched: an argument was donated.")
    eval_jaxpr(jaxpr, (), *args)
    raise _error(name, fault, "No operation of it does so when they are run one by one.")


def _note_change(option: str) -> None:
    if option not in _OPTIONS:
        return
    everywhere = any(getattr(Config, name) for name in _OPTIONS)
    # Only what this thread set for itself: a thread that set it for the process may be gone.
    here = any(config.__dict__.get(name, False) for name in _OPTIONS)
    for key, on in ((0, everywhere), (threading.get_ident(), here)):
        (_watching.add if on else _watching.discard)(key)
    if _watching and check_results not in dispatch.after_run:
        dispatch.after_run.append(check_results)
        dispatch.after_program.append(check_program)
        eval_trace.run = _run_watched
    elif not _watching and check_results in dispatch.after_run:
        dispatch.after_run.remove(check_results)
        dispatch.after_program.remove(check_program)
        eval_trace.run = dispatch.run_primitive


def install() -> None:
    """Follow the options from now on."""
    if _note_change not in Config.observers:
        Config.observers.append(_note_change)
        _note_change(_OPTIONS[0])
