"""Reverse mode by direct linearization: the primal runs, the tangent part is written down.

While a function runs under a `LinearizeTrace`, its primal operations go to the parent trace at once,
and what they do to tangents is recorded as a linear program over explicit residuals. Recording is by
integers and templates, so that it costs little and the program's structure is a hashable key.

Builds on jvp.py, stage.py. Source: Radul et al., You Only Linearize Once, POPL 2023.
Tested in tests/core/test_linearize.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core.aval import ShapedArray, tangent_aval, typeof
from pullback.core.deferred import Deferred, Pending, resolved, run_known
from pullback.core.jaxpr import Eqn, Jaxpr, Literal, Var, close, dce_jaxpr, eval_jaxpr
from pullback.core.jvp import (
    Zero,
    _in_parent,
    derivative_rule,
    instantiate,
    linear_ops,
    zero_of,
)
from pullback.core.source import user_source
from pullback.core.stage import JaxprTrace, JaxprTracer, staging
from pullback.core.tracer import Primitive, Trace, Tracer, eval_trace, state

_SCALARS = (bool, int, float, complex, np.generic)


class Program:
    """A linear program being recorded: variables are integers, residual `j` is written `~j`.

    Each record is (what, atoms, first result, source), where `what` is a `Template` or a pair
    (primitive, parameter items). An `opaque` program holds a user's backward rule, which is called
    each time, so that its transpose is never compiled whole.
    """

    __slots__ = ("_residual_index", "avals", "keys", "opaque", "records", "residuals")

    def __init__(self, in_avals: Sequence[ShapedArray]) -> None:
        self.avals: list[ShapedArray] = list(in_avals)
        self.residuals: list[Any] = []
        self._residual_index: dict[int, int] = {}
        self.records: list[tuple] = []
        self.keys: list[tuple] = []
        self.opaque = False

    def residual(self, x: Any) -> int:
        """The number that stands for a residual value."""
        index = self._residual_index.get(id(x))
        if index is None:
            index = self._residual_index[id(x)] = ~len(self.residuals)
            self.residuals.append(x)
        return index

    def replace_residuals(self, value_of: Callable[[Any], Any]) -> None:
        """Put other values in the residuals' places."""
        self.residuals = [value_of(x) for x in self.residuals]
        self._residual_index = {id(x): ~i for i, x in enumerate(self.residuals)}

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
        can_wait: every result is a tracer under the function's trace, and nothing is seen to happen.
    """

    __slots__ = (
        "can_wait",
        "direct",
        "in_avals",
        "known",
        "known_avals",
        "known_consts",
        "linear",
        "n_outs",
        "out_avals",
        "out_nonzero",
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
            arg_index = {a.atom: i for i, a in enumerate(args)}
            out_index = {v: i for i, v in enumerate(out_atoms) if type(v) is not Literal}
            n_in = sum(map(bool, nonzero))
            self.out_nonzero = [t is not None for t in tangents]
            linear = program.to_jaxpr(n_in, [t for t in tangents if t is not None])
            n_res = len(program.residuals)
            # Tangents that stop somewhere (stop_gradient) leave residuals that nobody reads.
            small, kept = dce_jaxpr(linear, [True] * len(linear.outvars))
            extra: list[Any] = []
            sources: list[tuple[str, Any]] = []
            for res, keep in zip(program.residuals, kept, strict=False):
                if not keep:
                    continue
                if not (type(res) is JaxprTracer and res._trace is trace):
                    sources.append(("const", res))
                elif res.atom in arg_index:
                    sources.append(("arg", arg_index[res.atom]))
                elif res.atom in out_index:
                    sources.append(("out", out_index[res.atom]))
                else:
                    sources.append(("out", len(outs) + len(extra)))
                    extra.append(res)
            known, self.known_consts = trace.finish(args, [*outs, *extra])
        residual_vars = [v for v, keep in zip(linear.invars, kept[:n_res], strict=False) if keep]
        self.linear = Jaxpr(
            (), [*linear.invars[n_res:], *residual_vars], small.outvars, small.eqns, "linear"
        )
        if not all(kept):
            known, _ = dce_jaxpr(known, [True] * len(known.outvars), keep_inputs=True)
        self.known = close(known)
        self.known_avals = [v.aval for v in self.known.outvars]
        self.can_wait = all(self.out_nonzero) and not any(e.effectful for e in self.known.eqns)
        self.in_avals = tuple(avals)
        self.sources = sources
        self.out_avals = [v.aval for v in self.linear.outvars]
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

    separates_tangents = True

    def __init__(self, parent: Trace, program: Program) -> None:
        self.parent: Trace = parent
        self.program = program
        self.live = True
        self.records_all = False

    def zeros(self, aval: ShapedArray) -> Any:
        """A tangent of zeros, made in the linear program, so that no residual is kept for it."""
        self.records_all = True
        try:
            return linear_ops.zeros(aval)
        finally:
            self.records_all = False

    def run(
        self, prim: Primitive, rule: Callable[..., Any], primals: Any, tangents: Any, params: dict
    ) -> tuple[list[Any], list[int | None]]:
        """Run a derivative rule; give the results and the numbers of their tangents."""
        out, t_out = self._apply(prim, rule, primals, tangents, params)
        if any(self.index_of(o) is not None for o in out):
            # A user's rule computed the value together with tangents, in one loop say. The value
            # does not depend on them: it is had at tangents of zero.
            state.trace, previous = self.parent, state.trace
            try:
                zeros = [instantiate(Zero(t.aval)) for t in tangents]
            finally:
                state.trace = previous
            out, _ = self._apply(prim, rule, primals, zeros, params)
        return out, [self.index_of(t) for t in t_out]

    def _apply(
        self, prim: Primitive, rule: Callable[..., Any], primals: Any, tangents: Any, params: dict
    ) -> tuple[list[Any], list[Any]]:
        previous = state.trace
        state.trace = self
        try:
            out, t_out = rule(primals, tangents, **params)
        finally:
            state.trace = previous
        if not prim.multiple_results:
            return [out], [t_out]
        return list(out), list(t_out)

    def index_of(self, t: Any) -> int | None:
        """The number of a tangent; None for zero (and for what does not depend on tangents)."""
        return t.index if type(t) is TangentTracer and t._trace is self else None

    def process(self, prim: Primitive, args: tuple, params: dict) -> Any:
        for x in args:
            if type(x) is TangentTracer and x._trace is self:
                break
        else:
            if not self.records_all:
                return _in_parent(self, prim, args, params)
        if prim.name == "jit" and self._mixes(args, params["jaxpr"]):
            return eval_jaxpr(params["jaxpr"], (), *args)
        if prim.stage is not None:
            args, params = prim.stage(args, params)
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
        program.records.append((what, key[1], first, state.source or user_source(3)))
        tracers = [TangentTracer(self, first + i, a) for i, a in enumerate(outs)]
        return tracers if prim.multiple_results else tracers[0]

    def _mixes(self, args: tuple, jaxpr: Jaxpr) -> bool:
        """Whether some results of a call depend on tangents and others do not."""
        marks = tuple([self.index_of(x) is not None for x in args])
        found = jaxpr.cache.get(("depends", marks))
        if found is None:
            varied = {v for v, mark in zip(jaxpr.invars, marks, strict=True) if mark}
            for eqn in jaxpr.eqns:
                if any(a in varied for a in eqn.invars):
                    varied.update(eqn.outvars)
            found = not all(v in varied for v in jaxpr.outvars)
            jaxpr.cache["depends", marks] = found
        return found

    def describe(self) -> str:
        return "linearize (tangents)"


def instantiate_inside(t: Any) -> Any:
    """The tangent as an array; zeros are made in the linear program, if one is being recorded."""
    trace = state.trace
    if type(t) is Zero and type(trace) is TangentTrace:
        return trace.zeros(t.aval)
    return instantiate(t)


class LinTracer(Tracer):
    """A primal value with the number of its tangent in the linear program."""

    __slots__ = ("index", "primal")
    has_tangent = True

    def __init__(self, trace: Trace, primal: Any, index: int) -> None:
        self._trace = trace
        self.primal = primal
        self.index = index
        self.aval = typeof(primal)

    def concrete(self) -> Any:
        primal = self.primal
        if type(primal) is Pending:
            self._trace.run_waiting()
            return primal.value
        return primal.concrete() if isinstance(primal, Tracer) else primal


templates: dict[tuple, Template] = {}
_TEMPLATE_LIMIT = 8192


class LinearizeTrace(Trace):
    """Runs primal operations in the parent and records what they do to tangents.

    With `deferred`, operations wait instead as long as nobody asks for a value.
    """

    def __init__(self, parent: Trace, program: Program, deferred: Deferred | None = None) -> None:
        self.parent: Trace = parent
        self.program = program
        self.tangents = TangentTrace(parent, program)
        self.deferred = deferred
        self.live = True

    def run_waiting(self) -> None:
        """Run the operations that wait; from then on each is run as it comes."""
        deferred, self.deferred = self.deferred, None
        if deferred is None:
            return
        program = self.program
        previous, state.trace = state.trace, eval_trace
        try:
            deferred.run([record[3] for record in program.records])
        finally:
            state.trace = previous
        program.replace_residuals(resolved)

    def process(self, prim: Primitive, args: tuple, params: dict) -> Any:
        primals: list[Any] = []
        indices: list[int] = []
        nonzero: list[bool] = []
        for x in args:
            if type(x) is LinTracer and x._trace is self:
                primal = x.primal
                if type(primal) is Pending and primal.value is not None:
                    primal = x.primal = primal.value
                primals.append(primal)
                indices.append(x.index)
                nonzero.append(True)
            else:
                # The user may write to a NumPy array before the backward pass reads it.
                primals.append(x.copy() if isinstance(x, np.ndarray) else x)
                nonzero.append(False)
        if not indices:
            return _in_parent(self, prim, args, params)
        if self.parent is eval_trace and prim.linearize is None and prim.impl is None:
            return self._by_template(prim, primals, indices, tuple(nonzero), params)
        if self.deferred is not None:
            self.run_waiting()
            primals = [resolved(x) for x in primals]
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
        # Avals are interned and kept alive by the template, so that their ids may stand for them.
        key = (prim, nonzero, *map(id, avals), *params.items())
        template = templates.get(key)
        if template is None:
            template = _new_template(key, prim, params, avals, nonzero)
        if self.deferred is not None and not template.can_wait:
            self.run_waiting()
            primals = [resolved(x) for x in primals]
        codes: tuple[int, ...] = ()
        results: Sequence[Any]
        if self.deferred is not None:
            results, codes = self.deferred.call(template, prim, primals, params)
        else:
            state.trace = eval_trace
            try:
                results = run_known(template, prim, primals, params)
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
        program.keys.append((template, atoms, codes))
        program.records.append((template, atoms, first, state.source or user_source(3)))
        if not prim.multiple_results:
            return LinTracer(self, results[0], first) if template.out_nonzero[0] else results[0]
        outs: list[Any] = []
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
    if len(templates) >= _TEMPLATE_LIMIT:
        templates.clear()
    template = Template(_rule_as_function(prim, params), avals, nonzero)
    eqns = template.known.eqns
    template.direct = (
        len(eqns) == 1
        and eqns[0].primitive is prim
        and list(eqns[0].invars) == list(template.known.invars)
        and list(eqns[0].outvars) == list(template.known.outvars)
    )
    templates[key] = template
    return template
