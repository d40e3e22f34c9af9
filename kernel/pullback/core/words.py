"""Arrays whose elements are several words, such as random keys: what moves elements moves their words.

A class of such arrays has `element_words = True`, is made from one array of words whose last axis
runs over the words of an element, and keeps that array in `_base`.

Builds on batching.py. Tested in tests/random/test_keys.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from pullback.core import pytree
from pullback.core.batching import AxisData, batch_flat, to_dim

F = TypeVar("F", bound=Callable[..., Any])


def has_words(x: Any) -> bool:
    """Whether `x` is an array whose elements are several words."""
    return getattr(type(x), "element_words", False)


def moves_elements(*elements: int) -> Callable[[F], F]:
    """A decorator for a function of arrays that only puts elements elsewhere.

    Where it refuses its arguments and keys are among them, it is applied to the keys' words.

    Args:
        elements: which arguments give the elements, all of which are then keys; others may be
            positions, conditions and sizes.
    """

    def decorate(fun: F) -> F:
        @functools.wraps(fun)
        def moved(*args: Any, **kwargs: Any) -> Any:
            try:
                return fun(*args, **kwargs)
            except (TypeError, AttributeError):
                given = [args[i] for i in elements if i < len(args)]
                leaves = pytree.tree_leaves(given, is_leaf=has_words)
                if not leaves or not all(map(has_words, leaves)):
                    raise
            return _on_words(fun, *pytree.tree_flatten((args, kwargs), is_leaf=has_words))

        return moved  # type: ignore[return-value]

    return decorate


def _on_words(fun: Callable[..., Any], leaves: list[Any], tree: Any) -> Any:
    places = [i for i, x in enumerate(leaves) if has_words(x)]
    kind = type(leaves[places[0]])
    bases = [leaves[i]._base for i in places]
    size = bases[0].shape[-1]
    out_tree = None

    def flat(*words: Any) -> list[Any]:
        nonlocal out_tree
        full = list(leaves)
        for i, w in zip(places, words, strict=True):
            full[i] = w
        args, kwargs = pytree.tree_unflatten(tree, full)
        outs, out_tree = pytree.tree_flatten(fun(*args, **kwargs))
        return outs

    outs, dims = batch_flat(flat, AxisData(None, size), bases, [b.ndim - 1 for b in bases])
    results = []
    for out, dim in zip(outs, dims, strict=True):
        last = len(out.shape) - (dim is not None)
        results.append(kind(to_dim(out, dim, size, last)))
    return pytree.tree_unflatten(out_tree, results)
