"""Derivatives: grad, value_and_grad, vjp, jvp, linearize, jacfwd, jacrev, hessian.

Builds on core/reverse.py and core/jvp.py. Tested in tests/api/test_autodiff.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.api.differentiable import (
    Argnums,
    Aux,
    check_cotangent,
    check_input,
    check_scalar,
    check_tangents,
    name_of,
    select_arguments,
    split_aux,
)
from pullback.api.kept import Kept, form_of
from pullback.api.place import device_put
from pullback.core import dtypes, errors, pytree
from pullback.core.aval import ShapedArray, tangent_aval, typeof
from pullback.core.jvp import Zero, instantiate, jvp_flat, materialise, zero_of
from pullback.core.reverse import Linearized, gradient_flat, linearize_flat
from pullback.core.source import api_boundary
from pullback.core.stage import trace_to_jaxpr
from pullback.core.tracer import eval_trace, state
from pullback.core.transpose import UndefinedPrimal, backward_pass
from pullback.lax.convert import convert
from pullback.xla.arguments import scalar_array
from pullback.xla.array import Array


def _one(aval: ShapedArray) -> Any:
    """The cotangent 1 of a scalar result."""
    if aval.weak_type:
        one = dtypes.weak_kind(aval.dtype)(1)
        if typeof(one) == aval:
            return one
    return aval.dtype.type(1)


@api_boundary
def value_and_grad(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that returns both the value of `fun` and its gradient.

    Args:
        fun: a function with a scalar result (with `has_aux`, a pair of a scalar and anything).
        argnums: positional arguments to differentiate by.
        has_aux: `fun` returns (value, aux).
        holomorphic: `fun` is complex-differentiable; arguments and result are complex.
        allow_int: integer arguments are allowed; their gradient has dtype float0.

    Returns:
        A function giving (value, gradient), or ((value, aux), gradient). The gradient has the
        structure of the argument, or is a tuple for a sequence of argnums.

    Raises:
        TypeError: an argument is not floating point, or the result is not a real scalar.

    Example:
        >>> value_and_grad(lambda x: x**2)(3.0)
        (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    return _gradient_function(
        fun, argnums, has_aux, holomorphic, allow_int, "value_and_grad", lambda v, g: (v, g)
    )


@api_boundary
def grad(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that returns the gradient of the scalar function `fun`.

    Args:
        fun: a function with a scalar result (with `has_aux`, a pair of a scalar and anything).
        argnums: positional arguments to differentiate by.
        has_aux: `fun` returns (value, aux); the result is then (gradient, aux).
        holomorphic: `fun` is complex-differentiable; arguments and result are complex.
        allow_int: integer arguments are allowed; their gradient has dtype float0.

    Returns:
        A function giving the gradient in the structure of the argument, or a tuple for a sequence
        of argnums.

    Raises:
        TypeError: an argument is not floating point, or the result is not a real scalar.

    Example:
        >>> grad(lambda x: x**2)(3.0)
        Array(6., dtype=float32, weak_type=True)
    """
    if has_aux:
        return _gradient_function(
            fun, argnums, True, holomorphic, allow_int, "grad", lambda v, g: (g, v[1])
        )
    return _gradient_function(fun, argnums, False, holomorphic, allow_int, "grad", None)


def _gradient_function(
    fun: Callable[..., Any],
    argnums: Argnums,
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
    what: str,
    finish: Callable[[Any, Any], Any] | None,
) -> Callable[..., Any]:
    if not callable(fun):
        raise errors.not_a_function(what, fun)
    name = name_of(fun)
    single = isinstance(argnums, int)

    @functools.wraps(fun)
    @api_boundary
    def gradient(*args: Any, **kwargs: Any) -> Any:
        varied, put = select_arguments(args, argnums, name)
        leaves, tree = pytree.tree_flatten(varied[0] if single else varied)
        for x in leaves:
            check_input(x, what, holomorphic, allow_int)
        kept: list[Aux] = []

        def flat(*new: Any) -> list[Any]:
            given = pytree.tree_unflatten(tree, new)
            new_args = (given,) if single else given
            result = fun(*(new_args if put is None else put(new_args)), **kwargs)
            if not has_aux:
                check_scalar(result, what, holomorphic)
                return [result]
            result, aux = split_aux(result, name)
            check_scalar(result, what, holomorphic)
            kept.append(Aux(aux))
            return [result, *kept[0].arrays]

        outs, is_varied, given = gradient_flat(flat, leaves, _one, finish is not None)
        gradient = pytree.tree_unflatten(tree, _all_cotangents(is_varied, leaves, given))
        if finish is None:
            return gradient
        value = _as_array(outs[0])
        if has_aux:
            value = value, kept[0].rebuilt(outs[1:])
        return finish(value, gradient)

    return gradient


def _all_cotangents(
    varied: Sequence[bool], primals: Sequence[Any], cts: Sequence[Any]
) -> list[Any]:
    """Cotangents as users see them, float0 ones of integer arguments included."""
    given = iter(cts)
    return [
        _cotangent(next(given) if yes else zero_of(p), typeof(p))
        for p, yes in zip(primals, varied, strict=True)
    ]


def _as_array(x: Any) -> Any:
    """A number or a NumPy array that passed a function as it was given, as an array."""
    if type(x) is Array or state.trace is not eval_trace:
        return x
    if isinstance(x, bool | int | float | complex | np.generic):
        return scalar_array(x)
    if isinstance(x, np.ndarray) and x.dtype != dtypes.float0:
        return device_put(x)
    return x


def _derivative(t: Any) -> Any:
    """A tangent or cotangent as users see it: always an array."""
    if type(t) is Array:
        return t
    if type(t) is Zero and t.aval.weak_type and t.aval == typeof(0.0):
        return _as_array(0.0)
    return _as_array(materialise(t))


def _cotangent(t: Any, primal: ShapedArray) -> Any:
    """A cotangent as users see it: an array of the dtype and weak type of the argument."""
    t = _derivative(t)
    aval = getattr(t, "aval", None)
    if aval is None or aval.weak_type == primal.weak_type or aval.dtype != primal.dtype:
        return t
    return convert(t, primal.dtype, primal.weak_type)


class VJP:
    """A pullback: cotangents of the result to cotangents of the arguments. May be called twice.

    Kept with it: the residuals. It is a pytree whose leaves they are, so it may be returned from
    jit.
    """

    def __init__(
        self,
        linear: Linearized | Kept,
        in_avals: Sequence[ShapedArray],
        in_tree: Any,
        out_tree: Any,
        name: str,
    ) -> None:
        self._linear = linear
        self._in_avals = in_avals
        self._in_tree = in_tree
        self._out_tree = out_tree
        self._name = name

    @api_boundary
    def __call__(self, cotangent: Any) -> Any:
        """The tuple of cotangents of the arguments.

        Raises:
            ValueError, TypeError: the cotangent does not have the result's structure or types.
        """
        leaves, tree = pytree.tree_flatten(cotangent)
        if tree != self._out_tree:
            raise ValueError(
                f"the cotangent given to the pullback of {self._name} must have the structure of "
                f"its result:\n  result    {self._out_tree}\n  cotangent {tree}\n"
                "Instead: build it from the result, jax.tree.map(jnp.ones_like, result)."
            )
        for ct, aval in zip(leaves, self._linear.out_avals, strict=True):
            check_cotangent(ct, aval, self._name)
        return pytree.tree_unflatten(self._in_tree, self.flat([_float0_to_zero(c) for c in leaves]))

    def flat(self, cotangents: Sequence[Any]) -> list[Any]:
        """Cotangents of all arguments' leaves from those of the results' leaves."""
        given = iter(self._linear.vjp(cotangents))
        return [
            _cotangent(next(given) if varied else Zero(tangent_aval(a)), a)
            for a, varied in zip(self._in_avals, self._linear.varied, strict=True)
        ]

    def push(self, tangents: Sequence[Any]) -> list[Any]:
        """Tangents of the results' leaves from those (arrays or `Zero`) of the arguments'."""
        given = [
            instantiate(t)
            for t, varied in zip(tangents, self._linear.varied, strict=True)
            if varied
        ]
        return [_derivative(t) for t in self._linear.jvp(given)]

    def __repr__(self) -> str:
        return f"<pullback of {self._name}>"


def _flatten_vjp(pull: VJP) -> tuple[list[Any], tuple]:
    form = form_of(pull._linear)
    aux = (form, tuple(pull._in_avals), pull._in_tree, pull._out_tree, pull._name)
    return list(pull._linear.residuals), aux


pytree.register_pytree_node(
    VJP, _flatten_vjp, lambda aux, residuals: VJP(Kept(aux[0], list(residuals)), *aux[1:])
)


class Pushforward:
    """A derivative at a point: tangents of the arguments to the tangent of the result.

    A pytree of residuals, as the pullback is.
    """

    def __init__(self, pull: VJP) -> None:
        self._pull = pull

    @api_boundary
    def __call__(self, *tangents: Any) -> Any:
        """The tangent of the result.

        Raises:
            ValueError, TypeError: the tangents do not have the arguments' structure or types.
        """
        pull = self._pull
        given = check_tangents(pull._in_avals, pull._in_tree, tangents, "linearize")
        return pytree.tree_unflatten(pull._out_tree, pull.push(given))

    def __repr__(self) -> str:
        return f"<pushforward of {self._pull._name}>"


pytree.register_pytree_node(
    Pushforward, lambda push: ((push._pull,), None), lambda _, pulls: Pushforward(*pulls)
)


def _float0_to_zero(ct: Any) -> Any:
    dtype = getattr(ct, "dtype", None)
    return Zero(typeof(ct)) if dtype == dtypes.float0 else ct


@api_boundary
def vjp(
    fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Any = ()
) -> Any:
    """The value of `fun` and its pullback (vector-Jacobian product).

    Args:
        fun: a function of arrays and pytrees.
        primals: the point.
        has_aux: `fun` returns (value, aux).

    Returns:
        (value, pullback), or (value, pullback, aux). The pullback takes a cotangent like the value
        and returns a tuple with a cotangent per argument.

    Example:
        >>> y, pull = vjp(lambda x, y: x * y, 2.0, 3.0)
        >>> [float(ct) for ct in pull(1.0)]
        [3.0, 2.0]
    """
    name = name_of(fun)
    leaves, tree = pytree.tree_flatten(primals)
    for x in leaves:
        typeof(x)
    trees: list[Any] = []

    def flat(*new: Any) -> list[Any]:
        result = fun(*pytree.tree_unflatten(tree, new))
        result, aux = split_aux(result, name) if has_aux else (result, ())
        kept = Aux(aux)
        outs, out_tree = pytree.tree_flatten(result)
        trees[:] = [out_tree, len(outs), kept]
        return [*outs, *kept.arrays]

    outs, linear = linearize_flat(flat, leaves)
    out_tree, n_out, kept = trees
    del linear.out_indices[n_out:], linear.out_avals[n_out:]
    value = pytree.tree_unflatten(out_tree, [_as_array(o) for o in outs[:n_out]])
    pull = VJP(linear, [typeof(x) for x in leaves], tree, out_tree, name)
    if has_aux:
        return value, pull, kept.rebuilt(outs[n_out:])
    return value, pull


@api_boundary
def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> Any:
    """The value of `fun` and its directional derivative (Jacobian-vector product).

    Args:
        fun: a function of arrays and pytrees.
        primals: the point, a tuple or list of arguments.
        tangents: the direction, in the structure and types of the primals.
        has_aux: `fun` returns (value, aux).

    Returns:
        (value, tangent), or (value, tangent, aux).

    Raises:
        TypeError, ValueError: the tangents do not fit the primals.

    Example:
        >>> y, t = jvp(lambda x: x**2, (3.0,), (1.0,))
        >>> float(t)
        6.0
    """
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise TypeError(
            "jvp: primals and tangents must be tuples or lists of arguments, got "
            f"{type(primals).__name__} and {type(tangents).__name__}\n"
            "Instead: jvp(f, (x,), (t,))."
        )
    name = name_of(fun)
    leaves, tree = pytree.tree_flatten(tuple(primals))
    t_leaves = check_tangents([typeof(x) for x in leaves], tree, tangents, "jvp")
    trees: list[Any] = []

    def flat(*new: Any) -> list[Any]:
        result = fun(*pytree.tree_unflatten(tree, new))
        result, aux = split_aux(result, name) if has_aux else (result, ())
        kept = Aux(aux)
        outs, out_tree = pytree.tree_flatten(result)
        trees[:] = [out_tree, len(outs), kept]
        return [*outs, *kept.arrays]

    outs, t_outs = jvp_flat(flat, leaves, t_leaves)
    out_tree, n_out, kept = trees
    value = pytree.tree_unflatten(out_tree, [_as_array(o) for o in outs[:n_out]])
    tangent = pytree.tree_unflatten(out_tree, [_derivative(t) for t in t_outs[:n_out]])
    if has_aux:
        return value, tangent, kept.rebuilt(outs[n_out:])
    return value, tangent


@api_boundary
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of `fun` and its derivative at that point as a linear function.

    Args:
        fun: a function of arrays and pytrees.
        primals: the point.
        has_aux: `fun` returns (value, aux).

    Returns:
        (value, f_jvp), or (value, f_jvp, aux); `f_jvp(*tangents)` gives the tangent of the result
        without computing the value again.
    """
    result = vjp(fun, *primals, has_aux=has_aux)
    return (result[0], Pushforward(result[1]), *result[2:])


@api_boundary
def linear_transpose(fun: Callable[..., Any], *primals: Any, reduce_axes: Any = ()) -> Any:
    """The transpose of a function that is linear in its arguments.

    Args:
        fun: a linear function.
        primals: arrays or ShapeDtypeStructs of the arguments' types.

    Returns:
        A function from a cotangent of the result to a tuple of cotangents of the arguments.
    """
    leaves, in_tree = pytree.tree_flatten(primals)
    trees: list[Any] = []

    def flat(*new: Any) -> list[Any]:
        outs, tree = pytree.tree_flatten(fun(*pytree.tree_unflatten(in_tree, new)))
        trees.append(tree)
        return outs

    avals = [typeof(x) for x in leaves]
    jaxpr, consts = trace_to_jaxpr(flat, avals, name=name_of(fun))

    @api_boundary
    def transposed(cotangent: Any) -> Any:
        cts, tree = pytree.tree_flatten(cotangent)
        if tree != trees[0]:
            raise TypeError(
                f"linear_transpose: the cotangent must have the structure {trees[0]}, got {tree}"
            )
        for ct, out in zip(cts, jaxpr.out_avals, strict=True):
            check_cotangent(ct, tangent_aval(out), name_of(fun))
        outs = backward_pass(jaxpr, consts, [UndefinedPrimal(a) for a in avals], cts)
        return pytree.tree_unflatten(in_tree, [_derivative(ct) for ct in outs])

    return transposed
