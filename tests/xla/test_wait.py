"""Waiting in the main thread hears signals; elsewhere it is one C++ call."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from pullback.xla.wait import wait


class Later:
    """Ready after some seconds; counts how it was asked."""

    def __init__(self, seconds: float) -> None:
        self.at = time.monotonic() + seconds
        self.n_asked = 0
        self.blocked = False

    def is_ready(self) -> bool:
        self.n_asked += 1
        return time.monotonic() >= self.at

    def block_until_ready(self) -> None:
        self.blocked = True
        time.sleep(max(self.at - time.monotonic(), 0))


def test_a_ready_value_is_asked_once():
    value = Later(0)
    wait(value)
    assert (value.n_asked, value.blocked) == (1, True)


def test_the_main_thread_sleeps_between_questions():
    value = Later(0.3)
    wait(value)
    assert 10 < value.n_asked < 2000 and value.blocked


def test_another_thread_blocks_in_one_call():
    value = Later(0.05)
    thread = threading.Thread(target=wait, args=(value,))
    thread.start()
    thread.join()
    assert value.n_asked == 1


def test_a_signal_ends_the_wait():
    def interrupt() -> None:
        time.sleep(0.1)
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    start = time.monotonic()
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            wait(Later(30))
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - start < 5
