"""Tab and `?`: options of magics, and shape, dtype and device of arrays."""

from __future__ import annotations

import re

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments

from pullback.ipython import completion


@magics_class
class Sample(Magics):
    @magic_arguments()
    @argument("expression", nargs="*")
    @argument("--wrt", help="names")
    @argument("--stage", choices=["jaxpr", "hlo"], help="form")
    @line_magic
    def sample(self, line):
        """A line magic."""

    @magic_arguments()
    @argument("--static", help="names")
    @cell_magic
    def sample_cell(self, line, cell):
        """A cell magic."""


@pytest.fixture(scope="module")
def shell():
    shell = InteractiveShell()
    shell.register_magics(Sample)
    completion.install(shell)
    completion.install(shell)
    yield shell
    completion.uninstall(shell)
    assert shell.Completer.custom_matchers == []
    chain = shell.strdispatchers["complete_command"].strs["from"].chain
    assert [hook.__name__ for _, hook in chain] == ["module_completer"]


def complete(shell, code):
    shell.Completer.use_jedi = False
    with provisionalcompleter():
        return [found.text for found in shell.Completer.completions(code, len(code))]


def test_installing_twice_adds_one_matcher(shell):
    assert len(shell.Completer.custom_matchers) == 1


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("%sample f(x) --w", ["--wrt"]),
        ("g = %sample f(x) --s", ["--stage"]),
        ("%sample --stage ", ["hlo", "jaxpr"]),
        ("%sample --stage h", ["hlo"]),
        ("%%sample_cell --st", ["--static"]),
    ],
)
def test_options_and_choices(shell, code, expected):
    assert complete(shell, code) == expected


@pytest.mark.parametrize("code", ["a % --w", "%unknown --w", "%sample fo", "x = 1\n--w", "%", "%%"])
def test_nothing_is_offered_elsewhere(shell, code):
    assert "--wrt" not in complete(shell, code)


def test_only_the_current_line_counts(shell):
    assert complete(shell, "%sample --stage\nh")[:1] != ["hlo"]


def test_names_of_arrays_say_their_type(kernel):
    kernel.run("import jax.numpy as jnp\nweights_matrix = jnp.ones((3, 2))\nweights_list = [1]")
    reply = kernel.ask("complete", "weights_", 8)
    types = {
        entry["text"]: entry["type"] for entry in reply["metadata"]["_jupyter_types_experimental"]
    }
    assert types["weights_matrix"] == "float32[3,2]"
    assert types["weights_list"] != "float32[3,2]"
    assert set(reply["matches"]) == {"weights_matrix", "weights_list"}


def test_inspection_says_shape_dtype_device_and_size(kernel):
    kernel.run("import jax.numpy as jnp\nw = jnp.ones((3, 2))")
    text = kernel.ask("inspect", "w", 1)["data"]["text/plain"]
    assert "float32[3,2] on cpu:0, 24 bytes" in text
    assert "String form" in text and "Length" in text


def test_inspection_of_other_objects_is_ipythons(kernel):
    text = kernel.ask("inspect", "zip", 3)["data"]["text/plain"]
    assert "Init signature" in text


def test_a_donated_array_can_be_inspected(kernel):
    kernel.run("import jax.numpy as jnp\ngone = jnp.ones(3)\ngone.delete()")
    text = kernel.ask("inspect", "gone", 4)["data"]["text/plain"]
    assert "deleted" in text


@pytest.mark.parametrize(
    ("statement", "offered", "hidden"),
    [
        ("import jax.", {"jax.numpy", "jax.lax"}, {"jax.xla", "jax.ipython", "jax.__main__"}),
        ("from jax import ", {"numpy", "grad"}, {"views", "magics", "xla"}),
        ("import jax.numpy.", {"jax.numpy.fft"}, {"jax.numpy.index_plan", "jax.numpy.sorting"}),
        ("from jax.numpy import s", {"sin", "sort"}, {"sorting", "sets", "selection"}),
        ("from jax.scipy import ", {"linalg", "stats"}, {"importlib"}),
        ("from jax.experimental import sh", {"shard_map"}, set()),
        ("import json.", {"json.decoder"}, set()),
    ],
)
def test_imports_complete_to_what_is_public(kernel, statement, offered, hidden):
    kernel.run("import jax.numpy, jax.scipy, json")
    found = set(kernel.ask("complete", statement, len(statement))["matches"])
    assert offered <= found and not hidden & found


def test_names_of_a_package_complete_without_its_files(kernel):
    kernel.run("import jax, jax.numpy as jnp")
    for code in ("jnp.", "jax.lax."):
        found = set(kernel.ask("complete", code, len(code))["matches"])
        assert "sin" in found and not {"annotations", "Any", "elementwise", "sorting"} & found


@pytest.mark.parametrize("decorator", ["jax.jit", "jax.custom_jvp", "jax.custom_vjp", "jax.vmap"])
def test_help_of_a_wrapped_function_is_the_function_s(kernel, decorator):
    code = f"import jax\n@{decorator}\ndef half(x, by=2):\n    '''Half of x.'''\n    return x / by"
    kernel.run(code)
    text = kernel.ask("inspect", "half", 4)["data"]["text/plain"]
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert re.search(r"Signature:\s+half\(x, by=2\)", text) and "Half of x." in text
    for other in ("Call signature", "String form", "Class docstring", "Init docstring"):
        assert other not in text
    text = kernel.ask("inspect", "half", 4, 1)["data"]["text/plain"]
    assert "return" in text
