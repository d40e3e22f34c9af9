"""How an array looks as a cell's result: a table of values, or a heat map with its range.

model (`describe`) -> HTML (`to_html`); the text form stays the array's repr. Builds on NumPy alone;
tested in tests/kernel/test_array_display.py.
"""

from __future__ import annotations

import base64
import html
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

MAX_TABLE_ROWS = 12
MAX_TABLE_COLUMNS = 12
MAX_MAP_CELLS = 48  # along each axis; more are averaged into blocks
MAX_BYTES = 64 * 2**20  # larger arrays are described without reading them back

# Anchors of a light-to-dark ramp that stays ordered in grey and for colour-blind readers.
_RAMP = np.array(
    [[253, 246, 205], [247, 208, 125], [226, 149, 85], [172, 92, 96], [104, 53, 107], [40, 26, 82]],
    dtype=np.float64,
)
_MISSING = "#9aa0a6"
# Where black and white text have the same contrast: (1.05 / (L + 0.05)) = ((L + 0.05) / 0.05).
_EQUAL_CONTRAST = 0.1791


@dataclass(frozen=True, slots=True)
class ArraySummary:
    """What is shown of one array."""

    dtype: str
    shape: tuple[int, ...]
    device: str
    values: np.ndarray | None
    low: float | None
    high: float | None
    n_not_finite: int

    @property
    def title(self) -> str:
        """`float32[3,4]`, as jaxprs write it."""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    @property
    def range_text(self) -> str:
        """`values from -1 to 2.5; 3 not finite`, or an empty text."""
        parts = []
        if self.low is not None and self.high is not None:
            what = "magnitudes" if self.dtype.startswith("complex") else "values"
            parts.append(f"{what} from {format_number(self.low)} to {format_number(self.high)}")
        if self.n_not_finite:
            parts.append(f"{self.n_not_finite} not finite")
        return "; ".join(parts)


def format_number(value: Any) -> str:
    """A number in at most five significant digits, the same on every machine."""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (complex, np.complexfloating)):
        return f"{complex(value):.4g}"
    return f"{float(value):.5g}"


def device_text(array: Any) -> str:
    """The device's name, or how many devices hold the array."""
    devices = sorted(array.devices(), key=lambda device: device.id)
    if len(devices) > 1:
        return f"{len(devices)} devices"
    return f"{devices[0].platform}:{devices[0].id}"


def describe(array: Any, *, with_device: bool = True) -> ArraySummary | None:
    """What to show of an array.

    Args:
        array: an engine array of any shape and dtype.
        with_device: name the device (left out of reproducible outputs).
    Returns:
        the summary; None for arrays that text shows as well: not of rank 1 or 2, empty, keys.
    """
    shape = tuple(array.shape)
    if len(shape) not in (1, 2) or 0 in shape:
        return None
    device = device_text(array) if with_device else ""
    if array.size * array.dtype.itemsize > MAX_BYTES:
        return ArraySummary(str(array.dtype), shape, device, None, None, None, 0)
    values = np.asarray(array)
    measured = _as_float64(values)
    if measured is None:
        return None
    finite = measured[np.isfinite(measured)]
    exact = values.dtype.kind in "iub"
    low = (values.min() if exact else finite.min()) if finite.size else None
    high = (values.max() if exact else finite.max()) if finite.size else None
    n_bad = int(measured.size - finite.size)
    return ArraySummary(str(array.dtype), shape, device, values, low, high, n_bad)


def _as_float64(values: np.ndarray) -> np.ndarray | None:
    """What the colours measure: the value, the magnitude of a complex one; None if not a number."""
    if values.dtype.kind == "c":
        return np.abs(values).astype(np.float64)
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        return None


def _luminance(rgb: np.ndarray) -> float:
    """Relative luminance of an sRGB colour (0 to 255). Source: WCAG 2.2, "relative luminance"."""
    part = rgb / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def colour(fraction: float) -> tuple[str, str]:
    """The background for a place in the range, and the text colour readable on it.

    Args:
        fraction: 0 at the lowest value, 1 at the highest.
    Returns:
        two CSS colours.
    """
    place = min(max(fraction, 0.0), 1.0) * (len(_RAMP) - 1)
    i = min(int(place), len(_RAMP) - 2)
    rgb = np.floor(_RAMP[i] + (place - i) * (_RAMP[i + 1] - _RAMP[i]) + 0.5)
    text = "#ffffff" if _luminance(rgb) < _EQUAL_CONTRAST else "#000000"
    return "#" + "".join(f"{int(v):02x}" for v in rgb), text


def _fractions(measured: np.ndarray) -> np.ndarray:
    """Each value's place between the lowest and the highest finite one; NaN where not finite."""
    finite = np.where(np.isfinite(measured), measured, np.nan)
    if np.isnan(finite).all():
        return finite
    low, high = np.nanmin(finite), np.nanmax(finite)
    if high == low:
        return np.where(np.isnan(finite), np.nan, 0.5)
    scale = max(abs(low), abs(high))
    return (finite / scale - low / scale) / (high / scale - low / scale)


def to_html(summary: ArraySummary, *, name: str = "array") -> str:
    """The HTML form: a caption with type, device and range, then a table or a heat map.

    Args:
        summary: from `describe`.
        name: what the alternative text calls it.
    Returns:
        one self-contained element, without scripts or ids.
    """
    facts = [summary.title, summary.device, summary.range_text]
    caption = " · ".join(html.escape(fact) for fact in facts if fact)
    if summary.values is None:
        return f"<div>{_as_code(caption)} · too large to draw</div>"
    grid = summary.values.reshape(1, -1) if summary.values.ndim == 1 else summary.values
    if grid.shape[0] <= MAX_TABLE_ROWS and grid.shape[1] <= MAX_TABLE_COLUMNS:
        return _table(grid, caption, ranked=summary.values.ndim == 2)
    label = html.escape(f"Heat map of {name}: {', '.join(f for f in facts if f)}", quote=True)
    return _heat_map(grid, caption, label)


def _as_code(caption: str) -> str:
    """The caption on one line, however narrow the table beneath; notebooks colour bare `<code>`."""
    return f'<code style="white-space:nowrap;background:none;padding:0">{caption}</code>'


def _cell_style(fraction: float) -> str:
    if np.isnan(fraction):
        return f"background:{_MISSING};color:#000000"
    background, text = colour(fraction)
    return f"background:{background};color:{text}"


def _table(grid: np.ndarray, caption: str, *, ranked: bool) -> str:
    measured = _as_float64(grid)
    assert measured is not None
    fractions = _fractions(measured)
    head = "".join(f'<th scope="col">{j}</th>' for j in range(grid.shape[1]))
    rows = []
    for i, row in enumerate(grid):
        cells = "".join(
            f'<td style="{_cell_style(fractions[i, j])};text-align:right;padding:2px 8px">'
            f"{html.escape(format_number(value))}</td>"
            for j, value in enumerate(row.tolist() if row.dtype.kind in "iub" else row)
        )
        label = f'<th scope="row">{i}</th>' if ranked else ""
        rows.append(f"<tr>{label}{cells}</tr>")
    corner = "<td></td>" if ranked else ""
    return (
        '<table><caption style="text-align:left;white-space:nowrap;color:inherit">'
        f"{_as_code(caption)}</caption>"
        f"<thead><tr>{corner}{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _block_means(fractions: np.ndarray) -> np.ndarray:
    """Means over at most MAX_MAP_CELLS blocks along each axis; NaN where a block holds one."""
    for axis in (0, 1):
        n = fractions.shape[axis]
        if n > MAX_MAP_CELLS:
            starts = np.linspace(0, n, MAX_MAP_CELLS, endpoint=False).astype(int)
            counts = np.diff([*starts, n]).reshape((-1, 1) if axis == 0 else (1, -1))
            fractions = np.add.reduceat(fractions, starts, axis=axis) / counts
    return fractions


def _heat_map(grid: np.ndarray, caption: str, label: str) -> str:
    measured = _as_float64(grid)
    assert measured is not None
    fractions = _block_means(_fractions(measured))
    n_rows, n_columns = fractions.shape
    side = 8 if n_rows > 1 else 16
    averaged = fractions.shape != grid.shape
    note = f" · drawn as {n_rows} × {n_columns} block means" if averaged else ""
    scale = _image(np.linspace(0, 1, 16)[np.newaxis], 6, 10, "light is low, dark is high")
    return (
        f"<div><div>{_as_code(caption)}{note} · "
        f'<span style="white-space:nowrap">low {scale} high</span></div>'
        f"{_image(fractions, side, side, label)}</div>"
    )


# --------------------------------------------------------------------------- pictures of cells

_N_LEVELS = 64  # colours of the ramp in a picture; one more stands for values that are not finite


def _image(fractions: np.ndarray, width: int, height: int, label: str) -> str:
    """An `<img>` with one block of `width` by `height` pixels a cell; `label` is escaped already."""
    n_rows, n_columns = fractions.shape
    missing = np.isnan(fractions)
    levels = np.clip(np.nan_to_num(fractions), 0, 1) * (_N_LEVELS - 1)
    picture = np.where(missing, _N_LEVELS, np.floor(levels + 0.5)).astype(np.uint8)
    data = base64.b64encode(_png(picture)).decode("ascii")
    return (
        f'<img alt="{label}" width="{n_columns * width}" height="{n_rows * height}" '
        f'style="image-rendering:pixelated" src="data:image/png;base64,{data}">'
    )


def _png(picture: np.ndarray) -> bytes:
    """A picture of palette indices as a PNG, stored without compression: the same bytes everywhere.

    Source: Portable Network Graphics (W3C, third edition), 11.2; RFC 1950; RFC 1951, 3.2.4.
    """
    n_rows, n_columns = picture.shape
    lines = np.insert(picture, 0, 0, axis=1).tobytes()  # each line begins with its filter, 0
    stored = b"\x01" + struct.pack("<HH", len(lines), len(lines) ^ 0xFFFF) + lines
    stream = b"\x78\x01" + stored + struct.pack(">I", zlib.adler32(lines))
    colours = [colour(i / (_N_LEVELS - 1))[0] for i in range(_N_LEVELS)] + [_MISSING]
    header = struct.pack(">IIBBBBB", n_columns, n_rows, 8, 3, 0, 0, 0)
    palette = b"".join(bytes.fromhex(c[1:]) for c in colours)
    chunks = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", stream), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_png_chunk(*chunk) for chunk in chunks)


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    checked = kind + data
    return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))
