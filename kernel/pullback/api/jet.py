"""Taylor mode: `jet`, all derivatives of a function along a curve at once.

Builds on lax/jet.py and its rules. Tested in tests/api/test_jet.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core import dtypes, pytree
from pullback.core.aval import make_aval, typeof
from pullback.core.source import api_boundary
from pullback.core.tracer import concrete_or_none
from pullback.lax import jet_calls, jet_rules  # noqa: F401  (they state the rules)
from pullback.lax.convert import convert
from pullback.lax.families import const_like, match_shape, mul_p
from pullback.lax.fill import full
from pullback.lax.jet import Terms, jet_flat


class ZeroTerm:
    """A term of a series that is zero, not materialised."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "zero_term"


class ZeroSeries:
    """A series all of whose terms are zero, not materialised."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "zero_series"


zero_term = ZeroTerm()
zero_series = ZeroSeries()


@api_boundary
def jet(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    series: Sequence[Any],
    factorial_scaled: bool = True,
    **_: Any,
) -> tuple[Any, Any]:
    """The value of `fun` and the derivatives of `fun` along a curve, to any order in one pass.

    Args:
        fun: function of arrays or pytrees of them.
        primals: tuple or list of the arguments: where the curve is at time 0.
        series: per argument, the list of the curve's derivatives at time 0, first order first; for
            a pytree of arrays, a pytree with such a list at each leaf. `zero_series` stands for a
            list of zeros, `zero_term` for a zero in a list.
        factorial_scaled: terms are derivatives; if False, Taylor coefficients (the k-th derivative
            divided by k!), in and out.

    Returns:
        The value of `fun`, and a pytree like it with the list of terms at each leaf.

    Raises:
        ValueError: series differ in length, or a term does not fit its argument's shape.
        TypeError: an argument is no array, or one of integers that would vary.

    Example:
        >>> from pullback import numpy as jnp
        >>> from pullback.experimental.jet import jet
        >>> y, (y1, y2) = jet(jnp.sin, (0.0,), ((1.0, 0.0),))
        >>> float(y1), float(y2)
        (1.0, 0.0)
    """
    if not isinstance(primals, tuple | list) or not isinstance(series, tuple | list):
        primals, series = list(primals), list(series)
    if len(primals) != len(series):
        raise ValueError(
            f"jet: {len(primals)} primals but {len(series)} series.\n"
            "Instead: give one series per argument; zero_series for one that does not vary."
        )
    leaves, in_tree = pytree.tree_flatten(tuple(primals))
    for i, x in enumerate(leaves):
        _check_leaf(x, f"primal value {i}")
    given = in_tree.flatten_up_to(tuple(series))
    order = _order(given)
    terms = [
        _terms(x, own, order, i, factorial_scaled)
        for i, (x, own) in enumerate(zip(leaves, given, strict=True))
    ]
    trees: list[Any] = []

    def flat(*xs: Any) -> list[Any]:
        outs, tree = pytree.tree_flatten(fun(*pytree.tree_unflatten(in_tree, xs)))
        trees.append(tree)
        for o in outs:
            typeof(o)
        return outs

    outs, out_terms = jet_flat(flat, order, leaves, terms)
    results = [_results(o, ts, factorial_scaled) for o, ts in zip(outs, out_terms, strict=True)]
    return pytree.tree_unflatten(trees[0], outs), pytree.tree_unflatten(trees[0], results)


def _check_leaf(x: Any, what: str) -> None:
    try:
        typeof(x)
    except TypeError:
        raise TypeError(f"jet: {what} is not an array: {x!r:.80}.") from None


def _order(given: Sequence[Any]) -> int:
    for i, own in enumerate(given):
        if not isinstance(own, tuple | list | ZeroSeries) and not hasattr(own, "shape"):
            raise TypeError(
                f"jet: the series of argument {i} is {own!r:.60}.\n"
                "Instead: a list of its terms, such as [x1, x2], or zero_series."
            )
    lengths = [len(own) for own in given if not isinstance(own, ZeroSeries)]
    if len(set(lengths)) > 1:
        raise ValueError(
            f"jet terms have inconsistent lengths for different arguments: {lengths}.\n"
            "Instead: give every argument as many terms; zero_term for those that are zero."
        )
    return lengths[0] if lengths else 0


def _terms(x: Any, own: Any, order: int, at: int, factorial_scaled: bool) -> Terms:
    """The terms of one argument, in its shape and dtype."""
    if isinstance(own, ZeroSeries):
        return (None,) * order
    aval = typeof(x)
    out: list[Any] = []
    for k, term in enumerate(own, 1):
        if isinstance(term, ZeroTerm) or getattr(term, "dtype", None) == dtypes.float0:
            out.append(None)
            continue
        _check_leaf(term, f"term {k - 1} of argument {at}")
        if not dtypes.is_inexact(aval.dtype):
            _check_zero(term, aval, at)
            out.append(None)
            continue
        shape = typeof(term).shape
        if np.broadcast_shapes(shape, aval.shape) != aval.shape:
            raise ValueError(
                f"jet: term {k - 1} of argument {at} has shape {shape}, but the argument has "
                f"{aval.shape}.\nInstead: give terms of the argument's shape."
            )
        term = match_shape(convert(term, aval.dtype, aval.weak_type), aval.shape)
        if not factorial_scaled and k > 1:
            term = mul_p.bind(term, const_like(term, math.factorial(k)))
        out.append(term)
    return tuple(out)


def _check_zero(term: Any, aval: Any, at: int) -> None:
    """Check that an argument that cannot vary is not told to.

    Raises:
        TypeError: the term is not known to be zero.
    """
    value = concrete_or_none(term)
    if value is None or np.any(np.asarray(value)):
        raise TypeError(
            f"jet: argument {at} is {aval.str_short()}, which cannot vary along a curve, but has "
            "terms that are not zero.\n"
            "Instead: pass it as floating point (x.astype(float)), or give zero_series."
        )


def _results(out: Any, terms: Terms, factorial_scaled: bool) -> list[Any]:
    """The terms of one result, made; zeros in the default float type for integers."""
    aval = typeof(out)
    if not dtypes.is_inexact(aval.dtype):
        aval = make_aval(aval.shape, dtypes.python_scalar_dtype(float))
    results = []
    for k, term in enumerate(terms, 1):
        if term is None:
            term = full(aval.shape, 0, aval.dtype)
        elif not factorial_scaled and k > 1:
            term = mul_p.bind(term, const_like(term, 1 / math.factorial(k)))
        results.append(term)
    return results
