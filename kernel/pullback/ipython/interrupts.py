"""What happens between the interrupt button and the prompt.

While Python runs (tracing), the signal raises KeyboardInterrupt at the next instruction. While the
device runs, the engine waits by polling. While a cell awaits, the event loop sleeps, and while XLA
compiles, C++ holds the main thread: a second thread hears of the signal through Python's wake-up
descriptor, wakes the loop, and tells the user why a compilation takes a moment. Builds on the
standard library; tested in tests/kernel/test_interrupts.py.
"""

from __future__ import annotations

import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

AGAIN_S = 0.02  # long enough for the destructor that swallowed an interrupt to end
GRACE_S = 0.25  # a compilation that ends within this needs no words


class InterruptNotice:
    """Wakes the event loop for an interrupt, or says that it waits for XLA's compiler.

    Args:
        compiling: the name of the program that the main thread is compiling, or None.
        say: shows a line to the user; called from another thread.
        wake: makes the main thread's event loop look for work; called from another thread.
    """

    def __init__(
        self,
        compiling: Callable[[], str | None],
        say: Callable[[str], None],
        wake: Callable[[], object] = lambda: None,
    ) -> None:
        self._compiling = compiling
        self._say = say
        self._wake = wake
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
                # Once more when the handler has surely run, which queues the cancelling.
                for _ in range(2):
                    self._wake()
                    time.sleep(AGAIN_S)
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


class SwallowedInterrupt:
    """Sends an interrupt again that a destructor has swallowed.

    Python cannot raise from a destructor. pyzmq looks for signals in one (Frame, upstream in
    zmq/backend/cython/_zmq.py), so a collection during a long trace could lose the user's interrupt.

    Args:
        running: what stands for the cell that the main thread runs, or None.
    """

    def __init__(self, running: Callable[[], Any]) -> None:
        self._running = running
        self._previous = sys.unraisablehook

    def start(self) -> None:
        """Begin to watch."""
        self._previous = sys.unraisablehook
        sys.unraisablehook = self._hook

    def stop(self) -> None:
        """Stop watching."""
        sys.unraisablehook = self._previous

    def _hook(self, unraisable: Any, /) -> None:
        cell = self._running()
        in_main = threading.current_thread() is threading.main_thread()
        if unraisable.exc_type is not KeyboardInterrupt or cell is None or not in_main:
            self._previous(unraisable)
            return
        timer = threading.Timer(AGAIN_S, self._again, (cell,))
        timer.daemon = True
        timer.start()

    def _again(self, cell: Any) -> None:
        if self._running() is cell:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
