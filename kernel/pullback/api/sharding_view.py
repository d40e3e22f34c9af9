"""How an array lies on the devices, as a drawing of characters.

Builds on xla/sharding.py. Tested in tests/api/test_sharding_view.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.core.source import api_boundary
from pullback.core.tracer import Tracer
from pullback.xla.sharding import Sharding

# A character is about two and a half times as high as it is wide.
_ASPECT = 2.5


def _start(part: slice, size: int) -> tuple[int, int]:
    first = part.start or 0
    return first, (size if part.stop is None else part.stop) - first


def _cells(
    shape: Sequence[int], sharding: Sharding
) -> tuple[dict[tuple[int, int], list[int]], list[int], list[int]]:
    """Device numbers by (row, column) of the grid of parts, and the grid's heights and widths."""
    full = (1, *shape) if len(shape) == 1 else tuple(shape)
    found: dict[tuple[int, int], list[int]] = {}
    spans: tuple[dict[int, int], dict[int, int]] = ({}, {})
    for device, parts in sharding.devices_indices_map(tuple(shape)).items():
        parts = (slice(0, 1), *parts) if len(shape) == 1 else parts
        starts = [_start(p, n) for p, n in zip(parts, full, strict=True)]
        for axis, (first, size) in enumerate(starts):
            spans[axis][first] = size
        found.setdefault((starts[0][0], starts[1][0]), []).append(device.id)
    rows, columns = sorted(spans[0]), sorted(spans[1])
    cells = {
        (i, j): sorted(found.get((row, column), []))
        for i, row in enumerate(rows)
        for j, column in enumerate(columns)
    }
    return cells, [spans[0][r] for r in rows], [spans[1][c] for c in columns]


@api_boundary
def visualize_sharding(
    shape: Sequence[int],
    sharding: Sharding,
    *,
    use_color: bool = True,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
    color_map: Any = None,
) -> None:
    """Print which part of an array of one or two axes lies on which devices.

    Args:
        shape: of the whole array.
        sharding: how it is spread.
        use_color, color_map: taken for compatibility; the drawing has no colours.
        scale: size of the drawing.
        min_width, max_width: of the drawing of one part, in characters.

    Raises:
        ValueError: the array has no axis, or more than two.
    """
    if not 1 <= len(shape) <= 2:
        raise ValueError(
            f"visualize_sharding draws arrays of one or two axes, got shape {tuple(shape)}.\n"
            "Instead: x.sharding says how other arrays are spread; or draw x.reshape(n, -1)."
        )
    cells, heights, widths = _cells(shape, sharding)
    platform = next(iter(sharding.device_set)).platform.upper()
    names = {at: f"{platform} {','.join(map(str, ids))}" for at, ids in cells.items()}
    lines = int(10 * scale)
    total = max(sum(heights), 1)
    columns = (
        lines * (sum(widths) / total if len(shape) == 2 else 1 / max(sum(widths), 1)) * _ASPECT
    )
    high = [max(int(lines * h / total) - 2, 1) if len(shape) == 2 else 1 for h in heights]
    wide = [
        max(
            min(max(int(columns * w / max(sum(widths), 1)), min_width), max_width),
            *[len(names[i, j]) + 2 for i in range(len(heights))],
        )
        for j, w in enumerate(widths)
    ]
    print("\n".join(_drawing(names, high, wide)))


def _drawing(names: dict[tuple[int, int], str], high: list[int], wide: list[int]) -> list[str]:
    def rule(left: str, middle: str, right: str) -> str:
        return left + middle.join("─" * w for w in wide) + right

    out = [rule("┌", "┬", "┐")]
    for i, height in enumerate(high):
        for line in range(height):
            texts = [names[i, j] if line == (height - 1) // 2 else "" for j in range(len(wide))]
            cells = [text.center(w) for text, w in zip(texts, wide, strict=True)]
            out.append("│" + "│".join(cells) + "│")
        out.append(rule("├", "┼", "┤") if i + 1 < len(high) else rule("└", "┴", "┘"))
    return out


@api_boundary
def inspect_array_sharding(value: Any, *, callback: Callable[[Sharding], None]) -> None:
    """Call a function with the sharding of an array.

    Raises:
        NotImplementedError: the array is traced: how it is spread is decided when the program is
            compiled.
    """
    if isinstance(value, Tracer):
        raise NotImplementedError(
            "the sharding of a traced value is not known: it is decided when the program is "
            "compiled.\nInstead: return the array from the compiled function and look at it there."
        )
    callback(value.sharding)


@api_boundary
def visualize_array_sharding(arr: Any, **options: Any) -> None:
    """Print which part of an array lies on which devices; options as for `visualize_sharding`.

    Raises:
        NotImplementedError: the array is traced.

    Example:
        >>> import pullback.numpy as jnp
        >>> visualize_array_sharding(jnp.ones(3))
        ┌─────────┐
        │  CPU 0  │
        └─────────┘
    """
    inspect_array_sharding(arr, callback=lambda s: visualize_sharding(arr.shape, s, **options))
