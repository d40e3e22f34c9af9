"""Taylor mode: truncated Taylor polynomials carried by a trace, to any order at once.

A value along a curve t -> x(t) is its primal x(0) and the derivatives x'(0), x''(0), ... of the
curve. Primitives with a recurrence of their own are in jet_rules.py, calls and loops in
jet_calls.py. Every other one follows from its derivative: y' = J(x) x' is itself a program of x and
x', so its Taylor polynomial, one order lower, is y's without the first term. That costs nothing
extra where the operation is linear, and never needs a nested forward mode.

Builds on core/call.py. Source: Griewank and Walther, Evaluating Derivatives, 2nd ed., chapter 13.
Tested in tests/api/test_jet.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from pullback.core import dtypes
from pullback.core.aval import ShapedArray, tangent_aval, typeof
from pullback.core.call import cached, closed_jaxpr
from pullback.core.jaxpr import Jaxpr, dce_jaxpr, eval_jaxpr
from pullback.core.jvp import Zero, _in_parent, derivative_rule, linear_ops
from pullback.core.tracer import Primitive, Trace, Tracer, state

# The derivatives of a value along the curve, first order first; None is a zero not materialised.
Terms = tuple[Any, ...]
Rule = Callable[..., tuple[Any, Any]]

rules: dict[Primitive, Rule] = {}
"""(order, primals, series, **params) -> (out, terms), lists of both with multiple results."""

before: dict[Primitive, Callable[[tuple, dict], list[Any] | None]] = {}
"""(args, params) -> results, under the trace itself; None to go on by rule. For custom calls."""


class JetTracer(Tracer):
    """A primal value with the derivatives of its curve."""

    __slots__ = ("primal", "terms")

    def __init__(self, trace: Trace, primal: Any, terms: Terms) -> None:
        self._trace = trace
        self.primal = primal
        self.terms = terms
        self.aval = typeof(primal)

    def concrete(self) -> Any:
        primal = self.primal
        return primal.concrete() if isinstance(primal, Tracer) else primal


class JetTrace(Trace):
    """Pushes truncated Taylor polynomials of one order forward."""

    def __init__(self, parent: Trace, order: int) -> None:
        self.parent: Trace = parent
        self.order = order
        self.zero: Terms = (None,) * order
        self.live = True

    def split(self, x: Any) -> tuple[Any, Terms]:
        """The primal and the terms of an operand."""
        if type(x) is JetTracer and x._trace is self:
            return x.primal, x.terms
        return x, self.zero

    def join(self, primal: Any, terms: Sequence[Any]) -> Any:
        """A tracer for the pair; the bare primal where it does not vary."""
        terms = tuple(terms)
        if not varies(terms):
            return primal
        return JetTracer(self, primal, terms)

    def process(self, prim: Primitive, args: tuple, params: dict) -> Any:
        if prim in before:
            results = before[prim](args, params)
            if results is not None:
                return results
        for x in args:
            if type(x) is JetTracer and x._trace is self:
                break
        else:
            return _in_parent(self, prim, args, params)
        primals, series = zip(*map(self.split, args), strict=True)
        state.trace = self.parent
        try:
            rule = rules.get(prim)
            if rule is not None:
                out, terms = rule(self.order, primals, series, **params)
            else:
                out, terms = by_derivative(prim, self.order, primals, series, params)
        finally:
            state.trace = self
        if prim.multiple_results:
            return [self.join(p, ts) for p, ts in zip(out, terms, strict=True)]
        return self.join(out, terms)

    def describe(self) -> str:
        return "jet"


def varies(terms: Terms) -> bool:
    """Whether any term is there."""
    return any(t is not None for t in terms)


def made(term: Any, primal: Any) -> Any:
    """The term as an array of the primal's type."""
    return linear_ops.zeros(tangent_aval(typeof(primal))) if term is None else term


def jet_flat(
    fun: Callable[..., Sequence[Any]], order: int, primals: Sequence[Any], series: Sequence[Terms]
) -> tuple[list[Any], list[Terms]]:
    """Values and terms of a function of flat arguments."""
    trace = JetTrace(state.trace, order)
    state.trace = trace
    try:
        outs = fun(*[trace.join(p, ts) for p, ts in zip(primals, series, strict=True)])
        pairs = [trace.split(x) for x in outs]
    finally:
        state.trace = trace.parent
        trace.live = False
    return [p for p, _ in pairs], [ts for _, ts in pairs]


def jet_jaxpr(
    jaxpr: Jaxpr, order: int, there: tuple[tuple[bool, ...], ...]
) -> tuple[Jaxpr, list[Any], list[tuple[bool, ...]]]:
    """The jaxpr of primals and terms that are there to results and their terms that are there.

    Args:
        jaxpr: a program without constvars.
        order: how many terms there are.
        there: per invar, which terms are given.

    Returns:
        The jaxpr (its leading operands are constants), the constants, and per result which terms
        come out. All terms follow all primals.
    """

    def make() -> tuple[Jaxpr, list[Any], list[tuple[bool, ...]]]:
        n_in = len(jaxpr.invars)
        found: list[tuple[bool, ...]] = []

        def fun(*args: Any) -> list[Any]:
            given = iter(args[n_in:])
            series = [tuple([next(given) if g else None for g in flags]) for flags in there]
            outs, terms = jet_flat(
                lambda *xs: eval_jaxpr(jaxpr, (), *xs), order, args[:n_in], series
            )
            found[:] = [tuple([t is not None for t in ts]) for ts in terms]
            return [*outs, *(t for ts in terms for t in ts if t is not None)]

        avals = list(jaxpr.in_avals)
        for aval, flags in zip(jaxpr.in_avals, there, strict=True):
            avals += [tangent_aval(aval)] * sum(flags)
        return (*closed_jaxpr(fun, avals, jaxpr.debug_name), found)

    return cached(jaxpr, ("jet", order, there), make)


def which(series: Sequence[Terms]) -> tuple[tuple[bool, ...], ...]:
    """Per value, which terms are there."""
    return tuple([tuple([t is not None for t in terms]) for terms in series])


def given_terms(series: Sequence[Terms]) -> list[Any]:
    """All terms that are there."""
    return [t for terms in series for t in terms if t is not None]


def _derivative(
    prim: Primitive,
    params: dict[str, Any],
    avals: Sequence[ShapedArray],
    varying: Sequence[bool],
) -> tuple[Jaxpr, list[Any], list[bool]]:
    """y' as a program of x and the x' that vary: it, its constants, which y' are nonzero."""
    nonzero: list[bool] = []

    def fun(*args: Any) -> list[Any]:
        given = iter(args[len(avals) :])
        tangents = [
            next(given) if v else Zero(tangent_aval(a)) for a, v in zip(avals, varying, strict=True)
        ]
        _, t_out = derivative_rule(prim)(args[: len(avals)], tangents, **params)
        outs = t_out if prim.multiple_results else [t_out]
        nonzero[:] = [type(t) is not Zero for t in outs]
        return [t for t in outs if type(t) is not Zero]

    t_avals = [tangent_aval(a) for a, v in zip(avals, varying, strict=True) if v]
    jaxpr, consts = closed_jaxpr(fun, [*avals, *t_avals], prim.name)
    small, _ = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), keep_inputs=True)
    return small, consts, nonzero


class _UncachedError(Exception):
    """Carries a derivative that closes over traced values out of the cache's way."""


@lru_cache(maxsize=512)
def _cached_derivative(
    prim: Primitive, items: tuple, avals: tuple, varying: tuple, axis_env: tuple
) -> tuple[Jaxpr, list[Any], list[bool]]:
    found = _derivative(prim, dict(items), avals, varying)
    if any(isinstance(c, Tracer) for c in found[1]):
        raise _UncachedError(found)
    return found


def clear_caches() -> None:
    """Forget the programs of derivatives."""
    _cached_derivative.cache_clear()


def _derivative_of(
    prim: Primitive, params: dict[str, Any], avals: tuple, varying: tuple
) -> tuple[Jaxpr, list[Any], list[bool]]:
    if any(callable(p) for p in params.values()):
        return _derivative(prim, params, avals, varying)
    try:
        return _cached_derivative(prim, tuple(params.items()), avals, varying, state.axis_env)
    except _UncachedError as found:
        return found.args[0]


def by_derivative(
    prim: Primitive,
    order: int,
    primals: Sequence[Any],
    series: Sequence[Terms],
    params: dict[str, Any],
) -> tuple[Any, Any]:
    """The rule for a primitive of which only the derivative is known."""
    result = prim.bind(*primals, **params)
    outs = result if prim.multiple_results else [result]
    none: Terms = (None,) * order
    terms: list[Terms] = [none] * len(outs)
    if any(dtypes.is_inexact(typeof(o).dtype) for o in outs):
        varying = tuple([varies(ts) for ts in series])
        avals = tuple([typeof(p) for p in primals])
        jaxpr, consts, nonzero = _derivative_of(prim, params, avals, varying)
        speeds = [
            (made(ts[0], p), ts[1:]) for p, ts, v in zip(primals, series, varying, strict=True) if v
        ]
        firsts, rests = jet_flat(
            lambda *xs: eval_jaxpr(jaxpr, (), *consts, *xs),
            order - 1,
            [*primals, *(v for v, _ in speeds)],
            [*(ts[:-1] for ts in series), *(ts for _, ts in speeds)],
        )
        pairs = iter(zip(firsts, rests, strict=True))
        terms = [none] * len(outs)
        for i, nz in enumerate(nonzero):
            if nz:
                first, rest = next(pairs)
                terms[i] = (first, *rest)
    return (outs, terms) if prim.multiple_results else (result, terms[0])
