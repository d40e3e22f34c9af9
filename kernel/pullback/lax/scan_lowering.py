"""`scan` in StableHLO: a while loop over a counter, with slices read and results written in place.

Handed its context by xla/lowering.py. Tested in tests/lax/test_scan.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.core.aval import ShapedArray, abstract_token, make_aval
from pullback.core.jaxpr import Jaxpr

_COUNTER = make_aval((), np.dtype(np.int32))


@dataclass(frozen=True, slots=True)
class _Loop:
    """The fixed data of one scan being lowered."""

    ctx: Any
    jaxpr: Jaxpr
    length: int
    reverse: bool
    num_consts: int
    num_carry: int
    xs_avals: Sequence[ShapedArray]
    ys_avals: Sequence[ShapedArray]

    def step(self, ctx: Any, index: Any, consts: Any, carry: Any, xs: Any, ys: Any) -> tuple:
        """One step at a position (an ir value): the new carry and ys."""
        slices = [_read(ctx, x, a, index) for x, a in zip(xs, self.xs_avals, strict=True)]
        outs = ctx.call(self.jaxpr, [*consts, *carry, *slices], name=self.jaxpr.debug_name)
        new = [
            _write(ctx, y, a, out, index)
            for y, a, out in zip(ys, self.ys_avals, outs[self.num_carry :], strict=True)
        ]
        return list(outs[: self.num_carry]), new

    def position(self, ctx: Any, counter: Any) -> Any:
        """The index of the slice that step `counter` works on."""
        if not self.reverse:
            return counter
        return ctx.hlo.subtract(ctx.const(np.int32(self.length - 1)), counter)


def less_than(ctx: Any, a: Any, b: Any) -> Any:
    """a < b for signed integers."""
    hlo = ctx.hlo
    direction = hlo.ComparisonDirectionAttr.get("LT")
    return hlo.compare(a, b, direction, compare_type=hlo.ComparisonTypeAttr.get("SIGNED"))


def _starts(ctx: Any, aval: ShapedArray, index: Any) -> list[Any]:
    zero = ctx.const(np.int32(0)) if aval.ndim > 1 else None
    return [index, *[zero] * (aval.ndim - 1)]


def _read(ctx: Any, x: Any, aval: ShapedArray, index: Any) -> Any:
    sizes = ctx.dims((1, *aval.shape[1:]))
    one = ctx.hlo.dynamic_slice(x, _starts(ctx, aval, index), sizes)
    return ctx.hlo.reshape(ctx.type(make_aval(aval.shape[1:], aval.dtype)), one)


def _write(ctx: Any, y: Any, aval: ShapedArray, value: Any, index: Any) -> Any:
    one = ctx.hlo.reshape(ctx.type(make_aval((1, *aval.shape[1:]), aval.dtype)), value)
    return ctx.hlo.dynamic_update_slice(y, one, _starts(ctx, aval, index))


def lower_scan(
    ctx: Any,
    *values: Any,
    jaxpr: Jaxpr,
    length: int,
    reverse: bool,
    unroll: int,
    num_consts: int,
    num_carry: int,
) -> list[Any]:
    """The lowering rule of `scan`."""
    n_fixed = num_consts + num_carry
    consts, carry, xs = (
        values[:num_consts],
        list(values[num_consts:n_fixed]),
        values[n_fixed:],
    )
    ys_avals = ctx.avals_out[num_carry:]
    loop = _Loop(
        ctx, jaxpr, length, reverse, num_consts, num_carry, ctx.avals_in[n_fixed:], ys_avals
    )
    ys = [ctx.const(np.zeros((), a.dtype), a) for a in ys_avals]
    unroll = max(1, min(unroll, length))
    blocks, rest = divmod(length, unroll)
    done = 0
    if blocks > 1:
        carry, ys = _while(loop, blocks * unroll, unroll, consts, carry, xs, ys)
        done = blocks * unroll
    else:
        rest = length
    for k in range(done, done + rest):
        index = ctx.const(np.int32(length - 1 - k if reverse else k))
        carry, ys = loop.step(ctx, index, consts, carry, xs, ys)
    return [*carry, *ys]


def _while(
    loop: _Loop, stop: int, unroll: int, consts: Any, carry: Any, xs: Any, ys: Any
) -> tuple[list[Any], list[Any]]:
    ctx = loop.ctx
    hlo = ctx.hlo
    n_c, n_h, n_x = len(consts), len(carry), len(xs)
    avals = [_COUNTER, *ctx.avals_in, *loop.ys_avals]
    init = [ctx.const(np.int32(0)), *consts, *carry, *xs, *ys]
    ordered = ctx.is_ordered(loop.jaxpr)
    if ordered:
        avals.append(abstract_token)
        init.append(ctx.token())
    op = hlo.WhileOp([ctx.type(a) for a in avals], init)

    def condition(inner: Any, counter: Any, *_: Any) -> list[Any]:
        return [less_than(inner, counter, inner.const(np.int32(stop)))]

    def body(inner: Any, counter: Any, *state: Any) -> list[Any]:
        if ordered:
            inner.set_token(state[-1])
            state = state[:-1]
        c = state[:n_c]
        h, x, y = (
            state[n_c : n_c + n_h],
            state[n_c + n_h : n_c + n_h + n_x],
            state[n_c + n_h + n_x :],
        )
        one = inner.const(np.int32(1))
        for _ in range(unroll):
            h, y = loop.step(inner, loop.position(inner, counter), c, h, x, y)
            counter = inner.hlo.add(counter, one)
        return [counter, *c, *h, *x, *y, *([inner.token()] if ordered else [])]

    ctx.region(op.regions[0], avals, condition)
    ctx.region(op.regions[1], avals, body)
    results = list(op.results)[1:]
    if ordered:
        ctx.set_token(results.pop())
    return results[n_c : n_c + n_h], results[n_c + n_h + n_x :]
