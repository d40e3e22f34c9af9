"""All that touches a private name of jaxlib: state, registry, dispatcher, buffers, options, MLIR, LAPACK, profiler.

Builds on jaxlib (0.10.2 up to 0.12) only. Tested in tests/xla/test_compat.py, one test a fact.
"""

from __future__ import annotations

import collections
import functools
import os
import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

# Read when the library is loaded: keeps the C++ log lines out of the notebook (fatal ones still show).
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import jaxlib
import numpy as np
from jaxlib import _jax
from jaxlib import xla_client as xc

from pullback.xla import pydispatch
from pullback.xla.mlir_modules import mlir, mlir_context
from pullback.xla.services import ProfilerSession, register_lapack

__all__ = ["ProfilerSession", "mlir", "mlir_context", "register_lapack"]  # kept in files of their own

ArrayImpl = xc.ArrayImpl
Device = xc.Device
DeviceList = _jax.DeviceList
LoadedExecutable = xc.LoadedExecutable
SingleDeviceSharding = xc.SingleDeviceSharding
GSPMDSharding = xc.GSPMDSharding
HloSharding = xc.HloSharding
XlaRuntimeError = _jax.JaxRuntimeError
Config = _jax.config.Config

jaxlib_version: str = jaxlib.__version__
xla_version: int = xc._version

# --------------------------------------------------------------------------- process-wide state


def real_jax_loaded() -> bool:
    """True when the real jax package is loaded in this process (our alias of the name is not it)."""
    config = sys.modules.get("jax._src.config")
    return isinstance(getattr(config, "enable_x64", None), Config)


def make_config(name: str, value: Any, *, in_jit_key: bool) -> Any:
    """A C++ thread-local setting; with `in_jit_key` a new value makes dispatchers miss once."""
    config = Config(name, value, include_in_jit_key=in_jit_key)
    (_jit_key_configs if in_jit_key else _other_configs).append(config)
    return config


_jit_key_configs: list[Any] = []
_other_configs: list[Any] = []  # C++ keeps no reference to them


def _jit_key_context() -> tuple[Any, ...]:
    return tuple(config.value for config in _jit_key_configs)


def _bootstrap() -> None:
    """Give the dispatcher the three states that it asks for, unless the real jax has done so.

    The x64 state is always True here: values reach C++ already converted, and a False would cut int64 to int32.
    """
    if not hasattr(SingleDeviceSharding, "_to_xla_hlo_sharding"):
        # jaxlib 0.10.2 asks this of the Python side in batched_device_put; C++ does it from 0.11 on.
        SingleDeviceSharding._to_xla_hlo_sharding = lambda self, ndim: HloSharding.replicate()
    if real_jax_loaded():
        return
    _jax.jax_jit.set_enable_x64_state(make_config("pullback_cpp_x64", True, in_jit_key=False))
    _jax.jax_jit.set_disable_jit_state(
        make_config("pullback_cpp_disable_jit", False, in_jit_key=False)
    )
    _jax.jax_jit.set_post_hook_state(make_config("pullback_cpp_post_hook", None, in_jit_key=False))


_bootstrap()

# What C++ imports behind the caller's back to give a shard's array an aval. See `no_jax_import`.
_HIDDEN_IMPORTS = ("jax.core", "jax._src")
_hide_lock = threading.RLock()


@contextmanager
def no_jax_import() -> Iterator[None]:
    """Within it C++ cannot import jax: the names it asks for fail at once, without a search.

    Some calls on arrays (single shards, raw pointers) import jax.core for an aval; we set ours afterwards.
    Nothing is hidden when the real jax is loaded already, where the import is only a dictionary look-up.
    """
    if real_jax_loaded():
        yield
        return
    with _hide_lock:
        before = {name: sys.modules.get(name) for name in _HIDDEN_IMPORTS}
        try:
            for name in _HIDDEN_IMPORTS:
                sys.modules[name] = None  # type: ignore[assignment]
            yield
        finally:
            for name, module in before.items():
                if module is None:
                    sys.modules.pop(name, None)
                else:
                    sys.modules[name] = module


# --------------------------------------------------------------------------- dispatch registry

PyTreeRegistry = _jax.pytree.PyTreeRegistry
PyTreeDef = _jax.pytree.PyTreeDef


def _make_registry() -> Any:
    registry = PyTreeRegistry()
    registry.register_node(
        collections.OrderedDict,
        lambda d: (tuple(d.values()), tuple(d)),
        lambda keys, values: collections.OrderedDict(zip(keys, values, strict=True)),
    )
    registry.register_node(
        collections.defaultdict,
        lambda d: (tuple(d[k] for k in sorted(d)), (d.default_factory, tuple(sorted(d)))),
        lambda aux, values: collections.defaultdict(aux[0], zip(aux[1], values, strict=True)),
    )
    return registry


# The registry of the C++ dispatcher. In it an Array is a node around its C++ array; in the user's registry it is a leaf.
dispatch_registry = _make_registry()


_array_classes: set[type] = set()


def register_array_class(cls: type) -> None:
    """Make `cls` (one slot `_buf`, constructor `cls(buf)`) the node around C++ arrays in `dispatch_registry`."""
    if cls in _array_classes:
        return

    def flatten(array: Any) -> tuple[tuple[Any], None]:
        return (array._buf,), None

    def unflatten(_: None, bufs: Any, make: Callable[[Any], Any] = cls) -> Any:
        return make(bufs[0])

    dispatch_registry.register_node(cls, flatten, unflatten)
    _array_classes.add(cls)


# --------------------------------------------------------------------------- buffers


def result_handler(aval: Any, sharding: Any, committed: bool) -> Any:
    """What turns one output of an executable into an ArrayImpl with this aval and C++ sharding."""
    return _RESULT_HANDLER(aval, sharding, committed)


def _result_handler_skipping_checks(aval: Any, sharding: Any, committed: bool) -> Any:
    return xc.array_result_handler(aval, sharding, committed, _skip_checks=True)


# jaxlib < 0.11 checks through a Python method that only jax defines; the argument is gone in 0.11.
_RESULT_HANDLER = (
    _result_handler_skipping_checks
    if "_skip_checks" in (xc.array_result_handler.__doc__ or "")
    else xc.array_result_handler
)

_COPY_IN = xc.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
_ZERO_COPY_IN = xc.HostBufferSemantics.ZERO_COPY


@functools.lru_cache(maxsize=4096)
def single_device_sharding(device: Any) -> Any:
    """The C++ sharding that puts a whole array on one device (one object a device)."""
    return SingleDeviceSharding(device)


@functools.lru_cache(maxsize=4096)
def _device_list(devices: tuple[Any, ...]) -> Any:
    return DeviceList(devices)


def gspmd_sharding(devices: Sequence[Any], hlo_sharding: Any) -> Any:
    """The C++ sharding of an array over several devices; attributes may be set on it."""
    return GSPMDSharding(_device_list(tuple(devices)), hlo_sharding)


def iota_sharding(
    tile: Sequence[int], n_copies: int, mesh_sizes: Sequence[int], axis_order: Sequence[int]
) -> Any:
    """The HloSharding that cuts axis k into tile[k] parts over a mesh read in `axis_order`, each part n_copies times."""
    if n_copies == 1:
        return HloSharding.iota_tile(tuple(tile), tuple(mesh_sizes), tuple(axis_order))
    replicated = [xc.OpSharding.Type.REPLICATED]
    dims = (*tile, n_copies)
    return HloSharding.iota_tile(dims, tuple(mesh_sizes), tuple(axis_order), replicated)


def device_put_buffer(
    value: np.ndarray, aval: Any, device: Any, committed: bool = True, copy: bool = True
) -> Any:
    """An ArrayImpl on `device` holding a copy of `value`.

    Args:
        value: NumPy array with exactly the aval's shape and dtype.
        aval: the type that the array reports.
        device: where to.
        committed: whether the program must follow this array's device.
        copy: False lets the CPU alias the buffer (64-byte aligned); only for buffers that nobody writes again.
    """
    return xc.batched_device_put(
        aval,
        single_device_sharding(device),
        [value],
        [device],
        committed,
        host_buffer_semantics=_COPY_IN if copy else _ZERO_COPY_IN,
        enable_x64=True,
    )


def device_put_shards(
    shards: Sequence[np.ndarray], aval: Any, xla_sharding: Any, devices: Sequence[Any]
) -> Any:
    """One ArrayImpl over several devices from one host array (copied) a device.

    Copied here, because jaxlib's copying transfer fails over several devices ('bad_function_call', 0.10.2 to 0.12).
    """
    copies = [np.array(s, order="C") for s in shards]
    devices = list(devices)
    return xc.batched_device_put(aval, xla_sharding, copies, devices, True, enable_x64=True)


def assemble_shards(bufs: Sequence[Any], aval: Any, xla_sharding: Any) -> Any:
    """One ArrayImpl over several devices from single-device ArrayImpls that are there already."""
    return ArrayImpl(aval, xla_sharding, list(bufs), True, _skip_checks=True)


def copy_to_devices(buf: Any, xla_sharding: Any, devices: Sequence[Any], always: bool) -> Any:
    """The array moved to as many other devices, shard by shard; `always` copies also when it is there."""
    semantics = _jax.ArrayCopySemantics
    how = semantics.ALWAYS_COPY if always else semantics.REUSE_INPUT
    return xc.batched_copy_array_to_devices_with_sharding(
        [buf], [DeviceList(tuple(devices))], [xla_sharding], [how]
    )[0]


def rewrap(buf: Any, aval: Any, xla_sharding: Any) -> Any:
    """The same device memory under another aval (same shape and dtype) and sharding."""
    return buf._rewrap_with_aval_and_sharding(aval, xla_sharding)


def shards_of(buf: Any, shard_aval: Any) -> list[Any]:
    """The single-device ArrayImpls of a multi-device array, each with `shard_aval`, in device order."""
    with no_jax_import():
        pieces = buf._arrays
    return [rewrap(p, shard_aval, p._sharding) for p in pieces]


def to_numpy(buf: Any) -> np.ndarray:
    """A single-device array as a read-only NumPy array, zero-copy on the CPU for NumPy's own dtypes.

    Waits for the value. bfloat16, float8 and int4 take jaxlib's own conversion (a copy for packed types).
    """
    try:
        return np.asarray(memoryview(buf))
    except BufferError:
        return _to_numpy_slow(buf)


def _to_numpy_slow(buf: Any) -> np.ndarray:
    if hasattr(buf, "_to_np_array_did_copy"):  # from 0.11 on, and free of imports
        value, _ = buf._to_np_array_did_copy()
    else:
        with no_jax_import():
            value, _ = buf._single_device_array_to_np_array_did_copy()
    value.flags.writeable = False
    return value


def copy_to_host_async(buf: Any) -> None:
    """Start the copy to host memory of a single-device array."""
    with no_jax_import():
        buf._copy_single_device_array_to_host_async()


def buffer_pointer(buf: Any) -> int:
    """The address of a single-device array's memory, after waiting for it."""
    buf.block_until_ready()
    with no_jax_import():
        return buf.unsafe_buffer_pointer()


def dlpack_export(buf: Any, **kwargs: Any) -> Any:
    """A dlpack capsule of the array (zero-copy)."""
    return _jax.buffer_to_dlpack_managed_tensor(buf, **kwargs)


def dlpack_import(capsule: Any, device: Any) -> Any:
    """The ArrayImpl over a dlpack capsule's memory; give it an aval by `rewrap` before use."""
    with no_jax_import():
        return _jax.dlpack_managed_tensor_to_buffer(capsule, device, None)


# --------------------------------------------------------------------------- the dispatcher


class FastData(NamedTuple):
    """What a cache miss hands to the dispatcher so that the next such call stays in C++."""

    xla_executable: Any
    out_pytree_def: Any
    in_shardings: Sequence[Any]
    out_shardings: Sequence[Any]
    out_avals: Sequence[Any]
    out_committed: Sequence[bool]
    kept_var_bitvec: Sequence[bool]
    in_device_local_layouts: Sequence[Any]
    const_args: Sequence[Any]


CacheMiss = Callable[..., tuple[Any, "FastData | None", bool]]

_pjit_cache = _jax.PjitFunctionCache(8192)


def make_pjit(
    name: str,
    fun: Callable[..., Any] | None,
    cache_miss: CacheMiss,
    static_argnums: Sequence[int] = (),
    static_argnames: Sequence[str] = (),
    key: Hashable = None,
    shard_arg_fallback: Callable[[Any, Any, Any], Any] | None = None,
) -> Any:
    """A callable that flattens its arguments, finds the executable for their types and runs it, in C++.

    Args:
        name: what the callable shows.
        fun: held weakly; calls with the same `fun` and equal `key` share entries. None: a cache of its own.
        cache_miss: called with the raw arguments on a new signature; returns (result, FastData or None, False).
        static_argnums, static_argnames: arguments that are compared by value.
        key: further part of the cache key.
        shard_arg_fallback: `(value, sharding, layout) -> ArrayImpl` for an argument elsewhere than the executable wants it.
    """
    fallback = shard_arg_fallback or _no_shard_arg
    if not fast_dispatch_works():
        return pydispatch.PythonDispatch(
            name,
            cache_miss,
            tuple(static_argnums),
            tuple(static_argnames),
            dispatch_registry,
            ArrayImpl,
            result_handler,
            _jit_key_context,
        )
    return _cpp_pjit(name, fun, cache_miss, static_argnums, static_argnames, key, fallback)


def _cpp_pjit(
    name: str,
    fun: Any,
    cache_miss: CacheMiss,
    static_argnums: Sequence[int],
    static_argnames: Sequence[str],
    key: Hashable,
    fallback: Callable[[Any, Any, Any], Any],
) -> Any:
    return _jax.pjit(
        name,
        fun,
        cache_miss,
        list(static_argnums),
        list(static_argnames),
        key,
        dispatch_registry,
        fallback,
        _pjit_cache if fun is not None else None,
    )


def _no_shard_arg(value: Any, sharding: Any, layout: Any) -> Any:
    raise TypeError(
        f"an argument of type {type(value).__name__} is not where the program wants it ({sharding}); "
        "move it with device_put first"
    )


def clear_dispatch_caches() -> None:
    """Forget every signature of every dispatcher; the next calls miss once."""
    _jax.PjitFunctionCache.clear_all()
    pydispatch.clear_all()


# Versions whose dispatcher the test-suite has run; any other is tried once, on a compiled program, at start.
_TESTED_JAXLIB = ("0.10.2", "0.11.", "0.12.")


@functools.cache
def fast_dispatch_works() -> bool:
    """Whether the C++ dispatcher can be used; if not, the plain Python one serves, 4 us a call slower."""
    wanted = os.environ.get("PULLBACK_DISPATCH", "auto")
    if wanted not in ("auto", "cpp", "python"):
        raise ValueError(f"PULLBACK_DISPATCH must be auto, cpp or python, not {wanted!r}")
    if wanted != "auto":
        return wanted == "cpp"
    return jaxlib_version.startswith(_TESTED_JAXLIB) or dispatch_self_test() is None


def dispatch_self_test() -> str | None:
    """None when a program runs through the C++ dispatcher and gives the right number, else what went wrong."""

    class Type:
        shape, dtype, weak_type = (), np.dtype(np.float32), False

    misses = []
    try:
        client = make_cpu_client(1)
        device = client.local_devices()[0]
        sharding = single_device_sharding(device)
        text = "func.func public @main(%a: tensor<f32>) -> tensor<f32> {\n %0 = stablehlo.add %a, %a : tensor<f32>\n return %0 : tensor<f32> }"
        loaded = client.compile_and_load(text, DeviceList((device,)), compile_options([device]))
        handler = result_handler(Type, sharding, False)

        def miss(x: Any) -> tuple[Any, FastData, bool]:
            misses.append(1)
            out = loaded.execute_sharded([x]).consume_with_handlers([handler])[0]
            tree = dispatch_registry.flatten(out)[1]
            s, a = [sharding], [Type]
            return out, FastData(loaded, tree, s, s, a, [False], [True], [None], []), False

        call = _cpp_pjit("self_test", None, miss, (), (), "self_test", _no_shard_arg)
        x = device_put_buffer(np.float32(1.5).reshape(()), Type, device, committed=False)
        values = [float(to_numpy(call(x))) for _ in range(3)]
    except (AttributeError, TypeError, ValueError, RuntimeError) as e:
        return f"{type(e).__name__}: {e}"
    if values != [3.0] * 3 or len(misses) != 1:
        return f"expected 3.0 three times with one miss, got {values} with {len(misses)}"
    return None


# --------------------------------------------------------------------------- client, options, executables


def make_cpu_client(n_devices: int, asynchronous: bool = True, **kwargs: Any) -> Any:
    """A new CPU client with this many devices; asynchronous: calls return before the CPU is done."""
    return xc.make_cpu_client(asynchronous=asynchronous, num_devices=n_devices, **kwargs)


# XLA's ExecutionOptions.EffortLevel
_EFFORT_LEVELS = {"UNKNOWN": 0, "O0": 9, "O1": 19, "O2": 29, "O3": 39}


def compile_options(
    devices: Sequence[Any],
    num_replicas: int = 1,
    num_partitions: int = 1,
    overrides: Sequence[tuple[str, Any]] = (),
    level: str = "UNKNOWN",
) -> Any:
    """XLA's compile options for these devices (Shardy where the program is partitioned).

    Args:
        devices: num_replicas * num_partitions devices, row by row.
        overrides: (flag, value) of XLA's debug options; an unknown one is an error of the compiler.
        level: XLA's effort, O0 to O3; UNKNOWN leaves it to XLA.
    """
    options = xc.CompileOptions()
    build = options.executable_build_options
    assignment = xc.DeviceAssignment.create(
        np.array([d.id for d in devices], np.int32).reshape(num_replicas, num_partitions)
    )
    for target in (options, build):
        target.num_replicas = num_replicas
        target.num_partitions = num_partitions
        target.device_assignment = assignment
    build.use_spmd_partitioning = num_partitions > 1
    build.use_shardy_partitioner = num_partitions > 1
    build.optimization_level = _EFFORT_LEVELS[level]
    if overrides:
        options.env_option_overrides = list(overrides)
    return options


def quick_compile_overrides() -> dict[str, Any]:
    """XLA options that compile a tiny exact program sooner (25 to 8 ms on 0.10.2, 22 to 16 on 0.12; 2 cores, Dec 2026).

    The code is not vectorised, and contracts no multiply with an add: not for large arrays, nor where rounding
    may differ from the normal pipeline (`compile.is_tiny_and_exact` decides).
    """
    options: dict[str, Any] = {"xla_backend_optimization_level": 0}
    if jaxlib_version.startswith("0.10."):  # the flag is gone from 0.11 on
        options["xla_cpu_use_fusion_emitters"] = False
    return options


def compile_and_load(
    client: Any, module: Any, devices: Sequence[Any], options: Any, callbacks: Sequence[Any]
) -> Any:
    """Compile an MLIR module (object, text or bytecode) and load it on the devices."""
    args = (module, DeviceList(tuple(devices)), options)
    if callbacks:
        return client.compile_and_load(*args, list(callbacks))
    return client.compile_and_load(*args)


def serialize_executable(client: Any, loaded: Any) -> bytes:
    """The executable as bytes, for this jaxlib and this kind of CPU only."""
    return client.serialize_executable(loaded)


def deserialize_executable(client: Any, blob: bytes, devices: Sequence[Any], options: Any) -> Any:
    """The executable that `serialize_executable` wrote. The bytes are machine code: only from a trusted place."""
    return client.deserialize_executable(blob, DeviceList(tuple(devices)), options)
