"""What a conditional's branches keep for reverse mode: shared slots for residuals.

Builds on core/call.py and core/linearize.py. Tested in tests/lax/test_control_flow.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.core.aval import ShapedArray, tangent_aval
from pullback.core.call import cached, closed_jaxpr, linearize_jaxpr
from pullback.core.jaxpr import Eqn, Jaxpr, Literal, Var, eval_jaxpr
from pullback.core.jvp import linear_ops
from pullback.lax.scan_residuals import add_zero_results


def union(flags: Sequence[Sequence[bool]]) -> list[bool]:
    """Per position, whether any of the rows is set."""
    return [any(column) for column in zip(*flags, strict=True)]


def _residual_slots(per_branch: Sequence[Sequence[ShapedArray]]) -> tuple[list, list[list[int]]]:
    """Slots that hold any branch's residuals: as many of each type as the neediest branch has."""
    slots: list[ShapedArray] = []
    places: list[list[int]] = []
    for avals in per_branch:
        free = list(range(len(slots)))
        mine = []
        for aval in avals:
            kind = (aval.shape, aval.dtype)
            at = next((s for s in free if (slots[s].shape, slots[s].dtype) == kind), None)
            if at is None:
                at = len(slots)
                slots.append(aval.strip_weak_type())
            else:
                free.remove(at)
            mine.append(at)
        places.append(mine)
    return slots, places


def linearized_branches(
    branches: tuple[Jaxpr, ...], nonzero: tuple[bool, ...]
) -> tuple[list[Any], list[bool], list[ShapedArray], list[list[int]]]:
    """The branches linearized: splits, nonzero results, residual slots, and each one's places."""
    splits = [linearize_jaxpr(b, nonzero) for b in branches]
    out_nz = union([s.out_nonzero for s in splits])
    saved = []
    for s in splits:
        avals = []
        for kind, at in s.sources:
            if kind == "out":
                avals.append(s.known.outvars[at].aval)
        saved.append(avals)
    slots, places = _residual_slots(saved)
    return splits, out_nz, slots, places


def known_branch(split: Any, n_out: int, slots: Sequence[ShapedArray], places: list[int]) -> Jaxpr:
    """A branch's known part, with its residuals in their slots and zeros in the others."""
    known = split.known

    def fun(*args: Any) -> list[Any]:
        outs = eval_jaxpr(known, (), *args)
        values = [outs[at] for kind, at in split.sources if kind == "out"]
        filled = dict(zip(places, values, strict=True))
        return [
            *outs[:n_out],
            *(filled[i] if i in filled else linear_ops.zeros(a) for i, a in enumerate(slots)),
        ]

    key = ("cond_known", n_out, tuple(slots), tuple(places))
    return cached(known, key, lambda: closed_jaxpr(fun, known.in_avals, known.debug_name)[0])


def linear_branch(
    split: Any,
    out_nz: list[bool],
    out_avals: Sequence[ShapedArray],
    n_slots: Sequence[ShapedArray],
    places: list[int],
    op_avals: Sequence[ShapedArray],
) -> tuple[Jaxpr, list[Any]]:
    """(constants, slots, operands, tangents) -> tangents, and the constants."""
    linear = split.linear
    n_t = len(linear.invars) - len(split.sources)
    tangents, residuals = linear.invars[:n_t], linear.invars[n_t:]
    consts = [at for kind, at in split.sources if kind == "const"]

    def make() -> Jaxpr:
        slots = [Var(a) for a in n_slots]
        operands = [Var(a) for a in op_avals]
        lead: list[Var] = []
        saved = iter(places)
        renamed: dict[Any, Any] = {}
        for var, (kind, at) in zip(residuals, split.sources, strict=True):
            if kind == "const":
                lead.append(var)
                continue
            renamed[var] = slots[next(saved)] if kind == "out" else operands[at]
        eqns = [
            Eqn(
                e.primitive,
                [v if type(v) is Literal else renamed.get(v, v) for v in e.invars],
                e.outvars,
                e.params,
                e.source,
            )
            for e in linear.eqns
        ]
        outs = [v if type(v) is Literal else renamed.get(v, v) for v in linear.outvars]
        whole = Jaxpr((), [*lead, *slots, *operands, *tangents], outs, eqns, linear.debug_name)
        t_avals = [tangent_aval(a) for a in out_avals]
        return add_zero_results(whole, split.out_nonzero, out_nz, t_avals)

    key = ("cond_linear", tuple(out_nz), tuple(n_slots), tuple(places), tuple(op_avals))
    return cached(linear, key, make), consts


class Renumbered:
    """A branch's split with the operands that are residuals numbered among those kept."""

    __slots__ = ("linear", "out_nonzero", "sources")

    def __init__(self, split: Any, position: dict[int, int]) -> None:
        self.linear = split.linear
        self.out_nonzero = split.out_nonzero
        self.sources = [(kind, position[at] if kind == "arg" else at) for kind, at in split.sources]
