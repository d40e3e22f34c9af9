"""Devices: how many, which platform, the default one."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from pullback.core.config import config
from pullback.xla import client


def test_the_suite_runs_on_eight_devices():
    assert client.device_count() == client.local_device_count() == len(client.devices()) == 8
    assert client.devices() == client.local_devices() == client.devices("cpu")
    assert client.process_index() == 0 and client.process_count() == 1
    assert client.default_backend() == "cpu"
    assert client.get_client() is client.get_client("cpu")


def test_other_processes_and_platforms_are_refused():
    assert client.local_devices(process_index=0) == client.local_devices()
    with pytest.raises(ValueError, match="no process 3; there are 1"):
        client.local_devices(process_index=3)
    with pytest.raises(RuntimeError, match="unknown backend 'tpu'; there are: cpu"):
        client.devices("tpu")


def test_the_number_is_fixed_once_the_cpu_is_used():
    client.devices()
    client.set_cpu_device_count(8)
    with pytest.raises(RuntimeError, match="PULLBACK_NUM_CPU_DEVICES=2"):
        client.set_cpu_device_count(2)
    with pytest.raises(ValueError, match="at least 1"):
        client.set_cpu_device_count(0)


def run(code, **env):
    import os

    names = ("PULLBACK_NUM_CPU_DEVICES", "JAX_NUM_CPU_DEVICES", "XLA_FLAGS")
    base = {k: v for k, v in os.environ.items() if k not in names}
    base["PYTHONPATH"] = os.pathsep.join(sys.path)
    full = f"from pullback.core.config import config\nfrom pullback.xla import client\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", full], env={**base, **env}, capture_output=True, text=True
    )
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1], done.stderr


COUNT = "print(len(client.devices()))"


@pytest.mark.parametrize(
    ("code", "env", "expected"),
    [
        (COUNT, {}, "1"),
        (COUNT, {"PULLBACK_NUM_CPU_DEVICES": "3"}, "3"),
        (COUNT, {"JAX_NUM_CPU_DEVICES": "2"}, "2"),
        (COUNT, {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}, "4"),
        ("client.set_cpu_device_count(5); " + COUNT, {"PULLBACK_NUM_CPU_DEVICES": "3"}, "5"),
        ("config.update('jax_num_cpu_devices', 6); " + COUNT, {}, "6"),
    ],
)
def test_how_many_devices(code, env, expected):
    out, err = run(code, **env)
    assert out == expected and err == ""


def test_new_arrays_follow_the_default_device():
    first, second = client.devices()[:2]
    assert client.default_device() == first
    with client.using_device(second):
        assert client.default_device() == second
        with client.using_device("cpu"):
            assert client.default_device() == first
        assert client.default_device() == second
        seen = []
        thread = threading.Thread(target=lambda: seen.append(client.default_device()))
        thread.start()
        thread.join()
        assert seen == [first]
    assert client.default_device() == first
    config.update("jax_default_device", second)
    try:
        assert client.default_device() == second
    finally:
        config.update("jax_default_device", None)
    with pytest.raises(TypeError, match="one of devices"):
        client.using_device(3)


def test_a_registered_platform_is_opened_when_asked_for(monkeypatch):
    opened = []

    class Client:
        platform = "other"

        def devices(self):
            return ["device"]

        local_devices = devices

    monkeypatch.setattr(client, "_platforms", dict(client._platforms))
    monkeypatch.setattr(client, "_clients", dict(client._clients))
    monkeypatch.setattr(client, "_default", {})
    make = lambda: opened.append(1) or Client()
    client.register_platform("other", make, priority=10, aliases=("gpu",))
    assert client.default_backend() == "other" and opened == []
    assert client.devices() == client.devices("gpu") == ["device"] and opened == [1]
    assert client.default_device() == "device"
    assert client.devices("cpu")[0].platform == "cpu"
    with pytest.raises(RuntimeError, match="in use already"):
        client.register_platform("other", make, priority=1)
    client._first_device.pop("other")
