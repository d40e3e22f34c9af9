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
from typing import Any

from pullback.api.jit import jit
from pullback.core import pytree
from pullback.core.tracer import Tracer
from pullback.views.timeline import block
from pullback_magics.captured import Snapshot, changes, snapshot
from pullback_magics.cells import LAST, Cell, cell_function
from pullback_magics.inputs import Inputs, donated_numbers, gather_inputs, signature, why
from pullback_magics.targets import is_array

_MAX_VERSIONS = 8


@dataclass(slots=True)
class Version:
    """A cell's program at one signature, compiled."""

    inputs: Inputs
    taken: Snapshot
    compiled: Any
    traced: Any
    rebuild: Callable[[Sequence[Any]], dict[str, Any]]
    printed: bool
    seconds: dict[str, float] = field(default_factory=dict)
    source: str = "compiled"

    def signature(self) -> tuple[Any, ...]:
        """What the inputs' types must be for this version to serve."""
        return signature(self.inputs)


@dataclass(frozen=True, slots=True)
class Run:
    """What happened when a cell ran.

    Attributes:
        hit: whether the compiled program was there already.
        reason: why, or why not.
        seconds: of the stages that were needed, and of the run itself.
    """

    version: Version
    hit: bool
    reason: str
    seconds: dict[str, float]
    device: str
    values: dict[str, Any]


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
        return Run(version, hit, reason, seconds, place, version.rebuild(outs))

    def _find(self, inputs: Inputs, namespace: dict[str, Any]) -> tuple[Version | None, str]:
        if not self.versions:
            return None, "first run of this cell"
        wanted = signature(inputs)
        reason = ""
        for version in reversed(self.versions):
            changed = changes(version.taken, namespace)
            if version.signature() == wanted and not changed:
                return version, "same inputs as before"
            reason = reason or why(version.inputs, inputs, version.taken, changed)
        return None, reason

    def _trace(
        self, inputs: Inputs, namespace: dict[str, Any], filename: str, donate: Any, device: Any
    ) -> Version:
        function = cell_function(self.cell, [*inputs.names, *inputs.constants], filename, namespace)
        constants = {n: namespace[n] for n in inputs.constants}
        shape: list[Any] = []

        def cell(*leaves: Any) -> list[Any]:
            found = function(**inputs.rebuild(leaves), **constants)
            kept = {n: found[n] for n in (*self.cell.binds, LAST) if n in found}
            flat, tree = pytree.tree_flatten(kept)
            traced = [isinstance(x, Tracer) or is_array(x) for x in flat]
            shape[:] = [tree, traced, [None if t else x for x, t in zip(flat, traced, strict=True)]]
            return [x for x, t in zip(flat, traced, strict=True) if t]

        taken = snapshot(inputs.watched, namespace)
        numbers = donated_numbers(inputs, donate)
        staged = jit(cell, donate_argnums=numbers, device=device)
        seconds = {}
        start = time.perf_counter()
        with _noting_prints() as prints:
            traced = staged.trace(*inputs.leaves)
        seconds["trace"] = time.perf_counter() - start
        lowered = _clock(seconds, "lower", lambda: traced.lower(device=device))
        compiled = _clock(seconds, "compile", lowered.compile)
        tree, is_traced, fixed = shape

        def rebuild(outs: Sequence[Any]) -> dict[str, Any]:
            given = iter(outs)
            leaves = [next(given) if t else x for t, x in zip(is_traced, fixed, strict=True)]
            found = pytree.tree_unflatten(tree, leaves)
            return {n: found[n] for n in (*self.cell.binds, LAST) if n in found}

        return Version(
            inputs,
            taken,
            compiled,
            traced,
            rebuild,
            bool(prints),
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
