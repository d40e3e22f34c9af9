"""What happens between the interrupt button and the prompt.

While Python runs (tracing), the signal raises KeyboardInterrupt at the next instruction. While the
device runs, the engine waits by polling. While XLA compiles, C++ holds the main thread: a second
thread hears of the signal through Python's wake-up descriptor and tells the user why it takes a
moment. Builds on the standard library; tested in tests/kernel/test_interrupts.py.
"""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable

GRACE_S = 0.25  # a compilation that ends within this needs no words


class InterruptNotice:
    """Says that an interrupt waits for XLA's compiler.

    Args:
        compiling: the name of the program that the main thread is compiling, or None.
        say: shows a line to the user; called from another thread.
    """

    def __init__(self, compiling: Callable[[], str | None], say: Callable[[str], None]) -> None:
        self._compiling = compiling
        self._say = say
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._previous = -1
        name = "pullback-interrupts"
        self._thread = threading.Thread(target=self._listen, name=name, daemon=True)

    def start(self) -> None:
        """Begin to listen; only from the main thread."""
        self._previous = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening; only from the main thread."""
        signal.set_wakeup_fd(self._previous)
        self._writer.close()
        self._thread.join(timeout=5)
        self._reader.close()

    def _listen(self) -> None:
        while received := self._reader.recv(64):
            if signal.SIGINT in received:
                self._explain()

    def _explain(self) -> None:
        name = self._compiling()
        if name is None:
            return
        time.sleep(GRACE_S)
        if self._compiling() == name:
            self._say(
                f"Interrupt received. XLA is compiling {name} and cannot be stopped part-way; "
                "the prompt returns when it is done.\n"
            )
