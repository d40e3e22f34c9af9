"""Waiting for the device so that Ctrl-C and the interrupt button are heard.

C++ waits hold the main thread until the value is there, and a signal is answered only afterwards;
so the main thread asks and sleeps instead. Tested in tests/xla/test_wait.py and
tests/kernel/test_interrupts.py.
"""

from __future__ import annotations

import threading
import time
from typing import Any

_FIRST_SLEEP_S = 20e-6  # the system makes it 70 us and more, so short waits only ask
_ASKING_S = 60e-6
_LONGEST_SLEEP_S = 0.02  # what an interrupt waits for at most
_SHARE = 0.02  # a sleep is at most this part of the time waited so far, so timings stay true


def wait(buf: Any) -> None:
    """Return once a C++ array's value is there; an error of its computation is raised.

    Args:
        buf: anything with `is_ready()` and `block_until_ready()`.
    Raises:
        KeyboardInterrupt: within 20 ms of the signal, in the main thread.
    """
    if not buf.is_ready() and threading.current_thread() is threading.main_thread():
        start = time.perf_counter()
        while not buf.is_ready():
            waited = time.perf_counter() - start
            if waited > _ASKING_S:
                time.sleep(min(max(waited * _SHARE, _FIRST_SLEEP_S), _LONGEST_SLEEP_S))
    buf.block_until_ready()
