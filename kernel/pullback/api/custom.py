"""Functions with derivatives of their own: custom_jvp, custom_vjp, and what is built from them.

Builds on api/custom_call.py and lax/custom_rules.py. Tested in tests/api/test_custom.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pullback.api.custom_call import (
    BwdRule,
    CallArguments,
    FlatCall,
    FwdRule,
    JVPRule,
    Structures,
    SymbolicZero,
    nondiff_numbers,
    signature_of,
)
from pullback.core import dtypes, errors, pytree
from pullback.core.aval import tangent_aval, typeof
from pullback.core.jaxpr import eval_jaxpr
from pullback.core.source import api_boundary
from pullback.core.stage import trace_to_jaxpr
from pullback.core.tracer import Tracer
from pullback.lax.custom_rules import custom_jvp_call_p, custom_vjp_call_p
from pullback.lax.inner import function_name


class custom_jvp:  # noqa: N801  (JAX's name)
    """A function whose tangents come from a rule of its own, in forward and in reverse mode.

    Args:
        fun: the function.
        nondiff_argnums: positions of arguments that are not differentiated (functions, flags); the
            rule takes them first.
        nondiff_argnames: the same, by name.

    Example:
        >>> import pullback as jax
        >>> from pullback import numpy as jnp
        >>> @jax.custom_jvp
        ... def f(x):
        ...     return jnp.log1p(jnp.exp(x))
        >>> @f.defjvp
        ... def f_jvp(primals, tangents):
        ...     return f(*primals), tangents[0] / (1 + jnp.exp(-primals[0]))
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ) -> None:
        functools.update_wrapper(self, fun)
        self.fun = fun
        self._signature = signature_of(fun)
        self.nondiff_argnums = nondiff_numbers(nondiff_argnums, nondiff_argnames, fun)
        self.jvp: Callable[..., Any] | None = None
        self.symbolic_zeros = False

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def defjvp(
        self, jvp: Callable[..., tuple[Any, Any]], symbolic_zeros: bool = False
    ) -> Callable[..., tuple[Any, Any]]:
        """Set the rule.

        Args:
            jvp: (*nondiff, primals, tangents) -> (result, tangent of the result); primals and
                tangents are tuples. Linear in the tangents.
            symbolic_zeros: give zero tangents as `SymbolicZero` objects, not as arrays.

        Returns:
            The rule, so that this is a decorator.
        """
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set the rule by one function per argument.

        Args:
            jvps: (tangent, result, *primals) -> its part of the result's tangent; None for an
                argument that the result does not vary with.
        """
        if self.nondiff_argnums:
            raise TypeError("Can't use ``defjvps`` with ``nondiff_argnums``.")

        def jvp(primals: tuple, tangents: tuple) -> tuple[Any, Any]:
            out = self(*primals)
            parts = [
                rule(t, out, *primals)
                for rule, t in zip(jvps, tangents, strict=True)
                if rule is not None
            ]
            if not parts:
                return out, pytree.tree_map(lambda x: SymbolicZero(tangent_aval(typeof(x))), out)
            total = parts[0]
            for part in parts[1:]:
                total = pytree.tree_map(lambda a, b: a + b, total, part)
            return out, total

        self.defjvp(jvp)

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.jvp is None:
            raise AttributeError(
                f"No JVP defined for custom_jvp function {function_name(self.fun)} using defjvp.\n"
                f"Instead: {function_name(self.fun)}.defjvp(rule), where rule(primals, tangents) "
                "gives (value, tangent)."
            )
        arguments = CallArguments(self.fun, self._signature, args, kwargs, self.nondiff_argnums)
        leaves = arguments.take_leaves()
        cells = Structures()
        outs = custom_jvp_call_p.bind(
            *leaves,
            call=FlatCall(self, arguments, cells),
            jvp=JVPRule(self, arguments, cells),
            num_consts=0,
            symbolic_zeros=self.symbolic_zeros,
            name=function_name(self.fun),
        )
        return pytree.tree_unflatten(cells.out_tree, outs)


class custom_vjp:  # noqa: N801  (JAX's name)
    """A function whose cotangents come from a rule of its own; reverse mode only.

    Args:
        fun: the function.
        nondiff_argnums: positions of arguments that are not differentiated; `bwd` takes them first.
        nondiff_argnames: the same, by name.

    Example:
        >>> import pullback as jax
        >>> @jax.custom_vjp
        ... def clip_gradient(x):
        ...     return x
        >>> clip_gradient.defvjp(lambda x: (x, None), lambda _, ct: (ct.clip(-1, 1),))
        >>> float(jax.grad(lambda x: 5 * clip_gradient(x))(2.0))
        1.0
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ) -> None:
        functools.update_wrapper(self, fun)
        self.fun = fun
        self._signature = signature_of(fun)
        self.nondiff_argnums = nondiff_numbers(nondiff_argnums, nondiff_argnames, fun)
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        self.symbolic_zeros = False

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def defvjp(
        self,
        fwd: Callable[..., tuple[Any, Any]],
        bwd: Callable[..., tuple],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Set the rules.

        Args:
            fwd: (*args) -> (result, residuals).
            bwd: (*nondiff, residuals, cotangent of the result) -> a tuple with one cotangent per
                differentiable argument; None means zero.
            symbolic_zeros: `fwd` gets `CustomVJPPrimal`s that say which arguments vary, and `bwd`
                zero cotangents as `SymbolicZero` objects.
            optimize_remat: accepted for compatibility; recomputation under `checkpoint` drops
                residuals that nobody reads in any case.
        """
        self.fwd = fwd
        self.bwd = bwd
        self.symbolic_zeros = symbolic_zeros

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = function_name(self.fun)
        if self.fwd is None or self.bwd is None:
            raise AttributeError(
                f"No VJP defined for custom_vjp function {name} using defvjp.\n"
                f"Instead: {name}.defvjp(fwd, bwd): fwd gives (value, residuals), bwd takes "
                "(residuals, cotangent) and gives one cotangent per argument."
            )
        arguments = CallArguments(self.fun, self._signature, args, kwargs, self.nondiff_argnums)
        for x in arguments.static():
            if any(isinstance(leaf, Tracer) for leaf in pytree.tree_leaves(x)):
                raise errors.UnexpectedTracerError(
                    f"custom_vjp: a traced value was passed to {name} at a position listed in "
                    f"nondiff_argnums, {self.nondiff_argnums}: {x!r:.60}.\n"
                    "Instead: make it a differentiable argument whose cotangent is None."
                )
        avals = [typeof(x) for x in arguments.leaves]
        leaves = arguments.take_leaves()
        cells = Structures()
        outs = custom_vjp_call_p.bind(
            *leaves,
            call=FlatCall(self, arguments, cells),
            fwd=FwdRule(self, arguments, cells),
            bwd=BwdRule(self, arguments, cells, avals),
            num_consts=0,
            symbolic_zeros=self.symbolic_zeros,
            name=name,
        )
        return pytree.tree_unflatten(cells.out_tree, outs)


def custom_gradient(fun: Callable[..., tuple[Any, Callable[..., Any]]]) -> Callable[..., Any]:
    """A function that returns its gradient rule beside its value.

    Args:
        fun: (*args) -> (result, vjp), where vjp takes the result's cotangent and gives one
            cotangent per argument (a tuple, or a single one for a single argument).

    Returns:
        A function that returns the result alone, and is differentiated by `vjp` in reverse mode.

    Example:
        >>> import pullback as jax
        >>> f = jax.custom_gradient(lambda x: (x ** 2, lambda ct: 10 * ct))
        >>> float(f(3.0)), float(jax.grad(f)(3.0))
        (9.0, 10.0)
    """

    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = pytree.tree_flatten((args, kwargs))

        def value(*xs: Any) -> Any:
            a, k = pytree.tree_unflatten(in_tree, xs)
            return fun(*a, **k)[0]

        def fwd(*xs: Any) -> tuple[Any, Any]:
            a, k = pytree.tree_unflatten(in_tree, xs)
            out, rule = fun(*a, **k)
            out_leaves, out_tree = pytree.tree_flatten(out)
            trees: list[Any] = []

            def flat(*cts: Any) -> list[Any]:
                result, tree = pytree.tree_flatten(rule(pytree.tree_unflatten(out_tree, cts)))
                trees.append(tree)
                return result

            ct_avals = [tangent_aval(typeof(o)) for o in out_leaves]
            jaxpr, consts = trace_to_jaxpr(flat, ct_avals, name="vjp")
            return out, _Pullback(consts, jaxpr, trees[0])

        def bwd(rule: _Pullback, ct: Any) -> tuple:
            cts = eval_jaxpr(rule.jaxpr, rule.consts, *pytree.tree_leaves(ct))
            given = pytree.tree_unflatten(rule.out_tree, cts)
            if len(leaves) == 1 and not isinstance(given, tuple | list):
                given = (given,)
            given_leaves = pytree.tree_leaves(given, is_leaf=lambda x: x is None)
            if len(given_leaves) != len(leaves):
                raise TypeError(
                    f"Custom gradient function {function_name(fun)} expected a cotangent per "
                    f"argument ({len(leaves)}), got {len(given_leaves)}."
                )
            return tuple(given_leaves)

        call = custom_vjp(_renamed(value, fun))
        call.defvjp(fwd, bwd)
        return call(*leaves)

    return wrapped


def _renamed(new: Callable[..., Any], fun: Callable[..., Any]) -> Callable[..., Any]:
    new.__name__ = function_name(fun)
    return new


class _Pullback:
    """A backward rule as a jaxpr, whose constants are the residuals."""

    def __init__(self, consts: Iterable[Any], jaxpr: Any, out_tree: Any) -> None:
        self.consts = list(consts)
        self.jaxpr = jaxpr
        self.out_tree = out_tree


pytree.register_pytree_node(
    _Pullback,
    lambda p: (tuple(p.consts), (p.jaxpr, p.out_tree)),
    lambda aux, consts: _Pullback(consts, *aux),
)


def closure_convert(
    fun: Callable[..., Any], *example_args: Any
) -> tuple[Callable[..., Any], list[Any]]:
    """The function with the traced values that it closes over as explicit arguments.

    Args:
        fun: function of arrays.
        example_args: arguments of the types that it will be called with.

    Returns:
        A function of (*args, *captured), and the captured values: those floating-point values of
        outer transformations that may be differentiated. Other captured values stay inside.

    Example:
        >>> import pullback as jax
        >>> def outer(w):
        ...     f, captured = jax.closure_convert(lambda x: w * x, 1.0)
        ...     return f(2.0, *captured)
        >>> float(jax.grad(outer)(3.0))
        2.0
    """
    leaves, in_tree = pytree.tree_flatten(example_args)
    trees: list[Any] = []

    def flat(*xs: Any) -> list[Any]:
        out, tree = pytree.tree_flatten(fun(*pytree.tree_unflatten(in_tree, xs)))
        trees.append(tree)
        return out

    jaxpr, consts = trace_to_jaxpr(flat, [typeof(x) for x in leaves], name=function_name(fun))
    moves = [isinstance(c, Tracer) and dtypes.is_inexact(c.dtype) for c in consts]
    captured = [c for c, m in zip(consts, moves, strict=True) if m]
    kept = [None if m else c for c, m in zip(consts, moves, strict=True)]
    out_tree = trees[0]
    n = len(captured)

    def converted(*args: Any) -> Any:
        args, values = args[: len(args) - n], args[len(args) - n :]
        xs, tree = pytree.tree_flatten(args)
        if tree != in_tree:
            raise TypeError(
                f"closure_convert: {function_name(fun)} was converted for arguments of structure "
                f"{in_tree} and {n} captured values, but is called with {tree}."
            )
        given = iter(values)
        full = [next(given) if m else c for c, m in zip(kept, moves, strict=True)]
        return pytree.tree_unflatten(out_tree, eval_jaxpr(jaxpr, full, *xs))

    return converted, captured
