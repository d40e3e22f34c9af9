"""Functions of the user inside reductions: as jaxprs of scalars, recognised where well known.

Builds on shape.py and core/stage.py. Tested in tests/lax/test_reduce_generic.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import AxisData, batch_flat, bdim_at_front
from pullback.core.jaxpr import Jaxpr, eval_jaxpr
from pullback.core.stage import trace_to_jaxpr
from pullback.core.tracer import Tracer, eval_context
from pullback.lax.inner import intern_jaxpr
from pullback.lax.operands import shape_of
from pullback.lax.shape import reshaped


def scalar_jaxpr(
    name: str, fun: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray]
) -> Jaxpr:
    """A flat function of scalars as a jaxpr without constants.

    Args:
        name: the operation that takes the function, for errors.
        fun: the function.
        avals: types whose dtypes the scalars have.

    Raises:
        NotImplementedError: it closes over traced values or over arrays that are not scalars.
    """
    scalars = [make_aval((), a.dtype) for a in avals]
    with eval_context():
        jaxpr, consts = trace_to_jaxpr(fun, scalars, name=name)
        if consts:
            if any(isinstance(c, Tracer) or shape_of(c) for c in consts):
                raise NotImplementedError(
                    f"{name}: the function closes over traced values or arrays, which a compiled "
                    "reduction cannot hold.\nInstead: use its arguments and numbers only."
                )
            numbers = [np.asarray(c)[()] for c in consts]
            closed = jaxpr
            jaxpr, _ = trace_to_jaxpr(
                lambda *xs: eval_jaxpr(closed, numbers, *xs), scalars, name=name
            )
    return intern_jaxpr(jaxpr)


def known_monoid(jaxpr: Jaxpr) -> str | None:
    """The name of the primitive, if the function of two scalars is just one of two operands."""
    if len(jaxpr.eqns) != 1 or len(jaxpr.invars) != 2 or len(jaxpr.outvars) != 1:
        return None
    (eqn,) = jaxpr.eqns
    name = eqn.primitive.name
    if name not in ("add", "mul", "max", "min", "and", "or", "xor"):
        return None
    same = set(eqn.invars) == set(jaxpr.invars) and jaxpr.outvars[0] is eqn.outvars[0]
    return name if same else None


def is_value(x: Any, value: Any) -> bool:
    """Whether a scalar is known and equal to `value`."""
    if isinstance(x, Tracer):
        return False
    return bool(np.asarray(x) == value)


def map_scalars(jaxpr: Jaxpr, *args: Any) -> list[Any]:
    """A jaxpr of scalars applied to each element of arrays of one shape."""
    shape = shape_of(args[0])
    size = typeof(args[0]).size
    flat = [reshaped(a, (size,)) for a in args]
    axis = AxisData(None, size)
    outs, dims = batch_flat(lambda *xs: eval_jaxpr(jaxpr, (), *xs), axis, flat, [0] * len(flat))
    return [reshaped(bdim_at_front(o, d, size), shape) for o, d in zip(outs, dims, strict=True)]


def fill_region(ctx: Any, region: Any, jaxpr: Jaxpr) -> None:
    """Write a jaxpr of scalars into an operation's region."""
    avals = [make_aval((), v.aval.dtype) for v in jaxpr.invars]
    ctx.region(
        region,
        avals,
        lambda inner, *xs: inner.fun(lambda *ys: eval_jaxpr(jaxpr, (), *ys), xs, avals),
    )


def check_reducer(name: str, jaxpr: Jaxpr, avals: Sequence[ShapedArray]) -> None:
    """Check that a reducer gives one scalar of each operand's dtype.

    Raises:
        TypeError: it does not.
    """
    outs = [v.aval for v in jaxpr.outvars]
    if [(o.shape, o.dtype) for o in outs] != [((), a.dtype) for a in avals]:
        raise TypeError(
            f"{name}: the function must give one scalar per operand, of its dtype; it gives "
            f"{', '.join(o.str_short() for o in outs)} for operands "
            f"{', '.join(a.str_short() for a in avals)}."
        )
