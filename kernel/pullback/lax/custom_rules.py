"""Calls whose derivative is given by the user: custom_jvp, custom_vjp, and its linear part.

The function in a call's parameters is a Python callable while arrays flow through it, and a jaxpr
once it is staged; the rules stay Python callables, run when and where a derivative is taken. Under
vmap the rules are wrapped so that they re-enter the same vmap (its `tag`), whoever runs them, and
so know the mapped values that they close over.

Builds on core/call.py and inner.py. Tested in tests/lax/test_custom_rules.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pullback.core import dtypes, errors
from pullback.core.aval import ShapedArray, make_aval, tangent_aval, typeof
from pullback.core.batching import AxisData, batch_flat, to_dim
from pullback.core.call import batch_jaxpr
from pullback.core.jaxpr import Jaxpr, close, eval_jaxpr
from pullback.core.jvp import Zero, materialise, zero_of
from pullback.core.linearize import TangentTrace, TangentTracer
from pullback.core.stage import trace_to_jaxpr
from pullback.core.tracer import Primitive, set_current, state
from pullback.core.transpose import backward_pass, is_undefined
from pullback.lax.inner import intern_jaxpr
from pullback.lax.shape import sum_axes

Flat = Callable[..., Sequence[Any]]


def run_call(call: Jaxpr | Flat, args: Sequence[Any]) -> list[Any]:
    """Apply the function of a call under the current trace."""
    return eval_jaxpr(call, (), *args) if isinstance(call, Jaxpr) else list(call(*args))


def stage_call(args: tuple, params: dict) -> tuple[tuple, dict]:
    """A call as a staging trace writes it: the function as a jaxpr, its constants as operands."""
    call = params["call"]
    if isinstance(call, Jaxpr):
        return args, params
    jaxpr, consts = trace_to_jaxpr(call, [typeof(x) for x in args], name=params["name"])
    params = {
        **params,
        "call": intern_jaxpr(close(jaxpr)),
        "num_consts": params["num_consts"] + len(consts),
    }
    return (*consts, *args), params


def _call_abstract(*avals: ShapedArray, call: Jaxpr, **params: Any) -> list[ShapedArray]:
    return call.out_avals


def _call_impl(*args: Any, call: Jaxpr | Flat, **params: Any) -> list[Any]:
    return run_call(call, args)


def _call_lower(ctx: Any, *values: Any, call: Jaxpr, name: str, **params: Any) -> list[Any]:
    return ctx.call(call, values, name=name)


def _refuse_closed_over(kind: str, name: str, tangents: Sequence[Any]) -> None:
    """Constants of a custom call are not differentiated: its rule knows nothing of them."""
    if any(type(t) is not Zero for t in tangents):
        raise errors.CustomRuleClosureError(
            f"{kind}: differentiating with respect to a value that the function "
            f"{name!r} closes over; its rule cannot give that derivative.\n"
            f"Instead: pass the value as an argument of {name!r} and handle it in the rule, or use "
            "closure_convert."
        )


@dataclass(frozen=True, slots=True)
class _Batched:
    """Runs a flat function with arguments mapped at `dims`; all results are mapped at axis 0."""

    fun: Any
    axis: AxisData
    dims: tuple[int | None, ...]

    def __call__(self, *args: Any) -> list[Any]:
        outs, found = batch_flat(lambda *xs: run_call(self.fun, xs), self.axis, args, self.dims)
        return [to_dim(o, d, self.axis.size, 0) for o, d in zip(outs, found, strict=True)]


def _batched_call(
    axis: AxisData, call: Jaxpr | Flat, dims: Sequence[int | None]
) -> tuple[Jaxpr | _Batched, list[Any]]:
    """The function of a call under vmap, and its constants."""
    if isinstance(call, Jaxpr):
        out_dims = (0,) * len(call.outvars)
        jaxpr, consts, _ = batch_jaxpr(call, axis, tuple(dims), out_dims)
        return jaxpr, consts
    return _Batched(call, axis, tuple(dims)), []


# custom_jvp_call: results of `call`, with tangents by `rule(primals, tangents)`.


@dataclass(frozen=True, slots=True)
class _BatchedJVP:
    """A custom_jvp rule under vmap; results and tangents are mapped at axis 0."""

    rule: Any
    axis: AxisData
    dims: tuple[int | None, ...]

    def __call__(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list, list]:
        there = [type(t) is not Zero for t in tangents]
        avals = [unmapped_aval(typeof(p), d) for p, d in zip(primals, self.dims, strict=True)]
        n_out = [0]

        def flat(*args: Any) -> list[Any]:
            given = iter(args[len(primals) :])
            ts = [
                next(given) if nz else Zero(tangent_aval(a))
                for a, nz in zip(avals, there, strict=True)
            ]
            outs, t_outs = self.rule(args[: len(primals)], ts)
            n_out[0] = len(outs)
            return [*outs, *map(materialise, t_outs)]

        given = [t for t in tangents if type(t) is not Zero]
        dims = (*self.dims, *(d for d, nz in zip(self.dims, there, strict=True) if nz))
        outs, found = batch_flat(flat, self.axis, [*primals, *given], dims)
        size = self.axis.size
        outs = [
            o if _is_float0(o) else to_dim(o, d, size, 0) for o, d in zip(outs, found, strict=True)
        ]
        return outs[: n_out[0]], outs[n_out[0] :]


def _is_float0(x: Any) -> bool:
    return getattr(x, "dtype", None) == dtypes.float0


def unmapped_aval(aval: ShapedArray, dim: int | None) -> ShapedArray:
    """The type without its mapped axis."""
    if dim is None:
        return aval
    return make_aval(aval.shape[:dim] + aval.shape[dim + 1 :], aval.dtype, aval.weak_type)


def _custom_jvp_jvp(
    primals: Any, tangents: Any, *, call: Any, jvp: Any, num_consts: int, **params: Any
) -> tuple[list, list]:
    _refuse_closed_over("custom_jvp", params["name"], tangents[:num_consts])
    tangents = tangents[num_consts:]
    if not params["symbolic_zeros"]:
        tangents = [materialise(t) for t in tangents]
    outs, t_outs = jvp(list(primals[num_consts:]), list(tangents))
    return list(outs), [
        zero_of(o) if type(t) is Zero or _is_float0(t) else t
        for o, t in zip(outs, t_outs, strict=True)
    ]


def _call_transpose(cts: Any, *args: Any, call: Jaxpr, **params: Any) -> list[Any]:
    return backward_pass(call, (), args, cts)


def _custom_jvp_batch(
    axis: AxisData, args: Any, dims: Any, *, call: Any, jvp: Any, num_consts: int, **params: Any
) -> tuple[list, list]:
    mapped, consts = _batched_call(axis, call, dims)
    outs = custom_jvp_call_p.bind(
        *consts,
        *args,
        call=mapped,
        jvp=_BatchedJVP(jvp, axis, tuple(dims[num_consts:])),
        num_consts=num_consts + len(consts),
        **params,
    )
    return outs, [0] * len(outs)


custom_jvp_call_p = Primitive(
    name="custom_jvp_call",
    doc="the results of a function whose tangents come from a user's rule",
    multiple_results=True,
    abstract=_call_abstract,
    impl=_call_impl,
    lower=_call_lower,
    stage=stage_call,
    jvp=_custom_jvp_jvp,
    linearize=_custom_jvp_jvp,
    transpose=_call_transpose,
    batch=_custom_jvp_batch,
    label=lambda params: params["name"],
)


# custom_vjp_call: results of `call`; in reverse mode `fwd` gives results and residuals, and the
# linear part is custom_lin, whose transpose is `bwd(residuals, cotangents)`.


@dataclass(frozen=True, slots=True)
class _BatchedFwd:
    """A custom_vjp forward rule under vmap: results and residuals are mapped at axis 0."""

    fwd: Any
    axis: AxisData
    dims: tuple[int | None, ...]

    def __call__(self, primals: Sequence[Any], perturbed: Sequence[bool]) -> tuple[list, list]:
        n_out = [0]

        def flat(*args: Any) -> list[Any]:
            outs, residuals = self.fwd(args, perturbed)
            n_out[0] = len(outs)
            return [*outs, *residuals]

        outs, found = batch_flat(flat, self.axis, primals, self.dims)
        outs = [to_dim(o, d, self.axis.size, 0) for o, d in zip(outs, found, strict=True)]
        return outs[: n_out[0]], outs[n_out[0] :]


@dataclass(frozen=True, slots=True)
class _BatchedBwd:
    """A custom_vjp backward rule under vmap; what an unmapped argument receives is summed."""

    bwd: Any
    axis: AxisData
    dims: tuple[int | None, ...]

    def bound(self) -> _BatchedBwd:
        """The rule with the structures that the forward rule has just found."""
        return _BatchedBwd(self.bwd.bound(), self.axis, self.dims)

    def __call__(self, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        there = [type(ct) is not Zero for ct in cts]
        avals = [unmapped_aval(ct.aval if type(ct) is Zero else typeof(ct), 0) for ct in cts]
        n_res = len(residuals)
        zeros: list[bool] = []

        def flat(*args: Any) -> list[Any]:
            given = iter(args[n_res:])
            full = [next(given) if nz else Zero(a) for a, nz in zip(avals, there, strict=True)]
            outs = self.bwd(args[:n_res], full)
            zeros[:] = [type(o) is Zero for o in outs]
            self_outs[:] = outs
            return [o for o in outs if type(o) is not Zero]

        self_outs: list[Any] = []
        given = [ct for ct in cts if type(ct) is not Zero]
        dims = (0,) * (n_res + len(given))
        outs, found = batch_flat(flat, self.axis, [*residuals, *given], dims)
        pairs = iter(zip(outs, found, strict=True))
        results: list[Any] = []
        for dim, zero, original in zip(self.dims, zeros, self_outs, strict=True):
            if zero:
                results.append(Zero(_mapped_aval(original.aval, dim, self.axis.size)))
                continue
            ct, found_dim = next(pairs)
            if dim is not None:
                results.append(to_dim(ct, found_dim, self.axis.size, dim))
            else:
                results.append(_sum_over(to_dim(ct, found_dim, self.axis.size, 0)))
        return results


def _mapped_aval(aval: ShapedArray, dim: int | None, size: int) -> ShapedArray:
    if dim is None:
        return aval
    return make_aval((*aval.shape[:dim], size, *aval.shape[dim:]), aval.dtype, aval.weak_type)


def _sum_over(ct: Any) -> Any:
    """The sum over axis 0: an unmapped argument was used once per mapped index."""
    return sum_axes(ct, (0,))


def _custom_vjp_jvp(primals: Any, tangents: Any, *, name: str, **params: Any) -> Any:
    raise TypeError(
        "can't apply forward-mode differentiation (jvp) to a custom_vjp function: "
        f"{name!r} has only a reverse-mode rule.\n"
        "Instead: use reverse mode (grad, vjp, jacrev), or give the function a custom_jvp rule, "
        "which serves both modes."
    )


def _custom_vjp_linearize(
    primals: Any,
    tangents: Any,
    *,
    call: Any,
    fwd: Any,
    bwd: Any,
    num_consts: int,
    symbolic_zeros: bool,
    name: str,
) -> tuple[list, list]:
    _refuse_closed_over("custom_vjp", name, tangents[:num_consts])
    primals, tangents = primals[num_consts:], tangents[num_consts:]
    perturbed = tuple([type(t) is not Zero for t in tangents])
    trace = state.trace
    with set_current(trace.parent if type(trace) is TangentTrace else trace):
        outs, residuals = fwd(list(primals), perturbed)
    given = [t for t in tangents if type(t) is not Zero]
    for t in given:
        if type(t) is TangentTracer:
            t._trace.program.opaque = True
    out_avals = tuple([tangent_aval(typeof(o)) for o in outs])
    t_outs = custom_lin_p.bind(
        *residuals,
        *given,
        num_res=len(residuals),
        bwd=bwd.bound(),
        perturbed=perturbed,
        out_avals=out_avals,
        symbolic_zeros=symbolic_zeros,
        name=name,
    )
    return list(outs), [
        Zero(a) if a.dtype == dtypes.float0 else t for a, t in zip(out_avals, t_outs, strict=True)
    ]


def _custom_vjp_batch(
    axis: AxisData,
    args: Any,
    dims: Any,
    *,
    call: Any,
    fwd: Any,
    bwd: Any,
    num_consts: int,
    **params: Any,
) -> tuple[list, list]:
    mapped, consts = _batched_call(axis, call, dims)
    arg_dims = tuple(dims[num_consts:])
    outs = custom_vjp_call_p.bind(
        *consts,
        *args,
        call=mapped,
        fwd=_BatchedFwd(fwd, axis, arg_dims),
        bwd=_BatchedBwd(bwd, axis, arg_dims),
        num_consts=num_consts + len(consts),
        **params,
    )
    return outs, [0] * len(outs)


custom_vjp_call_p = Primitive(
    name="custom_vjp_call",
    doc="the results of a function whose cotangents come from a user's rule",
    multiple_results=True,
    abstract=_call_abstract,
    impl=_call_impl,
    lower=_call_lower,
    stage=stage_call,
    jvp=_custom_vjp_jvp,
    linearize=_custom_vjp_linearize,
    transpose=_call_transpose,
    batch=_custom_vjp_batch,
    label=lambda params: params["name"],
)


def _custom_lin_abstract(*avals: Any, out_avals: tuple, **params: Any) -> tuple:
    return out_avals


def _custom_lin_impl(*args: Any, name: str, **params: Any) -> Any:
    _custom_vjp_jvp(args, args, name=name)


def _custom_lin_lower(ctx: Any, *values: Any, name: str, **params: Any) -> Any:
    _custom_vjp_jvp(values, values, name=name)


def _custom_lin_jvp(primals: Any, tangents: Any, *, name: str, **params: Any) -> Any:
    _custom_vjp_jvp(primals, tangents, name=name)


def _custom_lin_transpose(
    cts: Any,
    *args: Any,
    num_res: int,
    bwd: Any,
    perturbed: tuple,
    symbolic_zeros: bool,
    **params: Any,
) -> list[Any]:
    residuals, linear = args[:num_res], args[num_res:]
    if not symbolic_zeros:
        cts = [materialise(ct) for ct in cts]
    given = bwd(list(residuals), list(cts))
    wanted = [ct for ct, p in zip(given, perturbed, strict=True) if p]
    return [None] * num_res + [
        ct if is_undefined(a) else None for ct, a in zip(wanted, linear, strict=True)
    ]


def _custom_lin_batch(
    axis: AxisData,
    args: Any,
    dims: Any,
    *,
    num_res: int,
    bwd: Any,
    perturbed: tuple,
    out_avals: tuple,
    **params: Any,
) -> tuple[list, list]:
    args = [to_dim(x, d, axis.size, 0) for x, d in zip(args, dims, strict=True)]
    outs = custom_lin_p.bind(
        *args,
        num_res=num_res,
        bwd=_BatchedBwd(bwd, axis, (0,) * len(perturbed)),
        perturbed=perturbed,
        out_avals=tuple([_mapped_aval(a, 0, axis.size) for a in out_avals]),
        **params,
    )
    return outs, [0] * len(outs)


custom_lin_p = Primitive(
    name="custom_lin",
    doc="the linear part of a custom_vjp call: only its transpose is known",
    multiple_results=True,
    abstract=_custom_lin_abstract,
    impl=_custom_lin_impl,
    lower=_custom_lin_lower,
    jvp=_custom_lin_jvp,
    transpose=_custom_lin_transpose,
    batch=_custom_lin_batch,
    label=lambda params: params["name"],
)
