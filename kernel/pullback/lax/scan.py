"""`scan`: a loop with a carried value over the leading axis of arrays, and its derivatives.

Forward mode scans primals and tangents together. Reverse mode splits the body into a known part,
scanned at once, and a linear one; of the residuals between them only what changes from step to step
is stacked: loop constants and what follows from them are computed once, and inputs and results that
are stacked anyway are used as they are.

Builds on core/call.py and inner.py. Tested in tests/lax/test_scan.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.core.aval import ShapedArray, tangent_aval
from pullback.core.batching import AxisData, bdim_at_front, move_dim
from pullback.core.call import batch_jaxpr, cached, closed_jaxpr, jvp_jaxpr, linearize_jaxpr
from pullback.core.jaxpr import Eqn, Jaxpr, Literal, dce_jaxpr, dce_rules, eval_jaxpr
from pullback.core.jvp import Zero, instantiate, linear_ops, zero_of
from pullback.core.linearize import instantiate_inside
from pullback.core.tracer import Primitive
from pullback.core.transpose import UndefinedPrimal, backward_pass, is_undefined
from pullback.lax.inner import intern_jaxpr
from pullback.lax.loop_parts import carry_fixpoint, pick, reorder, split_at, stacked_aval
from pullback.lax.scan_lowering import lower_scan
from pullback.lax.scan_residuals import add_zero_results, place_residuals


def _scan_abstract(
    *avals: ShapedArray, jaxpr: Jaxpr, length: int, num_carry: int, **params: Any
) -> list[ShapedArray]:
    carry, ys = split_at(jaxpr.out_avals, num_carry)
    return [*carry, *(stacked_aval(a, length) for a in ys)]


def _nonzero(tangents: Sequence[Any]) -> list[bool]:
    return [type(t) is not Zero for t in tangents]


# Forward mode.


def _jvp_body(
    jaxpr: Jaxpr, nonzero: tuple[bool, ...], num_consts: int, num_carry: int
) -> tuple[Jaxpr, list[Any], list[bool]]:
    """The body on primals and tangents, in scan's order; its constants; which tangents come out."""
    derived, consts, out_nz = jvp_jaxpr(jaxpr, nonzero)
    n_lead, n_in, n_out = len(consts), len(jaxpr.invars), len(jaxpr.outvars)
    wanted = [nz or (i < num_carry and nonzero[num_consts + i]) for i, nz in enumerate(out_nz)]

    def make() -> Jaxpr:
        t_avals = [tangent_aval(a) for a in jaxpr.out_avals]
        everything = [True] * n_out
        full = add_zero_results(
            derived, everything + out_nz, everything + wanted, [*jaxpr.out_avals, *t_avals]
        )
        t_in = _numbering(nonzero, n_lead + n_in)
        t_out = _numbering(wanted, n_out)
        groups = [(0, num_consts), (num_consts, num_consts + num_carry)]
        groups.append((num_consts + num_carry, n_in))
        inputs = list(range(n_lead))
        for lo, hi in groups:
            inputs += [n_lead + i for i in range(lo, hi)]
            inputs += [t_in[i] for i in range(lo, hi) if nonzero[i]]
        outputs: list[int] = []
        for lo, hi in ((0, num_carry), (num_carry, n_out)):
            outputs += range(lo, hi)
            outputs += [t_out[i] for i in range(lo, hi) if wanted[i]]
        return reorder(full, inputs, outputs)

    key = ("scan_jvp", nonzero, num_consts, num_carry)
    return cached(jaxpr, key, make), consts, wanted


def _numbering(flags: Sequence[bool], start: int) -> list[int]:
    """Per flag, how many positions after `start` its item comes when only set flags have one."""
    out, n = [], start
    for f in flags:
        out.append(n)
        n += bool(f)
    return out


def _scan_jvp(
    primals: Any,
    tangents: Any,
    *,
    jaxpr: Jaxpr,
    length: int,
    num_consts: int,
    num_carry: int,
    **params: Any,
) -> tuple[list, list]:
    const_nz, carry_nz, xs_nz = split_at(_nonzero(tangents), num_consts, num_carry)
    carry_nz = carry_fixpoint(
        carry_nz,
        lambda c: jvp_jaxpr(jaxpr, (*const_nz, *c, *xs_nz))[2][:num_carry],
    )
    nonzero = (*const_nz, *carry_nz, *xs_nz)
    body, lead, out_nz = _jvp_body(jaxpr, nonzero, num_consts, num_carry)
    given = [instantiate(t) if nz else None for t, nz in zip(tangents, nonzero, strict=True)]
    operands = list(lead)
    for ps, ts in zip(
        split_at(primals, num_consts, num_carry),
        split_at(given, num_consts, num_carry),
        strict=True,
    ):
        operands += ps
        operands += [t for t in ts if t is not None]
    n_carry_t = sum(carry_nz)
    outs = scan_p.bind(
        *operands,
        jaxpr=body,
        length=length,
        num_consts=len(lead) + num_consts + sum(const_nz),
        num_carry=num_carry + n_carry_t,
        **params,
    )
    n_ys = len(jaxpr.outvars) - num_carry
    carry, carry_t, ys, ys_t = split_at(outs, num_carry, n_carry_t, n_ys)
    rest = iter([*carry_t, *ys_t])
    results = [*carry, *ys]
    return results, [
        next(rest) if nz else zero_of(o) for o, nz in zip(results, out_nz, strict=True)
    ]


# Reverse mode: linearize, then transpose.


def _scan_linearize(
    primals: Any,
    tangents: Any,
    *,
    jaxpr: Jaxpr,
    length: int,
    num_consts: int,
    num_carry: int,
    **params: Any,
) -> tuple[list, list]:
    const_nz, carry_nz, xs_nz = split_at(_nonzero(tangents), num_consts, num_carry)
    carry_nz = carry_fixpoint(
        carry_nz,
        lambda c: linearize_jaxpr(jaxpr, (*const_nz, *c, *xs_nz)).out_nonzero[:num_carry],
    )
    nonzero = (*const_nz, *carry_nz, *xs_nz)
    split = linearize_jaxpr(jaxpr, nonzero)
    placed = place_residuals(jaxpr, split, nonzero, num_consts, num_carry)
    consts, init, xs = split_at(primals, num_consts, num_carry)
    hoisted = eval_jaxpr(placed.hoisted, (), *split.known_consts, *consts)
    outs = scan_p.bind(
        *split.known_consts,
        *consts,
        *hoisted,
        *init,
        *xs,
        jaxpr=placed.known,
        length=length,
        num_consts=placed.n_known_consts,
        num_carry=num_carry,
        **params,
    )
    n_out = len(jaxpr.outvars)
    results, stacked = outs[:n_out], outs[n_out:]
    if not any(split.out_nonzero) and not any(carry_nz):
        return results, [zero_of(o) for o in results]
    fixed = placed.constant_residuals(split.sources, primals, hoisted)
    moving = placed.stacked_residuals(primals, outs, stacked)
    ts = [instantiate_inside(t) if nz else None for t, nz in zip(tangents, nonzero, strict=True)]
    const_t, carry_t, xs_t = split_at(ts, num_consts, num_carry)
    const_t, carry_t, xs_t = (
        [t for t in group if t is not None] for group in (const_t, carry_t, xs_t)
    )
    wanted = [nz or (i < num_carry and carry_nz[i]) for i, nz in enumerate(split.out_nonzero)]
    t_outs = iter(
        scan_p.bind(
            *fixed,
            *const_t,
            *carry_t,
            *xs_t,
            *moving,
            jaxpr=placed.linear,
            length=length,
            num_consts=len(fixed) + len(const_t),
            num_carry=len(carry_t),
            **params,
        )
    )
    return results, [
        next(t_outs) if w else zero_of(o) for o, w in zip(results, wanted, strict=True)
    ]


def _linear_carry(jaxpr: Jaxpr, linear: list[bool], num_consts: int, num_carry: int) -> list[bool]:
    """Which carried values depend on linear inputs, after any number of steps."""
    consts, carry, xs = split_at(linear, num_consts, num_carry)

    def step(carry: list[bool]) -> list[bool]:
        flags = [*consts, *carry, *xs]
        dependent: set[Any] = {v for v, f in zip(jaxpr.invars, flags, strict=True) if f}
        for eqn in jaxpr.eqns:
            if any(v in dependent for v in eqn.invars if type(v) is not Literal):
                dependent.update(eqn.outvars)
        return [type(v) is not Literal and v in dependent for v in jaxpr.outvars[:num_carry]]

    return carry_fixpoint(carry, step)


def _transposed_body(
    jaxpr: Jaxpr,
    linear: tuple[bool, ...],
    ys_zero: tuple[bool, ...],
    num_consts: int,
    num_carry: int,
) -> tuple[Jaxpr, list[Any], list[bool], list[bool]]:
    """One step backward: (consts, ct_consts, ct_carry, xs, ct_ys) -> (ct_consts, ct_carry, ct_xs).

    Returns:
        The jaxpr, its constants, which linear consts and which linear xs receive a cotangent.
    """
    const_lin, carry_lin, xs_lin = split_at(linear, num_consts, num_carry)
    const_avals, carry_avals, xs_avals = split_at(jaxpr.in_avals, num_consts, num_carry)
    ys_avals = jaxpr.out_avals[num_carry:]

    def trace(const_there: list[bool]) -> tuple[Jaxpr, list[Any], list[bool], list[bool]]:
        found: list[list[bool]] = [[], []]
        groups = [
            [a for a, lin in zip(const_avals, const_lin, strict=True) if not lin],
            pick(pick(const_avals, const_lin), const_there),
            pick(carry_avals, carry_lin),
            [a for a, lin in zip(carry_avals, carry_lin, strict=True) if not lin],
            [a for a, lin in zip(xs_avals, xs_lin, strict=True) if not lin],
            [a for a, z in zip(ys_avals, ys_zero, strict=True) if not z],
        ]

        def fun(*args: Any) -> list[Any]:
            consts, ct_consts, ct_carry, carry, xs, ct_ys = split_at(
                args, *[len(g) for g in groups[:-1]]
            )
            fixed = iter([*consts, *carry, *xs])
            operands = [
                UndefinedPrimal(a) if lin else next(fixed)
                for a, lin in zip(jaxpr.in_avals, linear, strict=True)
            ]
            cts_in, given = iter(ct_carry), iter(ct_ys)
            cts = [
                next(cts_in) if lin else Zero(tangent_aval(a))
                for a, lin in zip(carry_avals, carry_lin, strict=True)
            ] + [Zero(a) if z else next(given) for a, z in zip(ys_avals, ys_zero, strict=True)]
            outs = backward_pass(jaxpr, (), operands, cts)
            c, h, x = split_at(outs, num_consts, num_carry)
            c, h, x = pick(c, const_lin), pick(h, carry_lin), pick(x, xs_lin)
            found[0] = _nonzero(c)
            found[1] = _nonzero(x)
            acc = iter(ct_consts)
            sums = [
                _accumulated(next(acc), ct)
                for ct, there in zip(c, const_there, strict=True)
                if there
            ]
            return [*sums, *map(instantiate, h), *(ct for ct in x if type(ct) is not Zero)]

        avals = [a for g in groups for a in g]
        body, consts = closed_jaxpr(fun, avals, jaxpr.debug_name)
        return body, consts, found[0], found[1]

    def make() -> tuple[Jaxpr, list[Any], list[bool], list[bool]]:
        n = sum(const_lin)
        body, consts, const_there, xs_there = trace([True] * n)
        if not all(const_there):
            body, consts, _, _ = trace(const_there)
        return body, consts, const_there, xs_there

    key = ("scan_transpose", linear, ys_zero, num_consts, num_carry)
    return cached(jaxpr, key, make)


def _accumulated(total: Any, ct: Any) -> Any:
    return total if type(ct) is Zero else linear_ops.add(total, ct)


def _scan_transpose(
    cts: Any,
    *args: Any,
    jaxpr: Jaxpr,
    length: int,
    reverse: bool,
    num_consts: int,
    num_carry: int,
    **params: Any,
) -> list[Any]:
    linear = [is_undefined(a) for a in args]
    carry_lin = _linear_carry(jaxpr, linear, num_consts, num_carry)
    linear[num_consts : num_consts + num_carry] = carry_lin
    consts, init, xs = split_at(args, num_consts, num_carry)
    const_lin, _, xs_lin = split_at(linear, num_consts, num_carry)
    ct_carry, ct_ys = split_at(cts, num_carry)
    ys_zero = tuple([type(ct) is Zero for ct in ct_ys])
    body, lead, const_there, xs_there = _transposed_body(
        jaxpr, tuple(linear), ys_zero, num_consts, num_carry
    )
    carried = _known_carry(jaxpr, linear, args, length, reverse, num_consts, num_carry, params)
    fixed = [x for x, lin in zip(consts, const_lin, strict=True) if not lin]
    sums = [linear_ops.zeros(a.aval) for a in pick(pick(consts, const_lin), const_there)]
    ct_carry = [instantiate(ct) for ct in pick(ct_carry, carry_lin)]
    moving = [x for x, lin in zip(xs, xs_lin, strict=True) if not lin]
    outs = scan_p.bind(
        *lead,
        *fixed,
        *sums,
        *ct_carry,
        *carried,
        *moving,
        *(ct for ct in ct_ys if type(ct) is not Zero),
        jaxpr=body,
        length=length,
        reverse=not reverse,
        num_consts=len(lead) + len(fixed),
        num_carry=len(sums) + len(ct_carry),
        **params,
    )
    ct_consts, ct_init, ct_xs = (iter(g) for g in split_at(outs, len(sums), len(ct_carry)))
    there, x_there = iter(const_there), iter(xs_there)
    results: list[Any] = []
    for x, lin in zip(consts, const_lin, strict=True):
        results.append((next(ct_consts) if next(there) else Zero(x.aval)) if lin else None)
    for x, lin in zip(init, carry_lin, strict=True):
        ct = next(ct_init) if lin else None
        results.append(ct if is_undefined(x) else None)
    for x, lin in zip(xs, xs_lin, strict=True):
        results.append((next(ct_xs) if next(x_there) else Zero(x.aval)) if lin else None)
    return results


def _known_carry(
    jaxpr: Jaxpr,
    linear: list[bool],
    args: Sequence[Any],
    length: int,
    reverse: bool,
    num_consts: int,
    num_carry: int,
    params: dict,
) -> list[Any]:
    """The carried values that are not linear (counters), at the start of each step, stacked."""
    carry_lin = linear[num_consts : num_consts + num_carry]
    if all(carry_lin):
        return []
    known = [not lin for lin in carry_lin]
    n_ys = len(jaxpr.outvars) - num_carry
    small, kept = dce_jaxpr(jaxpr, [*known, *[False] * n_ys])
    inputs = [v for v, k in zip(jaxpr.invars, kept, strict=True) if k]
    carry_vars = pick(jaxpr.invars[num_consts : num_consts + num_carry], known)
    consts, init, xs = split_at(list(zip(jaxpr.invars, args, strict=True)), num_consts, num_carry)
    consts = [(v, x) for v, x in consts if v in inputs]
    xs = [(v, x) for v, x in xs if v in inputs]
    body = Jaxpr(
        (),
        [*(v for v, _ in consts), *carry_vars, *(v for v, _ in xs)],
        [*small.outvars, *carry_vars],
        small.eqns,
        jaxpr.debug_name,
    )
    outs = scan_p.bind(
        *(x for _, x in consts),
        *(x for v, x in init if v in carry_vars),
        *(x for _, x in xs),
        jaxpr=intern_jaxpr(body),
        length=length,
        reverse=reverse,
        num_consts=len(consts),
        num_carry=len(carry_vars),
        **params,
    )
    return outs[len(carry_vars) :]


# vmap.


def _scan_batch(
    axis: AxisData,
    args: Any,
    dims: Any,
    *,
    jaxpr: Jaxpr,
    length: int,
    num_consts: int,
    num_carry: int,
    **params: Any,
) -> tuple[list, list]:
    consts, init, xs = split_at(args, num_consts, num_carry)
    const_dims, init_dims, xs_dims = split_at(dims, num_consts, num_carry)
    body_xs = [None if d is None else 0 for d in xs_dims]
    n_ys = len(jaxpr.outvars) - num_carry

    def step(mapped: list[bool]) -> tuple[Jaxpr, list[Any], list[int | None]]:
        carry = [0 if m else None for m in mapped]
        return batch_jaxpr(jaxpr, axis, (*const_dims, *carry, *body_xs), (*carry, *[None] * n_ys))

    mapped = carry_fixpoint(
        [d is not None for d in init_dims],
        lambda m: [d is not None for d in step(m)[2][:num_carry]],
    )
    body, lead, out_dims = step(mapped)
    init = [
        bdim_at_front(x, d, axis.size) if m else x
        for x, d, m in zip(init, init_dims, mapped, strict=True)
    ]
    xs = [x if d is None else move_dim(x, d, 1) for x, d in zip(xs, xs_dims, strict=True)]
    outs = scan_p.bind(
        *lead,
        *consts,
        *init,
        *xs,
        jaxpr=body,
        length=length,
        num_consts=len(lead) + num_consts,
        num_carry=num_carry,
        **params,
    )
    carry_dims, ys_dims = split_at(out_dims, num_carry)
    return outs, [*carry_dims, *(None if d is None else d + 1 for d in ys_dims)]


scan_p = Primitive(
    name="scan",
    doc="carry_{t+1}, y_t = body(consts, carry_t, x_t) for t in range(length)",
    multiple_results=True,
    abstract=_scan_abstract,
    lower=lower_scan,
    jvp=_scan_jvp,
    linearize=_scan_linearize,
    transpose=_scan_transpose,
    batch=_scan_batch,
    label=lambda params: f"scan x {params['length']}",
)


def _scan_dce(eqn: Eqn, used: list[bool]) -> Eqn:
    """A scan without results, carried values and operands that nobody needs."""
    params = eqn.params
    jaxpr, num_consts, num_carry = params["jaxpr"], params["num_consts"], params["num_carry"]
    used_carry, used_ys = split_at(used, num_carry)

    def step(carry: list[bool]) -> list[bool]:
        _, kept = dce_jaxpr(jaxpr, [*carry, *used_ys])
        return kept[num_consts : num_consts + num_carry]

    carry = carry_fixpoint(used_carry, step)
    keep_out = [*carry, *used_ys]
    if all(keep_out):
        return eqn
    _, kept = dce_jaxpr(jaxpr, keep_out)
    kept = [
        k or (num_consts <= i < num_consts + num_carry and carry[i - num_consts])
        for i, k in enumerate(kept)
    ]
    small, _ = dce_jaxpr(jaxpr, keep_out, keep_inputs=True)
    small = Jaxpr((), pick(jaxpr.invars, kept), small.outvars, small.eqns, jaxpr.debug_name)
    return Eqn(
        eqn.primitive,
        pick(eqn.invars, kept),
        pick(eqn.outvars, keep_out),
        {
            **params,
            "jaxpr": intern_jaxpr(small),
            "num_consts": sum(kept[:num_consts]),
            "num_carry": sum(carry),
        },
        eqn.source,
    )


dce_rules["scan"] = _scan_dce
