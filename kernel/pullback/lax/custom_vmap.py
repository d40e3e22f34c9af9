"""Calls whose vectorisation is given by the user.

Builds on custom_rules.py. Tested in tests/api/test_custom_vmap.py.
"""

from __future__ import annotations

from typing import Any

from pullback.core.aval import ShapedArray
from pullback.core.batching import AxisData, move_dim
from pullback.core.jaxpr import Jaxpr
from pullback.core.jvp import jvp_flat
from pullback.core.tracer import Primitive
from pullback.core.transpose import backward_pass
from pullback.lax.custom_rules import run_call, stage_call


def _abstract(*avals: ShapedArray, call: Jaxpr, **params: Any) -> list[ShapedArray]:
    return call.out_avals


def _impl(*args: Any, call: Any, **params: Any) -> list[Any]:
    return run_call(call, args)


def _lower(ctx: Any, *values: Any, call: Jaxpr, name: str, **params: Any) -> list[Any]:
    return ctx.call(call, values, name=name)


def _jvp(primals: Any, tangents: Any, *, call: Any, **params: Any) -> tuple[list, list]:
    return jvp_flat(lambda *xs: run_call(call, xs), primals, tangents)


def _transpose(cts: Any, *args: Any, call: Jaxpr, **params: Any) -> list[Any]:
    return backward_pass(call, (), args, cts)


def _batch(
    axis: AxisData, args: Any, dims: Any, *, call: Any, rule: Any, num_consts: int, name: str
) -> tuple[list, list]:
    if any(d is not None for d in dims[:num_consts]):
        raise NotImplementedError(
            f"custom_vmap: {name!r} closes over a value that is mapped; its rule knows nothing of "
            f"it.\nInstead: pass the value as an argument of {name!r}."
        )
    xs, ds = args[num_consts:], dims[num_consts:]
    moved = [x if d is None else move_dim(x, d, 0) for x, d in zip(xs, ds, strict=True)]
    outs, mapped = rule(axis.size, [d is not None for d in ds], moved)
    return list(outs), [0 if m else None for m in mapped]


custom_vmap_call_p = Primitive(
    name="custom_vmap_call",
    doc="the results of a function with a user's rule for vmap",
    multiple_results=True,
    abstract=_abstract,
    impl=_impl,
    lower=_lower,
    stage=stage_call,
    jvp=_jvp,
    linearize=_jvp,
    transpose=_transpose,
    batch=_batch,
    label=lambda params: params["name"],
)
