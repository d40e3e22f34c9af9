"""Operations under an eager `grad` that wait, to run with the backward pass as one program.

Nobody sees the values of a function under `grad`, unless it asks for one: to branch on it, print it,
or show it to NumPy. So its operations are only written down, and when it has returned, the program
of a structure seen before is run whole. Asking for a value runs what waits, in order, at once.

Builds on linearize.py's templates. Source: the deferral of LazyTensor (Suhan et al., 2021), here for
the length of one function. Tested in tests/core/test_deferred.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.core.aval import ShapedArray
from pullback.core.jaxpr import eval_jaxpr
from pullback.core.source import note_position
from pullback.core.tracer import Primitive, backend, eval_trace


class Pending:
    """The result of an operation that waits. `value` is there once it has run."""

    __slots__ = ("aval", "number", "value")

    def __init__(self, aval: ShapedArray, number: int) -> None:
        self.aval = aval
        self.number = number
        self.value: Any = None


def resolved(x: Any) -> Any:
    """The value of a pending result that has run; anything else as it is."""
    return x.value if type(x) is Pending else x


class Deferred:
    """The operations of one function that wait, in order.

    Results are numbered from 0 as they come; the k-th value from outside is written `~k`.
    """

    __slots__ = ("_input_index", "calls", "inputs", "n_results")

    def __init__(self) -> None:
        self.calls: list[tuple] = []
        self.inputs: list[Any] = []
        self.n_results = 0
        self._input_index: dict[int, int] = {}

    def code(self, x: Any) -> int:
        """The number of a pending result or of a value from outside."""
        if type(x) is Pending:
            return x.number
        code = self._input_index.get(id(x))
        if code is None:
            code = self._input_index[id(x)] = ~len(self.inputs)
            self.inputs.append(x)
        return code

    def call(
        self, template: Any, prim: Primitive, primals: list[Any], params: dict
    ) -> tuple[list[Pending], tuple[int, ...]]:
        """Let an operation wait; give its results and the numbers of its operands."""
        number = self.n_results
        results = []
        for aval in template.known_avals:
            results.append(Pending(aval, number))
            number += 1
        self.n_results = number
        codes = tuple([x.number if type(x) is Pending else self.code(x) for x in primals])
        self.calls.append((template, prim, primals, params, results, codes))
        return results, codes

    def run(self, sources: Sequence[Any]) -> None:
        """Run each operation now; `sources` are their positions, for errors.

        Raises:
            Exception: what the operation raises, with a note of where it was written.
        """
        calls, self.calls = self.calls, []
        for (template, prim, primals, params, results, _), source in zip(
            calls, sources, strict=True
        ):
            operands = [x.value if type(x) is Pending else x for x in primals]
            try:
                values = run_known(template, prim, operands, params)
            except Exception as error:
                note_position(error, source, prim.name)
                raise
            for result, value in zip(results, values, strict=True):
                result.value = value

    def replay(self, inputs: Sequence[Any]) -> list[Any]:
        """All results for these values from outside (tracers, say), by number."""
        found: list[Any] = []
        for template, _, _, _, _, codes in self.calls:
            operands = [found[c] if c >= 0 else inputs[~c] for c in codes]
            found.extend(eval_jaxpr(template.known, (), *template.known_consts, *operands))
        return found


def run_known(template: Any, prim: Primitive, primals: Sequence[Any], params: dict) -> list[Any]:
    """Run the known part of an operation: its results, and the residuals that are none of them."""
    if template.direct:
        result = eval_trace.run(prim, tuple(primals), params)
        return list(result) if prim.multiple_results else [result]
    params = {"name": prim.name, "separately": True}
    return backend.run(template.known, [*template.known_consts, *primals], params)
