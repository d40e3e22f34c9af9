"""Tracebacks: the user's frames shown, the engine's folded, all of them on request."""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell

from pullback.core import source
from pullback.ipython import tracebacks

FAILING = (
    "import jax, jax.numpy as jnp\n"
    "def inner(x):\n"
    "    return jnp.dot(x, jnp.ones(4))\n"
    "def outer(x):\n"
    "    return jax.grad(lambda y: inner(y).sum())(x)\n"
    "outer(jnp.ones(3))"
)


def test_user_frames_are_shown_and_engine_frames_folded(kernel):
    text = kernel.run(FAILING, check=False).traceback
    assert "----> 3     return jnp.dot(x, jnp.ones(4))" in text
    assert "in outer(x)" in text and "in inner(x)" in text
    assert "engine frame" in text and "show_engine_frames = True" in text
    assert "/pullback/" not in text


def test_the_switch_shows_all_frames(kernel):
    kernel.run("%config PullbackTracebacks.show_engine_frames = True")
    try:
        text = kernel.run(FAILING, check=False).traceback
    finally:
        kernel.run("%config PullbackTracebacks.show_engine_frames = False")
    assert "/pullback/" in text and "engine frame" not in text


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (
            "import jax, jax.numpy as jnp\n"
            "f = jax.jit(lambda x: x + 1, donate_argnums=0)\n"
            "x = jnp.arange(3.)\n"
            "f(x)\n"
            "f(x)",
            "'s result, or do not donate the array.",  # ours where the runtime's is not seen
        ),
        (
            "import jax\njax.jit(lambda n, x: x * len(n), static_argnums=0)([1, 2], 3.0)",
            "Instead: pass a tuple for a list",
        ),
    ],
)
def test_an_error_in_the_runtime_s_words_says_what_to_do(kernel, code, advice):
    assert advice in kernel.run(code, check=False).traceback


@pytest.mark.parametrize("mode", ["Plain", "Context", "Minimal", "Verbose"])
def test_every_traceback_mode_folds(kernel, mode):
    kernel.run(f"%xmode {mode}")
    try:
        text = kernel.run(FAILING, check=False).traceback
    finally:
        kernel.run("%xmode Context")
    assert "/pullback/" not in text
    assert text.strip()


def test_a_traceback_without_engine_frames_is_as_ipython_prints_it(kernel):
    text = kernel.run("def f():\n    return 1 / 0\nf()", check=False).traceback
    assert "engine frame" not in text
    assert "----> 2     return 1 / 0" in text


def test_a_chained_exception_keeps_both_parts(kernel):
    code = FAILING.replace("outer(jnp.ones(3))", "") + (
        "try:\n    outer(jnp.ones(3))\nexcept Exception as e:\n    raise KeyError('again') from e"
    )
    text = kernel.run(code, check=False).traceback
    assert "direct cause" in text and "KeyError" in text and "in inner(x)" in text
    assert "/pullback/" not in text


def test_a_fault_of_the_engine_shows_its_line(kernel):
    code = "import jax.numpy as jnp, pullback.core.pytree as tree\ntree.tree_map(1, [1])"
    text = kernel.run(code, check=False).traceback
    assert "----> 2 tree.tree_map(1, [1])" in text
    assert "/pullback/core/" in text and "not callable" in text


def frames_of(code, filename, **names):
    try:
        exec(compile(code, filename, "exec"), names)
    except ZeroDivisionError as error:
        return error.__traceback__
    raise AssertionError


def test_split_keeps_order_and_counts_runs():
    inner = "def call(f):\n    return f()\n"
    engine: dict = {}
    exec(compile(inner, source.__file__, "exec"), engine)
    tb = frames_of("def g():\n    return 1 / 0\ncall(g)\n", "user.py", call=engine["call"])
    kept, folded = tracebacks.split_frames(tb)
    names = [entry.tb_frame.f_code.co_filename for entry in kept]
    assert names[-2:] == ["user.py", "user.py"]
    assert [len(run) for run in folded.values()] == [1]


def test_install_and_uninstall_restore_the_shell():
    shell = InteractiveShell()
    stock, before = shell.InteractiveTB, list(shell.configurables)
    switch = tracebacks.install(shell)
    assert tracebacks.install(shell) is switch
    assert shell.configurables == [*before, switch]
    assert source.client_folds_frames == [True]
    tracebacks.uninstall(shell)
    tracebacks.uninstall(shell)
    assert shell.InteractiveTB is stock and shell.configurables == before
    assert source.client_folds_frames == [False]


@pytest.mark.parametrize("called", ["lost", "lambda: jax.jit(lambda x: lost())(1.0)"])
def test_a_frame_without_a_line_is_shown_all_the_same(kernel, called):
    code = (
        "import jax\n"
        "def lost():\n"
        "    raise KeyboardInterrupt\n"
        "no_lines = bytes([0xFF] * (len(lost.__code__.co_code) // 16 + 1))\n"
        "lost.__code__ = lost.__code__.replace(co_linetable=no_lines)\n"
        f"({called})()"
    )
    result = kernel.run(code, check=False)
    assert result.error_name == "KeyboardInterrupt"
    assert "Unexpected exception" not in result.stdout


def test_a_value_of_ours_in_the_real_jax_is_explained(kernel):
    code = (
        "import jax.numpy as jnp\n"
        "def refuse(x):\n"
        "    raise TypeError(f'Argument of type {type(x)} is not a valid JAX type.')\n"
        "refuse(jnp.ones(3))"
    )
    for mode in ("Context", "Plain"):
        text = kernel.run(f"%xmode {mode}\n{code}", check=False).traceback
        assert text.count("PullbackKernel.provide_jax = True") == 1
    kernel.run("%xmode Context")


@pytest.mark.parametrize("call", ["x + 1", "jnp.sin(x)", "jax.jit(lambda x: x * 2)(x)", "x[0]"])
def test_a_deleted_array_is_reported_once(kernel, call):
    code = f"import jax, jax.numpy as jnp\nx = jnp.ones(3)\nx.delete()\n{call}"
    text = kernel.run(code, check=False).traceback
    assert "Array has been deleted" in text
    assert "JaxRuntimeError" not in text and "During handling" not in text


def test_the_debugger_starts_at_the_user_s_frame(kernel):
    kernel.run(FAILING, check=False)
    result = kernel.run("%debug", answers=["p x.shape", "up", "p y.shape", "q"])
    assert "inner" in result.stdout.split("ipdb>")[0].splitlines()[0]
    assert result.stdout.count("(3,)") == 2 and "/pullback/" not in result.stdout
    kernel.run("%config PullbackTracebacks.show_engine_frames = True")
    result = kernel.run("%debug", answers=["q"])
    kernel.run("%config PullbackTracebacks.show_engine_frames = False")
    assert "/pullback/" in result.stdout


@pytest.mark.parametrize(
    "code",
    [
        "def deeper(x):\n    return deeper(x + 1)\ndeeper(1)",
        "def deeper(x):\n    return deeper(jnp.sin(x))\ndeeper(1.0)",
        "def deeper(x):\n    return deeper(x + 1)\njax.jit(deeper)(1.0)",
    ],
)
def test_a_recursion_without_end_is_told_in_a_few_frames(kernel, code):
    result = kernel.run(f"import jax, jax.numpy as jnp\n{code}", check=False)
    assert result.error_name == "RecursionError"
    assert "more frames of deeper, line 3]" in result.traceback
    assert result.traceback.count("----> ") <= 5 and "/pullback/" not in result.traceback
    short = "def down(n):\n    return 1 / n if n == 0 else down(n - 1)\ndown(2)"
    assert "more frames" not in kernel.run(short, check=False).traceback
