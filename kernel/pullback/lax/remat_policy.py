"""What a checkpoint policy saves of a program: the values of single operations, in loops, too.

A policy is asked about each operation, those in jitted calls, branches and bodies of scans included. A
value that it saves in a body is stacked over the steps, and the loop that recomputes the others
takes it slice by slice.

Builds on scan.py and core/call.py. Tested in tests/api/test_checkpoint.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pullback.core.call import cached, jit_p
from pullback.core.jaxpr import Eqn, Jaxpr, Literal, Var, dce_jaxpr
from pullback.lax.control_flow import cond_p
from pullback.lax.inner import intern_jaxpr
from pullback.lax.loop_parts import split_at, stacked_aval
from pullback.lax.scan import scan_p
from pullback.lax.scan_residuals import add_zero_results

Policy = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Either:
    """The policy that saves what either of two saves."""

    first: Policy
    second: Policy

    def __call__(self, prim: Any, *avals: Any, **params: Any) -> bool:
        return self.first(prim, *avals, **params) or self.second(prim, *avals, **params)


def _saved_by(policy: Policy, eqn: Eqn) -> bool:
    return bool(policy(eqn.primitive, *[v.aval for v in eqn.invars], **eqn.params))


def inlined(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with the jitted calls in it written out, so that a policy sees their operations."""
    if not any(e.primitive is jit_p for e in jaxpr.eqns):
        return jaxpr

    def make() -> Jaxpr:
        eqns: list[Eqn] = []
        env: dict[Any, Any] = {}

        def read(atom: Any) -> Any:
            return atom if type(atom) is Literal else env.get(atom, atom)

        for eqn in jaxpr.eqns:
            operands = [read(v) for v in eqn.invars]
            if eqn.primitive is not jit_p:
                eqns.append(Eqn(eqn.primitive, operands, eqn.outvars, eqn.params, eqn.source))
                continue
            inner = inlined(eqn.params["jaxpr"])
            local: dict[Any, Any] = dict(zip(inner.invars, operands, strict=True))
            for e in inner.eqns:
                outvars = [Var(v.aval) for v in e.outvars]
                invars = [v if type(v) is Literal else local[v] for v in e.invars]
                eqns.append(Eqn(e.primitive, invars, outvars, e.params, e.source))
                local.update(zip(e.outvars, outvars, strict=True))
            results = [v if type(v) is Literal else local[v] for v in inner.outvars]
            env.update(zip(eqn.outvars, results, strict=True))
        outvars = [read(v) for v in jaxpr.outvars]
        return Jaxpr((), jaxpr.invars, outvars, eqns, jaxpr.debug_name)

    return cached(jaxpr, ("inlined",), make)


def cut_at(jaxpr: Jaxpr, saveable: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
    """The jaxpr with saved values as further inputs, and those of them that are used."""
    given = set(saveable)
    eqns = [e for e in jaxpr.eqns if not all(v in given for v in e.outvars)]
    fresh = [
        Eqn(
            e.primitive,
            e.invars,
            [Var(v.aval) if v in given else v for v in e.outvars],
            e.params,
            e.source,
        )
        for e in eqns
    ]
    whole = Jaxpr((), [*jaxpr.invars, *saveable], jaxpr.outvars, fresh, jaxpr.debug_name)
    small, kept = dce_jaxpr(whole, [True] * len(whole.outvars), keep_inputs=False)
    used = [v for v, k in zip(saveable, kept[len(jaxpr.invars) :], strict=True) if k]
    cut = Jaxpr((), [*jaxpr.invars, *used], small.outvars, small.eqns, jaxpr.debug_name)
    return cut, used


def passed_down(jaxpr: Jaxpr, policy: Policy) -> Jaxpr:
    """The program, whose inner checkpoints save what the policy of the outer one saves, too."""

    def changed(eqn: Eqn) -> Eqn:
        params = eqn.params
        if eqn.primitive.name == CHECKPOINT:
            own = params["policy"]
            both = policy if own is None or own == policy else Either(own, policy)
            params = {**params, "policy": both}
        elif eqn.primitive is scan_p:
            body = passed_down(inlined(params["jaxpr"]), policy)
            params = params if body is params["jaxpr"] else {**params, "jaxpr": body}
        elif eqn.primitive is cond_p:
            branches = tuple([passed_down(inlined(b), policy) for b in params["branches"]])
            params = params if branches == params["branches"] else {**params, "branches": branches}
        if params is eqn.params:
            return eqn
        return Eqn(eqn.primitive, eqn.invars, eqn.outvars, params, eqn.source)

    def make() -> Jaxpr:
        eqns = [changed(e) for e in jaxpr.eqns]
        same = all(a is b for a, b in zip(eqns, jaxpr.eqns, strict=True))
        return jaxpr if same else intern_jaxpr(jaxpr.replace(eqns=eqns))

    return cached(jaxpr, ("passed_down", policy), make)


CHECKPOINT = "checkpoint"
"""The name of the primitive, which is declared above this module."""


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A program twice, with what a policy lets save.

    Attributes:
        once: the program; its scans give the values saved in their bodies, too.
        again: the program as it is recomputed; its scans take these values.
        saveable: the variables that may be saved. `once` gives them; in `again` they are free.
    """

    once: Jaxpr
    again: Jaxpr
    saveable: list[Any]


def open_loops(jaxpr: Jaxpr, policy: Policy | None) -> Opened:
    """The program with the values in its loops that a policy saves brought out of them."""
    if policy is None:
        return Opened(jaxpr, jaxpr, [])
    once: list[Eqn] = []
    again: list[Eqn] = []
    saveable: list[Any] = []
    same: dict[Any, Any] = {}

    def read(atom: Any) -> Any:
        return atom if type(atom) is Literal else same.get(atom, atom)

    for eqn in jaxpr.eqns:
        operands = [read(v) for v in eqn.invars]
        moved = Eqn(eqn.primitive, operands, eqn.outvars, eqn.params, eqn.source)
        if eqn.primitive is scan_p:
            forward, moved, stacks, aliases = _open_scan(moved, policy)
            once.append(Eqn(scan_p, eqn.invars, forward.outvars, forward.params, eqn.source))
            same.update(aliases)
            saveable += stacks
            if _saved_by(policy, eqn):
                saveable += eqn.outvars[: eqn.params["num_carry"]]
        elif eqn.primitive is cond_p and not _saved_by(policy, eqn):
            forward, moved, slots = _open_cond(moved, policy)
            once.append(Eqn(cond_p, eqn.invars, forward.outvars, forward.params, eqn.source))
            saveable += slots
        else:
            once.append(eqn)
            if _saved_by(policy, eqn):
                saveable += eqn.outvars
        again.append(moved)
    return Opened(
        jaxpr.replace(eqns=once),
        jaxpr.replace(eqns=again, outvars=[read(v) for v in jaxpr.outvars]),
        saveable,
    )


def _open_scan(eqn: Eqn, policy: Policy) -> tuple[Eqn, Eqn, list[Var], dict[Var, Any]]:
    """A scan that gives the values saved in its body, and one that takes them.

    Returns:
        Both equations, the stacked values, and the results of the second that are operands.
    """
    body, length = inlined(eqn.params["jaxpr"]), eqn.params["length"]
    opened = open_loops(body, policy)
    saved = [v for v in dict.fromkeys(opened.saveable) if v not in set(body.invars)]
    if not saved:
        return eqn, eqn, [], {}
    gives = opened.once.replace(outvars=[*opened.once.outvars, *saved])
    cut, used = cut_at(opened.again, saved)
    used_set = set(used)
    stacks = {v: Var(stacked_aval(v.aval, length)) for v in saved}
    forward = Eqn(
        scan_p,
        eqn.invars,
        [*eqn.outvars, *stacks.values()],
        {**eqn.params, "jaxpr": intern_jaxpr(gives)},
        eqn.source,
    )
    taken = [stacks[v] for v in saved if v in used_set]
    backward = Eqn(
        scan_p,
        [*eqn.invars, *taken],
        eqn.outvars,
        {**eqn.params, "jaxpr": intern_jaxpr(cut)},
        eqn.source,
    )
    num_consts, num_carry = eqn.params["num_consts"], eqn.params["num_carry"]
    _, _, slices = split_at(
        list(zip(cut.invars, backward.invars, strict=True)), num_consts, num_carry
    )
    operand = dict(slices)
    aliases = {
        result: operand[inside]
        for result, inside in zip(eqn.outvars[num_carry:], cut.outvars[num_carry:], strict=True)
        if type(inside) is not Literal and inside in operand
    }
    return forward, backward, list(stacks.values()), aliases


def _open_cond(eqn: Eqn, policy: Policy) -> tuple[Eqn, Eqn, list[Var]]:
    """A cond that gives the values saved in its branches, and one that takes them.

    Each saved value has a place of its own among the results; branches without it give zeros.

    Returns:
        Both equations, and the saved values.
    """
    parts = []
    for branch in eqn.params["branches"]:
        opened = open_loops(inlined(branch), policy)
        inputs = set(opened.once.invars)
        saved = [v for v in dict.fromkeys(opened.saveable) if v not in inputs]
        parts.append((opened.once, *cut_at(opened.again, saved)))
    slots = [(i, v) for i, (_, _, used) in enumerate(parts) for v in used]
    if not slots:
        return eqn, eqn, []
    avals = [*eqn.params["branches"][0].out_avals, *(v.aval for _, v in slots)]
    gives, takes = [], []
    for i, (once, cut, used) in enumerate(parts):
        own = [j == i for j, _ in slots]
        longer = once.replace(outvars=[*once.outvars, *used])
        present = [True] * len(once.outvars) + own
        gives.append(add_zero_results(longer, present, [True] * len(present), avals))
        given = [v if mine else Var(v.aval) for (_, v), mine in zip(slots, own, strict=True)]
        takes.append(cut.replace(invars=[*once.invars, *given]))
    results = [Var(v.aval) for _, v in slots]

    def with_branches(branches: list[Jaxpr], invars: Sequence[Any], outvars: Sequence[Var]) -> Eqn:
        interned = tuple([intern_jaxpr(b) for b in branches])
        return Eqn(cond_p, invars, outvars, {**eqn.params, "branches": interned}, eqn.source)

    forward = with_branches(gives, eqn.invars, [*eqn.outvars, *results])
    return forward, with_branches(takes, [*eqn.invars, *results], eqn.outvars), results
