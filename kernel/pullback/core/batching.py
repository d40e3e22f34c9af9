"""Vectorising: a trace that carries arrays with one more axis.

Builds on tracer.py. Tested in tests/core/test_batching.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pullback.core.aval import make_aval, typeof
from pullback.core.jaxpr import axis_names, inner_jaxprs
from pullback.core.jvp import _in_parent
from pullback.core.tracer import Primitive, Trace, Tracer, extend_axis_env, state


@dataclass(frozen=True, slots=True)
class AxisData:
    """A mapped axis: its name (None if it has none), size, and spmd axis name.

    `tag` is the identity of one vmap: a rule that runs later re-enters it with the same tag, and so
    knows the mapped values that it closes over.
    """

    name: Any
    size: int
    spmd_name: Any = None
    tag: Any = field(default=None, compare=False)


class _AxisOps:
    """Moving and adding axes, provided by lax (which is built on this module)."""

    moveaxis: Callable[[Any, int, int], Any]
    broadcast: Callable[[Any, int, int], Any]


axis_ops = _AxisOps()


def move_dim(x: Any, source: int, target: int) -> Any:
    """The array with one axis moved."""
    return x if source == target else axis_ops.moveaxis(x, source, target)


def broadcast_dim(x: Any, size: int, at: int) -> Any:
    """The array repeated along a new axis `at`."""
    return axis_ops.broadcast(x, size, at)


def bdim_at_front(x: Any, dim: int | None, size: int) -> Any:
    """The array with its mapped axis first, made by repetition if it has none."""
    return broadcast_dim(x, size, 0) if dim is None else move_dim(x, dim, 0)


class BatchTracer(Tracer):
    """An array whose axis `dim` is the mapped one, seen without that axis."""

    __slots__ = ("dim", "val")

    def __init__(self, trace: Trace, val: Any, dim: int) -> None:
        self._trace = trace
        self.val = val
        self.dim = dim
        aval = typeof(val)
        shape = aval.shape
        self.aval = make_aval(shape[:dim] + shape[dim + 1 :], aval.dtype, aval.weak_type)


class BatchTrace(Trace):
    """Applies each primitive's batching rule."""

    def __init__(self, parent: Trace, axis: AxisData) -> None:
        self.parent: Trace = parent
        self.axis = axis if axis.tag is not None else replace(axis, tag=object())
        self.tag = self.axis.tag
        self.live = True

    def _owns(self, x: Any) -> bool:
        return type(x) is BatchTracer and (x._trace is self or x._trace.tag is self.tag)

    def split(self, x: Any) -> tuple[Any, int | None]:
        """The array beneath and its mapped axis."""
        if self._owns(x):
            return x.val, x.dim
        return x, None

    def join(self, val: Any, dim: int | None) -> Any:
        """A tracer for the pair; the bare array where no axis is mapped."""
        return val if dim is None else BatchTracer(self, val, dim)

    def process(self, prim: Primitive, args: tuple, params: dict) -> Any:
        vals: list[Any] = []
        dims: list[int | None] = []
        mapped = False
        for x in args:
            if type(x) is BatchTracer and (x._trace is self or x._trace.tag is self.tag):
                vals.append(x.val)
                dims.append(x.dim)
                mapped = True
            else:
                vals.append(x)
                dims.append(None)
        if not mapped and not self._names_axis(prim, params):
            return _in_parent(self, prim, args, params)
        state.trace = self.parent
        try:
            out, out_dims = prim.batch(self.axis, vals, dims, **params)  # type: ignore[misc]
        finally:
            state.trace = self
        if prim.multiple_results:
            return [self.join(v, d) for v, d in zip(out, out_dims, strict=True)]
        return self.join(out, out_dims)

    def _names_axis(self, prim: Primitive, params: dict) -> bool:
        name = self.axis.name
        if name is None:
            return False
        if prim.axis_param is not None:
            names = params[prim.axis_param]
            return name in (names if isinstance(names, tuple | list) else (names,))
        return any(name in axis_names(jaxpr) for jaxpr in inner_jaxprs(params))

    def describe(self) -> str:
        return "vmap"


def batch_flat(
    fun: Callable[..., Sequence[Any]],
    axis: AxisData,
    args: Sequence[Any],
    dims: Sequence[int | None],
) -> tuple[list[Any], list[int | None]]:
    """Run a function of flat arguments with one axis of each (or none) mapped.

    Returns:
        The results and, per result, where its mapped axis is (None if it does not depend on it).
    """
    trace = BatchTrace(state.trace, axis)
    with extend_axis_env(axis.name, axis.size):
        state.trace = trace
        try:
            outs = fun(*[trace.join(x, d) for x, d in zip(args, dims, strict=True)])
            pairs = [trace.split(x) for x in outs]
        finally:
            state.trace = trace.parent
            trace.live = False
    return [v for v, _ in pairs], [d for _, d in pairs]


def to_dim(x: Any, dim: int | None, size: int, target: int) -> Any:
    """The array with its mapped axis at `target`, made by repetition if it has none."""
    if dim is None:
        return broadcast_dim(x, size, target)
    return move_dim(x, dim, target)
