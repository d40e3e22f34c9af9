"""How magics speak: one line of text, or a bundle; deterministic where that is asked for.

Builds on views/. Tested with the magics.
"""

from __future__ import annotations

from typing import Any

from IPython.display import display

from pullback.views.deterministic import is_deterministic
from pullback.views.text import seconds_text


def say(text: str) -> None:
    """A line on standard output."""
    print(text, flush=True)


def show(bundle: Any) -> None:
    """Display a bundle below the cell."""
    display(bundle)


def stage_times(seconds: dict[str, float], source: str = "") -> str:
    """`trace 1.2 ms, lower 0.8 ms, compile 25 ms (read from disk), run 40 us`."""
    notes = {"disk": " (read from disk)"} if "compile" in seconds else {}
    parts = []
    for name, value in seconds.items():
        note = notes.get(source, "") if name == "compile" else ""
        parts.append(f"{name} {seconds_text(value)}{note}")
    return ", ".join(parts)


__all__ = ["is_deterministic", "say", "show", "stage_times"]
