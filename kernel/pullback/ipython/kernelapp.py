"""The kernel and the application that starts it.

Builds on ipykernel 7; tested in tests/kernel.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Sequence
from importlib import metadata
from typing import Any, ClassVar

from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
from traitlets import Bool, Integer, List, Type, default

from pullback.ipython import jax_alias
from pullback.ipython.completion import with_array_types
from pullback.ipython.interrupts import InterruptNotice, SwallowedInterrupt
from pullback.ipython.shell import BUILT_IN, PullbackShell
from pullback.views.deterministic import DETERMINISTIC_VARIABLE, is_deterministic
from pullback.xla import client, compile, disk_cache

_COUNT_VARIABLES = ("PULLBACK_NUM_CPU_DEVICES", "JAX_NUM_CPU_DEVICES")
_COUNT_FLAG = "--xla_force_host_platform_device_count"
_PACKAGE_FOLDERS = ("site-packages", "dist-packages")
_TYPED_COMPLETIONS = "_jupyter_types_experimental"


def _compiling_now() -> str | None:
    """The name of a program that XLA is compiling, if any."""
    running = compile.compiling_now()
    return running[0][0] if running else None


class PullbackKernel(IPythonKernel):
    """A Jupyter kernel with the engine ready: devices, `import jax`, arrays shown as they are."""

    implementation = "pullback"
    implementation_version = metadata.version("pullback")
    shell_class = Type(PullbackShell)

    cpu_devices = Integer(
        help="How many devices the CPU shows, so that multi-device lessons run on a laptop. "
        "The environment variables that the engine reads win over the default of 8.",
    ).tag(config=True)

    provide_jax = Bool(
        False,
        help="Serve `import jax` by this engine even where the real jax is installed.",
    ).tag(config=True)

    deterministic = Bool(
        help="Leave times, addresses and machine names out of outputs; the environment variable "
        "PULLBACK_DETERMINISTIC=1 sets it too.",
    ).tag(config=True)

    help_links = List(
        [
            {"text": "JAX's public API", "url": "https://docs.jax.dev/en/latest/jax.html"},
            {"text": "NumPy reference", "url": "https://numpy.org/doc/stable/reference/"},
            {"text": "StableHLO specification", "url": "https://openxla.org/stablehlo/spec"},
            {"text": "XLA", "url": "https://openxla.org/xla"},
            {"text": "Matplotlib reference", "url": "https://matplotlib.org/stable/api/"},
            {"text": "IPython reference", "url": "https://ipython.readthedocs.io/en/stable/"},
            {"text": "Python reference", "url": "https://docs.python.org/3/"},
        ]
    ).tag(config=True)

    @default("cpu_devices")
    def _default_cpu_devices(self) -> int:
        is_set = any(map(os.environ.get, _COUNT_VARIABLES))
        is_set = is_set or _COUNT_FLAG in os.environ.get("XLA_FLAGS", "")
        return client.cpu_device_count() if is_set else 8

    @default("deterministic")
    def _default_deterministic(self) -> bool:
        return is_deterministic()

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        os.environ[DETERMINISTIC_VARIABLE] = "1" if self.deterministic else "0"
        client.set_cpu_device_count(self.cpu_devices)
        jax_alias.install(replace_real=self.provide_jax)
        # Once each, in the server's log: the streams of a cell are the user's.
        disk_cache.listeners.append(functools.cache(self.log.warning))
        self._interrupt_notice = InterruptNotice(_compiling_now, self._say, self._wake)
        self._running_cell: object | None = None
        self._swallowed_interrupt = SwallowedInterrupt(lambda: self._running_cell)
        self.shell.events.register("pre_execute", self._cell_begins)
        self.shell.events.register("post_execute", self._cell_ends)

    def start(self) -> None:
        """Start serving requests."""
        super().start()
        if threading.current_thread() is threading.main_thread():
            self._interrupt_notice.start()
            self._swallowed_interrupt.start()

    def _cell_begins(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._running_cell = object()

    def _cell_ends(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._running_cell = None

    def _wake(self) -> None:
        """Let the event loop look for what a signal's handler has queued, from any thread."""
        self.io_loop.add_callback(lambda: None)

    def _say(self, text: str) -> None:
        """Show a line under the running cell, from any thread."""
        content = {"name": "stdout", "text": text}
        parent = self.get_parent("shell")
        self.session.send(
            self.iopub_socket, "stream", content, parent=parent, ident=self._topic("stream.stdout")
        )

    def do_complete(self, code: str, cursor_pos: int) -> dict[str, Any]:
        """ipykernel's completions, the type of arrays written out."""
        reply = super().do_complete(code, cursor_pos)
        typed = reply["metadata"].get(_TYPED_COMPLETIONS)
        if typed:
            reply["metadata"][_TYPED_COMPLETIONS] = with_array_types(typed, self.shell.user_ns)
        return reply


class PullbackKernelApp(IPKernelApp):
    """Starts the kernel; reads ipykernel's configuration files, with `c.PullbackKernel` in them."""

    kernel_class = Type(PullbackKernel, klass="ipykernel.kernelbase.Kernel").tag(config=True)
    classes = [PullbackKernel, PullbackShell, *IPKernelApp.classes[2:]]
    subcommands: ClassVar[dict[str, Any]] = {}

    def init_path(self) -> None:
        """Let the user import from the notebook's folder, behind the standard library.

        The kernelspec's -P keeps that folder away while we start, so that a random.py in it cannot
        break the kernel; IPython takes the flag as the user's wish and would leave it away.
        """
        if "" in sys.path or self.ignore_cwd or os.environ.get("PYTHONSAFEPATH"):
            return
        folders = map(os.path.basename, sys.path)
        installed = (i for i, name in enumerate(folders) if name in _PACKAGE_FOLDERS)
        sys.path.insert(next(installed, 0), "")

    def init_extensions(self) -> None:
        """Load our own extension, then those that the user configured."""
        self.shell.extension_manager.load_extension(BUILT_IN)
        super().init_extensions()


def main(argv: Sequence[str]) -> int:
    """`python -m pullback -f FILE`: serve until told to stop."""
    app = PullbackKernelApp.instance()
    app.initialize(list(argv))
    app.start()
    return 0
