"""Which equations of a large program are drawn as one node.

Builds on core/ and views/sources.py. Tested in tests/views/test_graph.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pullback.core.jaxpr import Eqn
from pullback.views.sources import source_line

MAX_NODES = 300  # more at one level than this are folded
_MAX_RUNS = 16  # runs that are no source line each


def operation_name(eqn: Eqn) -> str:
    """What the operation is called in pictures."""
    custom = eqn.primitive.label
    return custom(eqn.params) if custom is not None else eqn.primitive.name


def operations_of(run: Sequence[Eqn]) -> str:
    """`10 × (sin, mul)` of a run that repeats itself; how often each operation occurs of others."""
    period, offset = _period(run)
    if period < len(run) and offset == 0 and len(run) % period == 0 and period <= 8:
        pattern = ", ".join(operation_name(e) for e in run[:period])
        return f"{len(run) // period} × ({pattern})"
    counts = Counter(operation_name(e) for e in run)
    common = ", ".join(f"{name} ×{n}" for name, n in counts.most_common(4))
    return common + (", …" if len(counts) > 4 else "")


def fold_runs(eqns: Sequence[Eqn], limit: int = MAX_NODES // 3) -> list[list[Eqn]]:
    """Consecutive equations in runs: by source line if these are at most `limit`, else in few.

    The few start where the program repeats itself, as an unrolled loop does. Runs of neighbours in
    program order cannot make a cycle.
    """
    runs: list[list[Eqn]] = []
    last: Any = None
    for eqn in eqns:
        line = source_line(eqn)
        if runs and line is not None and line == last:
            runs[-1].append(eqn)
        else:
            runs.append([eqn])
        last = line
    if len(runs) <= limit:
        return runs
    period, offset = _period(eqns)
    size = -(-len(eqns) // _MAX_RUNS)
    size = -(-size // period) * period if period < len(eqns) else size
    starts = [*([0] if offset else []), *range(offset, len(eqns), size)]
    ends = [*starts[1:], len(eqns)]
    return [list(eqns[i:j]) for i, j in zip(starts, ends, strict=True)]


def _period(eqns: Sequence[Eqn]) -> tuple[int, int]:
    """After how many equations a program repeats itself, and from which on it does.

    The number of all equations if it does not.
    """
    keys = [(e.primitive.name, source_line(e)) for e in eqns]
    places: dict[Any, list[int]] = {}
    for i, key in enumerate(keys):
        places.setdefault(key, []).append(i)
    for key in dict.fromkeys(keys):  # the first equation that is there often starts the pattern
        at = places[key]
        if len(at) < 3:
            continue
        for step in (1, 2, 3, 4):  # the same operation may stand several times in the pattern
            if len(at) <= 2 * step:
                break
            period = at[step] - at[0]
            same = sum(a == b for a, b in zip(keys[at[0] :], keys[at[0] + period :], strict=False))
            if same >= 0.9 * (len(keys) - at[0] - period) and at[0] <= len(keys) // 4:
                return period, at[0]
    return max(len(eqns), 1), 0
