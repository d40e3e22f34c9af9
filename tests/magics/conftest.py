"""A stock IPython shell with the extension loaded, and what a cell gives."""

import re
from dataclasses import dataclass
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from pullback.ipython import extension

SETUP = """
import numpy as np
import pullback as jax
import pullback.numpy as jnp
x = jnp.array([1.0, 2.0, 3.0])
w = jnp.array([0.1, 0.2, 0.3])
def loss(w, x):
    h = jnp.tanh(w * x)
    return (h * h).sum()
"""


@dataclass(frozen=True)
class Ran:
    """What one cell did."""

    out: str
    err: str
    shown: list[dict[str, Any]]
    value: Any
    error: BaseException | None

    @property
    def traceback(self) -> str:
        """The printed error without colours."""
        return re.sub(r"\x1b\[[0-9;]*m", "", self.out)


class Session:
    """Runs cells one after the other."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell

    @property
    def names(self) -> dict[str, Any]:
        return self.shell.user_ns

    def run(self, code: str) -> Ran:
        """One cell, whatever it does; nothing may come on stderr."""
        with capture_output() as captured:
            result = self.shell.run_cell(code, store_history=True)
        shown = [output.data for output in captured.outputs]
        error = result.error_before_exec or result.error_in_exec
        assert captured.stderr == ""
        return Ran(captured.stdout, captured.stderr, shown, result.result, error)

    def ok(self, code: str) -> Ran:
        """One cell that must succeed."""
        ran = self.run(code)
        assert ran.error is None, ran.traceback
        return ran


@pytest.fixture
def session(tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.delenv("PULLBACK_DETERMINISTIC", raising=False)
    InteractiveShell.clear_instance()
    config = Config()
    config.HistoryManager.hist_file = ":memory:"
    config.InteractiveShell.colors = "nocolor"
    shell = InteractiveShell.instance(config=config)
    extension.load_ipython_extension(shell)
    found = Session(shell)
    found.ok(SETUP)
    yield found
    extension.unload_ipython_extension(shell)
    shell.history_manager.end_session()
    InteractiveShell.clear_instance()
