"""Operations between the instances of a mapped function: under vmap(axis_name), pmap and shard_map.

Under vmap they are array operations along the mapped axis; across devices XLA's collectives. A sum
over instances has itself as its transpose: the derivative of an instance's result is taken with
respect to the sum over all instances, as JAX does under pmap.

Builds on shape.py, reduce.py, gather.py. Tested in tests/lax/test_collective.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.core import tracer as core_tracer
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import AxisData, bdim_at_front, move_dim
from pullback.core.jvp import Zero, instantiate, zero_of
from pullback.core.tracer import Primitive
from pullback.core.transpose import is_undefined
from pullback.lax.axis_names import Names, one_name, refuse_groups
from pullback.lax.collective_lowering import (
    lower_all_gather,
    lower_all_to_all,
    lower_axis_index,
    lower_ppermute,
    lower_reduce,
    lower_reduce_scatter,
)
from pullback.lax.families import mul_p
from pullback.lax.fill import iota, zeros_like_array
from pullback.lax.reduce import reduce_max, reduce_min
from pullback.lax.shape import broadcast, reshape, sum_axes
from pullback.lax.slice import concatenate, slice_in_dim

# Reductions over instances.


def _reduce_abstract(*avals: ShapedArray, axes: Names, axis_index_groups: Any) -> list:
    for name in axes:
        core_tracer.axis_size(name)
    return list(avals)


def _reduce_rule(
    prim: Callable[[], Primitive],
    along: Callable[[Any, int], Any],
    unmapped: Callable[[Any, int], Any],
) -> Callable[..., tuple[list, list]]:
    """The batching rule of a reduction over instances."""

    def rule(
        axis: AxisData, args: Any, dims: Any, *, axes: Names, axis_index_groups: Any
    ) -> tuple[list, list]:
        if axis.name not in axes:
            outs = prim().bind(*args, axes=axes, axis_index_groups=axis_index_groups)
            return outs, list(dims)
        refuse_groups(prim().name, axis_index_groups)
        outs = [
            unmapped(x, axis.size) if d is None else along(x, d)
            for x, d in zip(args, dims, strict=True)
        ]
        rest = tuple([n for n in axes if n != axis.name])
        if rest:
            outs = prim().bind(*outs, axes=rest, axis_index_groups=None)
        return outs, [None] * len(outs)

    return rule


def _scaled(x: Any, n: int) -> Any:
    return mul_p.bind(x, np.asarray(n, typeof(x).dtype)[()])


def _psum_jvp(primals: Any, tangents: Any, **params: Any) -> tuple[list, list]:
    outs = psum_p.bind(*primals, **params)
    given = [t for t in tangents if type(t) is not Zero]
    if not given:
        return outs, [zero_of(o) for o in outs]
    sums = iter(psum_p.bind(*given, **params))
    return outs, [
        zero_of(o) if type(t) is Zero else next(sums) for o, t in zip(outs, tangents, strict=True)
    ]


def _psum_transpose(cts: Any, *args: Any, **params: Any) -> list[Any]:
    wanted = [is_undefined(a) and type(ct) is not Zero for a, ct in zip(args, cts, strict=True)]
    given = [ct for ct, w in zip(cts, wanted, strict=True) if w]
    sums = iter(psum_p.bind(*given, **params)) if given else iter(())
    return [
        next(sums) if w else (Zero(a.aval) if is_undefined(a) else None)
        for a, w in zip(args, wanted, strict=True)
    ]


psum_p: Primitive = Primitive(
    name="psum",
    doc="the sum over the instances of a mapped axis; linear, its own transpose",
    multiple_results=True,
    abstract=_reduce_abstract,
    lower=lower_reduce("add"),
    jvp=_psum_jvp,
    transpose=_psum_transpose,
    batch=_reduce_rule(lambda: psum_p, lambda x, d: sum_axes(x, (d,)), _scaled),
    axis_param="axes",
    label=lambda params: f"psum {params['axes']}",
)

_NO_EXTREMUM = "which instance has the extremum is not recorded"

pmax_p: Primitive = Primitive(
    name="pmax",
    doc="the largest value among the instances of a mapped axis",
    multiple_results=True,
    abstract=_reduce_abstract,
    lower=lower_reduce("maximum"),
    nondifferentiable=_NO_EXTREMUM,
    batch=_reduce_rule(lambda: pmax_p, lambda x, d: reduce_max(x, (d,)), lambda x, n: x),
    axis_param="axes",
)

pmin_p: Primitive = Primitive(
    name="pmin",
    doc="the smallest value among the instances of a mapped axis",
    multiple_results=True,
    abstract=_reduce_abstract,
    lower=lower_reduce("minimum"),
    nondifferentiable=_NO_EXTREMUM,
    batch=_reduce_rule(lambda: pmin_p, lambda x, d: reduce_min(x, (d,)), lambda x, n: x),
    axis_param="axes",
)


def _linear_jvp(prim: Callable[[], Primitive]) -> Callable[..., tuple[Any, Any]]:
    def rule(primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        out = prim().bind(*primals, **params)
        (t,) = tangents
        return out, zero_of(out) if type(t) is Zero else prim().bind(instantiate(t), **params)

    return rule


# all_gather: every instance gets the values of all.


def _resized(aval: ShapedArray, axis: int, size: int) -> ShapedArray:
    shape = (*aval.shape[:axis], size, *aval.shape[axis + 1 :])
    return make_aval(shape, aval.dtype, aval.weak_type)


def _all_gather_abstract(
    x: ShapedArray,
    *,
    axis_name: Names,
    all_gather_dimension: int,
    axis_size: int,
    tiled: bool,
    axis_index_groups: Any,
) -> ShapedArray:
    at = all_gather_dimension
    if tiled:
        return _resized(x, at, x.shape[at] * axis_size)
    return make_aval((*x.shape[:at], axis_size, *x.shape[at:]), x.dtype, x.weak_type)


def _all_gather_transpose(
    ct: Any, x: Any, *, all_gather_dimension: int, **params: Any
) -> list[Any]:
    return [reduce_scatter_p.bind(ct, scatter_dimension=all_gather_dimension, **params)]


def _all_gather_batch(
    axis: AxisData,
    args: Any,
    dims: Any,
    *,
    axis_name: Names,
    all_gather_dimension: int,
    axis_size: int,
    tiled: bool,
    axis_index_groups: Any,
) -> tuple[Any, int | None]:
    (x,), (d,) = args, dims
    at = all_gather_dimension
    if axis.name not in axis_name:
        x = move_dim(x, d, 0)
        out = all_gather_p.bind(
            x,
            axis_name=axis_name,
            all_gather_dimension=at + 1,
            axis_size=axis_size,
            tiled=tiled,
            axis_index_groups=axis_index_groups,
        )
        return out, 0
    refuse_groups("all_gather", axis_index_groups)
    one_name("all_gather", axis_name)
    if d is None:
        x, d = broadcast(x, (axis.size,)), 0
    x = move_dim(x, d, at)
    if tiled:
        shape = typeof(x).shape
        x = reshape(x, (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]))
    return x, None


def _unmapped(x: Any, dim: int | None) -> ShapedArray:
    """The type of an operand without its mapped axis."""
    aval = typeof(x)
    if dim is None:
        return aval
    return make_aval((*aval.shape[:dim], *aval.shape[dim + 1 :]), aval.dtype, aval.weak_type)


all_gather_p: Primitive = Primitive(
    name="all_gather",
    doc="the values of all instances, along a new axis or end to end (tiled); linear",
    abstract=_all_gather_abstract,
    lower=lower_all_gather,
    jvp=_linear_jvp(lambda: all_gather_p),
    transpose=_all_gather_transpose,
    batch=_all_gather_batch,
    axis_param="axis_name",
)


# reduce_scatter (psum_scatter): the sum over instances, of which each gets a part.


def _reduce_scatter_abstract(
    x: ShapedArray,
    *,
    axis_name: Names,
    scatter_dimension: int,
    axis_size: int,
    tiled: bool,
    axis_index_groups: Any,
) -> ShapedArray:
    at = scatter_dimension
    n = x.shape[at]
    if tiled:
        if n % axis_size:
            raise ValueError(
                f"psum_scatter: axis {at} of {x.str_short()} has size {n}, which is not divisible "
                f"by the {axis_size} instances of {axis_name}."
            )
        return _resized(x, at, n // axis_size)
    if n != axis_size:
        raise ValueError(
            f"psum_scatter: axis {at} of {x.str_short()} must have size {axis_size}, the number of "
            f"instances of {axis_name}.\nInstead: pass tiled=True to split a longer axis."
        )
    return make_aval((*x.shape[:at], *x.shape[at + 1 :]), x.dtype, x.weak_type)


def _reduce_scatter_transpose(
    ct: Any, x: Any, *, scatter_dimension: int, **params: Any
) -> list[Any]:
    return [all_gather_p.bind(ct, all_gather_dimension=scatter_dimension, **params)]


def _reduce_scatter_batch(
    axis: AxisData,
    args: Any,
    dims: Any,
    *,
    axis_name: Names,
    scatter_dimension: int,
    axis_size: int,
    tiled: bool,
    axis_index_groups: Any,
) -> tuple[Any, int]:
    (x,), (d,) = args, dims
    at = scatter_dimension
    if axis.name not in axis_name:
        out = reduce_scatter_p.bind(
            move_dim(x, d, 0),
            axis_name=axis_name,
            scatter_dimension=at + 1,
            axis_size=axis_size,
            tiled=tiled,
            axis_index_groups=axis_index_groups,
        )
        return out, 0
    refuse_groups("psum_scatter", axis_index_groups)
    one_name("psum_scatter", axis_name)
    _reduce_scatter_abstract(
        _unmapped(x, d),
        axis_name=axis_name,
        scatter_dimension=at,
        axis_size=axis_size,
        tiled=tiled,
        axis_index_groups=None,
    )
    x = _scaled(x, axis.size) if d is None else sum_axes(x, (d,))
    if tiled:
        shape = typeof(x).shape
        x = reshape(x, (*shape[:at], axis.size, shape[at] // axis.size, *shape[at + 1 :]))
    return x, at


reduce_scatter_p: Primitive = Primitive(
    name="reduce_scatter",
    doc="the sum over instances, scattered: each gets its part along an axis; linear",
    abstract=_reduce_scatter_abstract,
    lower=lower_reduce_scatter,
    jvp=_linear_jvp(lambda: reduce_scatter_p),
    transpose=_reduce_scatter_transpose,
    batch=_reduce_scatter_batch,
    axis_param="axis_name",
)


# all_to_all: instance i's part j goes to instance j.


def _all_to_all_abstract(
    x: ShapedArray,
    *,
    axis_name: Names,
    split_axis: int,
    concat_axis: int,
    axis_size: int,
    tiled: bool,
    axis_index_groups: Any,
) -> ShapedArray:
    n = x.shape[split_axis]
    if tiled:
        if n % axis_size:
            raise ValueError(
                f"all_to_all: axis {split_axis} of {x.str_short()} has size {n}, which is not "
                f"divisible by the {axis_size} instances of {axis_name}."
            )
        out = _resized(x, split_axis, n // axis_size)
        return _resized(out, concat_axis, out.shape[concat_axis] * axis_size)
    if n != axis_size:
        raise ValueError(
            f"all_to_all requires the size of the mapped axis axis_name to equal "
            f"x.shape[split_axis], but they are {axis_size} and {n} respectively."
        )
    rest = (*x.shape[:split_axis], *x.shape[split_axis + 1 :])
    shape = (*rest[:concat_axis], axis_size, *rest[concat_axis:])
    return make_aval(shape, x.dtype, x.weak_type)


def _all_to_all_transpose(
    ct: Any, x: Any, *, split_axis: int, concat_axis: int, **params: Any
) -> list[Any]:
    return [all_to_all_p.bind(ct, split_axis=concat_axis, concat_axis=split_axis, **params)]


def _all_to_all_batch(
    axis: AxisData,
    args: Any,
    dims: Any,
    *,
    axis_name: Names,
    split_axis: int,
    concat_axis: int,
    axis_size: int,
    tiled: bool,
    axis_index_groups: Any,
) -> tuple[Any, int]:
    (x,), (d,) = args, dims
    if axis.name not in axis_name:
        out = all_to_all_p.bind(
            move_dim(x, d, 0),
            axis_name=axis_name,
            split_axis=split_axis + 1,
            concat_axis=concat_axis + 1,
            axis_size=axis_size,
            tiled=tiled,
            axis_index_groups=axis_index_groups,
        )
        return out, 0
    refuse_groups("all_to_all", axis_index_groups)
    one_name("all_to_all", axis_name)
    _all_to_all_abstract(
        _unmapped(x, d),
        axis_name=axis_name,
        split_axis=split_axis,
        concat_axis=concat_axis,
        axis_size=axis_size,
        tiled=tiled,
        axis_index_groups=None,
    )
    x = bdim_at_front(x, d, axis.size)
    if tiled:
        shape = typeof(x).shape
        at = split_axis + 1
        x = reshape(x, (*shape[:at], axis.size, shape[at] // axis.size, *shape[at + 1 :]))
    x = move_dim(move_dim(x, split_axis + 1, 0), 1, 1 + concat_axis)
    if tiled:
        shape = typeof(x).shape
        at = concat_axis + 1
        x = reshape(x, (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]))
    return x, 0


all_to_all_p: Primitive = Primitive(
    name="all_to_all",
    doc="instance i's part j goes to instance j, which puts the parts together; linear",
    abstract=_all_to_all_abstract,
    lower=lower_all_to_all,
    jvp=_linear_jvp(lambda: all_to_all_p),
    transpose=_all_to_all_transpose,
    batch=_all_to_all_batch,
    axis_param="axis_name",
)


# ppermute: instances send their value to one another.


def _ppermute_abstract(x: ShapedArray, **params: Any) -> ShapedArray:
    return x


def _ppermute_transpose(ct: Any, x: Any, *, axis_name: Names, perm: tuple) -> list[Any]:
    inverse = tuple([(dst, src) for src, dst in perm])
    return [ppermute_p.bind(ct, axis_name=axis_name, perm=inverse)]


def _ppermute_batch(
    axis: AxisData, args: Any, dims: Any, *, axis_name: Names, perm: tuple
) -> tuple[Any, int]:
    (x,), (d,) = args, dims
    if axis.name not in axis_name:
        return ppermute_p.bind(x, axis_name=axis_name, perm=perm), d
    one_name("ppermute", axis_name)
    x = bdim_at_front(x, d, axis.size)
    sources = {dst: src for src, dst in perm}
    parts = []
    for dst in range(axis.size):
        src = sources.get(dst)
        part = slice_in_dim(x, src or 0, (src or 0) + 1)
        parts.append(zeros_like_array(part) if src is None else part)
    return concatenate(parts, 0), 0


ppermute_p: Primitive = Primitive(
    name="ppermute",
    doc="instance dst gets instance src's value for each (src, dst), the others zeros; linear",
    abstract=_ppermute_abstract,
    lower=lower_ppermute,
    jvp=_linear_jvp(lambda: ppermute_p),
    transpose=_ppermute_transpose,
    batch=_ppermute_batch,
    axis_param="axis_name",
)


def _axis_index_abstract(*, axis_name: Names) -> ShapedArray:
    core_tracer.axis_size(axis_name[0])
    return make_aval((), np.dtype(np.int32))


def _axis_index_batch(axis: AxisData, args: Any, dims: Any, *, axis_name: Names) -> tuple[Any, int]:
    return iota(np.dtype(np.int32), axis.size), 0


axis_index_p = Primitive(
    name="axis_index",
    doc="the number of this instance along a mapped axis",
    abstract=_axis_index_abstract,
    lower=lower_axis_index,
    nondifferentiable="it is an integer that depends on no argument",
    batch=_axis_index_batch,
    axis_param="axis_name",
)
