"""Calls of Python functions from inside compiled programs: pure, with side effects, for debugging.

Ordered calls are chained by tokens, which the lowerings of loops and branches carry along; programs
with calls run to their end before control returns, so that output lands where the program was run.
Builds on scan.py, loops.py. Tested in tests/api/test_effects.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.core.aval import ShapedArray, abstract_token, make_aval, typeof
from pullback.core.batching import AxisData, bdim_at_front
from pullback.core.tracer import Primitive
from pullback.lax.loops import map as loop_map
from pullback.lax.shape import expand_dims
from pullback.xla.callbacks import HostCall

Avals = tuple[ShapedArray, ...]


def _row_major(aval: Any) -> list[int]:
    return list(range(aval.ndim))[::-1]


def lower_call(
    ctx: Any, values: Sequence[Any], host: HostCall, ordered: bool, side_effect: bool
) -> list[Any]:
    """A custom call of a Python function; ordered ones take and give the current token."""
    if ctx.platform != "cpu":
        raise NotImplementedError(
            f"callbacks into Python are supported on the CPU only, not on {ctx.platform}.\n"
            "Instead: run this function on the CPU, e.g. jit(f, device=jax.devices('cpu')[0])."
        )
    operands, avals_in, avals_out = list(values), list(ctx.avals_in), list(ctx.avals_out)
    if ordered:
        operands.insert(0, ctx.token())
        avals_in.insert(0, abstract_token)
        avals_out.insert(0, abstract_token)
    u64 = ctx.ir.IntegerType.get_unsigned(64)
    outs = ctx.custom_call(
        "xla_ffi_python_cpu_callback",
        operands,
        [ctx.type(a) for a in avals_out],
        backend_config={"index": ctx.ir.IntegerAttr.get(u64, ctx.add_callback(host))},
        operand_layouts=[_row_major(a) for a in avals_in],
        result_layouts=[_row_major(a) for a in avals_out],
        has_side_effect=side_effect,
    )
    if ordered:
        ctx.set_token(outs[0])
        outs = outs[1:]
    return outs


def _run_now(host: HostCall, args: Sequence[Any]) -> list[Any]:
    return list(host.results([np.asarray(x, typeof(x).dtype) for x in args]))


# pure_callback: may be called any number of times, or never.


def _pure_abstract(*avals: ShapedArray, result_avals: Avals, **params: Any) -> Avals:
    return result_avals


def _pure_impl(*args: Any, callback: Any, result_avals: Avals, vmap_method: Any) -> list[Any]:
    return _run_now(HostCall(callback, result_avals, False, "pure_callback"), args)


def _pure_lower(
    ctx: Any, *values: Any, callback: Any, result_avals: Avals, vmap_method: Any
) -> list[Any]:
    host = HostCall(callback, result_avals, False, "pure_callback")
    return lower_call(ctx, values, host, False, False)


def _refuse_jvp(what: str) -> Callable[..., Any]:
    def rule(primals: Any, tangents: Any, **params: Any) -> Any:
        raise ValueError(
            f"{what} do not support JVP: the derivative of a Python function is not known.\n"
            "Instead: wrap the call in a function with jax.custom_jvp or jax.custom_vjp."
        )

    return rule


def _mapped_avals(avals: Avals, size: int) -> Avals:
    return tuple([make_aval((size, *a.shape), a.dtype, a.weak_type) for a in avals])


def _one_by_one(
    prim: Primitive, axis: AxisData, args: Any, dims: Any, params: dict
) -> tuple[list, list]:
    """Call for one mapped index after another, in a loop."""
    mapped = [bdim_at_front(x, d, axis.size) for x, d in zip(args, dims, strict=True)]
    moving = [x for x, d in zip(mapped, dims, strict=True) if d is not None]

    def one(parts: Sequence[Any]) -> list[Any]:
        rest = iter(parts)
        full = [x if d is None else next(rest) for x, d in zip(args, dims, strict=True)]
        return list(prim.bind(*full, **params))

    outs = loop_map(one, moving)
    return outs, [0] * len(outs)


def _pure_batch(
    axis: AxisData, args: Any, dims: Any, *, callback: Any, result_avals: Avals, vmap_method: Any
) -> tuple[list, list]:
    params = {"callback": callback, "result_avals": result_avals, "vmap_method": vmap_method}
    if vmap_method in ("sequential", "sequential_unrolled"):
        return _one_by_one(pure_callback_p, axis, args, dims, params)
    if vmap_method not in ("expand_dims", "broadcast_all", "legacy_vectorized"):
        raise NotImplementedError(
            "vmap is only supported for the pure_callback primitive when vmap_method is one of "
            "'sequential', 'sequential_unrolled', 'expand_dims', 'broadcast_all', or "
            f"'legacy_vectorized'. Got vmap_method={vmap_method!r}.\n"
            "Instead: pass vmap_method='sequential', or 'expand_dims' if the function takes arrays "
            "with a leading axis."
        )
    operands = []
    for x, d in zip(args, dims, strict=True):
        if d is not None or vmap_method == "broadcast_all":
            operands.append(bdim_at_front(x, d, axis.size))
        else:
            operands.append(expand_dims(x, (0,)) if vmap_method == "expand_dims" else x)
    params["result_avals"] = _mapped_avals(result_avals, axis.size)
    outs = pure_callback_p.bind(*operands, **params)
    return outs, [0] * len(outs)


pure_callback_p = Primitive(
    name="pure_callback",
    doc="the results of a Python function without side effects, run by the host",
    multiple_results=True,
    abstract=_pure_abstract,
    impl=_pure_impl,
    lower=_pure_lower,
    jvp=_refuse_jvp("Pure callbacks"),
    batch=_pure_batch,
)


# io_callback: called exactly once each time the program gets there.


def _io_impl(*args: Any, callback: Any, result_avals: Avals, ordered: bool) -> list[Any]:
    return _run_now(HostCall(callback, result_avals, False, "io_callback"), args)


def _io_lower(
    ctx: Any, *values: Any, callback: Any, result_avals: Avals, ordered: bool
) -> list[Any]:
    host = HostCall(callback, result_avals, ordered, "io_callback")
    return lower_call(ctx, values, host, ordered, True)


def _io_batch(axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[list, list]:
    if params["ordered"]:
        raise ValueError(
            "Cannot `vmap` ordered IO callback: vmap computes all elements at once.\n"
            "Instead: use ordered=False, or a lax.scan in place of the vmap."
        )
    return _one_by_one(io_callback_p, axis, args, dims, params)


io_callback_p = Primitive(
    name="io_callback",
    doc="the results of a Python function with side effects, run by the host",
    multiple_results=True,
    abstract=_pure_abstract,
    impl=_io_impl,
    lower=_io_lower,
    jvp=_refuse_jvp("IO callbacks"),
    batch=_io_batch,
    effectful=lambda params: True,
)


# debug_callback: a function called with values as they pass; follows the program through grad.


@dataclass(frozen=True, slots=True)
class _PerElement:
    """A debugging function under vmap: called for each mapped index in turn."""

    callback: Any
    dims: tuple[int | None, ...]
    size: int

    def __call__(self, *args: Any) -> tuple:
        for i in range(self.size):
            self.callback(
                *(x if d is None else x.take(i, d) for x, d in zip(args, self.dims, strict=True))
            )
        return ()


def _debug_impl(*args: Any, callback: Any, ordered: bool) -> list[Any]:
    return _run_now(HostCall(callback, (), False, "debug_callback"), args)


def _debug_lower(ctx: Any, *values: Any, callback: Any, ordered: bool) -> list[Any]:
    return lower_call(ctx, values, HostCall(callback, (), ordered, "debug_callback"), ordered, True)


def _debug_jvp(primals: Any, tangents: Any, **params: Any) -> tuple[list, list]:
    debug_callback_p.bind(*primals, **params)
    return [], []


def _debug_transpose(cts: Any, *args: Any, **params: Any) -> Any:
    raise ValueError(
        "debug callbacks cannot be transposed: a tangent is not there in reverse mode.\n"
        "Instead: call it on values of the function, or use forward mode."
    )


def _debug_batch(
    axis: AxisData, args: Any, dims: Any, *, callback: Any, ordered: bool
) -> tuple[list, list]:
    each = _PerElement(callback, tuple(dims), axis.size)
    return debug_callback_p.bind(*args, callback=each, ordered=ordered), []


debug_callback_p = Primitive(
    name="debug_callback",
    doc="calls a Python function with values as they pass",
    multiple_results=True,
    abstract=lambda *avals, **params: (),
    impl=_debug_impl,
    lower=_debug_lower,
    jvp=_debug_jvp,
    transpose=_debug_transpose,
    batch=_debug_batch,
    effectful=lambda params: True,
)
