"""The interrupt button: while tracing, running and compiling; ten times in a row."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from pullback.ipython.interrupts import InterruptNotice

# Seconds between the signal and the prompt that a loaded machine may take, formatting included;
# what is interrupted runs several times as long.
AT_ONCE_S = 10.0


def interrupt_when_ready(kernel, code, *, delay=0.3):
    """Interrupt a cell `delay` seconds after it prints `ready`: (result, seconds it took)."""
    sent = {}

    def on_output(message):
        if message["msg_type"] == "stream" and "ready" in message["content"]["text"] and not sent:
            sent["timer"] = threading.Timer(delay, send)
            sent["timer"].start()

    def send():
        sent["at"] = time.monotonic()
        kernel.manager.interrupt_kernel()

    result = kernel.run(code, check=False, on_output=on_output)
    if "at" not in sent:
        pytest.fail(f"the cell ended before the interrupt: {result}")
    took = time.monotonic() - sent["at"]
    return result, took


TRACING = (
    "import jax, jax.numpy as jnp\n"
    "@jax.jit\n"
    "def endless(x):\n"
    "    print('ready', flush=True)\n"
    "    while True:\n"
    "        x = x + 1\n"
    "endless(jnp.ones(3))"
)
RUNNING = (
    "import jax, jax.numpy as jnp, numpy as np\n"
    "def products(x):\n"
    "    for _ in range(60):\n"
    "        x = jnp.tanh(x @ x)\n"
    "    return x.sum()\n"
    "start = jnp.ones((3000, 3000))\n"
    "compiled = jax.jit(products).lower(start).compile()\n"
    "x = compiled(start)\n"
    "print('ready', flush=True)\n"
)


def test_an_interrupt_while_tracing(kernel):
    result, took = interrupt_when_ready(kernel, TRACING)
    assert result.error_name == "KeyboardInterrupt"
    assert took < AT_ONCE_S
    assert kernel.run("print(float(jax.grad(lambda x: x ** 2)(3.0)))").stdout == "6.0\n"


@pytest.mark.parametrize("wait", ["x.block_until_ready()", "print(x)", "jax.block_until_ready(x)"])
def test_an_interrupt_while_running(start_kernel, wait):
    kernel = start_kernel()  # the device goes on computing: the process is thrown away
    result, took = interrupt_when_ready(kernel, RUNNING + wait)
    assert result.error_name == "KeyboardInterrupt"
    assert took < AT_ONCE_S
    assert kernel.run("print(1 + 1, x.is_ready())").stdout == "2 False\n"
    kernel.close()


def test_ten_interrupts_in_a_row_leave_the_session_usable(kernel):
    for _ in range(10):
        result, took = interrupt_when_ready(kernel, TRACING, delay=0.1)
        assert result.error_name == "KeyboardInterrupt"
        assert took < AT_ONCE_S
    code = (
        "import jax, jax.numpy as jnp\n"
        "print(jax.jit(jax.vmap(jax.grad(lambda x: x ** 3)))(jnp.arange(3.0)))"
    )
    assert kernel.run(code).stdout == "[ 0.  3. 12.]\n"
    assert kernel.run("%who_ls").status == "ok"


def test_an_interrupt_while_compiling_says_what_it_waits_for(start_kernel, environment):
    kernel = start_kernel(env=environment(PULLBACK_COMPILATION_CACHE="0"))
    code = (
        "import jax, jax.numpy as jnp\n"
        "@jax.jit\n"
        "def large(x):\n"
        "    for i in range(400):\n"
        "        x = jnp.sort(jnp.sin(x) @ x, axis=i % 2)\n"
        "    return x\n"
        "lowered = large.lower(jnp.ones((8, 8)))\n"
        "print('ready', flush=True)\n"
        "lowered.compile(compiler_options={'xla_backend_optimization_level': 3})"
    )
    result, _ = interrupt_when_ready(kernel, code, delay=0.5)
    assert result.error_name == "KeyboardInterrupt"
    assert "XLA is compiling large and cannot be stopped part-way" in result.stdout
    assert result.stderr == ""
    assert kernel.run("print(float(jnp.sin(0.0)))").stdout == "0.0\n"
    kernel.close()


def test_an_interrupt_of_ordinary_python_says_nothing_of_xla(kernel):
    code = "import time\nprint('ready', flush=True)\ntime.sleep(60)"
    result, took = interrupt_when_ready(kernel, code)
    assert (result.error_name, result.stdout) == ("KeyboardInterrupt", "ready\n")
    assert took < AT_ONCE_S


def test_an_interrupt_of_a_cell_that_awaits_returns_the_prompt_at_once(kernel):
    code = "import asyncio\nprint('ready', flush=True)\nawait asyncio.sleep(60)"
    result, took = interrupt_when_ready(kernel, code)
    assert (result.error_name, result.stdout) == ("KeyboardInterrupt", "ready\n")
    assert "await asyncio.sleep(60)" in result.traceback
    assert took < AT_ONCE_S


def test_a_task_that_the_cell_cancels_itself_is_no_interrupt(kernel):
    code = (
        "import asyncio\n"
        "task = asyncio.ensure_future(asyncio.sleep(60))\n"
        "await asyncio.sleep(0)\n"
        "task.cancel()\n"
        "await task"
    )
    assert kernel.run(code, check=False).error_name == "CancelledError"
    assert kernel.run("print(1)").stdout == "1\n"


def test_an_interrupt_shows_the_user_s_line_and_no_line_of_the_engine(kernel):
    result, _ = interrupt_when_ready(kernel, TRACING)
    assert "x = x + 1" in result.traceback and "/pullback/" not in result.traceback


def test_an_interrupt_that_a_destructor_swallows_is_sent_again(kernel):
    code = (
        "import signal, time\n"
        "class Swallows:\n"
        "    def __del__(self):\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "        time.sleep(0)\n"
        "thing = Swallows()\n"
        "del thing\n"
        "deadline = time.monotonic() + 20\n"
        "while time.monotonic() < deadline:\n"
        "    pass\n"
        "print('lost')"
    )
    result = kernel.run(code, check=False)
    assert (result.error_name, result.stdout, result.stderr) == ("KeyboardInterrupt", "", "")
    assert kernel.run("print(1)").stdout == "1\n"


class TestNotice:
    def test_it_speaks_only_while_the_same_program_is_compiled(self):
        said = []
        busy = ["f"]
        notice = InterruptNotice(lambda: busy[0], said.append)
        previous = signal.signal(signal.SIGINT, lambda *_: None)
        notice.start()
        try:
            signal.raise_signal(signal.SIGINT)
            deadline = time.monotonic() + 10
            while not said and time.monotonic() < deadline:
                time.sleep(0.01)
            busy[0] = None
            signal.raise_signal(signal.SIGINT)
        finally:
            notice.stop()
            signal.signal(signal.SIGINT, previous)
        assert len(said) == 1 and "compiling f" in said[0]

    def test_stopping_gives_the_descriptor_back(self):
        before = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(before)
        notice = InterruptNotice(lambda: None, print)
        notice.start()
        notice.stop()
        assert signal.set_wakeup_fd(before) == before
