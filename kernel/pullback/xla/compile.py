"""MLIR modules to loaded executables: options, observers, and the executable's own views.

Builds on core/config, xla/compat, xla/client and xla/disk_cache.
Tested in tests/xla/test_compile.py.
"""

from __future__ import annotations

import collections
import hashlib
import itertools
import logging
import math
import os
import re
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pullback.core.config import config
from pullback.xla import client, compat, disk_cache

Source = Literal["compiled", "disk", "memory"]


@dataclass(frozen=True, slots=True)
class CompileEvent:
    """One compilation as observers see it: `seconds` spent, and where the program came from."""

    name: str
    seconds: float
    source: Source


# Called with a CompileEvent after each compilation, in its thread. Views add to it and remove.
on_compile: list[Callable[[CompileEvent], None]] = []

_running: dict[int, tuple[str, float]] = {}


def compiling_now() -> list[tuple[str, float]]:
    """(name, start by time.monotonic()) of every compilation that XLA is busy with."""
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


# Programs still in use, by key, and the last ones used, so that a cell run again finds its own.
_alive: weakref.WeakValueDictionary[str, Executable] = weakref.WeakValueDictionary()
_recent: collections.OrderedDict[str, Executable] = collections.OrderedDict()
_RECENT_LIMIT = 64
_recent_lock = threading.Lock()


def clear_memory() -> None:
    """Let go of the executables that nothing else uses."""
    with _recent_lock:
        _recent.clear()


def memory_statistics() -> dict[str, int]:
    """How many executables are in use, and how many are kept beside them."""
    return {"alive": len(_alive), "recent": len(_recent)}


def _remember(key: str, executable: Executable) -> None:
    _alive[key] = executable
    with _recent_lock:
        _recent[key] = executable
        _recent.move_to_end(key)
        while len(_recent) > _RECENT_LIMIT:
            _recent.popitem(last=False)


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
    """The executable of an MLIR module: one still in use, from the disk cache, or compiled.

    An interrupt while XLA compiles is delivered when it lets go; the program is kept.

    Args:
        module: ir.Module, or its bytecode.
        name: for reports.
        devices: num_replicas * num_partitions of them.
        num_replicas, num_partitions: how the devices are divided.
        callbacks: Python functions that custom calls name by index; such a program is never cached.
        compiler_options: XLA's debug options by name; without any the settings and the program's
            size choose.

    Raises:
        XlaRuntimeError: XLA refuses the module or an option.
    """
    start = time.perf_counter()
    module = _as_module(module)
    if config.jax_dump_ir_to:
        _dump(module, name, Path(config.jax_dump_ir_to))
    overrides = tuple(sorted((compiler_options or _own_options(module, devices)).items()))
    level = config.jax_optimization_level
    options = compat.compile_options(devices, num_replicas, num_partitions, overrides, level)
    xla_client = devices[0].client
    if callbacks:
        loaded = _compile(xla_client, module, name, devices, options, callbacks)
        return _finish(loaded, name, devices, start, "compiled", None)
    key = cache_key(module, devices, num_replicas, num_partitions, (*overrides, level))
    alive = _alive.get(key)
    if alive is not None:
        _remember(key, alive)
        _report(CompileEvent(name, time.perf_counter() - start, "memory"))
        return alive
    cache = _disk_cache()
    loaded = None if cache is None else _load(cache, key, xla_client, devices, options)
    if loaded is not None:
        return _finish(loaded, name, devices, start, "disk", key)
    with _interrupt_deferred():
        loaded = _compile(xla_client, module, name, devices, options, callbacks)
        if cache is not None:
            _keep(cache, key, compat.serialize_executable(xla_client, loaded), start)
    return _finish(loaded, name, devices, start, "compiled", key)


def _own_options(module: Any, devices: tuple[Any, ...]) -> dict[str, Any]:
    if config.jax_disable_most_optimizations:
        return {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
    if devices[0].platform == "cpu" and is_tiny_and_exact(module):
        return compat.quick_compile_overrides()
    return {}


def _disk_cache() -> disk_cache.DiskCache | None:
    if not config.jax_enable_compilation_cache:
        return None
    return disk_cache.current(
        config.jax_compilation_cache_dir, config.jax_compilation_cache_max_size
    )


def _keep(cache: disk_cache.DiskCache, key: str, blob: bytes, start: float) -> None:
    slow_enough = config.jax_persistent_cache_min_compile_time_secs <= time.perf_counter() - start
    if slow_enough and len(blob) >= config.jax_persistent_cache_min_entry_size_bytes:
        cache.put(key, blob)


def _as_module(module: Any) -> Any:
    if not isinstance(module, bytes | str):
        return module
    with compat.mlir_context():
        return compat.mlir().ir.Module.parse(module)


def _compile(
    xla_client: Any, module: Any, name: str, devices: Any, options: Any, callbacks: Any
) -> Any:
    thread = threading.get_ident()
    _running[thread] = name, time.monotonic()
    try:
        return compat.compile_and_load(xla_client, module, devices, options, callbacks)
    finally:
        del _running[thread]


@contextmanager
def _interrupt_deferred() -> Iterator[None]:
    """Within it Ctrl-C waits for the end, so that what XLA has compiled is kept."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    caught: list[Any] = []
    signal.signal(signal.SIGINT, lambda signum, frame: caught.append((signum, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if caught:
            handler(*caught[0])


_log = logging.getLogger(__name__)
_dumps = itertools.count()


def _dump(module: Any, name: str, folder: Path) -> None:
    """Write a module as text to `<folder>/<number>_<name>.mlir` (config.jax_dump_ir_to)."""
    folder.mkdir(parents=True, exist_ok=True)
    plain = re.sub(r"[^\w.-]+", "_", name)
    file = folder / f"{next(_dumps):04d}_{plain}.mlir"
    file.write_text(module.operation.get_asm(enable_debug_info=True), encoding="utf-8")


def _report(event: CompileEvent) -> None:
    if config.jax_log_compiles:
        how = {"compiled": "compiled", "disk": "loaded from disk", "memory": "found in memory"}
        _log.warning("%s: %s in %.3f s", event.name, how[event.source], event.seconds)
    for observer in tuple(on_compile):
        observer(event)


def _finish(
    loaded: Any, name: str, devices: tuple[Any, ...], start: float, source: Source, key: str | None
) -> Executable:
    seconds = time.perf_counter() - start
    executable = Executable(loaded, name, devices, seconds, source, key)
    if key is not None:
        _remember(key, executable)
    _report(CompileEvent(name, seconds, source))
    return executable


def _load(
    cache: disk_cache.DiskCache, key: str, xla_client: Any, devices: Any, options: Any
) -> Any | None:
    blob = cache.get(key)
    if blob is None:
        return None
    try:
        return compat.deserialize_executable(xla_client, blob, devices, options)
    except (compat.XlaRuntimeError, ValueError):
        if config.jax_raise_persistent_cache_errors:
            raise
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


# --------------------------------------------------------------------------- tiny programs

# Operations whose every result is the same bits whatever the code generator does.
_MOVES = frozenset(
    "stablehlo." + name
    for name in (
        "abs and bitcast_convert broadcast_in_dim ceil clamp compare concatenate constant convert "
        "dynamic_slice dynamic_update_slice floor gather iota is_finite maximum minimum negate "
        "not or pad popcnt reshape reverse round_nearest_afz round_nearest_even select "
        "shift_left shift_right_arithmetic shift_right_logical sign slice transpose xor"
    ).split()
) | {"func.return"}
# Correctly rounded: exact alone, while a multiply and an add together may be contracted or not.
_ROUNDED = frozenset("stablehlo." + op for op in "add subtract multiply divide".split())
_TINY = 4096  # elements: unvectorised code costs at most some microseconds below it


def is_tiny_and_exact(module: Any) -> bool:
    """Whether a program is so small and exact that optimising it changes no bit and gains little.

    At most 4,096 elements in each result, one function without regions, operations that move or
    compare, and at most one real addition, subtraction, multiplication or division.
    """
    n_rounded = 0
    n_functions = 0
    for function in module.body.operations:
        n_functions += 1
        if n_functions > 1 or function.operation.name != "func.func":
            return False
        for op in function.regions[0].blocks[0].operations:
            name = op.operation.name
            if name in _ROUNDED:
                n_rounded += 1
            elif name not in _MOVES:
                return False
            if n_rounded > 1 or not all(_is_tiny(result.type) for result in op.results):
                return False
    return n_functions == 1


def _is_tiny(type_: Any) -> bool:
    # A complex multiplication is several roundings, so complex types go the normal way.
    is_complex = str(type_.element_type).startswith("complex")
    return math.prod(type_.shape) <= _TINY and not is_complex
