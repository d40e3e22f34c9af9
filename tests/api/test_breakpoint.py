"""debug.breakpoint: frames with the values of the run, commands, compositions, refusals."""

from __future__ import annotations

import bdb
import io

import numpy as np
import pytest

import pullback as pb
from pullback import lax
from pullback import numpy as jnp

PROMPT = "(jdb" + ") "  # not as it stands in listings of this file


class Again(io.StringIO):
    """Commands that each stop reads from the start."""

    def readline(self, *args):
        line = super().readline(*args)
        if line == "c\n":
            self.seek(0)
        return line


def stop(commands, **options):
    pb.debug.breakpoint(stdin=io.StringIO(commands), **options)


def answers(capsys):
    """What each command printed."""
    parts = capsys.readouterr().out.split(PROMPT)
    return [p.rstrip("\n") for p in parts[1:]]


def test_variables_have_the_values_of_the_run(capsys):
    def inner(z):
        w = z + 1
        pb.debug.breakpoint(stdin=io.StringIO("p w\nz * 2\nup\np d\nscale\nc\n"))
        return w

    @pb.jit
    def outer(x):
        scale = 2.0
        d = {"a": x * 3, "n": [1, "s"]}
        return inner(d["a"]) * scale

    assert float(outer(1.0)) == 8.0
    said = answers(capsys)
    assert said[0] == "Array(4., dtype=float32)"
    assert said[1].startswith("Array(6., dtype=float32")
    assert "in outer" in said[2]
    assert said[3] == "{'a': Array(3., dtype=float32), 'n': [1, 's']}"
    assert said[4] == "2.0"


def test_commands(capsys):
    def f(x):
        y = x + 1
        stop("a\nl\nw\ndown\nz = y * 10\nz\npp z\nnone\nhelp p\n\nbt\nc\n", num_frames=2)
        return y

    pb.jit(lambda x: f(x))(1.0)
    said = answers(capsys)
    assert said[0].startswith("commands = ")
    assert "->" in said[1]
    assert said[2].splitlines()[-1].startswith("> ")
    assert said[2].splitlines()[-1].endswith("in stop")
    assert said[3] == "*** Newest frame"
    assert said[4].startswith("*** NameError")  # y is one frame up
    assert said[7].startswith("*** NameError: name 'none'")
    assert said[8] == "p expression: its value, in the current frame."
    assert said[9] == ""
    assert len(said[10].splitlines()) == 2


def test_statements_make_variables(capsys):
    def f(x):
        pb.debug.breakpoint(stdin=io.StringIO("y = x + 1\ny\nx = 5\nx\njnp.sin(0)\nc\n"))
        return x

    assert float(pb.jit(f)(1.0)) == 1.0
    said = answers(capsys)
    assert said[1].startswith("Array(2.")
    assert said[3] == "5"
    assert said[4].startswith("Array(0.")


def test_num_frames_and_filter_frames(capsys):
    f = lambda **options: pb.jit(lambda x: stop("w\nup\nup\nc\n", **options))(1.0)
    f(num_frames=1)
    said = answers(capsys)
    assert said[0].splitlines() == [said[0]]
    assert said[1] == "*** Oldest frame"
    f(filter_frames=False)
    assert "program.py" in answers(capsys)[0]
    f()
    assert "program.py" not in answers(capsys)[0]


@pytest.mark.parametrize(
    ("call", "values"),
    [
        (lambda f: f(jnp.float32(3)), [3]),
        (lambda f: pb.vmap(f)(jnp.array([1.0, 2.0])), [1, 2]),
        (lambda f: pb.jit(pb.vmap(f))(jnp.array([1.0, 2.0])), [1, 2]),
        (lambda f: pb.grad(lambda x: f(x) * x)(3.0), [3]),
        (lambda f: pb.jit(pb.grad(lambda x: f(x) * x))(3.0), [3]),
        (lambda f: pb.jvp(f, (3.0,), (1.0,)), [3]),
        (lambda f: lax.scan(lambda c, x: (c, f(x)), 0, jnp.array([1.0, 2.0])), [1, 2]),
        (lambda f: lax.fori_loop(0, 2, lambda i, x: f(x) + 1, 1.0), [1, 2]),
        (lambda f: lax.cond(True, f, lambda x: x, 4.0), [4]),
        (lambda f: pb.jit(pb.checkpoint(f))(5.0), [5]),
    ],
)
def test_in_compositions(call, values, capsys):
    def f(x):
        pb.debug.breakpoint(num_frames=1, ordered=True, stdin=Again("p float(x)\nc\n"))
        return x

    call(f)
    said = [s for s in answers(capsys) if s and not s.startswith("Stopped")]
    assert [float(s) for s in said] == values


def test_token(capsys):
    @pb.jit
    def f(x):
        y = x * 2
        y = pb.debug.breakpoint(token=y, num_frames=1, stdin=Again("p x\nc\n"))
        return y + 1

    assert float(f(1.0)) == 3.0
    assert answers(capsys)[0].startswith("Array(1.")
    np.testing.assert_allclose(pb.grad(lambda x: lax.stop_gradient(f(x)) * x)(1.0), 3.0)


def test_the_output_may_go_elsewhere():
    out = io.StringIO()
    pb.jit(lambda x: stop("p 1 + 1\nc\n", stdout=out))(1.0)
    assert "(jdb) 2\n" in out.getvalue()


def test_ends_and_refusals(monkeypatch):
    with pytest.raises(bdb.BdbQuit):
        pb.jit(lambda x: stop("q\n"))(1.0)
    with pytest.raises(bdb.BdbQuit):
        stop("")
    with pytest.raises(ValueError, match="mutually exclusive"):
        pb.debug.breakpoint(token=1.0, ordered=True)
    with pytest.raises(ValueError, match="no debugger is called 'web'"):
        pb.debug.breakpoint(backend="web")
    for error in (EOFError, OSError, NotImplementedError):

        def closed(prompt, error=error):
            raise error("closed")

        monkeypatch.setattr("builtins.input", closed)
        with pytest.raises(RuntimeError, match=r"no command can be read here .*\nInstead:"):
            pb.jit(lambda x: pb.debug.breakpoint(num_frames=0))(1.0)
