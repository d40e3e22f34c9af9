"""Plain text: tables in columns, and what stands for a value in one line.

Builds on core/ alone; the HTML and SVG views take their cells from here. Tested in
tests/views/test_text.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core.jvp import Zero
from pullback.core.tracer import concrete_or_none

NOT_COMPUTED = "not computed"
SYMBOLIC_ZERO = "zero by rule"
_FEW = 4
_ROUNDING = 1e-6


def clip(text: str, limit: int) -> str:
    """The text, with its end left out if it is longer than `limit` characters."""
    return text if len(text) <= limit else text[: max(limit - 1, 0)] + "…"


def number_text(x: Any) -> str:
    """A number to four digits, as Python writes it."""
    if isinstance(x, bool | np.bool_):
        return str(bool(x))
    if isinstance(x, int | np.integer):
        return str(int(x))
    if isinstance(x, complex | np.complexfloating):
        return f"{complex(x):.4g}"
    text = f"{float(x):.4g}"
    return text if any(c in text for c in ".en") else f"{text}.0"


def value_text(x: Any) -> str:
    """A value in one line: itself if it has few elements, else its range and mean.

    Args:
        x: an array, a number, a symbolic `Zero`, or None for what was never computed.
    """
    if x is None:
        return NOT_COMPUTED
    if type(x) is Zero:
        return SYMBOLIC_ZERO
    concrete = concrete_or_none(x)
    if concrete is None:
        return "unknown while tracing"
    if getattr(concrete, "is_deleted", bool)():
        return "deleted"
    array = np.asarray(concrete)
    if array.dtype.kind not in "biufc":
        if array.dtype.names is not None or array.dtype.kind not in "V":
            return str(array.dtype)
        array = array.astype(np.float32)  # bfloat16 and the float8s
    if array.ndim == 0:
        return number_text(array[()])
    if array.size == 0:
        return "empty"
    if array.size <= _FEW and array.ndim == 1:
        return f"[{' '.join(map(number_text, array))}]"
    return _summary(array)


def _summary(array: np.ndarray) -> str:
    if array.dtype.kind == "b":
        return f"{int(array.sum())} of {array.size} true"
    finite = array[np.isfinite(array)]
    odd = []
    for name, test in (("nan", np.isnan), ("inf", np.isinf)):
        count = int(test(array).sum())
        if count:
            odd.append(f"{count} {name}")
    if finite.size == 0:
        return ", ".join(odd)
    if array.dtype.kind == "c":
        size = np.abs(finite)
        body = f"|·| {number_text(size.min())}…{number_text(size.max())}"
    else:
        low, high = number_text(finite.min()), number_text(finite.max())
        wide = finite.astype(np.float64)
        mean = wide.mean()
        if abs(mean) < _ROUNDING * np.abs(wide).max():
            mean = 0.0  # what is left of a sum that cancels differs between machines
        body = f"all {low}" if low == high else f"{low}…{high}, mean {number_text(mean)}"
    return ", ".join([body, *odd])


def table(rows: Sequence[Sequence[str]], header: Sequence[str] | None = None) -> str:
    """Rows in aligned columns, two blanks apart; no blanks at line ends."""
    lines = [list(header), *map(list, rows)] if header else [list(r) for r in rows]
    if not lines:
        return ""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    out = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) for line in lines]
    if header:
        out.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(line.rstrip() for line in out)


def seconds_text(seconds: float) -> str:
    """A duration to three digits in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size or unit == "us":
            return f"{seconds / size:.3g} {unit}"
    return "0 s"


def count_text(n: int, noun: str) -> str:
    """`1 equation`, `2 equations`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
