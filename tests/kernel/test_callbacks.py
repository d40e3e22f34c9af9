"""Output of callbacks lands in the cell that ran the program; debug.breakpoint asks under the cell."""

from __future__ import annotations

STOP = (
    "import jax, jax.numpy as jnp\n"
    "@jax.jit\n"
    "def f(x):\n"
    "    y = jnp.sin(x) + 1\n"
    "    jax.debug.breakpoint(num_frames=1)\n"
    "    return 2 * y\n"
    "print(f(0.0))\n"
)


def test_a_breakpoint_asks_under_the_cell(kernel):
    result = kernel.run(STOP, answers=["p y", "jnp.cos(x)", "c"])
    assert result.prompts == ["(jdb) "] * 3
    assert "line 5, in f" in result.stdout
    assert "->     jax.debug.breakpoint" in result.stdout
    assert "Array(1., dtype=float32)" in result.stdout
    assert result.stdout.endswith("2.0\n")


def test_a_breakpoint_ends_the_cell(kernel):
    result = kernel.run(STOP, answers=["q"], check=False)
    assert result.status == "error"
    assert "2.0" not in result.stdout
    assert kernel.run("print(1)").stdout == "1\n"


def test_a_breakpoint_without_anybody_to_ask(kernel):
    result = kernel.run(STOP, check=False)
    assert result.error_name == "RuntimeError"
    assert "no command can be read here" in result.error_value
    assert "debug.print" in result.error_value


def test_prints_land_in_their_cell(kernel):
    kernel.run(
        "import jax, jax.numpy as jnp, threading\n"
        "f = jax.jit(lambda i: jax.debug.print('from {}', i))\n"
        "g = jax.pmap(lambda i: jax.debug.print('device {}', i))\n"
    )
    assert kernel.run("f(1)").stdout == "from 1\n"
    several = kernel.run("g(jnp.arange(3))").stdout
    assert sorted(several.splitlines()) == ["device 0", "device 1", "device 2"]
    in_thread = "t = threading.Thread(target=f, args=(2,)); t.start(); t.join()"
    assert kernel.run(in_thread).stdout == "from 2\n"
    assert kernel.run("pass").stdout == ""


def test_prints_of_a_thread_land_where_its_own_prints_do(kernel):
    kernel.run(
        "import jax, threading\n"
        "f = jax.jit(lambda i: jax.debug.print('late {}', i))\n"
        "go = threading.Event()\n"
        "def work():\n"
        "    go.wait(60)\n"
        "    print('before')\n"
        "    f(7)\n"
        "    print('after')\n"
        "thread = threading.Thread(target=work)\n"
        "thread.start()\n"
    )
    assert kernel.run("go.set(); thread.join()").stdout == "before\nlate 7\nafter\n"
