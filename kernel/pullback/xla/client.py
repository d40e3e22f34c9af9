"""The devices: one lazily created CPU client, platforms added beside it, the default device.

Builds on core/config and xla/compat. Tested in tests/xla/test_client.py.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pullback.core.config import Config, Scope, config
from pullback.xla import compat
from pullback.xla import config_key as _config_key  # noqa: F401 (importing it keeps C++ in step)

Device = compat.Device

_lock = threading.RLock()
_clients: dict[str, Any] = {}
_requested_cpu_devices: int | None = None
# The default platform's name once found; emptied when platforms or options change.
_default: dict[str, str] = {}
_first_device: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Platform:
    """A kind of device: `make_client()` opens it; the highest `priority` is the default."""

    name: str
    make_client: Callable[[], Any]
    priority: int
    aliases: tuple[str, ...] = ()


_platforms: dict[str, Platform] = {}


def register_platform(
    name: str, make_client: Callable[[], Any], *, priority: int, aliases: tuple[str, ...] = ()
) -> None:
    """Offer a further platform (a PJRT plugin); it is opened when its devices are first asked for.

    Args:
        name: as the client's `platform` says it, e.g. "cuda".
        make_client: opens it; raises RuntimeError saying what is missing.
        priority: CPU has 0; the default platform is the highest that opens.
        aliases: further names users may give, e.g. ("gpu",).
    """
    with _lock:
        if name in _clients:
            raise RuntimeError(f"platform {name!r} is in use already and cannot be replaced")
        _platforms[name] = Platform(name, make_client, priority, aliases)
        _default.clear()


# --------------------------------------------------------------------------- how many CPU devices


def set_cpu_device_count(n: int) -> None:
    """Let the CPU show `n` devices; only before the first use of a device.

    Raises:
        RuntimeError: the CPU client exists already with another number.
        ValueError: n < 1.
    """
    global _requested_cpu_devices
    if n < 1:
        raise ValueError(f"the number of CPU devices must be at least 1, got {n}")
    with _lock:
        open_client = _clients.get("cpu")
        if open_client is not None and len(open_client.local_devices()) != n:
            raise RuntimeError(
                f"the CPU is in use with {len(open_client.local_devices())} device(s) and cannot "
                f"change to {n}; call set_cpu_device_count before the first array, or restart with "
                f"PULLBACK_NUM_CPU_DEVICES={n} in the environment"
            )
        _requested_cpu_devices = n


def cpu_device_count() -> int:
    """How many CPU devices there are, or will be: the set number, the settings', or 1.

    `config.jax_num_cpu_devices` starts from PULLBACK_NUM_CPU_DEVICES or JAX_NUM_CPU_DEVICES.
    """
    if "cpu" in _clients:
        return len(_clients["cpu"].local_devices())
    if _requested_cpu_devices is not None:
        return _requested_cpu_devices
    if config.jax_num_cpu_devices != -1:
        return max(config.jax_num_cpu_devices, 1)
    flag = re.search(
        r"--xla_force_host_platform_device_count[= ](\d+)", os.environ.get("XLA_FLAGS", "")
    )
    return max(int(flag[1]), 1) if flag else 1


def _open_cpu() -> Any:
    return compat.make_cpu_client(cpu_device_count(), config.jax_cpu_enable_async_dispatch)


def _option_changed(name: str) -> None:
    if name == "jax_num_cpu_devices" and config.jax_num_cpu_devices != -1:
        set_cpu_device_count(config.jax_num_cpu_devices)
    elif name in ("jax_platforms", "jax_platform_name"):
        _default.clear()


register_platform("cpu", _open_cpu, priority=0)
Config.observers.append(_option_changed)


# --------------------------------------------------------------------------- clients and devices


def _find_platform(name: str) -> Platform:
    for platform in _platforms.values():
        if name == platform.name or name in platform.aliases:
            return platform
    known = ", ".join(sorted(_platforms))
    raise RuntimeError(
        f"unknown backend {name!r}; there are: {known}.\n"
        "Instead: name one of those (JAX_PLATFORMS and jax_platforms name the default), or install "
        "the plugin of the other."
    )


def get_client(backend: str | None = None) -> Any:
    """The PJRT client of a platform (the default one for None), opened at the first call."""
    with _lock:
        name = default_backend() if backend is None else _find_platform(backend).name
        client = _clients.get(name)
        if client is None:
            client = _clients[name] = _platforms[name].make_client()
        return client


def default_backend() -> str:
    """The name of the platform that arrays go to unless told otherwise."""
    found = _default.get("name")
    if found is not None:
        return found
    with _lock:
        wanted = (config.jax_platforms or config.jax_platform_name or "").split(",")[0]
        if wanted:
            name = _find_platform(wanted).name
        else:
            name = max(_platforms.values(), key=lambda p: p.priority).name
        _default["name"] = name
        return name


def devices(backend: str | None = None) -> list[Any]:
    """All devices of a platform, those of other processes included."""
    return list(get_client(backend).devices())


def local_devices(process_index: int | None = None, backend: str | None = None) -> list[Any]:
    """The devices of one process (this one for None)."""
    client = get_client(backend)
    if process_index is None or process_index == client.process_index():
        return list(client.local_devices())
    found = [d for d in client.devices() if d.process_index == process_index]
    if not found:
        raise ValueError(f"no process {process_index}; there are {process_count(backend)}")
    return found


def device_count(backend: str | None = None) -> int:
    """How many devices a platform has over all processes."""
    return get_client(backend).device_count()


def local_device_count(backend: str | None = None) -> int:
    """How many devices of a platform this process has."""
    return get_client(backend).local_device_count()


def process_index(backend: str | None = None) -> int:
    """This process's number among those that work together, 0 when alone."""
    return get_client(backend).process_index()


def process_count(backend: str | None = None) -> int:
    """How many processes work together."""
    return max((d.process_index for d in devices(backend)), default=0) + 1


# --------------------------------------------------------------------------- the default device


def default_device() -> Any:
    """The device that new arrays go to: `config.jax_default_device`, else the first one."""
    chosen = config.jax_default_device
    if chosen is not None:
        return _as_device(chosen)
    try:
        return _first_device[_default["name"]]
    except KeyError:
        first = _first_device[default_backend()] = local_devices()[0]
        return first


def using_device(device: Any | None) -> Scope:
    """A block in which new arrays and programs go to `device`, or to a named platform's first one.

    Example:
        >>> with using_device(devices()[0]):
        ...     x = device_put(1.0)
    """
    return Scope({"jax_default_device": _as_device(device)})


def _as_device(device: Any | None) -> Any | None:
    if device is None or isinstance(device, Device):
        return device
    if isinstance(device, str):
        return local_devices(backend=device)[0]
    raise TypeError(
        "expected a device (one of devices()) or a platform's name, "
        f"got {type(device).__name__}: {device!r:.60}"
    )
