"""`while_loop`: repeat a body while a condition holds. Forward mode only.

Builds on core/call.py and inner.py. Tested in tests/lax/test_while_loop.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core import pytree
from pullback.core.aval import ShapedArray, abstract_token, make_aval, tangent_aval, typeof
from pullback.core.batching import AxisData, bdim_at_front
from pullback.core.call import batch_jaxpr, cached, closed_jaxpr, jvp_jaxpr
from pullback.core.config import config
from pullback.core.jaxpr import Jaxpr, eval_jaxpr
from pullback.core.jvp import Zero, instantiate, zero_of
from pullback.core.linearize import TangentTrace
from pullback.core.source import api_boundary
from pullback.core.tracer import Primitive, concrete_or_none, set_current, state
from pullback.lax.convert import convert
from pullback.lax.inner import function_name, trace_function
from pullback.lax.loop_parts import carry_fixpoint, reorder, split_at
from pullback.lax.loop_types import check_carry, promote_carry
from pullback.lax.reduce import reduce_or_p
from pullback.lax.scan_residuals import add_zero_results


def _while_abstract(*avals: ShapedArray, body_jaxpr: Jaxpr, **params: Any) -> list[ShapedArray]:
    return body_jaxpr.out_avals


def _while_lower(
    ctx: Any,
    *values: Any,
    cond_jaxpr: Jaxpr,
    cond_nconsts: int,
    body_jaxpr: Jaxpr,
    body_nconsts: int,
) -> list[Any]:
    n_fixed = cond_nconsts + body_nconsts
    n_carry = len(body_jaxpr.outvars)
    pred_aval = cond_jaxpr.out_avals[0]
    # XLA's condition cannot take part in an order: then it is computed by the body, and carried.
    carries_test = ctx.is_ordered(cond_jaxpr)
    ordered = carries_test or ctx.is_ordered(body_jaxpr)

    def test(inner: Any, state: Any) -> Any:
        consts, carry = state[:cond_nconsts], state[n_fixed : n_fixed + n_carry]
        return inner.call(cond_jaxpr, [*consts, *carry], name="cond")[0]

    avals, init = list(ctx.avals_in), list(values)
    if carries_test:
        avals.append(pred_aval)
        init.append(test(ctx, values))
    if ordered:
        avals.append(abstract_token)
        init.append(ctx.token())
    op = ctx.hlo.WhileOp([ctx.type(a) for a in avals], init)

    def condition(inner: Any, *state: Any) -> list[Any]:
        pred = state[n_fixed + n_carry] if carries_test else test(inner, state)
        return [_any(inner, pred, pred_aval)]

    def body(inner: Any, *state: Any) -> list[Any]:
        if ordered:
            inner.set_token(state[-1])
        consts, carry = state[cond_nconsts:n_fixed], state[n_fixed : n_fixed + n_carry]
        new = inner.call(body_jaxpr, [*consts, *carry], name="body")
        if pred_aval.shape:
            holds = state[n_fixed + n_carry] if carries_test else test(inner, state)
            new = [
                _choose(inner, holds, pred_aval, n, o, a)
                for n, o, a in zip(new, carry, ctx.avals_out, strict=True)
            ]
        state = (*state[:n_fixed], *new)
        if carries_test:
            state = (*state, test(inner, state))
        return [*state, *([inner.token()] if ordered else [])]

    ctx.region(op.regions[0], avals, condition)
    ctx.region(op.regions[1], avals, body)
    if ordered:
        ctx.set_token(op.results[len(avals) - 1])
    return list(op.results)[n_fixed : n_fixed + n_carry]


def _any(ctx: Any, pred: Any, aval: ShapedArray) -> Any:
    """Whether any element of a (batched) predicate holds."""
    if not aval.shape:
        return pred
    axes = tuple(range(aval.ndim))
    return ctx.fun(lambda p: reduce_or_p.bind(p, axes=axes), [pred], [aval])[0]


def _choose(
    ctx: Any, pred: Any, pred_aval: ShapedArray, new: Any, old: Any, aval: ShapedArray
) -> Any:
    """Per mapped index, the new value where its condition holds, else the old one."""
    full = make_aval(aval.shape, pred_aval.dtype)
    spread = ctx.hlo.broadcast_in_dim(ctx.type(full), pred, ctx.dims(range(pred_aval.ndim)))
    return ctx.hlo.select(spread, new, old)


def _nonzero(tangents: Sequence[Any]) -> list[bool]:
    return [type(t) is not Zero for t in tangents]


def _while_jvp(
    primals: Any,
    tangents: Any,
    *,
    cond_jaxpr: Jaxpr,
    cond_nconsts: int,
    body_jaxpr: Jaxpr,
    body_nconsts: int,
) -> tuple[list, list]:
    _, const_nz, carry_nz = split_at(_nonzero(tangents), cond_nconsts, body_nconsts)
    carry_nz = carry_fixpoint(carry_nz, lambda c: jvp_jaxpr(body_jaxpr, (*const_nz, *c))[2])
    n_carry, n_t = len(carry_nz), sum(carry_nz)
    nonzero = (*const_nz, *carry_nz)
    derived, lead, out_nz = jvp_jaxpr(body_jaxpr, nonzero)

    def make_body() -> Jaxpr:
        everything = [True] * n_carry
        avals = [*body_jaxpr.out_avals, *map(tangent_aval, body_jaxpr.out_avals)]
        full = add_zero_results(derived, everything + out_nz, everything + carry_nz, avals)
        n_lead, n_in = len(lead), len(body_jaxpr.invars)
        first_t = n_lead + n_in
        inputs = [
            *range(n_lead + body_nconsts),
            *range(first_t, first_t + sum(const_nz)),
            *range(n_lead + body_nconsts, n_lead + n_in),
            *range(first_t + sum(const_nz), len(full.invars)),
        ]
        return reorder(full, inputs, range(len(full.outvars)))

    def make_cond() -> Jaxpr:
        t_avals = [a for a, nz in zip(body_jaxpr.out_avals, carry_nz, strict=True) if nz]
        n_in = len(cond_jaxpr.invars)
        avals = [*cond_jaxpr.in_avals, *map(tangent_aval, t_avals)]
        return closed_jaxpr(
            lambda *xs: eval_jaxpr(cond_jaxpr, (), *xs[:n_in]), avals, cond_jaxpr.debug_name
        )[0]

    body = cached(body_jaxpr, ("while_jvp", nonzero, body_nconsts), make_body)
    cond = cached(cond_jaxpr, ("while_jvp", tuple(carry_nz)), make_cond)
    cond_consts, consts, init = split_at(primals, cond_nconsts, body_nconsts)
    _, const_t, init_t = split_at(tangents, cond_nconsts, body_nconsts)
    outs = while_p.bind(
        *cond_consts,
        *lead,
        *consts,
        *(t for t in const_t if type(t) is not Zero),
        *init,
        *(instantiate(t) for t, nz in zip(init_t, carry_nz, strict=True) if nz),
        cond_jaxpr=cond,
        cond_nconsts=cond_nconsts,
        body_jaxpr=body,
        body_nconsts=len(lead) + body_nconsts + sum(const_nz),
    )
    rest = iter(outs[n_carry : n_carry + n_t])
    results = outs[:n_carry]
    return results, [
        next(rest) if nz else zero_of(o) for o, nz in zip(results, carry_nz, strict=True)
    ]


def _while_linearize(primals: Any, tangents: Any, **params: Any) -> tuple[list, list]:
    """Run the loop; record the loop over primals and tangents, which can only run forward."""
    trace = state.trace
    with set_current(trace.parent if type(trace) is TangentTrace else trace):
        results = while_p.bind(*primals, **params)
    _, t_outs = _while_jvp(primals, tangents, **params)
    return results, t_outs


def _while_transpose(cts: Any, *args: Any, **params: Any) -> Any:
    raise ValueError(
        "Reverse-mode differentiation does not work for lax.while_loop or lax.fori_loop with "
        "dynamic start/stop values: the number of steps, and with it the memory for what the "
        "backward pass needs, is not known when the program is compiled.\n"
        "Instead: use lax.scan, or lax.fori_loop with Python integers as start and stop; or a "
        "Python while loop outside jit; or forward mode (jvp, jacfwd)."
    )


def _while_batch(
    axis: AxisData,
    args: Any,
    dims: Any,
    *,
    cond_jaxpr: Jaxpr,
    cond_nconsts: int,
    body_jaxpr: Jaxpr,
    body_nconsts: int,
) -> tuple[list, list]:
    cond_dims, const_dims, init_dims = split_at(dims, cond_nconsts, body_nconsts)

    def carry_dims(mapped: Sequence[bool]) -> list[int | None]:
        return [0 if m else None for m in mapped]

    def step(mapped: list[bool]) -> list[bool]:
        carry = carry_dims(mapped)
        test_dims = batch_jaxpr(cond_jaxpr, axis, (*cond_dims, *carry))[2]
        if test_dims[0] is not None or (already_mapped and any(mapped)):
            return [True] * len(mapped)
        out = batch_jaxpr(body_jaxpr, axis, (*const_dims, *carry))[2]
        return [d is not None for d in out]

    already_mapped = bool(cond_jaxpr.out_avals[0].shape)
    mapped = carry_fixpoint([d is not None for d in init_dims], step)
    carry = carry_dims(mapped)
    test_dim = 0 if already_mapped and any(mapped) else None
    cond, cond_lead, _ = batch_jaxpr(cond_jaxpr, axis, (*cond_dims, *carry), (test_dim,))
    body, body_lead, _ = batch_jaxpr(body_jaxpr, axis, (*const_dims, *carry), tuple(carry))
    cond_consts, consts, init = split_at(args, cond_nconsts, body_nconsts)
    init = [
        bdim_at_front(x, d, axis.size) if m else x
        for x, d, m in zip(init, init_dims, mapped, strict=True)
    ]
    outs = while_p.bind(
        *cond_lead,
        *cond_consts,
        *body_lead,
        *consts,
        *init,
        cond_jaxpr=cond,
        cond_nconsts=len(cond_lead) + cond_nconsts,
        body_jaxpr=body,
        body_nconsts=len(body_lead) + body_nconsts,
    )
    return outs, carry


while_p = Primitive(
    name="while",
    doc="repeat carry = body(carry) while cond(carry); where cond is mapped, per mapped index",
    multiple_results=True,
    abstract=_while_abstract,
    lower=_while_lower,
    jvp=_while_jvp,
    linearize=_while_linearize,
    transpose=_while_transpose,
    batch=_while_batch,
)


@api_boundary
def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any
) -> Any:
    """The carried value when `cond_fun` first gives False.

    Args:
        cond_fun: carried value -> bool scalar.
        body_fun: carried value -> carried value, of the same structure, shapes and dtypes.
        init_val: pytree of arrays.

    Returns:
        A pytree like `init_val`.

    Raises:
        TypeError: the body's result differs in type from its argument; the message names the leaf.

    Example:
        >>> from pullback import lax
        >>> int(lax.while_loop(lambda n: n < 100, lambda n: 2 * n, 1))
        128
    """
    if not (callable(cond_fun) and callable(body_fun)):
        raise TypeError("lax.while_loop: cond_fun and body_fun arguments should be callable.")
    leaves, tree = pytree.tree_flatten(init_val)
    if config.jax_disable_jit and all(concrete_or_none(x) is not None for x in leaves):
        avals = [typeof(x) for x in leaves]
        arrays = [convert(x, a.dtype, a.weak_type) for x, a in zip(leaves, avals, strict=True)]
        val = pytree.tree_unflatten(tree, arrays)
        while cond_fun(val):
            val = body_fun(val)
        return val
    in_tree = pytree.tree_structure((init_val,))
    leaves, body = promote_carry(
        leaves,
        lambda avals: trace_function(body_fun, in_tree, avals),
        lambda traced: traced.out_avals,
    )
    avals = [typeof(x) for x in leaves]
    check_carry("while_loop", body_fun, tree, avals, body.out_tree, body.out_avals)
    cond = trace_function(cond_fun, in_tree, avals)
    _check_predicate(cond_fun, cond.out_avals, cond.out_tree)
    outs = while_p.bind(
        *cond.consts,
        *body.consts,
        *leaves,
        cond_jaxpr=cond.jaxpr,
        cond_nconsts=len(cond.consts),
        body_jaxpr=body.jaxpr,
        body_nconsts=len(body.consts),
    )
    return pytree.tree_unflatten(tree, outs)


def _check_predicate(cond_fun: Any, avals: Sequence[ShapedArray], tree: Any) -> None:
    name = function_name(cond_fun)
    if not pytree.treedef_is_leaf(tree) or len(avals) != 1:
        raise TypeError(
            f"while_loop: cond_fun ({name}) must return a boolean scalar, but got a pytree {tree}."
        )
    (aval,) = avals
    if aval.shape or aval.dtype != np.bool_:
        raise TypeError(
            f"while_loop: cond_fun ({name}) must return a boolean scalar, but got "
            f"{aval.str_short()}.\nInstead: compare and reduce, e.g. jnp.all(x < 3)."
        )
