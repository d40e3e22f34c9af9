"""Counting: bincount, histograms in one and more dimensions.

Builds on sorting.py and at.py. Tested in tests/numpy/test_histogram.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback import lax
from pullback.core import dtypes, errors
from pullback.core.tracer import Tracer
from pullback.numpy import promote
from pullback.numpy.creation import asarray
from pullback.numpy.fused import fused
from pullback.numpy.manipulation import ravel
from pullback.numpy.positions import ravel_multi_index
from pullback.numpy.ranges import linspace
from pullback.numpy.reductions import max as max_
from pullback.numpy.reductions import min as min_
from pullback.numpy.selection import where
from pullback.numpy.sorting import searchsorted

lift = promote.lift


def bincount(
    x: Any,
    weights: Any = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out_sharding: Any = None,
) -> Any:
    """How often each number 0, 1, 2 ... stands in a 1-D array of them.

    Args:
        x: int[n]; negative ones count as 0.
        weights: what each counts for; None for 1.
        minlength: the least length of the result.
        length: its length; needed if `x` is traced (larger numbers are left out).
        out_sharding: accepted for compatibility.

    Returns:
        An array of counts.
    """
    del out_sharding
    x = lift("bincount", x)
    if x.dtype.kind not in "iub":
        raise TypeError(f"x argument to bincount must have an integer type; got {x.dtype}")
    if x.ndim != 1:
        raise ValueError("only 1-dimensional input supported.")
    minlength = promote.index_of(minlength, "minlength")
    if length is None:
        known = x.concrete() if isinstance(x, Tracer) else x
        if known is None:
            raise errors.ConcretizationTypeError(
                x,
                "jnp.bincount: the length of the result depends on the largest value of x.\n"
                "Instead: jnp.bincount(x, length=n).",
            )
        values = np.asarray(known)
        length = max(minlength, int(values.max()) + 1 if values.size else 0)
    else:
        length = promote.index_of(length, "length")
    if weights is None:
        weights = np.ones((), dtypes.python_scalar_dtype(int))
    elif np.shape(weights) != x.shape:
        raise ValueError("shape of weights must match shape of x.")
    return _bincount(x, weights, length)


@fused("length")
def _bincount(x: Any, weights: Any, length: int) -> Any:
    dtype = promote.dtype_of(weights)
    x = lax.max(lax.convert_element_type(x, np.int32), lax.full(x.shape, 0, np.int32))
    return lax.full((length,), 0, dtype).at[x].add(weights, mode="drop")


def _range(a: Any, weights: Any, range_: Any) -> tuple[Any, Any]:
    if range_ is None:
        if a.size == 0:
            return 0.0, 1.0
        low, high = min_(a), max_(a)
    else:
        low, high = range_
        if np.ndim(low) or np.ndim(high):
            raise ValueError(f"range must be either None or a sequence of scalars, got {range_}")
    same = low == high
    return where(same, low - 0.5, low), where(same, high + 0.5, high)


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """The edges of equally wide bins.

    Args:
        a: array.
        bins: how many, or the edges themselves.
        range: lowest and highest edge; None for the extremes of `a`.
        weights: accepted for compatibility.

    Returns:
        float[bins + 1].
    """
    if isinstance(bins, str):
        raise NotImplementedError("string values for `bins` not implemented.")
    a = ravel(lift("histogram_bin_edges", promote.promote_inexact("histogram_bin_edges", a)[0]))
    if np.ndim(bins) == 1:
        return asarray(bins, a.dtype)
    low, high = _range(a, weights, range)
    return linspace(low, high, promote.index_of(bins, "bins") + 1, dtype=a.dtype)


def histogram(
    a: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None
) -> tuple[Any, Any]:
    """How many elements lie in each bin.

    Args:
        a: array.
        bins: how many bins, or their edges.
        range: lowest and highest edge.
        weights: what each element counts for.
        density: divide by the total and the widths.

    Returns:
        The counts and the edges.
    """
    if weights is None:
        a = ravel(lift("histogram", promote.promote_inexact("histogram", a)[0]))
        weights = promote.cast(lift("histogram", np.ones(a.shape, np.float32)), a.dtype)
    else:
        if np.shape(a) != np.shape(weights):
            raise ValueError("weights should have the same shape as a.")
        a, weights = (
            ravel(x)
            for x in promote.lift_all(
                "histogram", *promote.promote_inexact("histogram", a, weights)
            )
        )
    edges = histogram_bin_edges(a, bins, range, weights)
    counts = _histogram(a, weights, edges)
    if density:
        widths = edges[1:] - edges[:-1]
        counts = counts / widths / counts.sum()
    return counts, edges


@fused()
def _histogram(a: Any, weights: Any, edges: Any) -> Any:
    n = edges.shape[0] - 1
    i = searchsorted(edges, a, "right")
    i = where(a == edges[-1], n, i)
    counts = lax.full((n + 2,), 0, weights.dtype).at[i].add(weights, mode="drop")
    return counts[1 : n + 1]


def histogram2d(
    x: Any,
    y: Any,
    bins: Any = 10,
    range: Any = None,
    weights: Any = None,
    density: bool | None = None,
) -> tuple[Any, Any, Any]:
    """How many points (x, y) lie in each rectangle. Arguments as in `histogramdd`.

    Returns:
        The counts, and the edges along both axes.
    """
    x, y = promote.lift_all("histogram2d", x, y)
    sample = [x, y]
    if np.ndim(bins) == 1 and len(bins) not in (1, 2):
        bins = [asarray(bins), asarray(bins)]
    counts, edges = histogramdd(sample, bins, range, weights, density)
    return counts, edges[0], edges[1]


def histogramdd(
    sample: Any,
    bins: Any = 10,
    range: Sequence[Any] | None = None,
    weights: Any = None,
    density: bool | None = None,
) -> tuple[Any, list[Any]]:
    """How many points lie in each box of a grid.

    Args:
        sample: float[n, d], or a list of d coordinate arrays.
        bins: how many bins along each axis, or the edges of each.
        range: lowest and highest edge of each axis.
        weights: what each point counts for, [n].
        density: divide by the total and the volumes.

    Returns:
        The counts, and a list of edges per axis.
    """
    if isinstance(sample, (list, tuple)):
        columns = [lift("histogramdd", x) for x in sample]
    else:
        sample = lift("histogramdd", sample)
        columns = [sample[:, i] for i in np.arange(sample.shape[1]).tolist()]
    d = len(columns)
    columns = [lift("histogramdd", x) for x in promote.promote_inexact("histogramdd", *columns)]
    n = columns[0].shape[0]
    if range is not None and len(range) != d:
        raise ValueError(f"For sample.shape={(n, d)} should have len(range)={d}, got {range}")
    if weights is not None and np.shape(weights) != (n,):
        raise ValueError("should have one weight for each sample.")
    per_axis = [bins] * d if isinstance(bins, (int, np.integer)) else list(bins)
    if len(per_axis) != d:
        raise ValueError(f"should be a bin for each dimension: {len(per_axis)} for {d}")
    edges, places = [], []
    for i, (x, b) in enumerate(zip(columns, per_axis, strict=True)):
        edge = histogram_bin_edges(x, b, None if range is None else range[i])
        edges.append(edge)
        place = searchsorted(edge, x, "right")
        places.append(where(x == edge[-1], place - 1, place))
    sizes = tuple(e.shape[0] + 1 for e in edges)
    flat = ravel_multi_index(tuple(places), sizes, mode="clip")
    counts = bincount(flat, weights, length=int(np.prod(sizes))).reshape(sizes)
    counts = counts[(slice(1, -1),) * d]
    if density:
        volume: Any = asarray(np.ones((1,) * d), columns[0].dtype)
        for i, e in enumerate(edges):
            width = e[1:] - e[:-1]
            volume = volume * width.reshape(
                tuple(-1 if j == i else 1 for j in np.arange(d).tolist())
            )
        counts = counts / counts.sum() / volume
    return counts, edges
