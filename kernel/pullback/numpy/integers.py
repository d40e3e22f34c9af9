"""Integer and logarithmic pairs: gcd, lcm, ldexp, logaddexp.

Builds on arithmetic.py. Tested in tests/numpy/.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import lax
from pullback.api.custom import custom_jvp
from pullback.core import dtypes
from pullback.numpy import promote
from pullback.numpy.arithmetic import _finish, promote_floating
from pullback.numpy.fused import fused


def ldexp(x1: Any, x2: Any, /) -> Any:
    """x1 * 2**x2.

    Args:
        x1: float array.
        x2: integer array.

    Returns:
        A float array of the broadcast shape.
    """
    x1 = promote.to_inexact("ldexp", x1)
    if promote.aval_of("ldexp", x2, 1).dtype.kind not in "iub":
        raise ValueError("ldexp: x2 must be of integer type, e.g. x2.astype(int)")
    return _ldexp(x1, x2)


@fused()
def _ldexp(x: Any, n: Any) -> Any:
    dtype = promote.dtype_of(x)
    n = lax.convert_element_type(n, np.int32)
    info = dtypes.finfo(dtype)
    limit = int(info.maxexp) - 1
    for _ in range(3):
        part = lax.clamp(-limit, n, limit)
        x = x * lax.exp2(lax.convert_element_type(part, dtype))
        n = n - part
    return x


def _log_sum(name: str, exp_: Any, log1p_: Any, doc: str) -> Callable:
    """log(b**x1 + b**x2) as a primal with a derivative of its own, which is finite everywhere."""

    @custom_jvp
    def value(x: Any, y: Any) -> Any:
        larger = lax.max_p.bind(x, y)
        gap = lax.sub_p.bind(x, y)
        return lax.select(
            lax.ne(gap, gap), lax.add_p.bind(x, y), larger + log1p_(exp_(-lax.abs(gap)))
        )

    def rule(primals: Any, tangents: Any) -> Any:
        x, y = primals
        out = value(x, y)
        wx = exp_(_finite_gap(x, out))
        wy = exp_(_finite_gap(y, out))
        return out, wx * tangents[0] + wy * tangents[1]

    value.defjvp(rule)
    run = fused()(value)

    def fun(x1: Any, x2: Any, /) -> Any:
        x1, x2 = promote_floating(name, x1, x2)
        if promote.dtype_of(x1).kind == "c":
            raise TypeError(f"{name} does not support complex numbers")
        return run(x1, x2)

    return _finish(fun, name, doc)


def _finite_gap(x: Any, out: Any) -> Any:
    """x - out, where an infinite x equal to out counts as 0 apart."""
    same = promote.broadcast_to(x, promote.shape_of(out)) == out
    gap = lax.sub_p.bind(x, out)
    return lax.select(same, lax.full_like(gap, 0), gap)


def _log2_1p(x: Any) -> Any:
    return lax.log1p(x) * (1 / math.log(2.0))


logaddexp = _log_sum("logaddexp", lax.exp, lax.log1p, "log(exp(x1) + exp(x2)).")
logaddexp2 = _log_sum("logaddexp2", lax.exp2, _log2_1p, "log2(2**x1 + 2**x2).")


def _gcd_body(state: tuple[Any, Any]) -> tuple[Any, Any]:
    a, b = state
    safe = lax.select((b == 0), lax.full_like(b, 1), b)
    rest = lax.select((b == 0), lax.full_like(b, 0), lax.rem(a, safe))
    return lax.select((b == 0), a, b), rest


@fused()
def _gcd(x: Any, y: Any) -> Any:
    if not x.size:
        return x
    axes = tuple(range(x.ndim))

    def unfinished(state: tuple[Any, Any]) -> Any:
        return lax.reduce_max(state[1], axes) != 0

    return lax.while_loop(unfinished, _gcd_body, (lax.max(x, y), lax.min(x, y)))[0]


def _integers(name: str, x1: Any, x2: Any) -> list[Any]:
    pair = promote.promote(name, x1, x2)
    if promote.dtype_of(pair[0]).kind not in "iu":
        raise ValueError(f"Arguments to jax.numpy.{name} must be integers.")
    shape = promote.check_shapes(name, *map(np.shape, pair))
    return [promote.broadcast_to(promote.lift(name, x), shape) for x in pair]


def gcd(x1: Any, x2: Any) -> Any:
    """The greatest common divisor.

    Args:
        x1, x2: integer arrays whose shapes broadcast.

    Returns:
        An integer array of the broadcast shape.
    """
    x1, x2 = _integers("gcd", x1, x2)
    return _gcd(_magnitude(x1), _magnitude(x2))


def lcm(x1: Any, x2: Any) -> Any:
    """The least common multiple.

    Args:
        x1, x2: integer arrays whose shapes broadcast.

    Returns:
        An integer array of the broadcast shape.
    """
    x1, x2 = _integers("lcm", x1, x2)
    return _lcm(_magnitude(x1), _magnitude(x2))


def _magnitude(x: Any) -> Any:
    return x if x.dtype.kind == "u" else lax.abs(x)


@fused()
def _lcm(x: Any, y: Any) -> Any:
    divisor = _gcd(x, y)
    safe = lax.select(divisor == 0, lax.full_like(divisor, 1), divisor)
    return x * (y // safe)
