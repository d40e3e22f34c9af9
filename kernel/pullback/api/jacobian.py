"""Jacobians and Hessians: the linear program applied to every unit vector at once.

Builds on autodiff.py and vmap.py. Tested in tests/core/test_transforms.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.api.autodiff import vjp
from pullback.api.differentiable import Argnums, check_input, name_of, select_arguments
from pullback.api.vmap import vmap
from pullback.core import dtypes, errors, pytree
from pullback.core.aval import typeof
from pullback.core.jvp import Zero, zero_of
from pullback.core.source import api_boundary
from pullback.lax import shape as lax_shape


def _basis(x: Any) -> Any:
    """The unit vectors of an array's space: [size, *shape]."""
    aval = typeof(x)
    return np.eye(aval.size, dtype=aval.dtype).reshape(aval.size, *aval.shape)


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
        zeros = [Zero(a) for a in pull._linear.out_avals]
        rows = []
        for i, y in enumerate(out_leaves):

            def pull_one(ct: Any, i: int = i) -> list[Any]:
                cts = [ct if k == i else z for k, z in enumerate(zeros)]
                return pull.flat(cts)

            blocks = vmap(pull_one)(_basis(y))
            rows.append(
                pytree.tree_unflatten(
                    in_tree,
                    [
                        lax_shape.reshape(b, (*np.shape(y), *np.shape(x)))
                        for b, x in zip(blocks, in_leaves, strict=True)
                    ],
                )
            )
        jac = pytree.tree_unflatten(out_tree, rows)
        return (jac, aux[0]) if has_aux else jac

    return jacobian


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
        zeros = [zero_of(x) for x in in_leaves]
        columns: list[list[Any]] = []
        for i, x in enumerate(in_leaves):

            def push_one(t: Any, i: int = i) -> list[Any]:
                return pull.push([t if k == i else z for k, z in enumerate(zeros)])

            blocks = vmap(push_one, out_axes=-1)(_basis(x))
            columns.append(
                [
                    lax_shape.reshape(b, (*np.shape(y), *np.shape(x)))
                    for b, y in zip(blocks, out_leaves, strict=True)
                ]
            )
        rows = [
            pytree.tree_unflatten(in_tree, [column[k] for column in columns])
            for k in range(len(out_leaves))
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
