"""The call of a jaxpr as one operation (`jit` inside a program), and transformations of jaxprs.

Builds on stage.py, jvp.py, transpose.py, batching.py. Tested in tests/core/test_call.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.core.aval import ShapedArray, tangent_aval, typeof
from pullback.core.batching import AxisData, batch_flat, to_dim
from pullback.core.jaxpr import Eqn, Jaxpr, close, dce_jaxpr, dce_rules, eval_jaxpr
from pullback.core.jvp import Zero, jvp_flat, zero_of
from pullback.core.linearize import LinearizeTrace, LinTracer, Template
from pullback.core.stage import trace_to_jaxpr
from pullback.core.tracer import Primitive, backend, state
from pullback.core.transpose import UndefinedPrimal, backward_pass, cotangent_aval


def closed_jaxpr(
    fun: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray], name: str = ""
) -> tuple[Jaxpr, list[Any]]:
    """Stage a flat function; constants become leading operands, given with the jaxpr."""
    jaxpr, consts = trace_to_jaxpr(fun, avals, name=name)
    return close(jaxpr), consts


def cached(jaxpr: Jaxpr, key: tuple, make: Callable[[], Any]) -> Any:
    """What `make` gives, kept with the jaxpr under `key` and the axis names in scope."""
    full_key = (*key, state.axis_env)
    found = jaxpr.cache.get(full_key)
    if found is None:
        found = jaxpr.cache[full_key] = make()
    return found


def jvp_jaxpr(jaxpr: Jaxpr, nonzero: tuple[bool, ...]) -> tuple[Jaxpr, list[Any], list[bool]]:
    """The jaxpr of primals and nonzero tangents to results and their nonzero tangents.

    Returns:
        The jaxpr (its leading operands are constants), the constants, and which results have a
        nonzero tangent.
    """

    def make() -> tuple[Jaxpr, list[Any], list[bool]]:
        n_in = len(jaxpr.invars)
        avals = jaxpr.in_avals
        out_nonzero: list[bool] = []

        def fun(*args: Any) -> list[Any]:
            given = iter(args[n_in:])
            tangents = [
                next(given) if nz else Zero(tangent_aval(a))
                for a, nz in zip(avals, nonzero, strict=True)
            ]
            outs, t_outs = jvp_flat(lambda *xs: eval_jaxpr(jaxpr, (), *xs), args[:n_in], tangents)
            out_nonzero[:] = [type(t) is not Zero for t in t_outs]
            return [*outs, *(t for t in t_outs if type(t) is not Zero)]

        t_avals = [tangent_aval(a) for a, nz in zip(avals, nonzero, strict=True) if nz]
        return (*closed_jaxpr(fun, [*avals, *t_avals], jaxpr.debug_name), out_nonzero)

    return cached(jaxpr, ("jvp", nonzero), make)


def batch_jaxpr(
    jaxpr: Jaxpr,
    axis: AxisData,
    dims: tuple[int | None, ...],
    out_dims: tuple[int | None, ...] | None = None,
) -> tuple[Jaxpr, list[Any], list[int | None]]:
    """The jaxpr with one axis mapped.

    Args:
        jaxpr: the program, without constvars.
        axis: the mapped axis.
        dims: per invar where it is (None: not mapped).
        out_dims: where the results must have it (None: where it falls).

    Returns:
        The jaxpr (its leading operands are constants), the constants, and the results' dims.
    """

    def make() -> tuple[Jaxpr, list[Any], list[int | None]]:
        found: list[int | None] = []

        def fun(*args: Any) -> list[Any]:
            outs, found_dims = batch_flat(lambda *xs: eval_jaxpr(jaxpr, (), *xs), axis, args, dims)
            if out_dims is not None:
                outs = [
                    o if want is None and d is None else to_dim(o, d, axis.size, want or 0)
                    for o, d, want in zip(outs, found_dims, out_dims, strict=True)
                ]
                found_dims = [
                    (want or 0) if want is not None or d is not None else None
                    for d, want in zip(found_dims, out_dims, strict=True)
                ]
            found[:] = found_dims
            return outs

        avals = [
            a if d is None else a.update(shape=(*a.shape[:d], axis.size, *a.shape[d:]))
            for a, d in zip(jaxpr.in_avals, dims, strict=True)
        ]
        return (*closed_jaxpr(fun, avals, jaxpr.debug_name), found)

    return cached(jaxpr, ("batch", axis, dims, out_dims), make)


def transpose_jaxpr(
    jaxpr: Jaxpr, linear: tuple[bool, ...], zeros: tuple[bool, ...]
) -> tuple[Jaxpr, list[Any], list[bool]]:
    """The transpose in some inputs: nonlinear inputs and nonzero cotangents in, cotangents out.

    Returns:
        The jaxpr (its leading operands are constants), the constants, and which linear inputs have
        a nonzero cotangent.
    """

    def make() -> tuple[Jaxpr, list[Any], list[bool]]:
        present: list[bool] = []
        fixed = [a for a, lin in zip(jaxpr.in_avals, linear, strict=True) if not lin]
        ct_avals = [a for a, z in zip(jaxpr.out_avals, zeros, strict=True) if not z]

        def fun(*args: Any) -> list[Any]:
            given, given_cts = iter(args[: len(fixed)]), iter(args[len(fixed) :])
            operands = [
                UndefinedPrimal(a) if lin else next(given)
                for a, lin in zip(jaxpr.in_avals, linear, strict=True)
            ]
            cts = [
                Zero(a) if z else next(given_cts)
                for a, z in zip(jaxpr.out_avals, zeros, strict=True)
            ]
            outs = backward_pass(jaxpr, (), operands, cts)
            outs = [ct for ct, lin in zip(outs, linear, strict=True) if lin]
            present[:] = [type(ct) is not Zero for ct in outs]
            return [ct for ct in outs if type(ct) is not Zero]

        return (*closed_jaxpr(fun, [*fixed, *ct_avals], jaxpr.debug_name), present)

    return cached(jaxpr, ("transpose", linear, zeros), make)


def linearize_jaxpr(jaxpr: Jaxpr, nonzero: tuple[bool, ...]) -> Template:
    """The jaxpr split into a known part and a linear part (a Template)."""

    def fun(program: Any, args: list[Any], nz: Sequence[bool]) -> tuple[list, list]:
        trace = LinearizeTrace(state.trace, program)
        numbers = iter(range(len(args)))
        state.trace = trace
        try:
            outs = eval_jaxpr(
                jaxpr,
                (),
                *[
                    LinTracer(trace, a, next(numbers)) if n else a
                    for a, n in zip(args, nz, strict=True)
                ],
            )
        finally:
            state.trace = trace.parent
            trace.live = False
        own = [type(o) is LinTracer and o._trace is trace for o in outs]
        return (
            [o.primal if mine else o for o, mine in zip(outs, own, strict=True)],
            [o.index if mine else None for o, mine in zip(outs, own, strict=True)],
        )

    return cached(jaxpr, ("linearize", nonzero), lambda: Template(fun, jaxpr.in_avals, nonzero))


def _jit_abstract(*avals: ShapedArray, jaxpr: Jaxpr, **params: Any) -> list[ShapedArray]:
    return jaxpr.out_avals


def _jit_impl(*args: Any, jaxpr: Jaxpr, **params: Any) -> list[Any]:
    return backend.run(jaxpr, args, params)


def _jit_lower(ctx: Any, *values: Any, jaxpr: Jaxpr, name: str = "", **params: Any) -> list[Any]:
    return ctx.call(jaxpr, values, name=name)


def _jit_jvp(primals: Any, tangents: Any, *, jaxpr: Jaxpr, **params: Any) -> tuple[list, list]:
    nonzero = tuple([type(t) is not Zero for t in tangents])
    derived, consts, out_nonzero = jvp_jaxpr(jaxpr, nonzero)
    given = [t for t in tangents if type(t) is not Zero]
    outs = jit_p.bind(*consts, *primals, *given, jaxpr=derived, **params)
    n_out = len(jaxpr.outvars)
    rest = iter(outs[n_out:])
    return outs[:n_out], [
        next(rest) if nz else zero_of(o) for nz, o in zip(out_nonzero, outs, strict=False)
    ]


def _jit_linearize(
    primals: Any, tangents: Any, *, jaxpr: Jaxpr, name: str = "", **params: Any
) -> tuple[list, list]:
    nonzero = tuple([type(t) is not Zero for t in tangents])
    split = linearize_jaxpr(jaxpr, nonzero)
    results = jit_p.bind(*split.known_consts, *primals, jaxpr=split.known, name=name, **params)
    outs = results[: split.n_outs]
    if not any(split.out_nonzero):
        return outs, [zero_of(o) for o in outs]
    given = [t for t in tangents if type(t) is not Zero]
    residuals = split.residual_values(primals, results)
    t_outs = iter(jit_p.bind(*given, *residuals, jaxpr=split.linear, name=name, **params))
    return outs, [
        next(t_outs) if nz else zero_of(o) for o, nz in zip(outs, split.out_nonzero, strict=True)
    ]


def _jit_transpose(cts: Any, *args: Any, jaxpr: Jaxpr, **params: Any) -> list[Any]:
    linear = tuple([type(a) is UndefinedPrimal for a in args])
    zeros = tuple([type(ct) is Zero for ct in cts])
    derived, consts, present = transpose_jaxpr(jaxpr, linear, zeros)
    fixed = [a for a, lin in zip(args, linear, strict=True) if not lin]
    given = [ct for ct in cts if type(ct) is not Zero]
    outs = iter(jit_p.bind(*consts, *fixed, *given, jaxpr=derived, **params))
    there = iter(present)
    return [
        None if not lin else next(outs) if next(there) else Zero(cotangent_aval(a))
        for a, lin in zip(args, linear, strict=True)
    ]


def _jit_batch(
    axis: AxisData, args: Any, dims: Any, *, jaxpr: Jaxpr, **params: Any
) -> tuple[list, list]:
    derived, consts, out_dims = batch_jaxpr(jaxpr, axis, tuple(dims))
    return jit_p.bind(*consts, *args, jaxpr=derived, **params), out_dims


jit_p = Primitive(
    name="jit",
    doc="the results of a jaxpr, compiled as a unit",
    multiple_results=True,
    abstract=_jit_abstract,
    impl=_jit_impl,
    lower=_jit_lower,
    jvp=_jit_jvp,
    linearize=_jit_linearize,
    transpose=_jit_transpose,
    batch=_jit_batch,
    label=lambda params: params.get("name") or "jit",
)


def _jit_dce(eqn: Eqn, used: list[bool]) -> Eqn:
    """A call without the results that nobody reads, nor the operands only they needed."""
    small, kept = dce_jaxpr(eqn.params["jaxpr"], used)
    return Eqn(
        eqn.primitive,
        [v for v, keep in zip(eqn.invars, kept, strict=True) if keep],
        [v for v, use in zip(eqn.outvars, used, strict=True) if use],
        {**eqn.params, "jaxpr": small},
        eqn.source,
    )


dce_rules["jit"] = _jit_dce


def typeof_all(xs: Sequence[Any]) -> list[ShapedArray]:
    """The types of several values."""
    return [typeof(x) for x in xs]
