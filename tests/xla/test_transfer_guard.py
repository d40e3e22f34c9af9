"""Transfer guards: implicit copies to devices are refused where asked for."""

import threading

import numpy as np
import pytest

import pullback as jax
import pullback.numpy as jnp
from pullback import errors
from pullback.core.config import config

HOST = np.ones(3, np.float32)
DEVICE = jnp.ones(3)
add_one = jax.jit(lambda x: x + 1)


@pytest.mark.parametrize("function", [jnp.sin, add_one, jnp.array], ids=["eager", "jit", "array"])
def test_implicit_copies_are_refused(function):
    with jax.transfer_guard("disallow"):
        with pytest.raises(errors.JaxRuntimeError, match="Disallowed host-to-device transfer"):
            function(HOST)
    assert function(HOST).shape == (3,)


def test_explicit_copies_and_values_on_the_device_pass():
    add_one(DEVICE)
    with jax.transfer_guard("disallow"):
        assert jax.device_put(HOST).shape == (3,)
        assert add_one(DEVICE).shape == (3,)
        np.testing.assert_array_equal(jax.device_get(DEVICE), HOST)


def test_one_direction():
    with jax.transfer_guard_host_to_device("disallow"), pytest.raises(errors.JaxRuntimeError):
        jnp.sin(HOST)
    with jax.transfer_guard_device_to_host("disallow"):
        jnp.sin(HOST)
    with jax.transfer_guard("disallow"), jax.transfer_guard_host_to_device("allow"):
        jnp.sin(HOST)


def test_explicit_copies_can_be_refused_too():
    with jax.transfer_guard("disallow_explicit"), pytest.raises(errors.JaxRuntimeError):
        jax.device_put(HOST)


def test_a_scope_holds_for_its_thread_and_an_update_for_all():
    outcomes = []

    def in_thread():
        try:
            jnp.sin(HOST)
            outcomes.append("allowed")
        except errors.JaxRuntimeError:
            outcomes.append("refused")

    def run():
        thread = threading.Thread(target=in_thread)
        thread.start()
        thread.join()

    with jax.transfer_guard("disallow"):
        run()
    config.update("jax_transfer_guard", "disallow")
    try:
        run()
    finally:
        config.update("jax_transfer_guard", None)
    run()
    assert outcomes == ["allowed", "refused", "allowed"]


def test_copies_are_logged(caplog):
    def logged(level, call):
        caplog.clear()
        with caplog.at_level("WARNING"), jax.transfer_guard(level):
            call()
        return [r.getMessage() for r in caplog.records if r.name == "pullback.transfer_guard"]

    (text,) = logged("log", lambda: jnp.sin(HOST))
    assert text.startswith("host-to-device transfer of float32[3].")
    assert "test_transfer_guard.py" in text
    assert logged("log", lambda: jax.device_put(HOST)) == []
    assert logged("log", lambda: add_one(DEVICE)) == []
    assert len(logged("log_explicit", lambda: jax.device_put(HOST))) == 1
    assert logged("allow", lambda: jnp.sin(HOST)) == []
    other = jax.devices()[1]
    (text,) = logged("log_explicit", lambda: jax.device_put(DEVICE, other))
    assert text.startswith("device-to-device transfer")
