"""The inner programs of an equation, and what happened in them: the branch that ran, each step of a loop.

Builds on views/adjoints.py. Tested in tests/views/test_bodies.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.core.jaxpr import Eqn, Jaxpr, Literal, eval_jaxpr, inner_jaxprs
from pullback.views.adjoints import CALLS, Evaluation
from pullback.views.folding import operation_name

_MAX_EVALUATED = 2000  # equations in all steps of a loop; longer loops show no values


@dataclass(slots=True)
class BodyEvaluation(Evaluation):
    """What the variables of an inner program held, without cotangents.

    Attributes:
        note: what kind of values these are, to stand after the program's label.
    """

    note: str = ""


def bodies_of(eqn: Eqn) -> Iterator[tuple[str, Jaxpr]]:
    """The inner programs of an equation with what each one is."""
    name = operation_name(eqn).partition(" (")[0]
    for key in sorted(eqn.params):
        value = eqn.params[key]
        found = list(inner_jaxprs({key: value}))
        for i, body in enumerate(found):
            part = key.removesuffix("_jaxpr") if key != "jaxpr" else "body"
            if eqn.primitive.name in CALLS:
                label = name
            elif key == "branches":
                label = f"{name}: branch {i}"
            else:
                label = f"{name}: {part}"
            yield label, body


def evaluate_body(
    eqn: Eqn, number: int, body: Jaxpr, values: Evaluation | None
) -> BodyEvaluation | None:
    """The values in an inner program: of the branch that ran, or of all steps of a scan stacked.

    Args:
        eqn: the equation.
        number: which of its inner programs.
        body: that program.
        values: what the equation's operands held; None if nobody knows.

    Returns:
        None where there are no values: a branch that did not run, a while loop, a long loop.
    """
    if values is None or isinstance(values, BodyEvaluation) or body.constvars or body.effectful:
        return None
    name = eqn.primitive.name
    operands: list[Any] = [
        a.val if isinstance(a, Literal) else values.values.get(a) for a in eqn.invars
    ]
    if any(x is None for x in operands):
        return None
    if name == "cond":
        taken = min(max(int(operands[0]), 0), len(eqn.params["branches"]) - 1)
        if number != taken:
            return None
        return BodyEvaluation(body, _run(body, operands[1:])[0], note=", taken")
    if name == "scan" and eqn.params["length"] * len(body.eqns) <= _MAX_EVALUATED:
        return _evaluate_scan(eqn, body, operands)
    return None


def _run(body: Jaxpr, operands: Sequence[Any]) -> tuple[dict[Any, Any], list[Any]]:
    """Every variable's value, and the results."""
    held = dict(zip(body.invars, operands, strict=True))

    def keep(step: Eqn, _: list, results: list) -> None:
        held.update(zip(step.outvars, results, strict=True))

    results = eval_jaxpr(body, (), *operands, on_eqn=keep)
    return held, list(results)


def _evaluate_scan(eqn: Eqn, body: Jaxpr, operands: Sequence[Any]) -> BodyEvaluation | None:
    length, n_consts, n_carry = (eqn.params[k] for k in ("length", "num_consts", "num_carry"))
    if length == 0:
        return None
    consts, carry = list(operands[:n_consts]), list(operands[n_consts : n_consts + n_carry])
    rows = operands[n_consts + n_carry :]
    steps: list[dict[Any, Any]] = []
    order = range(length - 1, -1, -1) if eqn.params["reverse"] else range(length)
    for i in order:
        held, results = _run(body, [*consts, *carry, *(x[i] for x in rows)])
        carry = results[:n_carry]
        steps.append(held)
    if eqn.params["reverse"]:
        steps.reverse()
    fixed = set(body.invars[:n_consts])
    stacked = {
        var: steps[0][var] if var in fixed else np.stack([np.asarray(s[var]) for s in steps])
        for var in steps[0]
    }
    return BodyEvaluation(body, stacked, note=", values of each step")
