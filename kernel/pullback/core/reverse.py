"""What reverse mode keeps of a function: a linear program, and its transpose.

From the second appearance of a program's structure its transpose is compiled whole; under `grad`
the function with it (deferred.py), with the bits of operations that are run one by one.

Builds on linearize.py, transpose.py, call.py. Tested in tests/core/test_reverse.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pullback.core import linearize
from pullback.core.aval import ShapedArray, tangent_aval, typeof
from pullback.core.call import jit_p
from pullback.core.deferred import Deferred, Pending, resolved
from pullback.core.dtypes import float0
from pullback.core.jaxpr import Jaxpr, close, eval_jaxpr
from pullback.core.jvp import Zero
from pullback.core.linearize import LinearizeTrace, LinTracer, Program
from pullback.core.stage import JaxprTrace, staging
from pullback.core.tracer import Trace, backend, eval_trace, state
from pullback.core.transpose import UndefinedPrimal, backward_pass


class Linearized:
    """A linear program with its residuals: what `linearize` and `vjp` keep of a function.

    Attributes:
        in_avals: types of the varied inputs' tangents.
        varied: per input of the function whether the program has its tangent.
        out_indices: per result the number of its tangent, None where that is zero.
        out_avals: types of the results' tangents.
    """

    __slots__ = ("_jaxpr", "in_avals", "out_avals", "out_indices", "program", "varied")

    def __init__(
        self,
        program: Program,
        varied: Sequence[bool],
        out_indices: list,
        out_avals: list[ShapedArray],
    ) -> None:
        self.program = program
        self.varied = varied
        self.in_avals = program.avals[: sum(map(bool, varied))]
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
        forward = None if self._must_record() else self._compiled("jvp", lambda: self.jaxpr)
        if forward is None:
            outs = iter(eval_jaxpr(self.jaxpr, (), *self.residuals, *tangents))
        else:
            outs = iter(jit_p.bind(*self.residuals, *tangents, jaxpr=forward, name="forward"))
        return [
            Zero(a) if i is None else next(outs)
            for i, a in zip(self.out_indices, self.out_avals, strict=True)
        ]

    def vjp(
        self, cotangents: Sequence[Any], on_cotangent: Any = None, compile_whole: bool = True
    ) -> list[Any]:
        """Pull cotangents (arrays or `Zero`) back to the inputs."""
        cts = [ct for ct, i in zip(cotangents, self.out_indices, strict=True) if i is not None]
        if all(type(ct) is Zero for ct in cts):
            return [Zero(a) for a in self.in_avals]
        if on_cotangent is None and compile_whole and not self._must_record():
            zeros = tuple([type(ct) is Zero for ct in cts])
            compiled = self._compiled(zeros, lambda: self._transposed(zeros))
            if compiled is not None:
                jaxpr, consts, present = compiled
                args = [*consts, *self.residuals, *[ct for ct in cts if type(ct) is not Zero]]
                outs = iter(jit_p.bind(*args, jaxpr=jaxpr, name="backward"))
                return [
                    next(outs) if there else Zero(a)
                    for there, a in zip(present, self.in_avals, strict=True)
                ]
        linear = [UndefinedPrimal(a) for a in self.in_avals]
        in_cts = backward_pass(self.jaxpr, (), [*self.residuals, *linear], cts, on_cotangent)
        return in_cts[len(self.residuals) :]

    def _must_record(self) -> bool:
        """Whether each operation must be seen: a staging trace is watching, or user code runs."""
        return self.program.opaque or _is_staged(state.trace)

    def _compiled(self, what: Any, make: Callable[[], Any]) -> Any:
        """What `make` gives for this structure of program, from its second appearance on."""
        program = self.program
        key = (
            what,
            tuple(self.in_avals),
            tuple(program.keys),
            tuple([typeof(r) for r in program.residuals]),
            tuple(self.out_indices),
        )
        return _from_second(key, len(program.keys), make)

    def _transposed(self, zeros: tuple) -> tuple[Jaxpr, list[Any], list[bool]]:
        """The backward pass as a jaxpr: constants, residuals and nonzero cotangents in."""
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
        return close(jaxpr), consts, present


# Structure of a linear program -> how often it has appeared, or what was made for it.
_structures: dict[tuple, Any] = {}
_STRUCTURE_LIMIT = 256
# A structure is compiled at its second appearance; longer ones, which take seconds to compile,
# only after they have come back often enough.
_EQNS_PER_CALL = 300
# What an operation of a whole gradient counts against that: unfused, forward and backward take 10 ms
# an operation to compile (a transformer block, 2 x86 cores, December 2026).
_WHOLE_COST = 20


def _from_second(key: tuple, size: int, make: Callable[[], Any]) -> Any:
    """What `make` gives for a structure of `size` operations, once it has appeared often enough."""
    entry = _structures.pop(key, 0)
    if type(entry) is int:
        appeared = entry * _EQNS_PER_CALL >= size and entry > 0
        entry = make() if appeared else entry + 1
    if len(_structures) >= _STRUCTURE_LIMIT:
        del _structures[next(iter(_structures))]
    _structures[key] = entry  # the most recently used is the last
    return None if type(entry) is int else entry


def clear_caches() -> None:
    """Forget all templates and backward passes."""
    linearize.templates.clear()
    _structures.clear()


def cache_sizes() -> dict[str, int]:
    """The number of entries of each cache."""
    return {"templates": len(linearize.templates), "structures": len(_structures)}


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
        nonzero: which arguments are varied; by default all that can be (not integers).

    Returns:
        The results and the linear program in the tangents of the varied arguments.
    """
    trace, nonzero, results, indices = _trace(fun, primals, nonzero, None)
    out_avals = [tangent_aval(typeof(o)) for o in results]
    return results, Linearized(trace.program, nonzero, indices, out_avals)


def _trace(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    nonzero: Sequence[bool] | None,
    deferred: Deferred | None,
) -> tuple[LinearizeTrace, list[bool], list[Any], list[int | None]]:
    """Run a flat function under a new trace: which arguments are varied (by default all that can
    be), the results, and the numbers of their tangents."""
    t_avals = [tangent_aval(typeof(p)) for p in primals]
    nonzero = [a.dtype != float0 for a in t_avals] if nonzero is None else list(nonzero)
    program = Program([a for a, nz in zip(t_avals, nonzero, strict=True) if nz])
    trace = LinearizeTrace(state.trace, program, deferred)
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
    results: list[Any] = []
    indices: list[int | None] = []
    for o in outs:
        if type(o) is LinTracer and o._trace is trace:
            results.append(resolved(o.primal) if trace.deferred is None else o.primal)
            indices.append(o.index)
        else:
            results.append(o)
            indices.append(None)
    return trace, nonzero, results, indices


def gradient_flat(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    one: Callable[[ShapedArray], Any],
    need_value: bool,
) -> tuple[list[Any], list[bool], list[Any]]:
    """The gradient of a function whose first result is a scalar; the others are carried along.

    Args:
        fun: takes flat arguments, returns a flat list.
        primals: the point.
        one: (aval of the scalar) -> the cotangent to start with.
        need_value: whether the scalar itself is asked for.

    Returns:
        The results (the first is None unless it is needed), which arguments are varied, and their
        cotangents (arrays or `Zero`).
    """
    may_wait = state.trace is eval_trace and not backend.watched()
    trace, nonzero, results, indices = _trace(fun, primals, None, Deferred() if may_wait else None)
    aval = typeof(results[0])
    index, ct = indices[0], one(aval)
    if not need_value:
        results[0] = None
    linear = Linearized(trace.program, nonzero, [index], [tangent_aval(aval)])
    if trace.deferred is not None and index is not None:
        whole = _whole(linear, trace.deferred, index, ct, results)
        if whole is not None:
            return whole.run(trace, ct, results, nonzero)
    # What will be compiled whole is not compiled in parts before.
    in_parts = trace.deferred is None
    trace.run_waiting()
    return [resolved(r) for r in results], nonzero, linear.vjp([ct], compile_whole=in_parts)


@dataclass(slots=True)
class _Whole:
    """A function that waits and its backward pass, as one program.

    Its operations are not fused: a result has the same bits at each call, the first one included.
    """

    jaxpr: Jaxpr
    consts: list[Any]
    present: list[bool]

    def run(
        self, trace: LinearizeTrace, ct: Any, results: list[Any], varied: list[bool]
    ) -> tuple[list[Any], list[bool], list[Any]]:
        """What `gradient_flat` returns."""
        deferred = trace.deferred
        assert deferred is not None
        args = [*self.consts, *deferred.inputs, ct]
        try:
            params = {"name": "gradient", "separately": True}
            outs = iter(backend.run(self.jaxpr, args, params))
        except RuntimeError:
            # Run one by one, the operation that cannot be run raises, and says where it was written.
            trace.run_waiting()
            raise
        cts = [
            next(outs) if there else Zero(a)
            for there, a in zip(self.present, trace.program.avals, strict=False)
        ]
        return [next(outs) if type(r) is Pending else r for r in results], varied, cts


def _whole(
    linear: Linearized, deferred: Deferred, index: int, ct: Any, results: list[Any]
) -> _Whole | None:
    """The program of what waits and its backward pass, if this structure has appeared before."""
    program = linear.program
    residuals = tuple([deferred.code(r) for r in program.residuals])
    asked = tuple([r.number for r in results if type(r) is Pending])
    types = (tuple(linear.in_avals), typeof(ct))
    key = (types, tuple(program.keys), residuals, index, asked)

    def make() -> _Whole:
        trace = JaxprTrace(eval_trace, "gradient")
        with staging(trace):
            inputs = [trace.new_arg(typeof(x)) for x in deferred.inputs]
            start = trace.new_arg(typeof(ct))
            found = deferred.replay(inputs)
            values = [found[c] if c >= 0 else inputs[~c] for c in residuals]
            undefined = [UndefinedPrimal(a) for a in linear.in_avals]
            in_cts = backward_pass(linear.jaxpr, (), [*values, *undefined], [start])[len(values) :]
            present = [type(c) is not Zero for c in in_cts]
            outs = [c for c in in_cts if type(c) is not Zero]
            jaxpr, consts = trace.finish([*inputs, start], [*outs, *[found[n] for n in asked]])
        return _Whole(close(jaxpr), consts, present)

    return _from_second(key, _WHOLE_COST * len(program.keys), make)
