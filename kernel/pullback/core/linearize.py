"""Reverse mode by direct linearization: the primal runs, the tangent part is written down.

While a function runs under a `LinearizeTrace`, its primal operations go to the parent trace at once,
and what they do to tangents is recorded as a linear program over explicit residuals. Recording is by
integers and templates, so that it costs little and the program's structure is a hashable key: from
its second appearance the transpose of that structure is compiled whole.

Builds on jvp.py, stage.py, transpose.py. Source: Radul et al., You Only Linearize Once, POPL 2023.
Tested in tests/core/test_linearize.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core import errors
from pullback.core.aval import ShapedArray, tangent_aval, typeof
from pullback.core.call import jit_p
from pullback.core.jaxpr import Eqn, Jaxpr, Literal, Var, close, eval_jaxpr
from pullback.core.jvp import Zero, _in_parent, derivative_rule, zero_of
from pullback.core.source import user_source
from pullback.core.stage import JaxprTrace, JaxprTracer, staging
from pullback.core.tracer import Primitive, Trace, Tracer, eval_trace, state
from pullback.core.transpose import UndefinedPrimal, backward_pass

_SCALARS = (bool, int, float, complex, np.generic)


class Program:
    """A linear program being recorded: variables are integers, residual `j` is written `~j`.

    Each record is (what, atoms, first result, source), where `what` is a `Template` or a pair
    (primitive, parameter items).
    """

    __slots__ = ("_residual_index", "avals", "keys", "records", "residuals")

    def __init__(self, in_avals: Sequence[ShapedArray]) -> None:
        self.avals: list[ShapedArray] = list(in_avals)
        self.residuals: list[Any] = []
        self._residual_index: dict[int, int] = {}
        self.records: list[tuple] = []
        self.keys: list[tuple] = []

    def residual(self, x: Any) -> int:
        """The number that stands for a residual value."""
        index = self._residual_index.get(id(x))
        if index is None:
            index = self._residual_index[id(x)] = ~len(self.residuals)
            self.residuals.append(x)
        return index

    def to_jaxpr(self, n_in: int, outs: Sequence[int]) -> Jaxpr:
        """The program as a jaxpr: residuals then tangents in, tangents out."""
        res_vars = [Var(typeof(r)) for r in self.residuals]
        variables: list[Any] = [Var(a) for a in self.avals[:n_in]]
        invars = list(variables)
        eqns: list[Eqn] = []

        def atom(a: Any) -> Any:
            if type(a) is not int:
                return a
            return variables[a] if a >= 0 else res_vars[~a]

        for what, atoms, first, source in self.records:
            operands = [atom(a) for a in atoms]
            if type(what) is Template:
                variables.extend(what.expand(operands, eqns, source))
            else:
                prim, items, n_out = what
                outvars = [Var(a) for a in self.avals[first : first + n_out]]
                eqns.append(Eqn(prim, operands, outvars, dict(items), source))
                variables.extend(outvars)
        return Jaxpr((), res_vars + invars, [variables[o] for o in outs], eqns, "linear")


class Template:
    """How one operation linearizes at given types: derived once, then copied into programs.

    Attributes:
        known: primal inputs to primal results and further residuals.
        linear: nonzero tangents then residuals in, nonzero tangents out.
        sources: per residual ('arg', i), ('out', i), or ('const', value).
        out_nonzero: per primal result whether its tangent depends on the inputs' tangents.
    """

    __slots__ = (
        "direct",
        "known",
        "known_consts",
        "linear",
        "n_outs",
        "out_avals",
        "out_nonzero",
        "single",
        "sources",
    )

    def __init__(
        self, fun: Callable[..., Any], avals: Sequence[ShapedArray], nonzero: Sequence[bool]
    ) -> None:
        trace = JaxprTrace(eval_trace, "known")
        with staging(trace):
            args = [trace.new_arg(a) for a in avals]
            program = Program([tangent_aval(a) for a, nz in zip(avals, nonzero, strict=True) if nz])
            outs, tangents = fun(program, args, nonzero)
            self.n_outs = len(outs)
            out_atoms = [trace.lift(o) for o in outs]
            arg_index = {a.var: i for i, a in enumerate(args)}
            out_index = {v: i for i, v in enumerate(out_atoms) if type(v) is not Literal}
            extra: list[Any] = []
            sources: list[tuple[str, Any]] = []
            for res in program.residuals:
                if not (type(res) is JaxprTracer and res._trace is trace):
                    sources.append(("const", res))
                elif res.var in arg_index:
                    sources.append(("arg", arg_index[res.var]))
                elif res.var in out_index:
                    sources.append(("out", out_index[res.var]))
                else:
                    sources.append(("out", len(outs) + len(extra)))
                    extra.append(res)
            n_in = sum(map(bool, nonzero))
            self.out_nonzero = [t is not None for t in tangents]
            linear = program.to_jaxpr(n_in, [t for t in tangents if t is not None])
            known, self.known_consts = trace.finish(args, [*outs, *extra])
        n_res = len(program.residuals)
        self.linear = Jaxpr(
            (),
            linear.invars[n_res:] + linear.invars[:n_res],
            linear.outvars,
            linear.eqns,
            "linear",
        )
        self.known = close(known)
        self.sources = sources
        self.out_avals = [v.aval for v in self.linear.outvars]
        self.single = False
        self.direct = False

    def expand(self, operands: list[Any], eqns: list[Eqn], source: Any) -> list[Any]:
        """Copy the linear equations for these operands onto `eqns`; give the results."""
        env: dict[Any, Any] = dict(zip(self.linear.invars, operands, strict=True))
        for eqn in self.linear.eqns:
            outvars = [Var(v.aval) for v in eqn.outvars]
            invars = [v if type(v) is Literal else env[v] for v in eqn.invars]
            eqns.append(Eqn(eqn.primitive, invars, outvars, eqn.params, source))
            env.update(zip(eqn.outvars, outvars, strict=True))
        return [v if type(v) is Literal else env[v] for v in self.linear.outvars]

    def residual_values(self, args: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """The residuals, given the primal operands and all results of the known part."""
        return [
            args[i] if kind == "arg" else results[i] if kind == "out" else i
            for kind, i in self.sources
        ]


def _rule_as_function(prim: Primitive, params: dict) -> Callable[..., Any]:
    """The derivative rule of a primitive in the form that `Template` takes."""
    rule = derivative_rule(prim)

    def fun(program: Program, args: list[Any], nonzero: Sequence[bool]) -> tuple[list, list]:
        trace = TangentTrace(state.trace, program)
        indices = iter(range(len(args)))
        tangents = [
            TangentTracer(trace, next(indices), tangent_aval(typeof(a))) if nz else zero_of(a)
            for a, nz in zip(args, nonzero, strict=True)
        ]
        return trace.run(prim, rule, args, tangents, params)

    return fun


class TangentTracer(Tracer):
    """A variable of a linear program."""

    __slots__ = ("index",)

    def __init__(self, trace: Trace, index: int, aval: ShapedArray) -> None:
        self._trace = trace
        self.index = index
        self.aval = aval


class TangentTrace(Trace):
    """Records operations on tangents; everything else runs in the parent at once."""

    def __init__(self, parent: Trace, program: Program) -> None:
        self.parent: Trace = parent
        self.program = program
        self.live = True

    def run(
        self, prim: Primitive, rule: Callable[..., Any], primals: Any, tangents: Any, params: dict
    ) -> tuple[list[Any], list[int | None]]:
        """Run a derivative rule; give the results and the numbers of their tangents."""
        previous = state.trace
        state.trace = self
        try:
            out, t_out = rule(primals, tangents, **params)
        finally:
            state.trace = previous
        if not prim.multiple_results:
            out, t_out = [out], [t_out]
        return list(out), [self.index_of(t) for t in t_out]

    def index_of(self, t: Any) -> int | None:
        """The number of a tangent; None for zero (and for what does not depend on tangents)."""
        return t.index if type(t) is TangentTracer and t._trace is self else None

    def process(self, prim: Primitive, args: tuple, params: dict) -> Any:
        for x in args:
            if type(x) is TangentTracer and x._trace is self:
                break
        else:
            return _in_parent(self, prim, args, params)
        program = self.program
        atoms: list[Any] = []
        avals = []
        for x in args:
            if type(x) is TangentTracer and x._trace is self:
                atoms.append(x.index)
            elif isinstance(x, _SCALARS):
                atoms.append(Literal(x, typeof(x)))
            else:
                atoms.append(program.residual(x))
            avals.append(typeof(x))
        out = prim.abstract(*avals, **params)
        outs = out if prim.multiple_results else (out,)
        first = len(program.avals)
        program.avals.extend(outs)
        what = (prim, tuple(params.items()), len(outs))
        key = (what, tuple(atoms))
        program.keys.append(key)
        program.records.append((what, key[1], first, state.source or user_source()))
        tracers = [TangentTracer(self, first + i, a) for i, a in enumerate(outs)]
        return tracers if prim.multiple_results else tracers[0]

    def describe(self) -> str:
        return "linearize (tangents)"


class LinTracer(Tracer):
    """A primal value with the number of its tangent in the linear program."""

    __slots__ = ("index", "primal")

    def __init__(self, trace: Trace, primal: Any, index: int) -> None:
        self._trace = trace
        self.primal = primal
        self.index = index
        self.aval = typeof(primal)

    def concrete(self) -> Any:
        primal = self.primal
        return primal.concrete() if isinstance(primal, Tracer) else primal


_templates: dict[tuple, Template] = {}
_TEMPLATE_LIMIT = 8192


class LinearizeTrace(Trace):
    """Runs primal operations in the parent and records what they do to tangents."""

    def __init__(self, parent: Trace, program: Program) -> None:
        self.parent: Trace = parent
        self.program = program
        self.tangents = TangentTrace(parent, program)
        self.live = True

    def process(self, prim: Primitive, args: tuple, params: dict) -> Any:
        primals: list[Any] = []
        indices: list[int] = []
        nonzero: list[bool] = []
        for x in args:
            if type(x) is LinTracer and x._trace is self:
                primals.append(x.primal)
                indices.append(x.index)
                nonzero.append(True)
            else:
                primals.append(x)
                nonzero.append(False)
        if not indices:
            return _in_parent(self, prim, args, params)
        if self.parent is eval_trace and prim.linearize is None and prim.impl is None:
            return self._by_template(prim, primals, indices, tuple(nonzero), params)
        numbers = iter(indices)
        tangents = [
            TangentTracer(self.tangents, next(numbers), tangent_aval(typeof(p)))
            if nz
            else zero_of(p)
            for p, nz in zip(primals, nonzero, strict=True)
        ]
        rule = prim.linearize or derivative_rule(prim)
        outs, out_indices = self.tangents.run(prim, rule, primals, tangents, params)
        results = [
            o if i is None else LinTracer(self, o, i)
            for o, i in zip(outs, out_indices, strict=True)
        ]
        return results if prim.multiple_results else results[0]

    def _by_template(
        self, prim: Primitive, primals: list, indices: list, nonzero: tuple, params: dict
    ) -> Any:
        avals = tuple([typeof(p) for p in primals])
        key = (prim, tuple(params.items()) if params else (), avals, nonzero)
        template = _templates.get(key)
        if template is None:
            template = _new_template(key, prim, params, avals, nonzero)
        state.trace = eval_trace
        try:
            if template.direct:
                result = eval_trace.run(prim, tuple(primals), params)
                results = result if prim.multiple_results else [result]
            else:
                results = jit_p.impl(  # type: ignore[misc]
                    *template.known_consts, *primals, jaxpr=template.known, name=prim.name
                )
        finally:
            state.trace = self
        program = self.program
        residual = program.residual
        atoms = (
            *indices,
            *[residual(x) for x in template.residual_values(primals, results)],
        )
        first = len(program.avals)
        program.avals.extend(template.out_avals)
        program.keys.append((template, atoms))
        program.records.append((template, atoms, first, state.source or user_source()))
        if not prim.multiple_results:
            return LinTracer(self, results[0], first) if template.out_nonzero[0] else results[0]
        outs = []
        for o, nz in zip(results, template.out_nonzero, strict=False):
            if nz:
                outs.append(LinTracer(self, o, first))
                first += 1
            else:
                outs.append(o)
        return outs

    def describe(self) -> str:
        return "grad"


def _new_template(
    key: tuple, prim: Primitive, params: dict, avals: tuple, nonzero: tuple
) -> Template:
    if len(_templates) >= _TEMPLATE_LIMIT:
        _templates.clear()
    template = Template(_rule_as_function(prim, params), avals, nonzero)
    eqns = template.known.eqns
    template.direct = (
        len(eqns) == 1
        and eqns[0].primitive is prim
        and list(eqns[0].invars) == list(template.known.invars)
        and list(eqns[0].outvars) == list(template.known.outvars)
    )
    _templates[key] = template
    return template


class Linearized:
    """A linear program with its residuals: what `linearize` and `vjp` keep of a function.

    Attributes:
        in_avals: types of the inputs' tangents.
        out_indices: per result the number of its tangent, None where that is zero.
        out_avals: types of the results' tangents.
    """

    __slots__ = ("_jaxpr", "in_avals", "out_avals", "out_indices", "program")

    def __init__(
        self, program: Program, n_in: int, out_indices: list, out_avals: list[ShapedArray]
    ) -> None:
        self.program = program
        self.in_avals = program.avals[:n_in]
        self.out_indices = out_indices
        self.out_avals = out_avals
        self._jaxpr: Jaxpr | None = None

    @property
    def jaxpr(self) -> Jaxpr:
        """The linear jaxpr: residuals then tangents to the nonzero tangents of the results."""
        if self._jaxpr is None:
            outs = [i for i in self.out_indices if i is not None]
            self._jaxpr = self.program.to_jaxpr(len(self.in_avals), outs)
        return self._jaxpr

    @property
    def residuals(self) -> list[Any]:
        """The values of the residuals."""
        return self.program.residuals

    def jvp(self, tangents: Sequence[Any]) -> list[Any]:
        """Push tangents (arrays) through the linear program."""
        outs = iter(eval_jaxpr(self.jaxpr, (), *self.residuals, *tangents))
        return [
            Zero(a) if i is None else next(outs)
            for i, a in zip(self.out_indices, self.out_avals, strict=True)
        ]

    def vjp(self, cotangents: Sequence[Any], on_cotangent: Any = None) -> list[Any]:
        """Pull cotangents (arrays or `Zero`) back to the inputs."""
        cts = [
            ct
            for ct, i in zip(cotangents, self.out_indices, strict=True)
            if i is not None
        ]
        if all(type(ct) is Zero for ct in cts):
            return [Zero(a) for a in self.in_avals]
        if on_cotangent is None and not _is_staged(state.trace):
            compiled = self._compiled(tuple([type(ct) is Zero for ct in cts]))
            if compiled is not None:
                jaxpr, present = compiled
                args = [ct for ct in cts if type(ct) is not Zero]
                outs = iter(jit_p.bind(*self.residuals, *args, jaxpr=jaxpr, name="backward"))
                return [
                    next(outs) if there else Zero(a)
                    for there, a in zip(present, self.in_avals, strict=True)
                ]
        linear = [UndefinedPrimal(a) for a in self.in_avals]
        in_cts = backward_pass(
            self.jaxpr, (), [*self.residuals, *linear], cts, on_cotangent
        )
        return in_cts[len(self.residuals) :]

    def _compiled(self, zeros: tuple) -> tuple[Jaxpr, list[bool]] | None:
        program = self.program
        key = (
            tuple(self.in_avals),
            tuple(program.keys),
            tuple([typeof(r) for r in program.residuals]),
            tuple(self.out_indices),
            zeros,
        )
        entry = _backward.get(key)
        if entry is None:
            if len(_backward) >= _BACKWARD_LIMIT:
                del _backward[next(iter(_backward))]
            _backward[key] = 1
            return None
        if type(entry) is int:
            if entry * _EQNS_PER_CALL < len(program.keys):
                _backward[key] = entry + 1
                return None
            entry = _backward[key] = self._transposed(zeros)
        return entry

    def _transposed(self, zeros: tuple) -> tuple[Jaxpr, list[bool]]:
        """The backward pass as a jaxpr: residuals and nonzero cotangents in."""
        forward = self.jaxpr
        n_res = len(self.residuals)
        trace = JaxprTrace(eval_trace, "backward")
        with staging(trace):
            residuals = [trace.new_arg(v.aval) for v in forward.invars[:n_res]]
            args = []
            cts: list[Any] = []
            for var, zero in zip(forward.outvars, zeros, strict=True):
                if zero:
                    cts.append(Zero(var.aval))
                else:
                    args.append(trace.new_arg(var.aval))
                    cts.append(args[-1])
            linear = [UndefinedPrimal(a) for a in self.in_avals]
            in_cts = backward_pass(forward, (), [*residuals, *linear], cts)[n_res:]
            present = [type(ct) is not Zero for ct in in_cts]
            outs = [ct for ct in in_cts if type(ct) is not Zero]
            jaxpr, consts = trace.finish([*residuals, *args], outs)
        if consts:
            raise errors.internal_error("the backward pass closes over arrays")
        return jaxpr, present


# Structure of a linear program -> how often it was pulled back, or its compiled transpose.
_backward: dict[tuple, Any] = {}
_BACKWARD_LIMIT = 1024
# A structure is compiled at its second appearance; longer ones, which take seconds to compile,
# only after they have come back often enough.
_EQNS_PER_CALL = 300


def clear_caches() -> None:
    """Forget all templates and backward passes."""
    _templates.clear()
    _backward.clear()


def cache_sizes() -> dict[str, int]:
    """The number of entries of each cache."""
    return {"templates": len(_templates), "backward": len(_backward)}


def _is_staged(trace: Trace | None) -> bool:
    while trace is not None:
        if isinstance(trace, JaxprTrace):
            return True
        trace = trace.parent
    return False


def linearize_flat(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], nonzero: Sequence[bool] | None = None
) -> tuple[list[Any], Linearized]:
    """Run a function of flat arguments and keep its linear part.

    Args:
        fun: takes and returns flat sequences of arrays.
        primals: the point.
        nonzero: which arguments are varied; all if None.

    Returns:
        The results and the linear program in the tangents of the varied arguments.
    """
    nonzero = [True] * len(primals) if nonzero is None else nonzero
    in_avals = [
        tangent_aval(typeof(p)) for p, nz in zip(primals, nonzero, strict=True) if nz
    ]
    program = Program(in_avals)
    trace = LinearizeTrace(state.trace, program)
    state.trace = trace
    try:
        numbers = iter(range(len(primals)))
        args = [
            LinTracer(trace, p, next(numbers)) if nz else p
            for p, nz in zip(primals, nonzero, strict=True)
        ]
        outs = fun(*args)
    finally:
        state.trace = trace.parent
        trace.live = False
        trace.tangents.live = False
    results, indices = [], []
    for o in outs:
        if type(o) is LinTracer and o._trace is trace:
            results.append(o.primal)
            indices.append(o.index)
        else:
            results.append(o)
            indices.append(None)
    out_avals = [tangent_aval(typeof(o)) for o in results]
    return results, Linearized(program, len(in_avals), indices, out_avals)
