"""Taylor rules of calls, branches and loops: the same operation over values and their terms.

Builds on jet.py. Tested in tests/api/test_jet.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.core.aval import tangent_aval
from pullback.core.call import cached, closed_jaxpr, jit_p
from pullback.core.jaxpr import Jaxpr, eval_jaxpr
from pullback.core.tracer import Primitive, state
from pullback.lax.control_flow import cond_p, share_consts
from pullback.lax.custom_rules import (
    custom_jvp_call_p,
    custom_vjp_call_p,
    run_call,
    stage_call,
)
from pullback.lax.jet import (
    JetTracer,
    Rule,
    Terms,
    before,
    given_terms,
    jet_flat,
    jet_jaxpr,
    made,
    rules,
    varies,
    which,
)
from pullback.lax.loop_parts import carry_fixpoint, split_at
from pullback.lax.remat import checkpoint_p
from pullback.lax.scan import scan_p
from pullback.lax.scan_residuals import add_zero_results
from pullback.lax.while_loop import while_p


def _taken(flags: Sequence[Sequence[bool]], terms: Sequence[Any]) -> list[Terms]:
    """The terms, each at its place."""
    rest = iter(terms)
    return [tuple([next(rest) if f else None for f in own]) for own in flags]


def _call(prim: Primitive) -> Rule:
    """A call of a jaxpr stays one: of values and terms."""

    def rule(
        order: int, primals: Any, series: Any, *, jaxpr: Jaxpr, **params: Any
    ) -> tuple[list, list]:
        derived, lead, there = jet_jaxpr(jaxpr, order, which(series))
        outs = prim.bind(*lead, *primals, *given_terms(series), jaxpr=derived, **params)
        n_out = len(jaxpr.outvars)
        return outs[:n_out], _taken(there, outs[n_out:])

    return rule


def _custom_jvp(args: tuple, params: dict) -> list[Any] | None:
    """By the user's rule; but the function itself where it closes over something that varies."""
    staged, known = stage_call(args, params)
    consts = staged[: known["num_consts"]]
    if any(type(c) is JetTracer and c._trace is state.trace for c in consts):
        return run_call(params["call"], args)
    return None


def _custom_vjp(args: tuple, params: dict) -> list[Any]:
    """Through the function itself, as in JAX: the user's rule is for reverse mode alone."""
    return run_call(params["call"], args)


def _cond(
    order: int, primals: Any, series: Any, *, branches: tuple[Jaxpr, ...], **params: Any
) -> tuple[list, list]:
    index, *ops = primals
    flags = which(series[1:])
    derived = [jet_jaxpr(b, order, flags) for b in branches]
    n_out = len(branches[0].outvars)
    there = [
        tuple([any(group) for group in zip(*own, strict=True)])
        for own in zip(*[d[2] for d in derived], strict=True)
    ]
    avals = list(branches[0].out_avals)
    for aval in branches[0].out_avals:
        avals += [tangent_aval(aval)] * order
    everything = [True] * n_out
    wanted = [f for own in there for f in own]
    joined, consts = share_consts(
        [
            (
                add_zero_results(
                    jaxpr,
                    everything + [f for own in found for f in own],
                    everything + wanted,
                    avals,
                ),
                lead,
            )
            for jaxpr, lead, found in derived
        ]
    )
    outs = cond_p.bind(index, *consts, *ops, *given_terms(series[1:]), branches=joined, **params)
    return outs[:n_out], _taken(there, outs[n_out:])


def _body(
    jaxpr: Jaxpr, order: int, groups: tuple[tuple[bool, ...], ...], n_carry: int
) -> tuple[Jaxpr, list[Any], list[bool]]:
    """A loop's body over values and terms; a value that varies has all its terms.

    Args:
        jaxpr: results are carried values first, then others.
        order: how many terms there are.
        groups: which of the constants, carried values and slices vary. In each group of operands
            (and of results) the terms follow the values.
        n_carry: how many values are carried.

    Returns:
        The jaxpr (its leading operands are constants), the constants, and which results vary
        (carried ones only because the operand does, too).
    """
    sizes = [len(g) for g in groups]
    grouped = split_at(jaxpr.in_avals, *sizes[:-1])
    none: Terms = (None,) * order

    def make() -> tuple[Jaxpr, list[Any], list[bool]]:
        wanted: list[bool] = []

        def fun(*args: Any) -> list[Any]:
            primals, series, rest = [], [], list(args)
            for flags in groups:
                values, rest = rest[: len(flags)], rest[len(flags) :]
                terms, rest = rest[: order * sum(flags)], rest[order * sum(flags) :]
                given = iter(terms)
                primals += values
                series += [tuple([next(given) for _ in none]) if f else none for f in flags]
            outs, found = jet_flat(lambda *xs: eval_jaxpr(jaxpr, (), *xs), order, primals, series)
            wanted[:] = [varies(ts) or (i < n_carry and groups[1][i]) for i, ts in enumerate(found)]
            full = [
                [made(t, o) for t in ts] if w else []
                for o, ts, w in zip(outs, found, wanted, strict=True)
            ]
            carry, ys = split_at(outs, n_carry)
            carry_terms, ys_terms = split_at(full, n_carry)
            return [
                *carry,
                *(t for ts in carry_terms for t in ts),
                *ys,
                *(t for ts in ys_terms for t in ts),
            ]

        avals: list[Any] = []
        for own, flags in zip(grouped, groups, strict=True):
            avals += own
            for aval, f in zip(own, flags, strict=True):
                avals += [tangent_aval(aval)] * (order if f else 0)
        return (*closed_jaxpr(fun, avals, jaxpr.debug_name), wanted)

    return cached(jaxpr, ("jet_body", order, groups), make)


def _full_terms(primals: Sequence[Any], series: Sequence[Terms], flags: Sequence[bool]) -> list:
    """All terms of the values that vary, made."""
    return [made(t, p) for p, ts, f in zip(primals, series, flags, strict=True) if f for t in ts]


def _regrouped(
    outs: Sequence[Any], order: int, n_carry: int, wanted: Sequence[bool]
) -> tuple[list, list]:
    """Results and their terms from (carried, terms, others, terms)."""
    n_ys = len(wanted) - n_carry
    carry, carry_terms, ys, ys_terms = split_at(outs, n_carry, order * sum(wanted[:n_carry]), n_ys)
    flags = [(w,) * order for w in wanted]
    return [*carry, *ys], _taken(flags, [*carry_terms, *ys_terms])


def _scan(
    order: int,
    primals: Any,
    series: Any,
    *,
    jaxpr: Jaxpr,
    num_consts: int,
    num_carry: int,
    **params: Any,
) -> tuple[list, list]:
    consts, init, xs = split_at(primals, num_consts, num_carry)
    const_ts, init_ts, xs_ts = split_at(series, num_consts, num_carry)
    const_v, xs_v = tuple(map(varies, const_ts)), tuple(map(varies, xs_ts))
    carry_v = carry_fixpoint(
        list(map(varies, init_ts)),
        lambda c: _body(jaxpr, order, (const_v, tuple(c), xs_v), num_carry)[2][:num_carry],
    )
    body, lead, wanted = _body(jaxpr, order, (const_v, tuple(carry_v), xs_v), num_carry)
    fixed = _full_terms(consts, const_ts, const_v)
    carried = _full_terms(init, init_ts, carry_v)
    outs = scan_p.bind(
        *lead,
        *consts,
        *fixed,
        *init,
        *carried,
        *xs,
        *_full_terms(xs, xs_ts, xs_v),
        jaxpr=body,
        num_consts=len(lead) + num_consts + len(fixed),
        num_carry=num_carry + len(carried),
        **params,
    )
    return _regrouped(outs, order, num_carry, wanted)


def _while(
    order: int,
    primals: Any,
    series: Any,
    *,
    cond_jaxpr: Jaxpr,
    cond_nconsts: int,
    body_jaxpr: Jaxpr,
    body_nconsts: int,
) -> tuple[list, list]:
    cond_consts, consts, init = split_at(primals, cond_nconsts, body_nconsts)
    _, const_ts, init_ts = split_at(series, cond_nconsts, body_nconsts)
    n_carry = len(init)
    const_v = tuple(map(varies, const_ts))
    carry_v = carry_fixpoint(
        list(map(varies, init_ts)),
        lambda c: _body(body_jaxpr, order, (const_v, tuple(c), ()), n_carry)[2],
    )
    body, lead, wanted = _body(body_jaxpr, order, (const_v, tuple(carry_v), ()), n_carry)
    fixed = _full_terms(consts, const_ts, const_v)
    carried = _full_terms(init, init_ts, carry_v)

    def make_cond() -> Jaxpr:
        n_in = len(cond_jaxpr.invars)
        avals = list(cond_jaxpr.in_avals)
        for aval, v in zip(body_jaxpr.out_avals, carry_v, strict=True):
            avals += [tangent_aval(aval)] * (order if v else 0)
        return closed_jaxpr(
            lambda *xs: eval_jaxpr(cond_jaxpr, (), *xs[:n_in]), avals, cond_jaxpr.debug_name
        )[0]

    outs = while_p.bind(
        *cond_consts,
        *lead,
        *consts,
        *fixed,
        *init,
        *carried,
        cond_jaxpr=cached(cond_jaxpr, ("while_jet", order, tuple(carry_v)), make_cond),
        cond_nconsts=cond_nconsts,
        body_jaxpr=body,
        body_nconsts=len(lead) + body_nconsts + len(fixed),
    )
    return _regrouped(outs, order, n_carry, wanted)


rules.update(
    {
        jit_p: _call(jit_p),
        checkpoint_p: _call(checkpoint_p),
        cond_p: _cond,
        scan_p: _scan,
        while_p: _while,
    }
)
before.update({custom_jvp_call_p: _custom_jvp, custom_vjp_call_p: _custom_vjp})
