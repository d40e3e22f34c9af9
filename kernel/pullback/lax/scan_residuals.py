"""Where each residual of a linearized scan body is kept: once, as it already stands, or stacked.

Builds on core/jaxpr.py and core/linearize.py. Tested in tests/lax/test_scan.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pullback.core.aval import tangent_aval
from pullback.core.call import cached, closed_jaxpr
from pullback.core.jaxpr import Jaxpr, Literal, Var, dce_jaxpr, eval_jaxpr
from pullback.core.jvp import linear_ops
from pullback.core.linearize import Template

Place = tuple[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A scan body split for reverse mode.

    Attributes:
        hoisted: (lead, consts) -> what is the same in every step, computed once.
        known: (lead, consts, hoisted, carry, xs) -> (carry, ys, residuals to stack).
        linear: (fixed residuals, tangents of consts, carry and xs, moving residuals) -> tangents.
        n_known_consts: how many constants `known` has.
        fixed: where each loop-invariant residual comes from.
        moving: where each residual that changes from step to step comes from.
    """

    hoisted: Jaxpr
    known: Jaxpr
    linear: Jaxpr
    n_known_consts: int
    fixed: tuple[Place, ...]
    moving: tuple[Place, ...]

    def constant_residuals(
        self, sources: Sequence[tuple], primals: Sequence[Any], hoisted: Sequence[Any]
    ) -> list[Any]:
        """The values of the loop-invariant residuals."""
        tables = {"primal": primals, "hoisted": hoisted}
        return [
            where
            if kind == "value"
            else sources[where][1]
            if kind == "const"
            else tables[kind][where]
            for kind, where in self.fixed
        ]

    def stacked_residuals(
        self, primals: Sequence[Any], outs: Sequence[Any], stacked: Sequence[Any]
    ) -> list[Any]:
        """The stacked values of the other residuals."""
        tables = {"primal": primals, "out": outs, "stacked": stacked}
        return [tables[kind][where] for kind, where in self.moving]


def invariant_vars(known: Jaxpr, constants: Sequence[Var]) -> set[Any]:
    """The variables of a loop body that are the same in every step."""
    invariant: set[Any] = set(constants)
    for eqn in known.eqns:
        if not eqn.effectful and all(type(v) is Literal or v in invariant for v in eqn.invars):
            invariant.update(eqn.outvars)
    return invariant


def place_residuals(
    jaxpr: Jaxpr, split: Template, nonzero: tuple[bool, ...], num_consts: int, num_carry: int
) -> Placed:
    """Decide where residuals are kept, and build the programs that this needs.

    Args:
        jaxpr: the scan's body.
        split: its known and linear parts at these nonzero tangents.
        nonzero: per input whether it has a tangent; stable over the carry.
        num_consts: how many inputs are loop constants.
        num_carry: how many are carried.
    """
    key = ("place_residuals", nonzero, num_consts, num_carry)
    return cached(jaxpr, key, lambda: _place(jaxpr, split, nonzero, num_consts, num_carry))


def _place(
    jaxpr: Jaxpr, split: Template, nonzero: tuple[bool, ...], num_consts: int, num_carry: int
) -> Placed:
    known = split.known
    n_lead = len(split.known_consts)
    n_out = len(jaxpr.outvars)
    constants = known.invars[: n_lead + num_consts]
    moving_inputs = known.invars[n_lead + num_consts + num_carry :]
    invariant = invariant_vars(known, constants)
    where: dict[Any, Place] = {
        v: ("primal", num_consts + num_carry + i) for i, v in enumerate(moving_inputs)
    }
    for o in range(num_carry, n_out):
        if type(known.outvars[o]) is not Literal:
            where.setdefault(known.outvars[o], ("out", o))
    hoisted: list[Var] = []
    stacked: list[Var] = []
    places: list[Place] = []
    for index, (kind, at) in enumerate(split.sources):
        if kind == "const":
            places.append(("const", index))
            continue
        atom = known.invars[n_lead + at] if kind == "arg" else known.outvars[at]
        if type(atom) is Literal:
            places.append(("value", atom.val))
        elif atom in constants[n_lead:]:
            places.append(("primal", constants.index(atom) - n_lead))
        elif atom in invariant:
            if atom not in hoisted:
                hoisted.append(atom)
            places.append(("hoisted", hoisted.index(atom)))
        else:
            if atom not in where:
                where[atom] = ("stacked", len(stacked))
                stacked.append(atom)
            places.append(where[atom])
    is_fixed = [
        kind in ("const", "value", "hoisted") or (kind == "primal" and at < num_consts)
        for kind, at in places
    ]
    return Placed(
        hoisted=_hoisted_program(known, constants, hoisted),
        known=_known_body(known, n_out, n_lead + num_consts, hoisted, stacked),
        linear=_linear_body(jaxpr, split, nonzero, is_fixed, num_consts, num_carry),
        n_known_consts=n_lead + num_consts + len(hoisted),
        fixed=tuple([p for p, f in zip(places, is_fixed, strict=True) if f]),
        moving=tuple([p for p, f in zip(places, is_fixed, strict=True) if not f]),
    )


def _hoisted_program(known: Jaxpr, constants: Sequence[Var], hoisted: list[Var]) -> Jaxpr:
    """What is computed once. Side effects stay in the loop, with what only they need."""
    eqns = [e for e in known.eqns if not e.effectful]
    whole = Jaxpr((), known.invars, hoisted, eqns, "hoisted")
    small, _ = dce_jaxpr(whole, [True] * len(hoisted), keep_inputs=True)
    return Jaxpr((), constants, hoisted, small.eqns, "hoisted")


def _known_body(
    known: Jaxpr, n_out: int, n_consts: int, hoisted: list[Var], stacked: list[Var]
) -> Jaxpr:
    """The known part with hoisted values as inputs; what only they needed is dropped."""
    given = set(hoisted)
    new: dict[Any, Var] = {v: Var(v.aval) for v in hoisted}
    eqns = [e for e in known.eqns if not all(v in given for v in e.outvars) or not e.outvars]
    eqns = [
        type(e)(
            e.primitive,
            [v if type(v) is Literal else new.get(v, v) for v in e.invars],
            e.outvars,
            e.params,
            e.source,
        )
        for e in eqns
    ]
    outs = [v if type(v) is Literal else new.get(v, v) for v in known.outvars[:n_out]]
    whole = Jaxpr(
        (),
        [*known.invars[:n_consts], *new.values(), *known.invars[n_consts:]],
        [*outs, *stacked],
        eqns,
        known.debug_name,
    )
    return dce_jaxpr(whole, [True] * len(whole.outvars), keep_inputs=True)[0]


def _linear_body(
    jaxpr: Jaxpr,
    split: Template,
    nonzero: tuple[bool, ...],
    is_fixed: list[bool],
    num_consts: int,
    num_carry: int,
) -> Jaxpr:
    linear = split.linear
    n_t = sum(nonzero)
    n_const_t = sum(nonzero[:num_consts])
    tangents, residuals = linear.invars[:n_t], linear.invars[n_t:]
    carry_nz = nonzero[num_consts : num_consts + num_carry]
    wanted = [nz or (i < num_carry and carry_nz[i]) for i, nz in enumerate(split.out_nonzero)]
    avals = [tangent_aval(a) for a in jaxpr.out_avals]
    body = Jaxpr(
        (),
        [
            *(v for v, f in zip(residuals, is_fixed, strict=True) if f),
            *tangents[:n_const_t],
            *tangents[n_const_t:],
            *(v for v, f in zip(residuals, is_fixed, strict=True) if not f),
        ],
        linear.outvars,
        linear.eqns,
        jaxpr.debug_name,
    )
    return add_zero_results(body, split.out_nonzero, wanted, avals)


def add_zero_results(
    jaxpr: Jaxpr, present: Sequence[bool], wanted: Sequence[bool], avals: Sequence[Any]
) -> Jaxpr:
    """The jaxpr with arrays of zeros among its results where they are wanted and not there.

    Args:
        jaxpr: the program; its results are those marked `present`, then any others.
        present: per wanted or possible result, whether it is there.
        wanted: which are to be there; includes all that are present.
        avals: the types of all possible results.
    """
    if all(p or not w for p, w in zip(present, wanted, strict=True)):
        return jaxpr

    def fun(*args: Any) -> list[Any]:
        outs = iter(eval_jaxpr(jaxpr, (), *args))
        full = [
            next(outs) if p else linear_ops.zeros(a)
            for p, w, a in zip(present, wanted, avals, strict=True)
            if w
        ]
        return [*full, *outs]

    def make() -> Jaxpr:
        return closed_jaxpr(fun, jaxpr.in_avals, jaxpr.debug_name)[0]

    return cached(jaxpr, ("zeros", tuple(present), tuple(wanted), tuple(avals)), make)
