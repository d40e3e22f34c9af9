"""Forward mode: dual numbers carried by a trace, and symbolic zeros.

Builds on tracer.py. Source: Griewank and Walther, Evaluating Derivatives, 2nd ed., chapter 3.
Tested in tests/core/test_jvp.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.core import dtypes
from pullback.core.aval import ShapedArray, make_aval, tangent_aval, typeof
from pullback.core.tracer import Primitive, Trace, Tracer, state


class Zero:
    """A tangent or cotangent known to be zero, not materialised."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Zero({self.aval.str_short()})"


class _LinearOps:
    """The two operations of vector spaces, provided by lax (which is built on this module)."""

    zeros: Callable[[ShapedArray], Any]
    add: Callable[[Any, Any], Any]


linear_ops = _LinearOps()


def zero_of(x: Any) -> Zero:
    """The symbolic zero tangent of a primal value."""
    return Zero(tangent_aval(typeof(x)))


def is_zero(t: Any) -> bool:
    """Whether a tangent is a symbolic zero."""
    return type(t) is Zero


def instantiate(t: Any) -> Any:
    """The tangent as an array: symbolic zeros become arrays of zeros."""
    return linear_ops.zeros(t.aval) if type(t) is Zero else t


def add_tangents(a: Any, b: Any) -> Any:
    """The sum of two tangents, either of which may be a symbolic zero."""
    if type(a) is Zero:
        return b
    if type(b) is Zero:
        return a
    return linear_ops.add(a, b)


def zero_jvp(prim: Callable[[], Primitive]) -> Callable[..., Any]:
    """The jvp rule of an operation that is constant almost everywhere.

    Args:
        prim: gives the primitive (a function, since the rule is made before it).
    """

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        out = prim().bind(*primals, **params)
        if prim().multiple_results:
            return out, [zero_of(o) for o in out]
        return out, zero_of(out)

    return rule


def linear_jvp(prim: Callable[[], Primitive]) -> Callable[..., Any]:
    """The jvp rule of an operation that is linear in all its arguments together."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        out = prim().bind(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            return out, zero_of(out)
        return out, prim().bind(*map(instantiate, tangents), **params)

    return rule


class JVPTracer(Tracer):
    """A primal value with its tangent."""

    __slots__ = ("primal", "tangent")
    has_tangent = True

    def __init__(self, trace: Trace, primal: Any, tangent: Any) -> None:
        self._trace = trace
        self.primal = primal
        self.tangent = tangent
        self.aval = typeof(primal)

    def concrete(self) -> Any:
        primal = self.primal
        return primal.concrete() if isinstance(primal, Tracer) else primal


def derivative_rule(prim: Primitive) -> Callable[..., Any]:
    """The rule for tangents of a primitive.

    Raises:
        NotImplementedError: the primitive has none; the message gives the stated reason.
    """
    if prim.jvp is not None:
        return prim.jvp
    if prim.linearize is not None:
        return prim.linearize
    if prim.nondifferentiable is not None:
        raise NotImplementedError(
            f"{prim.name} has no derivative: {prim.nondifferentiable}\n"
            "Instead: apply stop_gradient to its inputs, or give a custom_jvp rule."
        )
    return linear_jvp(lambda: prim)


def _separates(trace: Trace | None) -> bool:
    while trace is not None:
        if trace.separates_tangents:
            return True
        trace = trace.parent
    return False


class JVPTrace(Trace):
    """Pushes tangents forward beside the primal values."""

    def __init__(self, parent: Trace) -> None:
        self.parent: Trace = parent
        self.live = True

    def split(self, x: Any) -> tuple[Any, Any]:
        """The primal and the tangent of an operand."""
        if type(x) is JVPTracer and x._trace is self:
            return x.primal, x.tangent
        return x, zero_of(x)

    def join(self, primal: Any, tangent: Any) -> Any:
        """A tracer for the pair; the bare primal where the tangent is zero."""
        return primal if type(tangent) is Zero else JVPTracer(self, primal, tangent)

    def process(self, prim: Primitive, args: tuple, params: dict) -> Any:
        for x in args:
            if type(x) is JVPTracer and x._trace is self:
                break
        else:
            return _in_parent(self, prim, args, params)
        primals, tangents = zip(*map(self.split, args), strict=True)
        rule = derivative_rule(prim)
        if prim.linearize is not None and _separates(self.parent):
            rule = prim.linearize
        state.trace = self.parent
        try:
            out, t_out = rule(primals, tangents, **params)
        finally:
            state.trace = self
        if prim.multiple_results:
            return [self.join(p, t) for p, t in zip(out, t_out, strict=True)]
        return self.join(out, t_out)

    def describe(self) -> str:
        return "jvp"


def _in_parent(trace: Any, prim: Primitive, args: tuple, params: dict) -> Any:
    """Pass a call on to the parent trace, which is current meanwhile."""
    parent = trace.parent
    state.trace = parent
    try:
        return parent.process(prim, args, params)
    finally:
        state.trace = trace


def jvp_flat(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Values and tangents of a function of flat arguments; tangents may be symbolic zeros."""
    trace = JVPTrace(state.trace)
    state.trace = trace
    try:
        outs = fun(*[trace.join(p, t) for p, t in zip(primals, tangents, strict=True)])
        pairs = [trace.split(x) for x in outs]
    finally:
        state.trace = trace.parent
        trace.live = False
    return [p for p, _ in pairs], [t for _, t in pairs]


def float0_zeros(aval: ShapedArray) -> Any:
    """The tangent of integer and boolean values that users see: an array of dtype float0."""
    return dtypes.float0_array(aval.shape)


def materialise(t: Any) -> Any:
    """A tangent as users see it: zeros made, float0 for integers."""
    if type(t) is Zero:
        if t.aval.dtype == dtypes.float0:
            return float0_zeros(t.aval)
        return linear_ops.zeros(make_aval(t.aval.shape, t.aval.dtype))
    return t
