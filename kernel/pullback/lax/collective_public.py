"""Collective operations as users call them, on pytrees.

Builds on collective.py. Tested in tests/lax/test_collective.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core import pytree
from pullback.core import tracer as core_tracer
from pullback.core.aval import typeof
from pullback.core.tracer import Primitive
from pullback.lax.axis_names import as_names, axis_size
from pullback.lax.collective import (
    all_gather_p,
    all_to_all_p,
    axis_index_p,
    pmax_p,
    pmin_p,
    ppermute_p,
    psum_p,
    reduce_scatter_p,
)
from pullback.lax.compare_select import eq_p, select_n_p
from pullback.lax.convert import convert
from pullback.lax.elementwise import add_p, div_p
from pullback.lax.families import mul_p


def _over_tree(prim: Primitive, x: Any, axis_name: Any, groups: Any) -> Any:
    names = as_names(axis_name)
    leaves, tree = pytree.tree_flatten(x)
    outs = prim.bind(*leaves, axes=names, axis_index_groups=_group_key(groups)) if leaves else []
    return pytree.tree_unflatten(tree, outs)


def _group_key(groups: Any) -> tuple | None:
    return None if groups is None else tuple([tuple(g) for g in groups])


def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The sum of `x` over the instances of a mapped axis.

    Args:
        x: pytree of arrays; a Python number is multiplied by the number of instances.
        axis_name: name of the mapped axis, or a tuple of names.
        axis_index_groups: lists of instance numbers that are summed among themselves.

    Returns:
        A pytree like `x`; booleans are counted (int32).
    """
    if isinstance(x, bool | int | float | complex):
        size = axis_size(axis_name)
        return x * (size if axis_index_groups is None else len(axis_index_groups[0]))
    x = pytree.tree_map(_countable, x)
    return _over_tree(psum_p, x, axis_name, axis_index_groups)


def _countable(x: Any) -> Any:
    """Booleans as integers, to be summed."""
    return convert(x, np.dtype(np.int32), False) if typeof(x).dtype == np.bool_ else x


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The mean of `x` over the instances of a mapped axis."""
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    n = psum(1, axis_name, axis_index_groups=axis_index_groups)

    def mean(v: Any) -> Any:
        dtype = typeof(v).dtype
        if dtype.kind in "biu":
            v, dtype = convert(v, np.dtype(np.float32), False), np.dtype(np.float32)
        return div_p.bind(v, np.asarray(n, dtype)[()])

    return pytree.tree_map(mean, total)


def pmax(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The largest value of `x` among the instances of a mapped axis."""
    return _over_tree(pmax_p, x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The smallest value of `x` among the instances of a mapped axis."""
    return _over_tree(pmin_p, x, axis_name, axis_index_groups)


def _group_size(axis_name: Any, groups: Any) -> int:
    return axis_size(axis_name) if groups is None else len(groups[0])


def all_gather(
    x: Any, axis_name: Any, *, axis_index_groups: Any = None, axis: int = 0, tiled: bool = False
) -> Any:
    """The values of all instances of a mapped axis, along a new axis (or end to end if tiled)."""

    def one(leaf: Any) -> Any:
        ndim = typeof(leaf).ndim
        return all_gather_p.bind(
            leaf,
            axis_name=as_names(axis_name),
            all_gather_dimension=axis % (ndim if tiled else ndim + 1),
            axis_size=_group_size(axis_name, axis_index_groups),
            tiled=tiled,
            axis_index_groups=_group_key(axis_index_groups),
        )

    return pytree.tree_map(one, x)


def psum_scatter(
    x: Any,
    axis_name: Any,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """The sum over the instances of a mapped axis, of which each gets its part along an axis."""

    def one(leaf: Any) -> Any:
        return reduce_scatter_p.bind(
            leaf,
            axis_name=as_names(axis_name),
            scatter_dimension=scatter_dimension % typeof(leaf).ndim,
            axis_size=_group_size(axis_name, axis_index_groups),
            tiled=tiled,
            axis_index_groups=_group_key(axis_index_groups),
        )

    return pytree.tree_map(one, x)


def all_to_all(
    x: Any,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """Part j of each instance's value goes to instance j, which puts them along `concat_axis`."""

    def one(leaf: Any) -> Any:
        ndim = typeof(leaf).ndim
        return all_to_all_p.bind(
            leaf,
            axis_name=as_names(axis_name),
            split_axis=split_axis % ndim,
            concat_axis=concat_axis % ndim,
            axis_size=_group_size(axis_name, axis_index_groups),
            tiled=tiled,
            axis_index_groups=_group_key(axis_index_groups),
        )

    return pytree.tree_map(one, x)


def ppermute(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Each instance `dst` gets the value of instance `src`, for (src, dst) in `perm`; else zeros.

    Raises:
        ValueError: a source or a destination stands twice.
    """
    pairs = tuple([(int(src), int(dst)) for src, dst in perm])
    sources, targets = [s for s, _ in pairs], [t for _, t in pairs]
    if len(set(sources)) < len(sources) or len(set(targets)) < len(targets):
        raise ValueError(
            f"ppermute: sources and destinations must each be unique, got perm={list(pairs)}."
        )
    names = as_names(axis_name)
    return pytree.tree_map(lambda leaf: ppermute_p.bind(leaf, axis_name=names, perm=pairs), x)


def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """Instance i gets the value of instance perm[i].

    Raises:
        ValueError: `perm` is no permutation of the instances.
    """
    if set(perm) != set(range(len(perm))):
        raise ValueError(f"`perm` does not represent a permutation: {list(perm)}")
    return ppermute(x, axis_name, list(zip(perm, range(len(perm)), strict=True)))


def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Any = None) -> Any:
    """The mapped axis swapped with an axis of the value."""
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def axis_index(axis_name: Any) -> Any:
    """The number of this instance along a mapped axis: int32; row-major for several names."""
    names = as_names(axis_name)
    total = None
    for name in names:
        size = core_tracer.axis_size(name)
        index = axis_index_p.bind(axis_name=(name,))
        total = index if total is None else _row_major(total, size, index)
    return total


def _row_major(outer: Any, size: int, inner: Any) -> Any:
    return add_p.bind(mul_p.bind(outer, np.int32(size)), inner)


def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """Each instance gets the value of instance `source` of a mapped axis."""
    mine = eq_p.bind(axis_index(axis_name), np.int32(source))

    def one(leaf: Any) -> Any:
        zero = np.zeros((), typeof(leaf).dtype)[()]
        return psum(select_n_p.bind(mine, zero, leaf), axis_name)

    return pytree.tree_map(one, x)
