"""Running sums, products, extrema and log-sum-exps along an axis.

Builds on slice.py. Tested in tests/lax/test_cumulative.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core import errors
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import AxisData
from pullback.core.jvp import Zero, is_zero
from pullback.core.tracer import Primitive
from pullback.core.transpose import cotangent_aval
from pullback.lax.compare_select import is_finite_p, select_n_p
from pullback.lax.convert import stop_gradient_p
from pullback.lax.elementwise import add_p, max_p, min_p, mul_p, sub_p
from pullback.lax.families import FLOAT, NUMBER, ORDERED, check_kind, const_like
from pullback.lax.limits import highest, lowest
from pullback.lax.operands import canonical_axis, jvp_by, shape_of
from pullback.lax.shape import rev
from pullback.lax.slice import concatenate, pad_p, slice_in_dim
from pullback.lax.transcendental import exp_p, log_p


def scan_associative(
    combine: Callable[[Any, Any], Any], x: Any, axis: int, reverse: bool = False
) -> Any:
    """The running combination along an axis in 2 log2(n) vectorised steps.

    Args:
        combine: an associative elementwise operation.
        x: array.
        axis: non-negative axis.
        reverse: run from the end.

    Source: Blelloch, Prefix Sums and Their Applications, 1990.
    """
    if reverse:
        return rev(scan_associative(combine, rev(x, (axis,)), axis), (axis,))
    n = shape_of(x)[axis]
    if n < 2:
        return x

    def part(y: Any, start: int, stop: int | None, step: int = 1) -> Any:
        return slice_in_dim(y, start, stop, step, axis)

    pairs = combine(part(x, 0, n - 1, 2), part(x, 1, n, 2))
    odd = scan_associative(combine, pairs, axis)
    n_even = (n + 1) // 2 - 1
    even = combine(part(odd, 0, n_even), part(x, 2, n, 2)) if n_even else None
    return _interleave(part(x, 0, 1), even, odd, axis)


def _interleave(first: Any, even: Any, odd: Any, axis: int) -> Any:
    """first, odd[0], even[0], odd[1], even[1], ... along an axis."""
    evens = first if even is None else concatenate([first, even], axis)
    n_even, n_odd = shape_of(evens)[axis], shape_of(odd)[axis]

    def spread(x: Any, low: int, high: int) -> Any:
        config = [(0, 0, 0)] * typeof(x).ndim
        config[axis] = (low, high, 1)
        return pad_p.bind(x, const_like(x, 0), padding_config=tuple(config))

    return add_p.bind(spread(evens, 0, int(n_even == n_odd)), spread(odd, 1, int(n_even > n_odd)))


def log_add_exp(x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)), right also for infinities, with derivatives of any order at ties."""
    top = stop_gradient_p.bind(max_p.bind(x, y))
    finite = is_finite_p.bind(top)
    zero = const_like(x, 0)
    x, y, base = (select_n_p.bind(finite, zero, z) for z in (x, y, top))
    total = add_p.bind(exp_p.bind(sub_p.bind(x, base)), exp_p.bind(sub_p.bind(y, base)))
    return select_n_p.bind(finite, top, add_p.bind(log_p.bind(total), base))


def _cumulative(
    name: str,
    combine: Callable[[Any, Any], Any],
    init: Callable[[Any], Any],
    accepts: Sequence[str],
    doc: str,
    transpose: Callable[..., Any] | None = None,
) -> Primitive:
    """A primitive that combines all elements up to each one along an axis.

    Args:
        name: its name.
        combine: the associative operation.
        init: (dtype) -> its neutral element.
        accepts: the kinds of dtype.
        doc: what it computes.
        transpose: the transpose rule, for the linear one; else the derivative is that of
            `scan_associative`.
    """

    def abstract(x: ShapedArray, *, axis: int, reverse: bool) -> ShapedArray:
        check_kind(name, x, accepts)
        if not 0 <= axis < x.ndim:
            raise errors.shape_error(f"{name}: axis {axis} is out of bounds for {x.str_short()}.")
        return x

    def lower(ctx: Any, x: Any, *, axis: int, reverse: bool) -> Any:
        (aval,) = ctx.avals_in
        n = aval.shape[axis]
        if n < 2 or not aval.size:
            return x
        scalar = make_aval((), aval.dtype)
        window = [n if i == axis else 1 for i in range(aval.ndim)]
        before = (0, n - 1) if reverse else (n - 1, 0)
        op = ctx.hlo.ReduceWindowOp(
            [ctx.type(aval)],
            [x],
            [ctx.const(init(aval.dtype), scalar)],
            ctx.dims(window),
            padding=ctx.i64_matrix([before if i == axis else (0, 0) for i in range(aval.ndim)]),
        )
        ctx.region(
            op.regions[0],
            [scalar, scalar],
            lambda inner, a, b: inner.fun(combine, [a, b], [scalar, scalar]),
        )
        return op.results[0]

    def batch(axis_data: AxisData, args: Any, dims: Any, *, axis: int, reverse: bool) -> Any:
        return prim.bind(args[0], axis=axis + (axis >= dims[0]), reverse=reverse), dims[0]

    prim = Primitive(
        name=name,
        abstract=abstract,
        lower=lower,
        jvp=None
        if transpose
        else jvp_by(lambda x, axis, reverse: scan_associative(combine, x, axis, reverse)),
        transpose=transpose,
        batch=batch,
        label=lambda params: f"{name} axis {params['axis']}",
        doc=doc,
    )
    return prim


def _cumsum_transpose(ct: Any, x: Any, *, axis: int, reverse: bool) -> list[Any]:
    if is_zero(ct):
        return [Zero(cotangent_aval(x))]
    return [cumsum_p.bind(ct, axis=axis, reverse=not reverse)]


cumsum_p = _cumulative(
    "cumsum",
    lambda x, y: add_p.bind(x, y),
    lambda dtype: np.zeros((), dtype)[()],
    NUMBER,
    "The running sum along an axis.",
    _cumsum_transpose,
)
cumprod_p = _cumulative(
    "cumprod",
    lambda x, y: mul_p.bind(x, y),
    lambda dtype: np.ones((), dtype)[()],
    NUMBER,
    "The running product along an axis.",
)
cummax_p = _cumulative(
    "cummax",
    lambda x, y: max_p.bind(x, y),
    lowest,
    ORDERED,
    "The running maximum along an axis.",
)
cummin_p = _cumulative(
    "cummin",
    lambda x, y: min_p.bind(x, y),
    highest,
    ORDERED,
    "The running minimum along an axis.",
)
cumlogsumexp_p = _cumulative(
    "cumlogsumexp",
    log_add_exp,
    lowest,
    FLOAT,
    "The running log(sum(exp(x))) along an axis.",
)


def _public(prim: Primitive, operand: Any, axis: int, reverse: bool) -> Any:
    axis = canonical_axis(prim.name, axis, typeof(operand).ndim)
    return prim.bind(operand, axis=axis, reverse=bool(reverse))


def cumsum(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """The running sum along `axis`, from the end if `reverse`.

    Example:
        >>> from pullback import lax
        >>> import numpy as np
        >>> print(lax.cumsum(np.arange(4), reverse=True))
        [6 6 5 3]
    """
    return _public(cumsum_p, operand, axis, reverse)


def cumprod(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """The running product along `axis`, from the end if `reverse`."""
    return _public(cumprod_p, operand, axis, reverse)


def cummax(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """The running maximum along `axis`, from the end if `reverse`."""
    return _public(cummax_p, operand, axis, reverse)


def cummin(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """The running minimum along `axis`, from the end if `reverse`."""
    return _public(cummin_p, operand, axis, reverse)


def cumlogsumexp(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """The running log(sum(exp(x))) along `axis`, from the end if `reverse`."""
    return _public(cumlogsumexp_p, operand, axis, reverse)
