"""Forward values and cotangents of every variable of a recorded program.

The forward pass is recorded as it runs (core/stage.py); the backward pass pulls each equation's
cotangents back with the same linearize and transpose rules that `grad` uses, one equation at a
time, so that what arrives at each variable can be shown. Builds on core/. Tested in
tests/views/test_adjoints.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pullback.core import dtypes
from pullback.core.aval import typeof
from pullback.core.jaxpr import Eqn, Jaxpr, Literal, Var, eval_jaxpr, inner_jaxprs
from pullback.core.jvp import Zero, add_tangents
from pullback.core.reverse import linearize_flat
from pullback.core.stage import record

# Operations that run one inner program on their own operands and give its results.
CALLS = frozenset({"jit", "custom_jvp_call", "custom_vjp_call", "checkpoint"})
# Those among them whose derivative is not that of their program, but a rule of the user's.
CUSTOM_CALLS = frozenset({"custom_jvp_call", "custom_vjp_call"})


@dataclass(slots=True)
class Evaluation:
    """A program with what its variables held, and what came back to them.

    Attributes:
        values: per variable its forward value.
        cotangents: per variable the sum of what its readers sent back; a variable that the
            backward pass did not reach is not there, a symbolic zero is a `Zero`.
        contributions: per (equation, operand position) what that reader sent back.
        inner: per equation that is a call, the evaluation of its program.
        consts: the captured arrays, one per constvar.
    """

    jaxpr: Jaxpr
    values: dict[Var, Any] = field(default_factory=dict)
    cotangents: dict[Var, Any] = field(default_factory=dict)
    contributions: dict[tuple[int, int], Any] = field(default_factory=dict)
    inner: dict[int, Evaluation] = field(default_factory=dict)
    consts: list[Any] = field(default_factory=list)

    def read(self, atom: Any) -> Any:
        """The value of a variable or literal."""
        return atom.val if isinstance(atom, Literal) else self.values[atom]


def inner_call(eqn: Eqn) -> Jaxpr | None:
    """The program of an equation that is no more than a call; None for the others."""
    if eqn.primitive.name not in CALLS:
        return None
    found = list(inner_jaxprs(eqn.params))
    if len(found) != 1 or found[0].constvars:
        return None
    inner = found[0]
    fits = len(inner.invars) == len(eqn.invars) and len(inner.outvars) == len(eqn.outvars)
    return inner if fits else None


def record_forward(
    fun: Callable[..., Sequence[Any]], leaves: Sequence[Any], name: str = ""
) -> Evaluation:
    """Run a function of flat arguments and keep every value, those inside calls included."""
    jaxpr, consts, values = record(fun, leaves, name=name)
    evaluation = Evaluation(jaxpr, dict(values), consts=consts)
    _evaluate_calls(evaluation)
    return evaluation


def _evaluate_calls(evaluation: Evaluation) -> None:
    """Evaluate the programs of calls, whose inner values no recording has seen."""
    for index, eqn in enumerate(evaluation.jaxpr.eqns):
        inner = inner_call(eqn)
        if inner is None or inner.effectful:
            continue
        operands = [evaluation.read(a) for a in eqn.invars]
        below = Evaluation(inner, dict(zip(inner.invars, operands, strict=True)))

        def keep(step: Eqn, _: list, results: list, below: Evaluation = below) -> None:
            below.values.update(zip(step.outvars, results, strict=True))

        eval_jaxpr(inner, (), *operands, on_eqn=keep)
        evaluation.inner[index] = below
        _evaluate_calls(below)


def pull_back(
    evaluation: Evaluation, varied: Sequence[bool], cotangents: Sequence[Any]
) -> list[Any]:
    """Fill in the cotangents of a forward evaluation.

    Args:
        evaluation: what `record_forward` gave.
        varied: per invar whether it is differentiated with respect to.
        cotangents: per outvar an array, or None where nothing comes back.

    Returns:
        Per invar its cotangent: an array, a `Zero`, or None if the backward pass did not reach it.
    """
    jaxpr = evaluation.jaxpr
    active: set[Any] = {
        v for v, is_varied in zip(jaxpr.invars, varied, strict=True) if is_varied and _inexact(v)
    }
    for eqn in jaxpr.eqns:
        if any(not isinstance(a, Literal) and a in active for a in eqn.invars):
            active.update(v for v in eqn.outvars if _inexact(v))
    cts = evaluation.cotangents
    for atom, ct in zip(jaxpr.outvars, cotangents, strict=True):
        if ct is not None and isinstance(atom, Var) and atom in active:
            cts[atom] = add_tangents(cts[atom], ct) if atom in cts else ct
    for index in range(len(jaxpr.eqns) - 1, -1, -1):
        eqn = jaxpr.eqns[index]
        out_cts = [cts.get(v) if v in active else None for v in eqn.outvars]
        if any(ct is not None for ct in out_cts):
            _pull_equation(evaluation, index, eqn, active, out_cts)
    return [cts.get(v) for v in jaxpr.invars]


def _inexact(atom: Any) -> bool:
    return dtypes.is_inexact(atom.aval.dtype)


def _pull_equation(
    evaluation: Evaluation, index: int, eqn: Eqn, active: set[Any], out_cts: list[Any]
) -> None:
    varied = [not isinstance(a, Literal) and a in active for a in eqn.invars]
    below = evaluation.inner.get(index)
    if below is not None and eqn.primitive.name not in CUSTOM_CALLS:
        sent = pull_back(below, varied, out_cts)
    else:
        sent = _pull_primitive(evaluation, eqn, varied, out_cts)
    cts = evaluation.cotangents
    for position, (atom, ct) in enumerate(zip(eqn.invars, sent, strict=True)):
        if ct is None or not isinstance(atom, Var) or not varied[position]:
            continue
        evaluation.contributions[index, position] = ct
        cts[atom] = add_tangents(cts[atom], ct) if atom in cts else ct


def _pull_primitive(
    evaluation: Evaluation, eqn: Eqn, varied: list[bool], out_cts: list[Any]
) -> list[Any]:
    operands = [evaluation.read(a) for a in eqn.invars]

    def apply(*args: Any) -> Sequence[Any]:
        out = eqn.primitive.bind(*args, **eqn.params)
        return out if eqn.primitive.multiple_results else [out]

    results, linear = linearize_flat(apply, operands, varied)
    given = [
        Zero(aval) if ct is None else ct for ct, aval in zip(out_cts, linear.out_avals, strict=True)
    ]
    # An observer keeps the pass operation by operation: nothing is compiled for one look.
    sent = iter(linear.vjp(given, on_cotangent=lambda eqn, cts: None))
    return [next(sent) if is_varied else None for is_varied in varied]


def one_like(x: Any) -> Any:
    """The cotangent that a gradient starts from: 1 in the result's type.

    Raises:
        TypeError: the result is no real or complex scalar.
    """
    aval = typeof(x)
    if aval.shape != () or not dtypes.is_inexact(aval.dtype):
        raise TypeError(
            f"the backward pass starts from one number, but the result is {aval.str_short()}\n"
            "Instead: reduce it to a float scalar, for example with .sum() or .mean()."
        )
    return aval.dtype.type(1)
