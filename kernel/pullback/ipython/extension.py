"""What a shell gets from Pullback besides the magics: tracebacks, array display, completion.

The kernel's own shell and `%load_ext pullback` in a stock IPython both call `load`. Builds on the
files beside it; tested in tests/kernel/test_extension.py.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from pullback.ipython import array_display, completion, tracebacks
from pullback.views.deterministic import is_deterministic
from pullback.xla.array import Array


def array_html(array: Array) -> str | None:
    """The HTML form of an array as a cell's result; None where its text says it as well."""
    if type(array) is not Array or array.is_deleted():
        return None
    summary = array_display.describe(array, with_device=not is_deterministic())
    return None if summary is None else array_display.to_html(summary)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext pullback`: magics, array display, completion and tracebacks, in any IPython."""
    load(shell)
    _magics().load_ipython_extension(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext pullback`: the shell as it was."""
    _magics().unload_ipython_extension(shell)
    unload(shell)


def _magics() -> ModuleType:
    """The package of magics: it stands above this one, so it is named here and not imported."""
    return importlib.import_module("pullback_magics")


def load(shell: Any) -> None:
    """Set a shell up; doing it twice changes nothing."""
    tracebacks.install(shell)
    completion.install(shell)
    shell.display_formatter.formatters["text/html"].for_type(Array, array_html)


def unload(shell: Any) -> None:
    """Give a shell its own behaviour back."""
    tracebacks.uninstall(shell)
    completion.uninstall(shell)
    shell.display_formatter.formatters["text/html"].pop(Array, None)
