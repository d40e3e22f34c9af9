"""Reads docs/errors.md: examples that fail, the message they print, and what works instead.

An entry is a heading, text, a `python` block that fails on its last statement, a `text` block with
what it prints, and a `python` block that works. Setting PULLBACK_WRITE_DOCS=1 lets the test write the
`text` blocks from what the examples really print.
"""

from __future__ import annotations

import linecache
import re
import traceback
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRELUDE = """
import numpy as np
import pullback as jax
import pullback.numpy as jnp
from pullback import lax, random
"""


@dataclass(frozen=True, slots=True)
class Example:
    """One entry: its heading, the failing code, what that prints, and the working code."""

    title: str
    failing: str
    printed: str
    working: str


def entries(page: str) -> list[str]:
    """The page cut before each `###` heading; the first piece is what stands before them."""
    return re.split(r"^(?=### )", page, flags=re.MULTILINE)


def read(entry: str) -> Example:
    """The example of one entry."""
    title = entry.splitlines()[0].removeprefix("### ")
    blocks = _BLOCK.findall(entry)
    kinds = [kind for kind, _ in blocks]
    if kinds != ["python", "text", "python"]:
        raise ValueError(f"{title}: expected python, text and python blocks, found {kinds}")
    (_, failing), (_, printed), (_, working) = blocks
    return Example(title, failing, printed, working)


def run_cell(code: str, number: int = 1) -> str:
    """Run code as a notebook cell; what its error prints below the traceback, or nothing."""
    from pullback.core import source

    filename = f"<cell-{number}>"
    source.register_cell(filename, f"Cell In[{number}]")
    linecache.cache[filename] = (len(code), None, code.splitlines(True), filename)
    names: dict[str, object] = {"__name__": "__main__"}
    exec(compile(PRELUDE, "<prelude>", "exec"), names)
    try:
        exec(compile(code, filename, "exec"), names)
    except Exception as error:
        lines = traceback.format_exception_only(error)
        return re.sub(r"^[\w.]+\.(\w+:)", r"\1", "".join(lines))
    finally:
        linecache.cache.pop(filename, None)
    return ""


def with_printed(entry: str, printed: str) -> str:
    """The entry with its `text` block replaced."""
    return re.sub(
        r"^```text\n.*?^```$",
        lambda _: f"```text\n{printed}```",
        entry,
        count=1,
        flags=re.MULTILINE | re.DOTALL,
    )
