"""`shard_map`: one program run by every device of a mesh on its part of the arrays.

Inside, mesh axes are names for collectives. A result whose spec leaves out a mesh axis is the same
on all devices along it; in reverse mode its cotangent is divided among them, and what an input that
is the same on several devices receives is summed over these.

Builds on core/call.py, collective.py, xla/spmd.py. Tested in tests/api/test_shard_map.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import prod
from typing import Any

import numpy as np

from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import AxisData
from pullback.core.call import batch_jaxpr, cached, closed_jaxpr, jvp_jaxpr, linearize_jaxpr
from pullback.core.jaxpr import Eqn, Jaxpr, dce_jaxpr, dce_rules, eval_jaxpr
from pullback.core.jvp import Zero, instantiate, zero_of
from pullback.core.tracer import Primitive, extend_axis_env
from pullback.core.transpose import UndefinedPrimal, backward_pass, is_undefined
from pullback.lax.collective import psum_p
from pullback.lax.elementwise import div_p
from pullback.lax.loop_parts import pick, split_at
from pullback.lax.shape import expand_dims, squeeze
from pullback.xla.mesh import Mesh, P, PartitionSpec
from pullback.xla.spmd import ensure_mesh, run_spmd, sharding_text

Specs = tuple[PartitionSpec, ...]


@contextmanager
def mesh_axes(mesh: Mesh, manual: Sequence[Any]) -> Iterator[None]:
    """Those axes of the mesh that are mapped over, as names in scope."""
    with ExitStack() as stack:
        for name in manual:
            stack.enter_context(extend_axis_env(name, mesh.shape[name]))
        yield


def spec_axes(spec: PartitionSpec) -> set[Any]:
    """The mesh axes that a spec names."""
    return {name for axes in spec.mesh_axes() for name in axes}


def local_aval(aval: ShapedArray, mesh: Mesh, spec: PartitionSpec) -> ShapedArray:
    """The type of one device's part."""
    shape = list(aval.shape)
    for i, axes in enumerate(spec.mesh_axes()):
        shape[i] //= prod(mesh.shape[n] for n in axes)
    return make_aval(tuple(shape), aval.dtype, aval.weak_type)


def global_aval(aval: ShapedArray, mesh: Mesh, spec: PartitionSpec) -> ShapedArray:
    """The type of the whole array, given one device's part."""
    shape = list(aval.shape)
    for i, axes in enumerate(spec.mesh_axes()):
        shape[i] *= prod(mesh.shape[n] for n in axes)
    return make_aval(tuple(shape), aval.dtype, aval.weak_type)


def _abstract(
    *avals: ShapedArray, jaxpr: Jaxpr, mesh: Mesh, out_specs: Specs, **params: Any
) -> list[ShapedArray]:
    return [global_aval(a, mesh, s) for a, s in zip(jaxpr.out_avals, out_specs, strict=True)]


def _impl(*args: Any, mesh: Mesh, **params: Any) -> list[Any]:
    program = _one_equation([typeof(x) for x in args], {"mesh": mesh, **params})
    return run_spmd(program, args, mesh, params["jaxpr"].debug_name)


def _one_equation(avals: Sequence[ShapedArray], params: dict) -> Jaxpr:
    jaxpr = params["jaxpr"]
    key = ("shard_map", tuple(avals), tuple(params.items()))

    def make() -> Jaxpr:
        return closed_jaxpr(lambda *xs: shard_map_p.bind(*xs, **params), avals)[0]

    return cached(jaxpr, key, make)


def _lower(
    ctx: Any,
    *values: Any,
    jaxpr: Jaxpr,
    mesh: Mesh,
    manual: tuple[Any, ...],
    in_specs: Specs,
    out_specs: Specs,
    **params: Any,
) -> list[Any]:
    module_context = ctx.module_context
    outer = module_context.axis_groups, module_context.partly_manual
    module_context.axis_groups = dict(mesh.shape)
    module_context.partly_manual = len(manual) < len(mesh.axis_names)
    try:
        if mesh.size == 1:
            return ctx.call(jaxpr, values, name=jaxpr.debug_name)
        return _manual_computation(ctx, values, jaxpr, mesh, manual, in_specs, out_specs)
    finally:
        module_context.axis_groups, module_context.partly_manual = outer


def _manual_computation(
    ctx: Any,
    values: Any,
    jaxpr: Jaxpr,
    mesh: Mesh,
    manual: tuple[Any, ...],
    in_specs: Specs,
    out_specs: Specs,
) -> list[Any]:
    ensure_mesh(ctx.module_context.module, mesh)
    is_open = len(manual) < len(mesh.axis_names)

    def shardings(specs: Specs, avals: Sequence[ShapedArray]) -> Any:
        pairs = zip(specs, avals, strict=True)
        texts = [sharding_text(mesh, s, a.ndim, is_open=is_open) for s, a in pairs]
        return ctx.ir.Attribute.parse(f"#sdy.sharding_per_value<[{', '.join(texts)}]>")

    names = ", ".join(f'"a{i}"' for i, n in enumerate(mesh.axis_names) if n in manual)
    op = ctx.sdy.ManualComputationOp(
        [ctx.type(a) for a in ctx.avals_out],
        list(values),
        shardings(in_specs, ctx.avals_in),
        shardings(out_specs, ctx.avals_out),
        ctx.ir.Attribute.parse(f"#sdy<manual_axes{{{names}}}>"),
    )
    block = op.regions[0].blocks.append(*[ctx.type(a) for a in jaxpr.in_avals])
    with ctx.ir.InsertionPoint(block):
        ctx.sdy.ReturnOp(ctx.inline(jaxpr, list(block.arguments)))
    return list(op.results)


def _jvp(
    primals: Any,
    tangents: Any,
    *,
    jaxpr: Jaxpr,
    mesh: Mesh,
    manual: tuple[Any, ...],
    in_specs: Specs,
    out_specs: Specs,
    **params: Any,
) -> tuple[list, list]:
    nonzero = tuple([type(t) is not Zero for t in tangents])
    with mesh_axes(mesh, manual):
        derived, lead, out_nz = jvp_jaxpr(jaxpr, nonzero)
    outs = shard_map_p.bind(
        *lead,
        *primals,
        *(t for t in tangents if type(t) is not Zero),
        jaxpr=derived,
        mesh=mesh,
        manual=manual,
        in_specs=((P(),) * len(lead) + in_specs + tuple(pick(in_specs, nonzero))),
        out_specs=out_specs + tuple(pick(out_specs, out_nz)),
        **params,
    )
    results, rest = outs[: len(out_nz)], iter(outs[len(out_nz) :])
    return results, [
        next(rest) if nz else zero_of(o) for o, nz in zip(results, out_nz, strict=True)
    ]


def _known_part(split: Any, n_saved: Sequence[int]) -> Jaxpr:
    """The known part with each residual that is to be kept as one row (of one row a device)."""
    known = split.known

    def fun(*args: Any) -> list[Any]:
        outs = eval_jaxpr(known, (), *args)
        return [*outs[: split.n_outs], *(expand_dims(outs[i], (0,)) for i in n_saved)]

    key = ("shard_map_known", tuple(n_saved))
    return cached(known, key, lambda: closed_jaxpr(fun, known.in_avals, known.debug_name)[0])


def _linear_part(split: Any, rows: tuple[bool, ...]) -> Jaxpr:
    """The linear part on residuals of which those marked come as one row."""
    linear = split.linear
    n_t = len(linear.invars) - len(rows)

    def fun(*args: Any) -> list[Any]:
        tangents = args[:n_t]
        residuals = [
            squeeze(r, (0,)) if row else r for r, row in zip(args[n_t:], rows, strict=True)
        ]
        return eval_jaxpr(linear, (), *tangents, *residuals)

    avals = linear.in_avals[:n_t] + [
        make_aval((1, *a.shape), a.dtype) if row else a
        for a, row in zip(linear.in_avals[n_t:], rows, strict=True)
    ]
    key = ("shard_map_linear", rows)
    return cached(linear, key, lambda: closed_jaxpr(fun, avals, linear.debug_name)[0])


def _linearize(
    primals: Any,
    tangents: Any,
    *,
    jaxpr: Jaxpr,
    mesh: Mesh,
    manual: tuple[Any, ...],
    in_specs: Specs,
    out_specs: Specs,
    **params: Any,
) -> tuple[list, list]:
    nonzero = tuple([type(t) is not Zero for t in tangents])
    with mesh_axes(mesh, manual):
        split = linearize_jaxpr(jaxpr, nonzero)
        saved = [at for kind, at in split.sources if kind == "out"]
        known = _known_part(split, saved)
        rows = tuple([kind == "out" for kind, _ in split.sources])
        linear = _linear_part(split, rows)
    lead = split.known_consts
    everywhere = P(manual)
    outs = shard_map_p.bind(
        *lead,
        *primals,
        jaxpr=known,
        mesh=mesh,
        manual=manual,
        in_specs=(P(),) * len(lead) + in_specs,
        out_specs=out_specs + (everywhere,) * len(saved),
        **params,
    )
    results, kept = outs[: split.n_outs], iter(outs[split.n_outs :])
    if not any(split.out_nonzero):
        return results, [zero_of(o) for o in results]
    residuals, specs = [], []
    for kind, at in split.sources:
        residuals.append(next(kept) if kind == "out" else primals[at] if kind == "arg" else at)
        specs.append(everywhere if kind == "out" else in_specs[at] if kind == "arg" else P())
    t_outs = iter(
        shard_map_p.bind(
            *(t for t in tangents if type(t) is not Zero),
            *residuals,
            jaxpr=linear,
            mesh=mesh,
            manual=manual,
            in_specs=tuple(pick(in_specs, nonzero)) + tuple(specs),
            out_specs=tuple(pick(out_specs, split.out_nonzero)),
            **params,
        )
    )
    return results, [
        next(t_outs) if nz else zero_of(o) for o, nz in zip(results, split.out_nonzero, strict=True)
    ]


def _shared_by(manual: tuple[Any, ...], spec: PartitionSpec) -> tuple[Any, ...]:
    """The mapped mesh axes along which all devices hold the same part."""
    named = spec_axes(spec)
    return tuple([n for n in manual if n not in named])


def _transpose(
    cts: Any,
    *args: Any,
    jaxpr: Jaxpr,
    mesh: Mesh,
    manual: tuple[Any, ...],
    in_specs: Specs,
    out_specs: Specs,
    **params: Any,
) -> list[Any]:
    linear = tuple([is_undefined(a) for a in args])
    zeros = tuple([type(ct) is Zero for ct in cts])
    lin_specs = pick(in_specs, linear)
    fixed_specs = [s for s, lin in zip(in_specs, linear, strict=True) if not lin]
    ct_specs = [s for s, z in zip(out_specs, zeros, strict=True) if not z]
    fixed_avals = [a for a, lin in zip(jaxpr.in_avals, linear, strict=True) if not lin]
    ct_avals = [a for a, z in zip(jaxpr.out_avals, zeros, strict=True) if not z]
    present: list[bool] = []

    def fun(*xs: Any) -> list[Any]:
        given, given_cts = split_at(xs, len(fixed_avals))
        shares = [
            _divided(ct, prod(mesh.shape[n] for n in _shared_by(manual, s)))
            for ct, s in zip(given_cts, ct_specs, strict=True)
        ]
        fixed, parts = iter(given), iter(shares)
        operands = [
            UndefinedPrimal(a) if lin else next(fixed)
            for a, lin in zip(jaxpr.in_avals, linear, strict=True)
        ]
        full = [Zero(a) if z else next(parts) for a, z in zip(jaxpr.out_avals, zeros, strict=True)]
        outs = pick(backward_pass(jaxpr, (), operands, full), linear)
        present[:] = [type(ct) is not Zero for ct in outs]
        return [
            _summed(ct, _shared_by(manual, s))
            for ct, s in zip(outs, lin_specs, strict=True)
            if type(ct) is not Zero
        ]

    def make() -> tuple[Jaxpr, list[Any], list[bool]]:
        return (*closed_jaxpr(fun, [*fixed_avals, *ct_avals], jaxpr.debug_name), list(present))

    key = ("shard_map_transpose", linear, zeros, mesh, manual, in_specs, out_specs)
    with mesh_axes(mesh, manual):
        derived, lead, there = cached(jaxpr, key, make)
    outs = iter(
        shard_map_p.bind(
            *lead,
            *(a for a, lin in zip(args, linear, strict=True) if not lin),
            *(instantiate(ct) for ct in cts if type(ct) is not Zero),
            jaxpr=derived,
            mesh=mesh,
            manual=manual,
            in_specs=(P(),) * len(lead) + tuple(fixed_specs) + tuple(ct_specs),
            out_specs=tuple(pick(lin_specs, there)),
            **params,
        )
    )
    flags = iter(there)
    return [
        (next(outs) if next(flags) else Zero(a.aval)) if lin else None
        for a, lin in zip(args, linear, strict=True)
    ]


def _divided(ct: Any, n: int) -> Any:
    return ct if n == 1 else div_p.bind(ct, np.asarray(n, typeof(ct).dtype)[()])


def _summed(ct: Any, axes: tuple[Any, ...]) -> Any:
    if not axes:
        return ct
    return psum_p.bind(ct, axes=axes, axis_index_groups=None)[0]


def _with_mapped(spec: PartitionSpec, dim: int | None, ndim: int) -> PartitionSpec:
    """The spec of an array that has one more axis, at `dim`."""
    if dim is None:
        return spec
    parts = list(spec) + [None] * (ndim - len(spec))
    return P(*parts[:dim], None, *parts[dim:])


def _batch(
    axis: AxisData,
    args: Any,
    dims: Any,
    *,
    jaxpr: Jaxpr,
    mesh: Mesh,
    manual: tuple[Any, ...],
    in_specs: Specs,
    out_specs: Specs,
    **params: Any,
) -> tuple[list, list]:
    if axis.name is not None and axis.name in manual:
        raise ValueError(f"shard_map over {mesh} inside a vmap of the same name {axis.name!r}.")
    with mesh_axes(mesh, manual):
        derived, lead, out_dims = batch_jaxpr(jaxpr, axis, tuple(dims))
    specs = [
        _with_mapped(s, d, a.ndim) for s, d, a in zip(in_specs, dims, jaxpr.in_avals, strict=True)
    ]
    outs = shard_map_p.bind(
        *lead,
        *args,
        jaxpr=derived,
        mesh=mesh,
        manual=manual,
        in_specs=(P(),) * len(lead) + tuple(specs),
        out_specs=tuple(
            [
                _with_mapped(s, d, a.ndim)
                for s, d, a in zip(out_specs, out_dims, jaxpr.out_avals, strict=True)
            ]
        ),
        **params,
    )
    return outs, out_dims


shard_map_p = Primitive(
    name="shard_map",
    doc="one program run by every device of a mesh on its part of the arrays",
    multiple_results=True,
    abstract=_abstract,
    impl=_impl,
    lower=_lower,
    jvp=_jvp,
    linearize=_linearize,
    transpose=_transpose,
    batch=_batch,
    label=lambda params: f"shard_map {dict(params['mesh'].shape)}",
)


def _shard_map_dce(eqn: Eqn, used: list[bool]) -> Eqn:
    params = eqn.params
    small, kept = dce_jaxpr(params["jaxpr"], used)
    return Eqn(
        eqn.primitive,
        pick(eqn.invars, kept),
        pick(eqn.outvars, used),
        {
            **params,
            "jaxpr": small,
            "in_specs": tuple(pick(params["in_specs"], kept)),
            "out_specs": tuple(pick(params["out_specs"], used)),
        },
        eqn.source,
    )


dce_rules["shard_map"] = _shard_map_dce
