"""`associative_scan`: running results of an associative operation in logarithmic depth.

Builds on slice.py and shape.py. Source: Blelloch, Prefix sums and their applications, 1990.
Tested in tests/lax/test_loops.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.core import pytree
from pullback.core.aval import typeof
from pullback.core.source import api_boundary
from pullback.lax.shape import reshape, rev
from pullback.lax.slice import concatenate, slice_in_dim
from pullback.lax.stack import stack


@api_boundary
def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """The running results fn(... fn(x_0, x_1) ..., x_i) along an axis, computed as a tree.

    Args:
        fn: associative function of two pytrees of arrays, applied to many pairs at once.
        elems: pytree of arrays with one size along `axis`.
        reverse: combine from the last element to the first.
        axis: the axis to go along.

    Returns:
        A pytree like `elems`.

    Raises:
        ValueError: sizes along the axis differ.

    Example:
        >>> from pullback import lax, numpy as jnp
        >>> lax.associative_scan(lambda a, b: a + b, jnp.arange(4))
        Array([0, 1, 3, 6], dtype=int32)
    """
    if not callable(fn):
        raise TypeError("lax.associative_scan: fn argument should be callable.")
    leaves, tree = pytree.tree_flatten(elems)
    if not leaves:
        return elems
    avals = [typeof(x) for x in leaves]
    if any(not -a.ndim <= axis < a.ndim for a in avals):
        raise ValueError(
            f"lax.associative_scan: axis {axis} is out of range for "
            f"{', '.join(a.str_short() for a in avals)}."
        )
    axes = [axis % a.ndim for a in avals]
    sizes = {a.shape[d] for a, d in zip(avals, axes, strict=True)}
    if len(sizes) > 1:
        raise ValueError(
            "Array inputs to associative_scan must have the same first dimension along axis "
            f"{axis}. (saw: {[a.shape for a in avals]})"
        )

    def combine(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        out = fn(pytree.tree_unflatten(tree, a), pytree.tree_unflatten(tree, b))
        result, out_tree = pytree.tree_flatten(out)
        if out_tree != tree:
            raise TypeError(
                f"lax.associative_scan: fn must return the structure of its arguments {tree}, "
                f"got {out_tree}."
            )
        return result

    if reverse:
        leaves = [rev(x, (d,)) for x, d in zip(leaves, axes, strict=True)]
    outs = _scan(combine, leaves, axes)
    if reverse:
        outs = [rev(x, (d,)) for x, d in zip(outs, axes, strict=True)]
    return pytree.tree_unflatten(tree, outs)


def _cut(xs: Sequence[Any], axes: Sequence[int], start: int, stop: Any, step: int) -> list[Any]:
    return [
        slice_in_dim(x, start, stop, stride=step, axis=d) for x, d in zip(xs, axes, strict=True)
    ]


def _scan(
    combine: Callable[[Sequence[Any], Sequence[Any]], list[Any]],
    xs: Sequence[Any],
    axes: Sequence[int],
) -> list[Any]:
    """The running results: of pairs by recursion, then those in between by one more step."""
    n = typeof(xs[0]).shape[axes[0]]
    if n < 2:
        return list(xs)
    pairs = combine(_cut(xs, axes, 0, n - 1, 2), _cut(xs, axes, 1, n, 2))
    odd = _scan(combine, pairs, axes)
    m = typeof(odd[0]).shape[axes[0]]
    before = odd if n % 2 else _cut(odd, axes, 0, m - 1, 1)
    first = _cut(xs, axes, 0, 1, 1)
    if n > 2:
        between = combine(before, _cut(xs, axes, 2, n, 2))
        even = [concatenate([a, b], d) for a, b, d in zip(first, between, axes, strict=True)]
    else:
        even = first
    return [_interleaved(a, b, d, n) for a, b, d in zip(even, odd, axes, strict=True)]


def _interleaved(even: Any, odd: Any, axis: int, n: int) -> Any:
    """even[0], odd[0], even[1], odd[1], ... along an axis, n in all."""
    m = n // 2
    head = even if n % 2 == 0 else slice_in_dim(even, 0, m, axis=axis)
    both = stack([head, odd], axis + 1)
    shape = typeof(head).shape
    both = reshape(both, (*shape[:axis], 2 * m, *shape[axis + 1 :]))
    if n % 2 == 0:
        return both
    return concatenate([both, slice_in_dim(even, m, m + 1, axis=axis)], axis)
