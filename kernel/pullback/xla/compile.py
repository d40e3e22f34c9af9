"""MLIR modules to loaded executables: options, observers, and the executable's own views.

Builds on xla/compat, xla/client and xla/disk_cache. Tested in tests/xla/test_compile.py.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pullback.xla import client, compat, disk_cache

Source = Literal["compiled", "disk", "memory"]


@dataclass(frozen=True, slots=True)
class CompileEvent:
    """One compilation as observers see it: `seconds` spent, and where the program came from."""

    name: str
    seconds: float
    source: Source


# Called with a CompileEvent after each compilation, in the compiling thread. The views add to it and remove.
on_compile: list[Callable[[CompileEvent], None]] = []

_running: dict[int, tuple[str, float]] = {}


def compiling_now() -> list[tuple[str, float]]:
    """(name, start by time.monotonic()) of every compilation that XLA is busy with, over all threads."""
    return list(_running.values())


class Executable:
    """A program on its devices. `loaded` is the C++ object that dispatch calls."""

    __slots__ = ("__weakref__", "devices", "key", "loaded", "name", "seconds", "source")

    def __init__(
        self,
        loaded: Any,
        name: str,
        devices: tuple[Any, ...],
        seconds: float,
        source: Source,
        key: str | None,
    ) -> None:
        self.loaded = loaded
        self.name = name
        self.devices = devices
        self.seconds = seconds
        self.source = source
        self.key = key

    def __repr__(self) -> str:
        return f"<Executable {self.name} on {len(self.devices)} device(s), {self.source}>"

    def execute(self, bufs: Sequence[Any], handlers: Sequence[Any]) -> list[Any]:
        """Run on C++ arrays; one result handler (`compat.result_handler`) an output."""
        return self.loaded.execute_sharded(bufs).consume_with_handlers(handlers)

    def hlo_modules(self) -> list[Any]:
        """XLA's optimized modules."""
        return self.loaded.hlo_modules()

    def as_text(self) -> str:
        """The optimized HLO as text."""
        return "\n\n".join(m.to_string() for m in self.hlo_modules())

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate: flops, transcendentals, bytes accessed."""
        found = self.loaded.cost_analysis()
        return dict(found[0] if isinstance(found, list) else found)

    def memory_analysis(self) -> Any:
        """XLA's sizes in bytes: argument, output, temp, alias."""
        return self.loaded.get_compiled_memory_stats()


def compile_module(
    module: Any,
    *,
    name: str,
    devices: tuple[Any, ...],
    num_replicas: int = 1,
    num_partitions: int = 1,
    callbacks: Sequence[Callable[..., Any]] = (),
    compiler_options: dict[str, Any] | None = None,
) -> Executable:
    """The executable of an MLIR module, from the disk cache or compiled.

    Args:
        module: ir.Module, or its bytecode.
        name: for reports.
        devices: num_replicas * num_partitions of them.
        num_replicas, num_partitions: how the devices are divided.
        callbacks: Python functions that custom calls name by index; such a program is never cached on disk.
        compiler_options: XLA's debug options by name.

    Raises:
        XlaRuntimeError: XLA refuses the module or an option.
    """
    start = time.perf_counter()
    overrides = tuple(sorted((compiler_options or {}).items()))
    options = compat.compile_options(devices, num_replicas, num_partitions, overrides)
    xla_client = devices[0].client
    cache = None if callbacks else disk_cache.current()
    key = None
    if cache is not None:
        key = cache_key(module, devices, num_replicas, num_partitions, overrides)
        loaded = _load(cache, key, xla_client, devices, options)
        if loaded is not None:
            return _finish(loaded, name, devices, start, "disk", key)
    thread = threading.get_ident()
    _running[thread] = name, time.monotonic()
    try:
        loaded = compat.compile_and_load(xla_client, module, devices, options, callbacks)
    finally:
        del _running[thread]
    if cache is not None and key is not None:
        cache.put(key, compat.serialize_executable(xla_client, loaded))
    return _finish(loaded, name, devices, start, "compiled", key)


def _finish(
    loaded: Any, name: str, devices: tuple[Any, ...], start: float, source: Source, key: str | None
) -> Executable:
    seconds = time.perf_counter() - start
    for observer in tuple(on_compile):
        observer(CompileEvent(name, seconds, source))
    return Executable(loaded, name, devices, seconds, source, key)


def _load(
    cache: disk_cache.DiskCache, key: str, xla_client: Any, devices: Any, options: Any
) -> Any | None:
    blob = cache.get(key)
    if blob is None:
        return None
    try:
        return compat.deserialize_executable(xla_client, blob, devices, options)
    except (compat.XlaRuntimeError, ValueError):
        cache.remove(key)  # whole by its checksum, yet not a program of this XLA: compile again
        return None


def cache_key(
    module: Any,
    devices: tuple[Any, ...],
    num_replicas: int,
    num_partitions: int,
    overrides: Sequence[tuple[str, Any]],
) -> str:
    """A hash of all that decides the machine code; source positions are left out of it."""
    digest = hashlib.sha256(_without_locations(module))
    digest.update(_environment_key(devices[0].client.platform).encode())
    places = [(d.id, d.device_kind) for d in devices]
    digest.update(repr((places, num_replicas, num_partitions, overrides)).encode())
    return digest.hexdigest()


def _without_locations(module: Any) -> bytes:
    ir = compat.mlir().ir
    if isinstance(module, bytes | str):
        with compat.mlir_context():
            module = ir.Module.parse(module)
    return module.operation.get_asm(binary=True, enable_debug_info=False)


_environment_keys: dict[tuple[str, str], str] = {}


def _environment_key(platform: str) -> str:
    flags = os.environ.get("XLA_FLAGS", "")
    found = _environment_keys.get((platform, flags))
    if found is None:
        parts = (
            compat.jaxlib_version,
            compat.xla_version,
            client.get_client(platform).platform_version,
            disk_cache.machine_key(),
            flags,
        )
        found = _environment_keys[platform, flags] = repr(parts)
    return found
