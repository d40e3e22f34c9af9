"""`checkpoint`: keep of a function only what a policy says, and recompute the rest going backward.

When its derivative is taken, the function's known part runs once and gives the values to save; the
linear part is recorded as one equation that recomputes the other residuals from the inputs and the
saved values, behind an optimisation barrier, so that the compiler does not undo it.

Builds on core/call.py. Tested in tests/api/test_checkpoint.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pullback.core import pytree
from pullback.core.aval import ShapedArray
from pullback.core.batching import AxisData
from pullback.core.call import batch_jaxpr, cached, closed_jaxpr, jit_p, jvp_jaxpr, linearize_jaxpr
from pullback.core.jaxpr import Eqn, Jaxpr, dce_jaxpr, dce_rules, eval_jaxpr
from pullback.core.jvp import Zero, zero_of
from pullback.core.tracer import Primitive
from pullback.core.transpose import backward_pass, is_undefined
from pullback.lax.loop_parts import pick
from pullback.lax.remat_policy import (
    CHECKPOINT,
    Policy,
    cut_at,
    inlined,
    open_loops,
    passed_down,
)

# Programs of fewer equations are written in place: a call would not make anything shorter.
_WORTH_A_CALL = 16


# Names for values, which policies see.


def _name_abstract(x: ShapedArray, *, name: str) -> ShapedArray:
    return x


def _name_jvp(primals: Any, tangents: Any, *, name: str) -> tuple[Any, Any]:
    return name_p.bind(*primals, name=name), tangents[0]


def _name_batch(axis: AxisData, args: Any, dims: Any, *, name: str) -> tuple[Any, Any]:
    return name_p.bind(*args, name=name), dims[0]


name_p = Primitive(
    name="name",
    doc="the operand; policies of checkpoint see its name",
    abstract=_name_abstract,
    lower=lambda ctx, x, *, name: x,
    jvp=_name_jvp,
    transpose=lambda ct, x, *, name: [ct],
    batch=_name_batch,
    label=lambda params: params["name"],
)


def _barrier_abstract(*avals: ShapedArray) -> list[ShapedArray]:
    return list(avals)


def _barrier_lower(ctx: Any, *values: Any) -> list[Any]:
    return list(ctx.hlo.OptimizationBarrierOp(list(values)).results)


def _barrier_jvp(primals: Any, tangents: Any) -> tuple[list, list]:
    given = [t for t in tangents if type(t) is not Zero]
    outs = optimization_barrier_p.bind(*primals)
    ts = iter(optimization_barrier_p.bind(*given)) if given else iter(())
    return outs, [t if type(t) is Zero else next(ts) for t in tangents]


def _barrier_transpose(cts: Any, *args: Any) -> list[Any]:
    given = [ct for ct in cts if type(ct) is not Zero]
    outs = iter(optimization_barrier_p.bind(*given)) if given else iter(())
    moved = [ct if type(ct) is Zero else next(outs) for ct in cts]
    return [ct if is_undefined(a) else None for ct, a in zip(moved, args, strict=True)]


optimization_barrier_p: Primitive = Primitive(
    name="optimization_barrier",
    doc="the operands; the compiler moves nothing across",
    multiple_results=True,
    abstract=_barrier_abstract,
    lower=_barrier_lower,
    jvp=_barrier_jvp,
    transpose=_barrier_transpose,
    batch=lambda axis, args, dims: (optimization_barrier_p.bind(*args), list(dims)),
)


def optimization_barrier(operand: Any) -> Any:
    """The operand, a pytree of arrays, across which the compiler moves no computation."""
    leaves, tree = pytree.tree_flatten(operand)
    return pytree.tree_unflatten(tree, optimization_barrier_p.bind(*leaves) if leaves else [])


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """How a checkpointed function is split.

    Attributes:
        known: (lead, inputs) -> (results, saved values).
        linear: (tangents, lead, inputs that are needed, saved values, constants) -> tangents.
        inputs: which of (lead, inputs) the linear part needs.
        n_saved: how many values are saved.
        consts: residuals that are constants of the derivative rules.
    """

    known: Jaxpr
    linear: Jaxpr
    inputs: list[bool]
    n_saved: int
    consts: list[Any]


def _plan(jaxpr: Jaxpr, nonzero: tuple[bool, ...], policy: Policy | None) -> _Plan:
    key = ("remat_plan", nonzero, policy)
    return cached(jaxpr, key, lambda: _make_plan(jaxpr, nonzero, policy))


def _split(jaxpr: Jaxpr, nonzero: tuple[bool, ...], policy: Policy | None) -> Any:
    if policy is not None:
        jaxpr = passed_down(inlined(jaxpr), policy)
    return linearize_jaxpr(jaxpr, nonzero)


def _make_plan(jaxpr: Jaxpr, nonzero: tuple[bool, ...], policy: Policy | None) -> _Plan:
    split = _split(jaxpr, nonzero, policy)
    known = split.known
    n_lead = len(split.known_consts)
    if policy is not None:
        known = inlined(known)
    opened = open_loops(known, policy)
    residuals, consts = _residual_atoms(split, opened.again, n_lead)
    recompute = opened.again.replace(outvars=residuals)
    cut, needed_saved = cut_at(recompute, opened.saveable)
    forward = opened.once.replace(outvars=[*known.outvars[: split.n_outs], *needed_saved])
    forward, _ = dce_jaxpr(forward, [True] * len(forward.outvars), keep_inputs=True)
    needed, kept = dce_jaxpr(cut, [True] * len(cut.outvars))
    linear = _linear_program(split, needed, len(consts))
    return _Plan(forward, linear, kept[: len(known.invars)], len(needed_saved), consts)


def _residual_atoms(split: Any, known: Jaxpr, n_lead: int) -> tuple[list[Any], list[Any]]:
    """The residuals that stand in the known part (in order), and those that are constants."""
    atoms, consts = [], []
    for kind, at in split.sources:
        if kind == "const":
            consts.append(at)
        else:
            atoms.append(known.invars[n_lead + at] if kind == "arg" else known.outvars[at])
    return atoms, consts


def _linear_program(split: Any, needed: Jaxpr, n_consts: int) -> Jaxpr:
    """Recomputation and the linear part in one: (tangents, inputs and saved, constants)."""
    linear = split.linear
    n_t = len(linear.invars) - len(split.sources)
    is_const = [kind == "const" for kind, _ in split.sources]
    const_vars = [v for v, c in zip(linear.invars[n_t:], is_const, strict=True) if c]

    def fun(*args: Any) -> list[Any]:
        n_in = len(needed.invars)
        tangents, inputs, consts = args[:n_t], args[n_t : n_t + n_in], args[n_t + n_in :]
        values = iter(eval_jaxpr(needed, (), *inputs))
        given = iter(consts)
        residuals = [next(given) if c else next(values) for c in is_const]
        return eval_jaxpr(linear, (), *tangents, *residuals)

    avals = [
        *linear.in_avals[:n_t],
        *needed.in_avals,
        *(v.aval for v in const_vars),
    ]
    return closed_jaxpr(fun, avals, linear.debug_name)[0]


# The primitive.


def _abstract(*avals: ShapedArray, jaxpr: Jaxpr, **params: Any) -> list[ShapedArray]:
    return jaxpr.out_avals


def _impl(*args: Any, jaxpr: Jaxpr, differentiated: bool, **params: Any) -> list[Any]:
    return eval_jaxpr(jaxpr, (), *args)


def _lower(
    ctx: Any, *values: Any, jaxpr: Jaxpr, differentiated: bool, prevent_cse: bool, **params: Any
) -> list[Any]:
    if differentiated and prevent_cse and values:
        values = tuple(ctx.hlo.OptimizationBarrierOp(list(values)).results)
    return ctx.call(jaxpr, values, name=jaxpr.debug_name or "checkpoint")


def _jvp(primals: Any, tangents: Any, *, jaxpr: Jaxpr, **params: Any) -> tuple[list, list]:
    nonzero = tuple([type(t) is not Zero for t in tangents])
    derived, lead, out_nz = jvp_jaxpr(jaxpr, nonzero)
    given = [t for t in tangents if type(t) is not Zero]
    outs = checkpoint_p.bind(*lead, *primals, *given, jaxpr=derived, **params)
    results, rest = outs[: len(out_nz)], iter(outs[len(out_nz) :])
    return results, [
        next(rest) if nz else zero_of(o) for o, nz in zip(results, out_nz, strict=True)
    ]


def _linearize(
    primals: Any,
    tangents: Any,
    *,
    jaxpr: Jaxpr,
    policy: Policy | None,
    prevent_cse: bool,
    differentiated: bool,
) -> tuple[list, list]:
    nonzero = tuple([type(t) is not Zero for t in tangents])
    split = _split(jaxpr, nonzero, policy)
    plan = _plan(jaxpr, nonzero, policy)
    lead = split.known_consts
    if len(plan.known.eqns) < _WORTH_A_CALL:
        outs = eval_jaxpr(plan.known, (), *lead, *primals)
    else:  # so that layers of one program are written, and lowered, once
        outs = jit_p.bind(*lead, *primals, jaxpr=plan.known, name=plan.known.debug_name)
    results, saved = outs[: split.n_outs], outs[split.n_outs :]
    if not any(split.out_nonzero):
        return results, [zero_of(o) for o in results]
    t_outs = iter(
        checkpoint_p.bind(
            *(t for t in tangents if type(t) is not Zero),
            *pick([*lead, *primals], plan.inputs),
            *saved,
            *plan.consts,
            jaxpr=plan.linear,
            policy=policy,
            prevent_cse=prevent_cse,
            differentiated=True,
        )
    )
    return results, [
        next(t_outs) if nz else zero_of(o) for o, nz in zip(results, split.out_nonzero, strict=True)
    ]


def _transpose(cts: Any, *args: Any, jaxpr: Jaxpr, **params: Any) -> list[Any]:
    linear = tuple([is_undefined(a) for a in args])
    zeros = tuple([type(ct) is Zero for ct in cts])

    def make() -> tuple[Jaxpr, list[Any], list[bool]]:
        there: list[bool] = []
        fixed = [a for a, lin in zip(jaxpr.in_avals, linear, strict=True) if not lin]
        ct_avals = [a for a, z in zip(jaxpr.out_avals, zeros, strict=True) if not z]

        def fun(*xs: Any) -> list[Any]:
            given, given_cts = iter(xs[: len(fixed)]), iter(xs[len(fixed) :])
            operands = [a if is_undefined(a) else next(given) for a in placeholders]
            full = [
                Zero(a) if z else next(given_cts)
                for a, z in zip(jaxpr.out_avals, zeros, strict=True)
            ]
            outs = pick(backward_pass(jaxpr, (), operands, full), linear)
            there[:] = [type(ct) is not Zero for ct in outs]
            return [ct for ct in outs if type(ct) is not Zero]

        placeholders = [a if is_undefined(a) else None for a in args]
        return (*closed_jaxpr(fun, [*fixed, *ct_avals], jaxpr.debug_name), there)

    derived, lead, present = cached(jaxpr, ("remat_transpose", linear, zeros), make)
    outs = iter(
        checkpoint_p.bind(
            *lead,
            *(a for a in args if not is_undefined(a)),
            *(ct for ct in cts if type(ct) is not Zero),
            jaxpr=derived,
            **params,
        )
    )
    flags = iter(present)
    return [
        ((next(outs) if next(flags) else Zero(a.aval)) if is_undefined(a) else None) for a in args
    ]


def _batch(
    axis: AxisData, args: Any, dims: Any, *, jaxpr: Jaxpr, **params: Any
) -> tuple[list, list]:
    derived, lead, out_dims = batch_jaxpr(jaxpr, axis, tuple(dims))
    return checkpoint_p.bind(*lead, *args, jaxpr=derived, **params), out_dims


checkpoint_p = Primitive(
    name=CHECKPOINT,
    doc="the results of a function whose inner values are recomputed when it is differentiated",
    multiple_results=True,
    abstract=_abstract,
    impl=_impl,
    lower=_lower,
    jvp=_jvp,
    linearize=_linearize,
    transpose=_transpose,
    batch=_batch,
)


def _dce(eqn: Eqn, used: list[bool]) -> Eqn:
    small, kept = dce_jaxpr(eqn.params["jaxpr"], used)
    return Eqn(
        eqn.primitive,
        pick(eqn.invars, kept),
        pick(eqn.outvars, used),
        {**eqn.params, "jaxpr": small},
        eqn.source,
    )


dce_rules["checkpoint"] = _dce
