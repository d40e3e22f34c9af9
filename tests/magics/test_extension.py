"""Loading, unloading, help, completion, and the function twins."""

import numpy as np
import pytest
from IPython.core.completer import provisionalcompleter

import pullback.magics
import pullback_magics
from pullback.views.html import Bundle
from pullback_magics import functions


def test_loading_twice_changes_nothing(session):
    before = dict(session.shell.magics_manager.magics["line"])
    callbacks = list(session.shell.events.callbacks["post_run_cell"])
    pullback_magics.load_ipython_extension(session.shell)
    assert session.shell.magics_manager.magics["line"] == before
    assert session.shell.events.callbacks["post_run_cell"] == callbacks


def test_unloading_takes_everything_out(session):
    pullback_magics.unload_ipython_extension(session.shell)
    pullback_magics.unload_ipython_extension(session.shell)
    for name in ("grad", "graph", "timing", "devices"):
        assert session.shell.find_line_magic(name) is None
    assert session.shell.find_cell_magic("jit") is None
    pullback_magics.load_ipython_extension(session.shell)
    assert session.shell.find_cell_magic("jit") is not None


@pytest.mark.parametrize("name", pullback_magics.MAGIC_NAMES)
def test_every_magic_has_help_with_an_example(session, name):
    bare = name.lstrip("%")
    find = session.shell.find_cell_magic if name[1] == "%" else session.shell.find_line_magic
    text = find(bare).__doc__
    assert "Example" in text and name in text
    assert "pullback.magics." in text
    usage = text.split("::\n\n")[1].split("\n\n")[0]
    assert usage.split()[0] == name


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("%grad f(x) --w", {"--wrt"}),
        ("%graph f(x) --stage ", {"jaxpr", "linear", "stablehlo", "hlo"}),
        ("%%jit --d", {"--donate", "--device"}),
        ("%timing f(x) --", {"--repeats"}),
        ("%grad f(x) --wrt weig", {"weights"}),
        ("%grad f(x) --wrt weights,bi", {"bias"}),
        ("%%grad --wrt bi", {"bias"}),
        ("%%jit --static ", {"bias", "weights"}),
        ("%%jit --device ", {"cpu:0"}),
        ("%%jit --device cpu:", {"0"}),
        ("%grad weig", {"weights"}),
        ("%graph loss(weig", {"weights"}),
    ],
)
def test_options_and_names_complete_with_tab(session, code, expected):
    session.ok("weights = w; bias = 1.0")
    session.shell.Completer.use_jedi = False
    with provisionalcompleter():
        found = {c.text for c in session.shell.Completer.completions(code, len(code))}
    assert expected <= found


def test_every_magic_has_a_function_twin():
    twins = {"%%jit": "jit_cell", "%grad": "grad", "%%grad": "grad_cell", "%graph": "graph"}
    for name in pullback_magics.MAGIC_NAMES:
        assert twins.get(name, name.lstrip("%")) in pullback.magics.__all__
    assert set(pullback.magics.__all__) == set(functions.__all__)


def square_sum(x):
    return (x * x).sum()


def test_grad_twin(session):
    x = session.names["x"]
    np.testing.assert_allclose(functions.grad(square_sum, x), [2, 4, 6])
    value, gradient = functions.grad(square_sum, x, value=True)
    np.testing.assert_allclose(value, 14)
    np.testing.assert_allclose(functions.grad(lambda a, b: (a * b).sum(), x, x, wrt=(0, 1)), [x, x])


def test_grad_cell_twin(session):
    names = {"x": session.names["x"]}
    gradient = functions.grad_cell("y = x * x\ny.sum()", names, wrt="x")
    np.testing.assert_allclose(gradient, [2, 4, 6])
    np.testing.assert_allclose(names["y"], [1, 4, 9])


def test_jit_cell_twin(session):
    names = {"x": session.names["x"]}
    last, run = functions.jit_cell("y = x * 2\ny.sum()", names)
    np.testing.assert_allclose(last, 12)
    np.testing.assert_allclose(names["y"], [2, 4, 6])
    assert not run.hit


def test_graph_timing_and_devices_twins(session):
    x = session.names["x"]
    assert "reduce_sum" in functions.graph(square_sum, x, grad=True).text
    assert isinstance(functions.timing(square_sum, x, repeats=2), Bundle)
    assert "cpu:0" in functions.devices().text
