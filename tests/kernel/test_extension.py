"""`%load_ext pullback`: the same in a stock IPython, silent in our own kernel, undone on request."""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell

from pullback.ipython import extension
from pullback.ipython.tracebacks import FoldingTB
from pullback.xla.array import Array


@pytest.fixture
def shell():
    return InteractiveShell()


def test_loading_twice_and_unloading_leaves_the_shell_as_it_was(shell):
    formatters = shell.display_formatter.formatters["text/html"]
    magics_before = {kind: set(found) for kind, found in shell.magics_manager.magics.items()}
    stock = shell.InteractiveTB
    for _ in range(2):
        extension.load_ipython_extension(shell)
        assert isinstance(shell.InteractiveTB, FoldingTB)
        assert Array in formatters.type_printers
        assert len(shell.Completer.custom_matchers) == 1
    assert {"grad", "graph", "timing", "devices"} <= set(shell.magics_manager.magics["line"])
    assert {"jit", "grad"} <= set(shell.magics_manager.magics["cell"])
    for _ in range(2):
        extension.unload_ipython_extension(shell)
        assert shell.InteractiveTB is stock
        assert Array not in formatters.type_printers
        assert shell.Completer.custom_matchers == []
    now = {kind: set(found) for kind, found in shell.magics_manager.magics.items()}
    assert now == magics_before


@pytest.mark.parametrize("value", ["", "0"])
def test_outputs_are_deterministic_only_when_asked(monkeypatch, value):
    monkeypatch.setenv("PULLBACK_DETERMINISTIC", value)
    assert not extension.is_deterministic()
    monkeypatch.setenv("PULLBACK_DETERMINISTIC", "1")
    assert extension.is_deterministic()


def test_loading_it_in_our_kernel_is_silent_each_time(kernel):
    for name in ("pullback", "pullback", "pullback_magics"):
        result = kernel.run(f"%load_ext {name}")
        assert (result.stdout, result.stderr, result.displays) == ("", "", [])


def test_a_stock_kernel_gets_magics_display_and_tracebacks(start_kernel):
    kernel = start_kernel("python3")
    assert kernel.run("%load_ext pullback").stdout == ""
    kernel.run("import pullback, pullback.numpy as jnp")
    assert "float32[3]" in kernel.run("jnp.arange(3.0)").displays[-1]["text/html"]
    assert "engine frame" in kernel.run("jnp.dot(jnp.ones(3), jnp.ones(4))", check=False).traceback
    assert kernel.run("print(pullback.device_count())").stdout == "1\n"
    kernel.run("def square(x):\n    return x ** 2")
    shown = kernel.run("g = %grad square(3.0)")
    assert shown.stderr == ""
    assert kernel.run("print(float(g))").stdout == "6.0\n"
    kernel.close()
