"""Jacobians and Hessians: the linear program applied to every unit vector at once.

Builds on autodiff.py and vmap.py. Tested in tests/core/test_transforms.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.api.autodiff import vjp
from pullback.api.differentiable import Argnums, check_input, name_of, select_arguments
from pullback.api.vmap import vmap
from pullback.core import dtypes, errors, pytree
from pullback.core.aval import typeof
from pullback.core.source import api_boundary
from pullback.lax import shape as lax_shape
from pullback.lax.fill import full
from pullback.lax.slice import split


def _basis(xs: Sequence[Any]) -> list[Any]:
    """The unit vectors of the space of several arrays together: per array [total size, *shape]."""
    avals = [typeof(x) for x in xs]
    total = sum(a.size for a in avals)
    out, start = [], 0
    for aval in avals:
        block = np.zeros((total, aval.size), aval.dtype)
        block[start : start + aval.size] = np.eye(aval.size, dtype=aval.dtype)
        out.append(block.reshape(total, *aval.shape))
        start += aval.size
    return out


def _blocks(stacked: Any, like: Sequence[Any], axis: int) -> list[Any]:
    """The parts of what was computed for all unit vectors that belong to each of the arrays."""
    sizes = [typeof(x).size for x in like]
    if len(sizes) == 1:
        return [stacked]
    if typeof(stacked).dtype == dtypes.float0:
        return np.split(stacked, np.cumsum(sizes)[:-1], axis)
    return split(stacked, sizes, axis)


@api_boundary
def jacrev(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that returns the Jacobian of `fun`, by reverse mode (a row at a time).

    Returns:
        A function giving, for each leaf of the result and each leaf of the argument, an array of
        shape (*result.shape, *argument.shape). With `has_aux` (jacobian, aux).
    """
    name = name_of(fun)
    single = isinstance(argnums, int)

    @functools.wraps(fun)
    @api_boundary
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        varied, put = select_arguments(args, argnums, name)
        for x in pytree.tree_leaves(varied):
            check_input(x, "jacrev", holomorphic, allow_int)

        def of_varied(*new: Any) -> Any:
            return fun(*(new if put is None else put(new)), **kwargs)

        value, pull, *aux = vjp(of_varied, *varied, has_aux=has_aux)
        out_leaves, out_tree = pytree.tree_flatten(value)
        for y in out_leaves:
            _check_jacobian_output(y, "jacrev", holomorphic)
        in_leaves, in_tree = pytree.tree_flatten(varied[0] if single else varied)
        whole = [not dtypes.is_inexact(typeof(x).dtype) for x in in_leaves]
        stacked: Any = [None] * len(in_leaves)
        if out_leaves and not all(whole):
            pulled = vmap(
                lambda *cts: [
                    None if w else ct for w, ct in zip(whole, pull.flat(cts), strict=True)
                ]
            )
            stacked = pulled(*_basis(out_leaves))
        columns = [None if b is None else _blocks(b, out_leaves, 0) for b in stacked]
        rows = [
            pytree.tree_unflatten(
                in_tree,
                [
                    _zero_block(y, x)
                    if column is None
                    else lax_shape.reshape(column[k], (*np.shape(y), *np.shape(x)))
                    for column, x in zip(columns, in_leaves, strict=True)
                ],
            )
            for k, y in enumerate(out_leaves)
        ]
        jac = pytree.tree_unflatten(out_tree, rows)
        return (jac, aux[0]) if has_aux else jac

    return jacobian


def _zero_block(y: Any, x: Any) -> Any:
    """The derivative by an integer argument, as in JAX: zeros of the argument's dtype."""
    return full((*np.shape(y), *np.shape(x)), 0, typeof(x).dtype)


def _check_jacobian_output(y: Any, what: str, holomorphic: bool) -> None:
    dtype = typeof(y).dtype
    if holomorphic:
        if not dtypes.issubdtype(dtype, np.complexfloating):
            raise errors.grad_output_error(what, y, typeof(y), "holomorphic")
    elif dtypes.issubdtype(dtype, np.complexfloating) and what == "jacrev":
        raise errors.grad_output_error(what, y, typeof(y), "complex")
    elif not dtypes.issubdtype(dtype, np.inexact):
        raise errors.grad_output_error(what, y, typeof(y), "integer")


@api_boundary
def jacfwd(
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """A function that returns the Jacobian of `fun`, by forward mode (a column at a time).

    Returns:
        A function giving, for each leaf of the result and each leaf of the argument, an array of
        shape (*result.shape, *argument.shape). With `has_aux` (jacobian, aux).
    """
    name = name_of(fun)
    single = isinstance(argnums, int)

    @functools.wraps(fun)
    @api_boundary
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        varied, put = select_arguments(args, argnums, name)
        for x in pytree.tree_leaves(varied):
            check_input(x, "jacfwd", holomorphic, False)

        def of_varied(*new: Any) -> Any:
            return fun(*(new if put is None else put(new)), **kwargs)

        value, pull, *aux = vjp(of_varied, *varied, has_aux=has_aux)
        out_leaves, out_tree = pytree.tree_flatten(value)
        for y in out_leaves:
            _check_jacobian_output(y, "jacfwd", holomorphic)
        in_leaves, in_tree = pytree.tree_flatten(varied[0] if single else varied)
        push = vmap(lambda *ts: pull.push(ts), out_axes=-1)
        stacked = push(*_basis(in_leaves)) if in_leaves else []
        rows = [
            pytree.tree_unflatten(
                in_tree,
                [
                    lax_shape.reshape(b, (*np.shape(y), *np.shape(x)))
                    for b, x in zip(_blocks(row, in_leaves, -1), in_leaves, strict=True)
                ],
            )
            for row, y in zip(stacked, out_leaves, strict=True)
        ]
        jac = pytree.tree_unflatten(out_tree, rows)
        return (jac, aux[0]) if has_aux else jac

    return jacobian


@api_boundary
def hessian(
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """A function that returns the Hessian of `fun`: forward mode over reverse mode."""
    return jacfwd(
        jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic),
        argnums,
        has_aux=has_aux,
        holomorphic=holomorphic,
    )
