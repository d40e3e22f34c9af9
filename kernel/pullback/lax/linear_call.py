"""Linear functions whose transpose is given by the user.

Builds on core/call.py and inner.py. Source: Radul et al., You Only Linearize Once, POPL 2023.
Tested in tests/lax/test_linear_call.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core import pytree
from pullback.core.aval import ShapedArray, typeof
from pullback.core.batching import AxisData, to_dim
from pullback.core.call import batch_jaxpr, jit_p
from pullback.core.jaxpr import Jaxpr, eval_jaxpr
from pullback.core.jvp import Zero, add_tangents, instantiate, jvp_flat, zero_of
from pullback.core.source import api_boundary
from pullback.core.tracer import Primitive
from pullback.core.transpose import is_undefined
from pullback.lax.convert import convert
from pullback.lax.inner import TracedFunction, leaf_paths, trace_function, type_difference
from pullback.lax.loop_parts import split_at

# Operands: constants of the function, constants of the transpose, residuals, linear operands.


def _abstract(*avals: ShapedArray, fun: Jaxpr, **params: Any) -> list[ShapedArray]:
    return fun.out_avals


def _own(args: Any, num_consts: int, num_transpose_consts: int) -> list[Any]:
    """The operands that the function itself takes."""
    return [*args[:num_consts], *args[num_consts + num_transpose_consts :]]


def _impl(
    *args: Any, fun: Jaxpr, num_consts: int, num_transpose_consts: int, **params: Any
) -> list[Any]:
    return jit_p.bind(*_own(args, num_consts, num_transpose_consts), jaxpr=fun, name="linear_call")


def _lower(
    ctx: Any, *values: Any, fun: Jaxpr, num_consts: int, num_transpose_consts: int, **params: Any
) -> list[Any]:
    return ctx.call(fun, _own(values, num_consts, num_transpose_consts), name="linear_call")


def _jvp(primals: Any, tangents: Any, *, num_res: int, **params: Any) -> tuple[list, list]:
    n_consts, n_transpose = params["num_consts"], params["num_transpose_consts"]
    outs = linear_call_p.bind(*primals, num_res=num_res, **params)
    n_fixed = n_consts + n_transpose + num_res
    linear = tangents[n_fixed:]
    t_outs: list[Any] = [zero_of(o) for o in outs]
    if not all(type(t) is Zero for t in linear):
        given = map(instantiate, linear)
        t_outs = linear_call_p.bind(*primals[:n_fixed], *given, num_res=num_res, **params)
    fixed = [*_own(tangents, n_consts, n_transpose)[: n_consts + num_res]]
    if not all(type(t) is Zero for t in fixed):
        _, more = jvp_flat(
            lambda *xs: eval_jaxpr(params["fun"], (), *xs),
            _own(primals, n_consts, n_transpose),
            [*fixed, *map(zero_of, primals[n_fixed:])],
        )
        t_outs = [add_tangents(a, b) for a, b in zip(t_outs, more, strict=True)]
    return outs, t_outs


def _transpose(
    cts: Any,
    *args: Any,
    fun: Jaxpr,
    transpose: Jaxpr,
    num_consts: int,
    num_transpose_consts: int,
    num_res: int,
) -> list[Any]:
    own, others, res, linear = split_at(args, num_consts, num_transpose_consts, num_res)
    outs = linear_call_p.bind(
        *others,
        *own,
        *res,
        *map(instantiate, cts),
        fun=transpose,
        transpose=fun,
        num_consts=num_transpose_consts,
        num_transpose_consts=num_consts,
        num_res=num_res,
    )
    fixed: list[Any] = [None] * (num_consts + num_transpose_consts + num_res)
    return fixed + [ct if is_undefined(x) else None for ct, x in zip(outs, linear, strict=True)]


def _batch(
    axis: AxisData,
    args: Any,
    dims: Any,
    *,
    fun: Jaxpr,
    transpose: Jaxpr,
    num_consts: int,
    num_transpose_consts: int,
    num_res: int,
) -> tuple[list, list]:
    own, others, res, linear = split_at(args, num_consts, num_transpose_consts, num_res)
    own_d, others_d, res_d, linear_d = split_at(dims, num_consts, num_transpose_consts, num_res)
    linear = [to_dim(x, d, axis.size, 0) for x, d in zip(linear, linear_d, strict=True)]
    n_out = len(fun.outvars)
    mapped, lead, _ = batch_jaxpr(fun, axis, (*own_d, *res_d, *[0] * len(linear)), (0,) * n_out)
    back, back_lead, _ = batch_jaxpr(
        transpose, axis, (*others_d, *res_d, *[0] * n_out), (0,) * len(linear)
    )
    outs = linear_call_p.bind(
        *lead,
        *own,
        *back_lead,
        *others,
        *res,
        *linear,
        fun=mapped,
        transpose=back,
        num_consts=len(lead) + num_consts,
        num_transpose_consts=len(back_lead) + num_transpose_consts,
        num_res=num_res,
    )
    return outs, [0] * n_out


linear_call_p = Primitive(
    name="linear_call",
    doc="the results of a linear function whose transpose is given",
    multiple_results=True,
    abstract=_abstract,
    impl=_impl,
    lower=_lower,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
)


@api_boundary
def linear_call(
    fun: Callable[[Any, Any], Any],
    fun_transpose: Callable[[Any, Any], Any],
    residual_args: Any,
    linear_args: Any,
) -> Any:
    """`fun(residual_args, linear_args)`, transposed by `fun_transpose`.

    Args:
        fun: (residuals, x) -> y, linear in x.
        fun_transpose: (residuals, ct of y) -> ct of x, linear in the ct. Its own transpose is
            `fun`.
        residual_args: pytree of what both depend on without being linear in it. Its derivative is
            that of `fun`.
        linear_args: pytree of floating-point arrays.

    Returns:
        The result of `fun`.

    Raises:
        TypeError: `fun_transpose` gives another structure, or other types, than `linear_args`.

    Example:
        >>> import pullback as jax
        >>> from pullback.custom_derivatives import linear_call
        >>> f = lambda x: linear_call(lambda r, x: x / r, lambda r, ct: 10 * ct, 2.0, x)
        >>> float(f(3.0)), float(jax.grad(f)(3.0))
        (1.5, 10.0)
    """
    res, res_tree = pytree.tree_flatten(residual_args)
    linear, linear_tree = pytree.tree_flatten(linear_args)
    res_avals = [typeof(x) for x in res]
    in_tree = pytree.tree_structure((residual_args, linear_args))
    forward = trace_function(fun, in_tree, [*res_avals, *map(typeof, linear)])
    dummy = pytree.tree_unflatten(forward.out_tree, [0] * forward.out_tree.num_leaves)
    ct_tree = pytree.tree_structure((residual_args, dummy))
    avals = [typeof(x) for x in linear]

    def typed(r: Any, ct: Any) -> Any:
        out = fun_transpose(r, ct)
        leaves, tree = pytree.tree_flatten(out)
        if tree != linear_tree or len(leaves) != len(avals):
            return out
        return pytree.tree_unflatten(
            tree,
            [
                convert(x, a.dtype, a.weak_type) if typeof(x).dtype == a.dtype else x
                for x, a in zip(leaves, avals, strict=True)
            ],
        )

    backward = trace_function(typed, ct_tree, [*res_avals, *forward.out_avals], "transpose")
    _check_transpose(backward, linear_tree, avals)
    outs = linear_call_p.bind(
        *forward.consts,
        *backward.consts,
        *res,
        *linear,
        fun=forward.jaxpr,
        transpose=backward.jaxpr,
        num_consts=len(forward.consts),
        num_transpose_consts=len(backward.consts),
        num_res=len(res),
    )
    return pytree.tree_unflatten(forward.out_tree, outs)


def _check_transpose(backward: TracedFunction, tree: Any, avals: list[ShapedArray]) -> None:
    if backward.out_tree != tree:
        raise TypeError(
            "linear_call: transpose output pytree structure must match that of linear inputs, got "
            f"output structure {backward.out_tree} and input structure {tree}."
        )
    for path, got, want in zip(leaf_paths(tree), backward.out_avals, avals, strict=True):
        how = type_difference(got, want)
        if how:
            raise TypeError(
                f"linear_call: fun_transpose gives {got.str_short()} for the linear argument"
                f"{path and ' at ' + path} of type {want.str_short()}: {how}.\n"
                "Instead: give a cotangent of the argument's shape and dtype."
            )
