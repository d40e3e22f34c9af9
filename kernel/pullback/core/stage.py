"""Staging: running a Python function on tracers that write a jaxpr.

`JaxprTrace` only writes; `RecordTrace` also runs every operation, so that the path really taken is
recorded with every value. Builds on jaxpr.py. Tested in tests/core/test_stage.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import pullback.core.pretty  # noqa: F401  (provides the text of jaxprs)
from pullback.core import errors
from pullback.core.aval import ShapedArray, typeof
from pullback.core.config import config
from pullback.core.jaxpr import Atom, DropVar, Eqn, Jaxpr, Literal, Var, check_jaxpr
from pullback.core.source import user_source
from pullback.core.tracer import Primitive, Trace, Tracer, staging_observers, state

_LITERAL_TYPES = (bool, int, float, complex, np.generic)


class JaxprTracer(Tracer):
    """A variable of a jaxpr that is being written, with its value when it is recorded."""

    __slots__ = ("atom", "value")

    def __init__(self, trace: Trace, var: Atom, value: Any = None) -> None:
        self._trace = trace
        self.aval = var.aval
        self.atom = var
        self.value = value

    def concrete(self) -> Any:
        value = self.value
        return value.concrete() if isinstance(value, Tracer) else value

    def origin(self) -> str:
        """Where the value comes from, for error messages."""
        return self._trace.origin_of(self.atom)


class JaxprTrace(Trace):
    """Writes every primitive as an equation. `arg_name` names the inputs in error messages."""

    arg_name: Callable[[int], str] | None = None

    def __init__(self, parent: Trace, name: str = "") -> None:
        self.parent = parent
        self.name = name
        self.args: list[Var] = []
        self.eqns: list[Eqn] = []
        self.consts: dict[int, tuple[Var, Any]] = {}
        self.live = True

    def new_arg(self, aval: ShapedArray, value: Any = None) -> JaxprTracer:
        """A tracer for one more input."""
        var = Var(aval)
        self.args.append(var)
        return JaxprTracer(self, var, value)

    def inputs_of(self, var: Atom) -> list[int]:
        """The inputs that a variable depends on, by number."""
        needed = {var}
        for eqn in reversed(self.eqns):
            if any(v in needed for v in eqn.outvars):
                needed.update(v for v in eqn.invars if type(v) is not Literal)
        return [i for i, v in enumerate(self.args) if v in needed]

    def origin_of(self, var: Atom) -> str:
        """An input by its name, or the operation with the inputs that it depends on."""
        names = [self.arg_name(i) if self.arg_name else f"input {i}" for i in self.inputs_of(var)]
        if var in self.args:
            return names[0]
        for eqn in self.eqns:
            if var in eqn.outvars:
                more = ", ..." if len(names) > 3 else ""
                depends = f" of {', '.join(names[:3])}{more}" if names else ""
                at = f" at {eqn.source}" if eqn.source is not None else ""
                return f"computed by {eqn.primitive.name}{depends}{at}"
        return "a constant"

    def lift(self, x: Any) -> Atom:
        """The variable or literal for an operand; other values become constants."""
        if type(x) is JaxprTracer and x._trace is self:
            return x.atom
        if isinstance(x, _LITERAL_TYPES):
            return Literal(x, typeof(x))
        if isinstance(x, Tracer) and not x._trace.live:
            raise errors.UnexpectedTracerError(x)
        if type(x) is np.ndarray and x.ndim == 0:
            return Literal(x[()], typeof(x))
        known = self.consts.get(id(x))
        if known is None:
            known = self.consts[id(x)] = (Var(typeof(x)), x)
        return known[0]

    def process(self, prim: Primitive, args: tuple, params: dict) -> Any:
        if prim.stage is not None:
            args, params = prim.stage(args, params)
        invars = [self.lift(x) for x in args]
        out = prim.abstract(*[v.aval for v in invars], **params)
        source = state.source or user_source(3)
        if prim.multiple_results:
            outvars = [Var(aval) for aval in out]
            self.eqns.append(Eqn(prim, invars, outvars, params, source))
            return [JaxprTracer(self, v) for v in outvars]
        var = Var(out)
        self.eqns.append(Eqn(prim, invars, (var,), params, source))
        return JaxprTracer(self, var)

    def finish(self, args: Sequence[JaxprTracer], outs: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
        """End the trace: the jaxpr (with constvars) and the values of its constants."""
        outvars = [self.lift(x) for x in outs]
        self.live = False
        jaxpr = Jaxpr(
            [v for v, _ in self.consts.values()],
            [a.atom for a in args],  # type: ignore[misc]
            outvars,
            self.eqns,
            self.name,
        )
        return jaxpr, [x for _, x in self.consts.values()]

    def describe(self) -> str:
        return f"tracing {self.name}" if self.name else "tracing"


class RecordTrace(JaxprTrace):
    """Writes every primitive and runs it on the parent; `values` holds each variable's value."""

    def __init__(self, parent: Trace, name: str = "") -> None:
        super().__init__(parent, name)
        self.values: dict[Var, Any] = {}

    def new_arg(self, aval: ShapedArray, value: Any = None) -> JaxprTracer:
        tracer = super().new_arg(aval, value)
        self.values[tracer.atom] = value  # type: ignore[index]
        return tracer

    def _beneath(self, x: Any) -> Any:
        return x.value if type(x) is JaxprTracer and x._trace is self else x

    def process(self, prim: Primitive, args: tuple, params: dict) -> Any:
        values = tuple(self._beneath(x) for x in args)
        state.trace = self.parent  # type: ignore[assignment]
        try:
            result = self.parent.process(prim, values, params)  # type: ignore[union-attr]
        finally:
            state.trace = self
        out = super().process(prim, args, params)
        tracers = out if prim.multiple_results else [out]
        results = result if prim.multiple_results else [result]
        for tracer, value in zip(tracers, results, strict=True):
            tracer.value = value
            self.values[tracer.atom] = value
        return out


@contextmanager
def staging(trace: JaxprTrace) -> Iterator[JaxprTrace]:
    """Make a staging trace current, and dead afterwards."""
    previous = state.trace
    previous_source, state.source = state.source, None
    state.trace = trace
    for observer in staging_observers:
        observer(trace)
    try:
        yield trace
    finally:
        trace.live = False
        state.trace = previous
        state.source = previous_source
        for observer in staging_observers:
            observer(previous)


def trace_to_jaxpr(
    fun: Callable[..., Sequence[Any]],
    avals: Sequence[ShapedArray],
    *,
    name: str = "",
    keep_source: bool = False,
    arg_name: Callable[[int], str] | None = None,
) -> tuple[Jaxpr, list[Any]]:
    """Stage a function of flat arguments.

    Args:
        fun: takes one tracer per aval, returns a sequence of arrays or tracers.
        avals: types of the arguments.
        name: what the jaxpr is called in prints and programs.
        keep_source: keep the source position of the equation being processed, for rules that
            stage in the middle of evaluating another jaxpr.
        arg_name: gives the name of an input for error messages.

    Returns:
        The jaxpr with constvars, and the values of its constants (arrays, or tracers of outer
        traces that `fun` closes over).
    """
    trace = JaxprTrace(state.trace, name)
    trace.arg_name = arg_name
    source = state.source
    with staging(trace):
        if keep_source:
            state.source = source
        args = [trace.new_arg(aval) for aval in avals]
        outs = fun(*args)
        jaxpr, consts = trace.finish(args, outs)
    if config.jax_enable_checks:
        check_jaxpr(jaxpr)
    return jaxpr, consts


def record(
    fun: Callable[..., Sequence[Any]], values: Sequence[Any], *, name: str = ""
) -> tuple[Jaxpr, list[Any], dict[Var, Any]]:
    """Run a function of flat arguments and write down what it did.

    Returns:
        The jaxpr of the path taken, the values of its constants, and the value of each variable
        (constants included).
    """
    trace = RecordTrace(state.trace, name)
    with staging(trace):
        args = [trace.new_arg(typeof(x), x) for x in values]
        outs = fun(*args)
        jaxpr, consts = trace.finish(args, outs)
    for var, value in trace.consts.values():
        trace.values[var] = value
    return jaxpr, consts, trace.values


def drop_unread(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with results that nobody reads bound to `DropVar`s (for printing)."""
    read: set[Any] = set(jaxpr.outvars)
    for eqn in jaxpr.eqns:
        read.update(eqn.invars)
    eqns = [
        eqn
        if all(v in read for v in eqn.outvars)
        else Eqn(
            eqn.primitive,
            eqn.invars,
            [v if v in read else DropVar(v.aval) for v in eqn.outvars],
            eqn.params,
            eqn.source,
        )
        for eqn in jaxpr.eqns
    ]
    return jaxpr.replace(eqns=eqns)
