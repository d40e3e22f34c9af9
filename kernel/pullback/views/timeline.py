"""Where the time of a program goes: each stage of the first call, and calls from then on.

Every time is taken until the device is ready. Builds on api/; drawn by matplotlib without its
global state. Tested in tests/views/test_timeline.py.
"""

from __future__ import annotations

import base64
import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

from pullback.api.jit import jit
from pullback.core import pytree
from pullback.views.html import Bundle, details, esc, html_table
from pullback.views.text import seconds_text, table

_MIN_REPEATS = 5
_MAX_REPEATS = 200
_BUDGET = 0.4  # seconds for the repeats of one way of calling
_COLOURS = {
    "trace": "#56B4E9",
    "lower": "#0072B2",
    "compile": "#E69F00",
    "first run": "#009E73",
}


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. `stages` are those of the first jitted call, in order.

    Attributes:
        source: whether the executable was compiled or read from the disk cache.
        eager_first: the first call operation by operation.
        eager, jitted: calls after the first.
    """

    title: str
    stages: tuple[tuple[str, float], ...]
    source: str
    eager_first: float
    eager: tuple[float, ...]
    jitted: tuple[float, ...]
    device: str

    @property
    def first_call(self) -> float:
        """The whole first jitted call."""
        return sum(seconds for _, seconds in self.stages)

    @property
    def speedup(self) -> float:
        """How many times faster a jitted call is than an eager one."""
        return median(self.eager) / max(median(self.jitted), 1e-12)


def block(result: Any) -> Any:
    """Wait until every array of a result is there."""
    for leaf in pytree.tree_leaves(result):
        wait = getattr(leaf, "block_until_ready", None)
        if wait is not None:
            wait()
    return result


def _clock(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = block(call())
    return time.perf_counter() - start, result


def _repeat(call: Callable[[], Any], repeats: int | None) -> tuple[float, ...]:
    """The times of several calls: as many as asked for, or as the budget allows."""
    times: list[float] = []
    end = time.perf_counter() + _BUDGET
    while len(times) < (repeats or _MAX_REPEATS):
        times.append(_clock(call)[0])
        if repeats is None and len(times) >= _MIN_REPEATS and time.perf_counter() > end:
            break
    return tuple(times)


def measure(
    fun: Callable[..., Any], args: tuple[Any, ...], title: str, repeats: int | None = None
) -> Timing:
    """Time a function eagerly and jitted, stage by stage.

    Args:
        fun: a function of arrays and pytrees; of one that is jitted already, the function within.
        args: its arguments.
        title: what it is called in the report.
        repeats: calls to time each way; None takes 5 to 200 within 0.4 s.
    """
    plain = getattr(getattr(fun, "_jit", None), "fun", fun)
    eager_first, _ = _clock(lambda: plain(*args))
    eager = _repeat(lambda: plain(*args), repeats)

    def fresh(*inner: Any) -> Any:
        return plain(*inner)

    fresh.__name__ = getattr(plain, "__name__", "function")
    jitted = jit(fresh)
    trace_time, traced = _clock(lambda: jitted.trace(*args))
    lower_time, lowered = _clock(lambda: traced.lower())
    compile_time, compiled = _clock(lambda: lowered.compile())
    run_time, _ = _clock(lambda: compiled(*args))
    jitted(*args)  # lets the dispatcher take note of the signature
    stages = (
        ("trace", trace_time),
        ("lower", lower_time),
        ("compile", compile_time),
        ("first run", run_time),
    )
    executable = compiled.executable
    return Timing(
        title,
        stages,
        executable.source,
        eager_first,
        eager,
        _repeat(lambda: jitted(*args), repeats),
        str(executable.devices[0]),
    )


def spread_text(times: tuple[float, ...]) -> str:
    """`12 us (quartiles 11 us to 14 us, 200 calls)`."""
    if len(times) < 2:
        return f"{seconds_text(median(times))} (1 call)"
    low, _, high = quantiles(times, n=4)
    return (
        f"{seconds_text(median(times))} (quartiles {seconds_text(low)} to {seconds_text(high)}, "
        f"{len(times)} calls)"
    )


def _rows(timing: Timing) -> list[list[str]]:
    note = {"compile": f" ({'read from disk' if timing.source == 'disk' else timing.source})"}
    rows = [[f"jit: {name}", seconds_text(s) + note.get(name, "")] for name, s in timing.stages]
    rows += [
        ["jit: first call", seconds_text(timing.first_call)],
        ["jit: later calls", spread_text(timing.jitted)],
        ["eager: first call", seconds_text(timing.eager_first)],
        ["eager: later calls", spread_text(timing.eager)],
        ["eager / jit", f"{timing.speedup:.3g}"],
    ]
    return rows


def view_timing(timing: Timing, deterministic: bool = False) -> Bundle:
    """The times as text, table and picture.

    Args:
        timing: what was measured.
        deterministic: leave out times and device, which differ between runs.
    """
    if deterministic:
        names = ", ".join(name for name, _ in timing.stages)
        text = (
            f"{timing.title}: timed {names}, later calls, and eager calls, each until the device "
            "was ready (times are left out: deterministic mode)"
        )
        return Bundle(text, f"<p>{esc(text)}</p>", data=timing)
    rows = _rows(timing)
    head = f"{timing.title} on {timing.device}, each time until the device was ready"
    png = draw_timing(timing)
    alt = "; ".join(": ".join(row) for row in rows)
    image = (
        f'<img alt="{esc(alt)}" width="640" '
        f'src="data:image/png;base64,{base64.b64encode(png).decode()}">'
    )
    html = f"<p>{esc(head)}</p>{image}" + details("As a table", html_table(rows, ("what", "time")))
    return Bundle(f"{head}\n{table(rows)}", html, None, png, timing)


def draw_timing(timing: Timing) -> bytes:
    """The picture as PNG: the first call's stages, and later calls eager against jitted."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    picture = Figure(figsize=(8, 3.0), layout="constrained")
    FigureCanvasAgg(picture)
    first, later = picture.subplots(1, 2, width_ratios=(1.15, 1))
    left = 0.0
    for name, seconds in timing.stages:
        width = seconds * 1e3
        label = f"{name}: {seconds_text(seconds)}"
        first.barh(0, width, left=left, color=_COLOURS[name], edgecolor="white", label=label)
        left += width
    first.set_ylim(-0.5, 1.6)
    first.set_yticks([])
    first.set_xlabel("ms")
    first.set_title(f"first jitted call: {seconds_text(timing.first_call)}", fontsize=10)
    first.legend(loc="upper center", ncols=2, fontsize=8, frameon=False)
    samples = [[t * 1e6 for t in timing.jitted], [t * 1e6 for t in timing.eager]]
    wide = max(map(max, samples)) / max(min(map(min, samples)), 1e-9)
    later.boxplot(
        samples,
        orientation="horizontal",
        widths=0.5,
        whis=(5, 95),
        showfliers=False,
        medianprops={"color": "#D55E00", "linewidth": 2},
    )
    later.set_yticks([1, 2], ["jitted", "eager"])
    later.set_xscale("log")
    later.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if wide < 50 else (1.0,)))
    later.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    later.xaxis.set_minor_formatter(NullFormatter())
    later.set_xlabel("us (box: quartiles, whiskers: 5 % and 95 %)")
    later.set_title(f"later calls: eager / jitted = {timing.speedup:.3g}", fontsize=10)
    for axes in (first, later):
        axes.spines[["top", "right"]].set_visible(False)
    out = io.BytesIO()
    picture.savefig(out, format="png", dpi=110, metadata={"Software": None})
    return out.getvalue()
