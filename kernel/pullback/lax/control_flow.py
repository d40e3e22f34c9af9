"""`cond` and `switch`: one of several branches, chosen while the program runs.

Builds on core/call.py and inner.py. Tested in tests/lax/test_control_flow.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core import pytree
from pullback.core.aval import ShapedArray, abstract_token, make_aval, tangent_aval, typeof
from pullback.core.batching import AxisData, bdim_at_front
from pullback.core.call import (
    batch_jaxpr,
    jvp_jaxpr,
    transpose_jaxpr,
)
from pullback.core.config import config
from pullback.core.jaxpr import Eqn, Jaxpr, Var, dce_jaxpr, dce_rules, eval_jaxpr
from pullback.core.jvp import Zero, zero_of
from pullback.core.source import api_boundary
from pullback.core.stage import JaxprTrace
from pullback.core.tracer import Primitive, Trace, concrete_or_none, state
from pullback.core.transpose import is_undefined
from pullback.lax.branch_types import check_branches
from pullback.lax.compare_select import clamp_p, eq_p, ne_p, select_n_p
from pullback.lax.cond_residuals import (
    Renumbered,
    known_branch,
    linear_branch,
    linearized_branches,
    union,
)
from pullback.lax.convert import convert
from pullback.lax.inner import TracedFunction, intern_jaxpr, trace_function
from pullback.lax.loop_parts import pick
from pullback.lax.masked_effects import can_run_for_all, masked, needs_mask
from pullback.lax.scan_residuals import add_zero_results
from pullback.lax.shape import broadcast_in_dim_p
from pullback.xla import client

_INDEX = np.dtype(np.int32)


def _cond_abstract(
    index: ShapedArray, *avals: ShapedArray, branches: tuple[Jaxpr, ...], **params: Any
) -> list[ShapedArray]:
    outs = zip(*[b.out_avals for b in branches], strict=True)
    return [
        make_aval(group[0].shape, group[0].dtype, all(a.weak_type for a in group)) for group in outs
    ]


def _cond_lower(
    ctx: Any, index: Any, *values: Any, branches: tuple[Jaxpr, ...], **params: Any
) -> list[Any]:
    ordered = any(ctx.is_ordered(b) for b in branches)
    types = [ctx.type(a) for a in ctx.avals_out]
    before = None
    if ordered:
        before = ctx.token()
        types.append(ctx.type(abstract_token))
    op = ctx.hlo.CaseOp(types, index, len(branches))

    def fill(inner: Any, branch: Jaxpr) -> list[Any]:
        if not ordered:
            return inner.call(branch, values, name=branch.debug_name)
        inner.set_token(before)
        return [*inner.call(branch, values, name=branch.debug_name), inner.token()]

    for region, branch in zip(op.regions, branches, strict=True):
        ctx.region(region, [], lambda inner, b=branch: fill(inner, b))
    results = list(op.results)
    if ordered:
        ctx.set_token(results.pop())
    return results


def extended(jaxpr: Jaxpr, n_lead: Sequence[ShapedArray], keep: Sequence[int]) -> Jaxpr:
    """The jaxpr with more leading inputs, of which its own leading ones are those at `keep`.

    Args:
        jaxpr: its first `len(keep)` inputs are constants.
        n_lead: types of all constants in the new jaxpr.
        keep: where the jaxpr's own constants stand among them.
    """
    if list(keep) == list(range(len(n_lead))):
        return jaxpr
    lead = [Var(a) for a in n_lead]
    for own, at in enumerate(keep):
        lead[at] = jaxpr.invars[own]
    return intern_jaxpr(
        Jaxpr(
            (),
            [*lead, *jaxpr.invars[len(keep) :]],
            jaxpr.outvars,
            jaxpr.eqns,
            jaxpr.debug_name,
        )
    )


def share_consts(
    branches: Sequence[tuple[Jaxpr, Sequence[Any]]],
) -> tuple[tuple[Jaxpr, ...], list[Any]]:
    """Branches that all take the constants of all of them; and these constants, each once."""
    consts: list[Any] = []
    position: dict[int, int] = {}
    keeps: list[list[int]] = []
    for _, own in branches:
        for c in own:
            if id(c) not in position:
                position[id(c)] = len(consts)
                consts.append(c)
        keeps.append([position[id(c)] for c in own])
    avals = [typeof(c) for c in consts]
    pairs = zip(branches, keeps, strict=True)
    return tuple([extended(jaxpr, avals, keep) for (jaxpr, _), keep in pairs]), consts


def _nonzero(tangents: Sequence[Any]) -> list[bool]:
    return [type(t) is not Zero for t in tangents]


def _cond_jvp(
    primals: Any, tangents: Any, *, branches: tuple[Jaxpr, ...], **params: Any
) -> tuple[list, list]:
    index, *ops = primals
    nonzero = tuple(_nonzero(tangents[1:]))
    derived = [jvp_jaxpr(b, nonzero) for b in branches]
    out_nz = union([d[2] for d in derived])
    n_out = len(out_nz)
    avals = branches[0].out_avals
    avals = [*avals, *map(tangent_aval, avals)]
    full = [
        (
            add_zero_results(jaxpr, [True] * n_out + own, [True] * n_out + out_nz, avals),
            consts,
        )
        for jaxpr, consts, own in derived
    ]
    joined, consts = share_consts(full)
    given = [t for t in tangents[1:] if type(t) is not Zero]
    outs = cond_p.bind(index, *consts, *ops, *given, branches=joined, **params)
    results, rest = outs[:n_out], iter(outs[n_out:])
    return results, [
        next(rest) if nz else zero_of(o) for o, nz in zip(results, out_nz, strict=True)
    ]


def _cond_linearize(
    primals: Any, tangents: Any, *, branches: tuple[Jaxpr, ...], **params: Any
) -> tuple[list, list]:
    index, *ops = primals
    nonzero = tuple(_nonzero(tangents[1:]))
    splits, out_nz, slots, places = linearized_branches(branches, nonzero)
    n_out = len(out_nz)
    known, consts = share_consts(
        [
            (known_branch(s, n_out, slots, p), s.known_consts)
            for s, p in zip(splits, places, strict=True)
        ]
    )
    outs = cond_p.bind(index, *consts, *ops, branches=known, **params)
    results, saved = outs[:n_out], outs[n_out:]
    if not any(out_nz):
        return results, [zero_of(o) for o in results]
    used = {at for s in splits for kind, at in s.sources if kind == "arg"}
    kept = sorted(used)
    position = {at: i for i, at in enumerate(kept)}
    op_avals = [typeof(ops[at]) for at in kept]
    linear = [
        linear_branch(Renumbered(s, position), out_nz, branches[0].out_avals, slots, p, op_avals)
        for s, p in zip(splits, places, strict=True)
    ]
    joined, lin_consts = share_consts(linear)
    given = [t for t in tangents[1:] if type(t) is not Zero]
    t_outs = iter(
        cond_p.bind(
            index,
            *lin_consts,
            *saved,
            *(ops[at] for at in kept),
            *given,
            branches=joined,
            **params,
        )
    )
    return results, [
        next(t_outs) if nz else zero_of(o) for o, nz in zip(results, out_nz, strict=True)
    ]


def _cond_transpose(
    cts: Any, index: Any, *args: Any, branches: tuple[Jaxpr, ...], **params: Any
) -> list[Any]:
    if is_undefined(index):
        raise TypeError("cond: its index is not a linear operand")
    linear = tuple([is_undefined(a) for a in args])
    zeros = tuple([type(ct) is Zero for ct in cts])
    derived = [transpose_jaxpr(b, linear, zeros) for b in branches]
    there = union([d[2] for d in derived])
    avals = [a.aval for a in args if is_undefined(a)]
    full = [(add_zero_results(jaxpr, own, there, avals), consts) for jaxpr, consts, own in derived]
    joined, consts = share_consts(full)
    fixed = [a for a in args if not is_undefined(a)]
    given = [ct for ct in cts if type(ct) is not Zero]
    outs = iter(cond_p.bind(index, *consts, *fixed, *given, branches=joined, **params))
    flags = iter(there)
    return [
        None,
        *((next(outs) if next(flags) else Zero(a.aval)) if is_undefined(a) else None for a in args),
    ]


def _cond_batch(
    axis: AxisData, args: Any, dims: Any, *, branches: tuple[Jaxpr, ...], **params: Any
) -> tuple[list, list]:
    index, *ops = args
    index_dim, *op_dims = dims
    dims_key = tuple(op_dims)
    if index_dim is not None:
        return _select_among(axis, index, index_dim, ops, dims_key, branches)
    found = [batch_jaxpr(b, axis, dims_key)[2] for b in branches]
    mapped = union([[d is not None for d in dims] for dims in found])
    out_dims = tuple([0 if m else None for m in mapped])
    joined, consts = share_consts([batch_jaxpr(b, axis, dims_key, out_dims)[:2] for b in branches])
    outs = cond_p.bind(index, *consts, *ops, branches=joined, **params)
    return outs, list(out_dims)


def _select_among(
    axis: AxisData,
    index: Any,
    index_dim: int,
    ops: list,
    dims: tuple,
    branches: tuple[Jaxpr, ...],
) -> tuple[list, list]:
    """With a mapped index all branches run, and each mapped element takes its own one's result.

    As in JAX, debug.print in a branch then prints for elements that do not take it, too.
    """
    if not all(map(can_run_for_all, branches)):
        raise NotImplementedError(
            "cond: under vmap with a mapped predicate all branches run for all elements, but one "
            "of them has side effects.\n"
            "Instead: move the side effect out of the branch; where it is a check in a loop's condition, "
            "vmap(checkify(f)) in place of checkify(vmap(f))."
        )
    index = bdim_at_front(index, index_dim, axis.size)
    index = clamp_p.bind(np.int32(0), index, np.int32(len(branches) - 1))
    if len(branches) == 2:
        index = ne_p.bind(index, np.int32(0))
    n_out = len(branches[0].outvars)
    cases = []
    for number, b in enumerate(branches):
        taken: list[Any] = []
        if needs_mask(b):
            b = masked(b)
            taken = [eq_p.bind(index, np.asarray(number, typeof(index).dtype)[()])]
        jaxpr, consts, _ = batch_jaxpr(b, axis, (*[0] * len(taken), *dims), (0,) * n_out)
        cases.append(eval_jaxpr(jaxpr, (), *consts, *taken, *ops))
    outs = []
    for group in zip(*cases, strict=True):
        avals = [typeof(g) for g in group]
        weak = all(a.weak_type for a in avals)
        same = [convert(g, avals[0].dtype, weak) for g in group]
        which = broadcast_in_dim_p.bind(index, shape=avals[0].shape, broadcast_dimensions=(0,))
        outs.append(select_n_p.bind(which, *same))
    return outs, [0] * n_out


cond_p = Primitive(
    name="cond",
    doc="the results of branches[clamp(index)](operands)",
    multiple_results=True,
    abstract=_cond_abstract,
    lower=_cond_lower,
    jvp=_cond_jvp,
    linearize=_cond_linearize,
    transpose=_cond_transpose,
    batch=_cond_batch,
    label=lambda params: f"cond ({len(params['branches'])} branches)",
)


def _cond_dce(eqn: Eqn, used: list[bool]) -> Eqn:
    """A cond without results that nobody reads, nor operands that only they needed."""
    branches = eqn.params["branches"]
    if all(used):
        return eqn
    needed = union([dce_jaxpr(b, used)[1] for b in branches])
    small = []
    for b in branches:
        kept, _ = dce_jaxpr(b, used, keep_inputs=True)
        inputs = pick(kept.invars, needed)
        small.append(intern_jaxpr(Jaxpr((), inputs, kept.outvars, kept.eqns, b.debug_name)))
    return Eqn(
        eqn.primitive,
        [eqn.invars[0], *pick(eqn.invars[1:], needed)],
        pick(eqn.outvars, used),
        {**eqn.params, "branches": tuple(small)},
        eqn.source,
    )


dce_rules["cond"] = _cond_dce


def _branch_index(where: str, pred: Any) -> Any:
    """The int32 index of a predicate: 0 for false, 1 for true."""
    aval = typeof(pred)
    if aval.shape:
        raise TypeError(
            f"{where}: pred must be a scalar, got {aval.str_short()}.\n"
            "Instead: reduce it (jnp.all, jnp.any), use jnp.where, or vmap the function."
        )
    if aval.dtype.kind not in "biuf":
        raise TypeError(f"{where}: pred type must be either boolean or number, got {aval.dtype}.")
    if aval.dtype != np.bool_:
        pred = ne_p.bind(convert(pred, aval.dtype, False), np.zeros((), aval.dtype)[()])
    return convert(pred, _INDEX, False)


def _bind_branches(
    where: str, index: Any, funs: Sequence[Callable[..., Any]], operands: tuple
) -> Any:
    leaves, in_tree = pytree.tree_flatten(operands)
    avals = [typeof(x) for x in leaves]
    traced: list[TracedFunction] = [trace_function(f, in_tree, avals) for f in funs]
    check_branches(where, funs, [(t.out_tree, t.out_avals) for t in traced])
    branches, consts = share_consts([(t.jaxpr, t.consts) for t in traced])
    outs = cond_p.bind(index, *consts, *leaves, branches=branches)
    return pytree.tree_unflatten(traced[0].out_tree, outs)


_unset = object()


@api_boundary
def cond(
    pred: Any,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
    operand: Any = _unset,
) -> Any:
    """`true_fun(*operands)` where `pred` holds, else `false_fun(*operands)`.

    Args:
        pred: bool or number, a scalar; numbers other than 0 hold.
        true_fun: function of the operands.
        false_fun: function of the operands; its result has the same structure, shapes and dtypes.
        operands: pytrees of arrays. The older form (pred, true_operand, true_fun, false_operand,
            false_fun) is understood too.
        operand: the older name of a single operand.

    Returns:
        The chosen function's result.

    Raises:
        TypeError: `pred` is no scalar, or the results differ in type.

    Example:
        >>> from pullback import lax
        >>> float(lax.cond(True, lambda x: x + 1, lambda x: x - 1, 3.0))
        4.0
    """
    if not callable(true_fun) and len(operands) == 2 and callable(operands[1]):
        first, (second, other) = true_fun, operands
        if callable(false_fun):
            taken, given = false_fun, (first, second)
            return cond(pred, lambda a, b: taken(a), lambda a, b: other(b), *given)
    if not (callable(true_fun) and callable(false_fun)):
        raise TypeError("lax.cond: true_fun and false_fun arguments should be callable.")
    if operand is not _unset:
        if operands:
            raise TypeError("lax.cond: give operands by position or as operand=, not both.")
        operands = (operand,)
    if config.jax_disable_jit and concrete_or_none(pred) is not None:
        return true_fun(*operands) if pred else false_fun(*operands)
    return _bind_branches("cond", _branch_index("cond", pred), (false_fun, true_fun), operands)


@api_boundary
def switch(
    index: Any, branches: Sequence[Callable[..., Any]], *operands: Any, operand: Any = _unset
) -> Any:
    """`branches[index](*operands)`, with `index` clamped into range.

    Args:
        index: integer scalar.
        branches: functions of the operands, with results of the same types.
        operands: pytrees of arrays.

    Returns:
        The chosen function's result.
    """
    if not all(callable(b) for b in branches):
        raise TypeError("lax.switch: branches argument should be a sequence of callables.")
    if len(branches) == 0:
        raise ValueError("lax.switch: empty branch sequence")
    if operand is not _unset:
        operands = (operand,)
    aval = typeof(index)
    if aval.shape or aval.dtype.kind not in "iu":
        raise TypeError(f"lax.switch: index must be an integer scalar, got {aval.str_short()}.")
    if len(branches) == 1:
        return branches[0](*operands)
    last = np.asarray(len(branches) - 1, aval.dtype)[()]
    index = convert(index, aval.dtype, False)
    index = convert(clamp_p.bind(np.zeros((), aval.dtype)[()], index, last), _INDEX, False)
    if config.jax_disable_jit and concrete_or_none(index) is not None:
        return branches[int(index)](*operands)
    return _bind_branches("switch", index, tuple(branches), operands)


def _chosen_platform(platform: str, platforms: Sequence[tuple[str, ...]]) -> int:
    for i, names in enumerate(platforms):
        if platform in names or not names:
            return i
    raise NotImplementedError(
        f"platform_dependent: there is no function for {platform!r}; there are some for "
        f"{[n for names in platforms for n in names]}.\nInstead: pass default=."
    )


def _platform_index_lower(ctx: Any, *, platforms: tuple[tuple[str, ...], ...]) -> Any:
    return ctx.const(np.int32(_chosen_platform(ctx.platform, platforms)))


def _is_staged() -> bool:
    """Whether a program is being written, for a platform that is not known yet."""
    trace: Trace | None = state.trace
    while trace is not None:
        if isinstance(trace, JaxprTrace):
            return True
        trace = trace.parent
    return False


platform_index_p: Primitive = Primitive(
    name="platform_index",
    doc="which of the platforms the program is compiled for",
    abstract=lambda *, platforms: make_aval((), _INDEX),
    lower=_platform_index_lower,
    nondifferentiable="it is an integer that depends on no argument",
    batch=lambda axis, args, dims, **params: (platform_index_p.bind(**params), None),
)


def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """The result of the function for the platform that the program is compiled for.

    Args:
        args: operands of the functions.
        default: the function for every other platform.
        per_platform: functions by platform name (cpu, cuda, rocm, tpu); results of the same types.
            Outside of staged functions only the chosen one is called.

    Example:
        >>> from pullback import lax
        >>> int(lax.platform_dependent(3, cpu=lambda x: x + 1, default=lambda x: x))
        4
    """
    platforms: list[tuple[str, ...]] = [(name,) for name in per_platform]
    funs = list(per_platform.values())
    if default is not None:
        platforms.append(())
        funs.append(default)
    if not funs:
        raise ValueError("platform_dependent: give at least one function.")
    if not _is_staged():
        return funs[_chosen_platform(client.default_device().platform, platforms)](*args)
    index = platform_index_p.bind(platforms=tuple(platforms))
    return _bind_branches("switch", index, funs, args)
