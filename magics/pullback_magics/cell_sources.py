"""The text of the cell that runs, and how lines of a magic are found by tracebacks and inspect.

Builds on the shell and linecache. Tested in tests/magics/test_cells.py.
"""

from __future__ import annotations

import hashlib
import linecache
import sys
from types import FrameType
from typing import Any


def calling_cell(shell: Any) -> tuple[str, int, int]:
    """File name, number and line of the cell that is running the magic."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        words = shell.compile.format_code_name(filename)
        if words is not None:
            digits = "".join(c for c in words[1] if c.isdigit())
            return filename, int(digits or 0), frame.f_lineno
        frame = frame.f_back
    return "", shell.execution_count, 1


def register_source(shell: Any, source: str) -> str:
    """Make a cell's text known under a file name, as the user sees it; gives the name.

    Tracebacks, `inspect.getsource` and the debugger then find the cell's own lines, the magic's
    line being the first.
    """
    if shell is None:
        digest = hashlib.sha256(source.encode("utf-8", "backslashreplace")).hexdigest()[:12]
        name = f"<pullback cell {digest}>"
        lines = source.splitlines(keepends=True)
        linecache.cache[name] = (len(source), None, lines, name)
        return name
    caller, number, _ = calling_cell(shell)
    name = shell.compile.cache(source, number, raw_code=source)
    if caller in linecache.cache:
        # The frame that calls the magic shows the cell too, not the call that it was turned into.
        linecache.cache[caller] = linecache.cache[name]
    return name


def register_line(shell: Any, text: str) -> tuple[str, int]:
    """Make the line of a line magic known; gives its file name and its number in the cell."""
    caller, number, line = calling_cell(shell)
    lines = list(linecache.getlines(caller)) or ["\n"] * line
    lines[line - 1 : line] = [text + "\n"]
    return shell.compile.cache("".join(lines), number), line


def raw_cell(shell: Any, name: str, line: str, body: str) -> str:
    """The whole cell as typed: from the history if it is there, else put together again."""
    history = getattr(getattr(shell, "history_manager", None), "input_hist_raw", None) or [""]
    typed = history[-1]
    if typed.rstrip("\n").endswith(body.rstrip("\n")) and name in typed:
        return typed
    return f"{name} {line}".rstrip() + f"\n{body}"
