"""What reverse mode keeps of a function: a linear program, and its transpose.

From the second appearance of a program's structure its transpose is compiled whole.

Builds on linearize.py, transpose.py, call.py. Tested in tests/core/test_reverse.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.core import errors, linearize
from pullback.core.aval import ShapedArray, tangent_aval, typeof
from pullback.core.call import jit_p
from pullback.core.jaxpr import Jaxpr, eval_jaxpr
from pullback.core.jvp import Zero
from pullback.core.linearize import LinearizeTrace, LinTracer, Program
from pullback.core.stage import JaxprTrace, staging
from pullback.core.tracer import Trace, eval_trace, state
from pullback.core.transpose import UndefinedPrimal, backward_pass


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
        if on_cotangent is None and not self.program.opaque and not _is_staged(state.trace):
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
    linearize.templates.clear()
    _backward.clear()


def cache_sizes() -> dict[str, int]:
    """The number of entries of each cache."""
    return {"templates": len(linearize.templates), "backward": len(_backward)}


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
