"""A changed option makes the C++ dispatcher miss, in the thread that it holds for."""

from __future__ import annotations

import threading

import pytest

from pullback.core.config import config, default_matmul_precision, enable_x64, log_compiles
from pullback.xla import compat
from pullback.xla.array import array_from_numpy


@pytest.fixture
def call():
    import numpy as np

    x = array_from_numpy(np.ones(3, np.float32))
    misses = []

    def miss(x):
        misses.append(1)
        tree = compat.dispatch_registry.flatten(())[1]
        return (), compat.FastData(LOADED[0], tree, [], [], [], [], [False], [], []), False

    # A program without arguments and results: only the look-up counts.
    from pullback.xla import client

    device = client.local_devices()[0]
    text = "func.func public @main() { return }"
    options = compat.compile_options([device])
    LOADED[:] = [compat.compile_and_load(device.client, text, [device], options, ())]
    dispatch = compat.make_pjit("count", None, miss)

    def call():
        dispatch(x)
        return len(misses)

    return call


LOADED: list = []


def test_each_value_of_an_option_has_its_entry(call):
    assert (call(), call()) == (1, 1)
    with enable_x64(True):
        assert (call(), call()) == (2, 2)
        with default_matmul_precision("highest"):
            assert call() == 3
        assert call() == 3
    assert call() == 3
    with enable_x64(True):
        assert call() == 3


def test_options_that_change_no_program_do_not_miss(call):
    call()
    with log_compiles(True):
        assert call() == 1


def test_a_process_wide_change_reaches_other_threads(call):
    call()
    seen = []

    def in_thread():
        seen.append(call())
        with enable_x64(True):
            seen.append(call())

    config.update("jax_default_matmul_precision", "high")
    try:
        thread = threading.Thread(target=in_thread)
        thread.start()
        thread.join()
        assert seen == [2, 3] and call() == 3
    finally:
        config.update("jax_default_matmul_precision", None)
    assert call() == 3


def test_a_thread_with_its_own_option_sees_process_wide_changes(call):
    with enable_x64(True):
        assert call() == 1
        thread = threading.Thread(target=lambda: config.update("jax_debug_nans", True))
        thread.start()
        thread.join()
        try:
            assert call() == 2
        finally:
            config.update("jax_debug_nans", False)
        assert call() == 2
