"""A cell as one XLA program: its inputs, its versions, and why it was traced again.

Builds on inputs.py, captured.py and the engine's stages. Tested in tests/magics/test_jit.py.
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CellType
from typing import Any

from pullback.api.jit import jit
from pullback.core import pytree
from pullback.core.tracer import Tracer
from pullback.views.timeline import block
from pullback_magics.captured import Snapshot, changes, snapshot
from pullback_magics.cells import LAST, Cell, cell_function, settle, shared_cells
from pullback_magics.inputs import Inputs, donated_numbers, gather_inputs, mutated, signature, why
from pullback_magics.leaks import holders, traced_cells, tracers
from pullback_magics.targets import is_array
from pullback_magics.tokens import Token, token

_MAX_VERSIONS = 8
_PLAIN = (type(None), bool, int, float, complex, str, bytes)


@dataclass(slots=True, eq=False)
class Version:
    """A cell's program at one signature, compiled.

    Attributes:
        inputs: those it was traced with, without the arrays.
        signature: what the inputs' types must be for this version to serve.
        fixed: tokens of the constants among the inputs' leaves.
        taken: the constants that it read.
        rebuild: makes the cell's values of the program's results.
        shared: variables that functions defined in the cell share with it.
        printed: whether the cell printed.
        leaked: what holds traced values after the run.
    """

    inputs: Inputs
    signature: tuple[Any, ...]
    fixed: list[Token]
    taken: Snapshot
    compiled: Any
    traced: Any
    rebuild: Callable[[Sequence[Any]], dict[str, Any]]
    shared: dict[str, CellType]
    printed: bool
    leaked: list[str]
    seconds: dict[str, float] = field(default_factory=dict)
    source: str = "compiled"


@dataclass(frozen=True, slots=True)
class Run:
    """What happened when a cell ran.

    Attributes:
        hit: whether the compiled program was there already.
        reason: why, or why not.
        seconds: of the stages that were needed, and of the run itself.
        values: of the names that the cell binds or changes; under `LAST` of its last expression.
        gone: names that the cell deletes.
    """

    version: Version
    hit: bool
    reason: str
    seconds: dict[str, float]
    device: str
    values: dict[str, Any]
    gone: tuple[str, ...] = ()

    def bind(self, namespace: dict[str, Any]) -> Any:
        """Bind the names in the user's namespace; gives the value of the last expression."""
        namespace.update({n: v for n, v in self.values.items() if n != LAST})
        for name in self.gone:
            namespace.pop(name, None)
        return self.values.get(LAST)


class CellProgram:
    """One cell's text, and its versions."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.versions: list[Version] = []

    def run(
        self,
        namespace: dict[str, Any],
        filename: str,
        static: Sequence[str] = (),
        donate: Sequence[str] = (),
        device: Any = None,
    ) -> Run:
        """Run the cell's program, tracing and compiling it if no version serves."""
        inputs = gather_inputs(self.cell, namespace, static)
        device = device or inputs.committed_device()
        version, reason = self._find(inputs, namespace)
        hit = version is not None
        seconds: dict[str, float] = {}
        if version is None:
            version = self._trace(inputs, namespace, filename, donate, device)
            self.versions.append(version)
            del self.versions[:-_MAX_VERSIONS]
            seconds.update(version.seconds)
        else:
            self.versions.remove(version)
            self.versions.append(version)
        start = time.perf_counter()
        outs = block(version.compiled(*inputs.leaves))
        seconds["run"] = time.perf_counter() - start
        place = ", ".join(str(d) for d in version.compiled.executable.devices)
        values = version.rebuild(outs)
        settle(version.shared, values, namespace)
        gone = tuple(n for n in self.cell.deletes if n not in values)
        return Run(version, hit, reason, seconds, place, values, gone)

    def _find(self, inputs: Inputs, namespace: dict[str, Any]) -> tuple[Version | None, str]:
        if not self.versions:
            return None, "first run of this cell"
        wanted = signature(inputs)
        reason = ""
        for version in reversed(self.versions):
            changed = changes(version.taken, namespace)
            if version.signature == wanted and not changed:
                return version, "same inputs as before"
            reason = reason or why(
                version.inputs, version.fixed, version.signature[-1], inputs, version.taken, changed
            )
        return None, reason

    def _trace(
        self, inputs: Inputs, namespace: dict[str, Any], filename: str, donate: Any, device: Any
    ) -> Version:
        function = cell_function(self.cell, [*inputs.names, *inputs.constants], filename, namespace)
        constants = {n: namespace[n] for n in inputs.constants}
        names = inputs.without_values()
        shape: list[Any] = []
        older = tracers(namespace)

        def cell(*leaves: Any) -> list[Any]:
            given = names.rebuild(leaves)
            found = function(**given, **constants)
            cells = shared_cells(found)
            kept = {n: found[n] for n in self.cell.binds if n in found}
            # Containers changed in place, and what functions bound by `global`, are results too.
            kept.update({n: found[n] for n in mutated(names, given, leaves) if n in found})
            kept.update({n: v for n, v in tracers(namespace).items() if older.get(n) is not v})
            if LAST in found:
                kept[LAST] = found[LAST]
            flat, tree = pytree.tree_flatten(kept)
            traced = [isinstance(x, Tracer) or is_array(x) for x in flat]
            fixed = [None if t else x for x, t in zip(flat, traced, strict=True)]
            if all(isinstance(x, _PLAIN) for x in fixed):
                cells = {}  # no function survives to share them
            inner = traced_cells(fixed, cells.values())
            shape[:] = [tree, traced, fixed, list(kept), cells, inner]
            return [
                *(x for x, t in zip(flat, traced, strict=True) if t),
                *(c.cell_contents for c in inner),
            ]

        taken = snapshot(inputs.watched, namespace)
        key, tokens = signature(inputs), [token(value) for _, value in inputs.fixed]
        numbers = donated_numbers(inputs, donate)
        staged = jit(cell, donate_argnums=numbers, device=device)
        seconds = {}
        start = time.perf_counter()
        with _noting_prints() as prints:
            traced = staged.trace(*inputs.leaves)
        seconds["trace"] = time.perf_counter() - start
        lowered = _clock(seconds, "lower", lambda: traced.lower(device=device))
        compiled = _clock(seconds, "compile", lowered.compile)
        tree, is_traced, fixed, order, shared, inner = shape

        def rebuild(outs: Sequence[Any]) -> dict[str, Any]:
            given = iter(outs)
            leaves = [next(given) if t else x for t, x in zip(is_traced, fixed, strict=True)]
            for variable in inner:  # what functions among the values have captured
                variable.cell_contents = next(given)
            found = pytree.tree_unflatten(tree, leaves)
            return {n: found[n] for n in order}

        return Version(
            names,
            key,
            tokens,
            taken,
            compiled,
            traced,
            rebuild,
            shared,
            bool(prints),
            holders(inputs.watched, fixed, namespace),
            seconds,
            compiled.executable.source,
        )


def _clock(seconds: dict[str, float], name: str, call: Callable[[], Any]) -> Any:
    start = time.perf_counter()
    result = call()
    seconds[name] = time.perf_counter() - start
    return result


class _Tee(io.TextIOBase):
    """Passes text on to a stream and remembers that there was some."""

    def __init__(self, stream: Any, seen: list[bool]) -> None:
        self.stream = stream
        self.seen = seen

    def write(self, text: str) -> int:
        if text:
            self.seen.append(True)
        return self.stream.write(text)

    def flush(self) -> None:
        self.stream.flush()


@contextlib.contextmanager
def _noting_prints() -> Iterator[list[bool]]:
    """Gives a list that is not empty afterwards if something was printed."""
    seen: list[bool] = []
    with contextlib.redirect_stdout(_Tee(sys.stdout, seen)):
        yield seen
