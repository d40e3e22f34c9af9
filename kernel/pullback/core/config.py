"""Settings: one `config` object with JAX's option names, for the process and for a thread's blocks.

Reading an option is a plain attribute read. A value set with `config.update` holds for the process;
one set by a context manager (`enable_x64(True)` ...) for the block and its thread. Environment
variables (`JAX_ENABLE_X64` or `PULLBACK_ENABLE_X64`) give the start values.

Builds on the standard library only. Tested in tests/core/test_config.py.
"""

from __future__ import annotations

import difflib
import os
import threading
import warnings
from collections.abc import Callable
from contextlib import ContextDecorator
from dataclasses import dataclass
from typing import Any

_TRUE = frozenset({"1", "true", "t", "yes", "y", "on"})
_FALSE = frozenset({"0", "false", "f", "no", "n", "off"})


@dataclass(frozen=True, slots=True)
class Option:
    """One setting.

    Attributes:
        name: its name, as in `config.<name>`.
        default: its value unless something else is said.
        kind: bool, int, float or str; or a tuple of the admitted texts; or object for anything.
        doc: what it does.
        optional: whether None is admitted.
        in_key: whether it changes what is traced or lowered.
        inert: whether another value than the default changes nothing on this engine.
    """

    name: str
    default: Any
    kind: Any
    doc: str
    optional: bool = False
    in_key: bool = False
    inert: bool = False

    def convert(self, value: Any) -> Any:
        """The value in the option's type.

        Raises:
            TypeError: it is of another type.
            ValueError: it is not one of the admitted values.
        """
        kind = self.kind
        if (value is None and self.optional) or kind is object:
            return value
        if kind is bool:
            return self._convert_bool(value)
        if isinstance(kind, tuple):
            text = getattr(value, "value", value)
            if text in kind:
                return text
            raise self._refused(value, f"one of {', '.join(map(repr, kind))}", ValueError)
        if kind in (int, float) and isinstance(value, (int, float, str)):
            try:
                return kind(value)
            except ValueError:
                raise self._refused(value, f"a value of type {kind.__name__}", ValueError) from None
        if isinstance(value, kind):
            return value
        raise self._refused(value, f"a value of type {kind.__name__}", TypeError)

    def _convert_bool(self, value: Any) -> bool:
        if isinstance(value, (bool, int)) and value in (0, 1):
            return bool(value)
        if isinstance(value, str):
            text = value.strip().lower()
            if text in _TRUE:
                return True
            if text in _FALSE:
                return False
        raise self._refused(value, "True or False", TypeError)

    def _refused(self, value: Any, wanted: str, error: type[Exception]) -> Exception:
        none = " or None" if self.optional else ""
        return error(
            f"config: {self.name} takes {wanted}{none}, got {value!r} ({type(value).__name__}).\n"
            f"Instead: config.update({self.name!r}, {self.default!r}) is the default."
        )


_GUARD = ("allow", "log", "disallow", "log_explicit", "disallow_explicit")
_PRECISIONS = (
    *("default", "high", "highest", "bfloat16", "bfloat16_3x", "tensorfloat32", "float32"),
    *("ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY"),
    *("ANY_F8_ANY_F8_ANY_FAST_ACCUM", "F16_F16_F16", "F16_F16_F32", "BF16_BF16_BF16"),
    *("BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "BF16_BF16_F32_X9"),
    *("TF32_TF32_F32", "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64"),
)

# name, default, kind, what it does; then the flags: k = part of the trace key, n = None admitted,
# i = changing it has no effect here (and warns).
_ROWS: list[tuple[str, Any, Any, str, str]] = [
    ("jax_enable_x64", False, bool, "64-bit types; off, they become their 32-bit ones", "k"),
    ("jax_disable_jit", False, bool, "jit and control flow run as plain Python", "k"),
    ("jax_debug_nans", False, bool, "a NaN in a result raises FloatingPointError", "k"),
    ("jax_debug_infs", False, bool, "an infinity in a result raises FloatingPointError", "k"),
    ("jax_numpy_rank_promotion", "allow", ("allow", "warn", "raise"),
     "what operands of different rank do", "k"),
    ("jax_numpy_dtype_promotion", "standard", ("standard", "strict"),
     "how operands of different dtype are promoted", "k"),
    ("jax_default_matmul_precision", None, _PRECISIONS,
     "precision of matrix products and convolutions that state none", "kn"),
    ("jax_threefry_partitionable", False, bool,
     "random bits that do not depend on how the result is sharded (another stream)", "k"),
    ("jax_default_prng_impl", "threefry2x32", ("threefry2x32",),
     "generator of keys that name none", "k"),
    ("jax_enable_custom_prng", False, bool, "PRNGKey makes typed keys", "k"),
    ("jax_legacy_prng_key", "allow", ("allow", "warn", "error"), "what raw uint32 keys do", "k"),
    ("jax_random_seed_offset", 0, int, "added to every seed", "k"),
    ("jax_high_dynamic_range_gumbel", False, bool, "more exact Gumbel samples", "i"),
    ("jax_softmax_custom_jvp", True, bool, "softmax has its short derivative", "i"),
    ("jax_debug_key_reuse", False, bool, "using a key twice raises KeyReuseError", "k"),
    ("jax_check_tracer_leaks", False, bool, "a tracer that outlives its trace raises", "k"),
    ("jax_experimental_unsafe_xla_runtime_errors", False, bool,
     "a checkify.check in a compiled program raises", "k"),
    ("jax_enable_checks", False, bool, "check every jaxpr after every pass", "k"),
    ("jax_explicit_x64_dtypes", "warn", ("allow", "warn", "error"),
     "what a request for a 64-bit dtype does while jax_enable_x64 is off", "k"),
    ("jax_error_checking_behavior_nan", "ignore", ("ignore", "raise"), "see error_check", "i"),
    ("jax_error_checking_behavior_divide", "ignore", ("ignore", "raise"), "see error_check", "i"),
    ("jax_error_checking_behavior_oob", "ignore", ("ignore", "raise"), "see error_check", "i"),
    ("jax_default_device", None, object, "where arrays and programs without a device go", "kn"),
    ("jax_log_compiles", False, bool, "log each trace, lowering and compilation", ""),
    ("jax_explain_cache_misses", False, bool, "log why a jitted function was traced again", ""),
    ("jax_transfer_guard", None, _GUARD, "the three transfer guards together", "n"),
    ("jax_transfer_guard_host_to_device", None, _GUARD, "implicit copies to the device", "n"),
    ("jax_transfer_guard_device_to_device", None, _GUARD, "implicit copies of devices", "n"),
    ("jax_transfer_guard_device_to_host", None, _GUARD, "implicit copies to the host", "n"),
    ("jax_traceback_filtering", "auto",
     ("auto", "off", "tracebackhide", "remove_frames", "quiet_remove_frames"),
     "whether engine frames are removed from tracebacks", ""),
    ("jax_tracer_error_num_traceback_frames", 5, int, "frames shown for a leaked tracer", "i"),
    ("jax_platforms", None, str, "platforms to use, in order, e.g. 'cpu' or 'cuda,cpu'", "n"),
    ("jax_platform_name", "", str, "the default platform", ""),
    ("jax_num_cpu_devices", -1, int, "CPU devices of the process (-1: one)", ""),
    ("jax_cuda_visible_devices", "all", str, "indices of the CUDA devices to use", "i"),
    ("jax_rocm_visible_devices", "all", str, "indices of the ROCm devices to use", "i"),
    ("jax_cpu_collectives_implementation", "gloo", ("none", "gloo", "mpi", "megascale"),
     "how CPU processes talk to each other", "ni"),
    ("jax_cpu_enable_async_dispatch", True, bool, "calls return before the CPU is done", ""),
    ("jax_enable_compilation_cache", True, bool, "keep compiled programs on disk", ""),
    ("jax_compilation_cache_dir", None, str, "where they are kept (None: the user's cache)", "n"),
    ("jax_compilation_cache_max_size", -1, int, "bytes kept at most (-1: the built-in bound)", ""),
    ("jax_persistent_cache_min_compile_time_secs", 0.0, float, "faster compiles are not kept", ""),
    ("jax_persistent_cache_min_entry_size_bytes", 0, int, "smaller programs are not kept", ""),
    ("jax_raise_persistent_cache_errors", False, bool, "raise on a faulty entry", ""),
    ("jax_captured_constants_warn_bytes", 2_000_000_000, int, "warn above this (-1: never)", "i"),
    ("jax_optimization_level", "UNKNOWN", ("UNKNOWN", "O0", "O1", "O2", "O3"), "XLA's effort", "k"),
    ("jax_disable_most_optimizations", False, bool, "compile with little optimisation", "k"),
    ("jax_dump_ir_to", "", str, "directory that lowered programs are written to", ""),
    ("jax_pprint_use_color", True, bool, "colours in printed jaxprs on a terminal", "i"),
    ("jax_logging_level", "NOTSET", ("NOTSET", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
     "level of the engine's logger", "i"),
]  # fmt: skip

OPTIONS: dict[str, Option] = {
    name: Option(name, default, kind, doc, "n" in flags, "k" in flags, "i" in flags)
    for name, default, kind, doc, flags in _ROWS
}
_KEY_NAMES = tuple(name for name, option in OPTIONS.items() if option.in_key)

# Options of JAX that tune parts which this engine does not have: accepted, with a warning.
INAPPLICABLE = frozenset(
    "jax_" + name
    for name in (
        "allow_f16_reductions array_garbage_collection_guard auto_pcast bcoo_cusparse_lowering "
        "check_proxy_envs check_static_indices compilation_cache_check_contents "
        "compilation_cache_expect_pgle compilation_cache_include_metadata_in_key "
        "compiler_enable_remat_pass custom_vjp3 debug_log_modules disable_bwd_checks "
        "disable_vmap_shmap_error distributed_debug embedded_constants_max_bytes "
        "enable_pgle exec_time_optimization_effort memory_fitting_effort memory_fitting_level "
        "include_full_tracebacks_in_locations include_debug_info_in_dumps mutable_array_checks "
        "persistent_cache_enable_xla_caches pjrt_client_create_options refs_to_pins remat3 scan3 "
        "serialization_version share_binary_between_hosts sort_devices_by_process_index "
        "thread_guard threefry_gpu_kernel_lowering traceback_in_locations_limit "
        "use_direct_linearize use_magma use_shardy_partitioner use_simplified_jaxpr_constants "
        "xla_backend"
    ).split()
)

_MISSING = object()
_lock = threading.Lock()
_interned_keys: dict[tuple, tuple] = {}
_version = 0  # counts changes of process-wide values


def _start_value(option: Option) -> Any:
    """The value that the environment gives an option, or its default."""
    short = option.name.removeprefix("jax_").upper()
    for variable in (f"PULLBACK_{short}", f"JAX_{short}"):
        text = os.environ.get(variable)
        if text is not None and (text or option.kind is str):
            try:
                return option.convert(None if option.optional and text == "None" else text)
            except (TypeError, ValueError) as error:
                raise type(error)(f"environment variable {variable}: {error}") from None
    return option.default


class Config(threading.local):
    """The settings. A process-wide value is a class attribute, a thread's own an instance one."""

    _cached_key: tuple[int, tuple] = (-1, ())
    observers: list[Callable[[str], None]] = []

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_unknown(name))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"config.{name} cannot be assigned.\n"
            f"Instead: config.update({name!r}, {value!r}), or a context manager for a block."
        )

    def update(self, name: str, value: Any) -> None:
        """Set an option for the whole process.

        Args:
            name: its name, such as "jax_enable_x64".
            value: the new value.

        Raises:
            AttributeError: no such option; the message names the nearest one.
            TypeError, ValueError: the option does not take that value.
        """
        option = OPTIONS.get(name)
        if option is None:
            if name in INAPPLICABLE:
                warnings.warn(f"config: {name} has no effect on this engine", stacklevel=2)
                return
            raise AttributeError(_unknown(name))
        value = option.convert(value)
        _warn_if_inert(option, value)
        with _lock:
            setattr(Config, name, value)
            _next_version()
        _notify(name)

    def read(self, name: str) -> Any:
        """The value of an option."""
        if name not in OPTIONS:
            raise AttributeError(_unknown(name))
        return getattr(self, name)

    @property
    def values(self) -> dict[str, Any]:
        """All options with the values that hold in this thread."""
        return {name: getattr(self, name) for name in OPTIONS}

    def trace_key(self) -> tuple:
        """A hashable of all values that change tracing or lowering; the same object while equal."""
        version, key = self._cached_key
        if version != _version:
            version = _version
            key = tuple([getattr(self, name) for name in _KEY_NAMES])
            key = _interned_keys.setdefault(key, key)
            self.__dict__["_cached_key"] = (version, key)
        return key

    def set_local(self, name: str, value: Any) -> Any:
        """Set an option for the calling thread; gives what `restore_local` takes back."""
        own = self.__dict__
        previous = own.get(name, _MISSING)
        own[name] = value
        own["_cached_key"] = (-1, ())
        _notify(name)
        return previous

    def restore_local(self, name: str, previous: Any) -> None:
        """Undo a `set_local`."""
        own = self.__dict__
        if previous is _MISSING:
            own.pop(name, None)
        else:
            own[name] = previous
        own["_cached_key"] = (-1, ())
        _notify(name)

    def __repr__(self) -> str:
        changed = ", ".join(
            f"{name}={value!r}" for name, value in self.values.items()
            if value != OPTIONS[name].default
        )  # fmt: skip
        return f"Config({changed})"


def _warn_if_inert(option: Option, value: Any) -> None:
    if option.inert and value != option.default:
        warnings.warn(f"config: {option.name} has no effect on this engine", stacklevel=3)


def _next_version() -> None:
    global _version
    _version += 1


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name, OPTIONS, n=1) or difflib.get_close_matches(
        f"jax_{name}", OPTIONS, n=1
    )
    hint = f"Did you mean {close[0]!r}?" if close else "config.values lists all options."
    return f"config: unknown option {name!r}. {hint}"


def _notify(name: str) -> None:
    for observer in Config.observers:
        observer(name)


for _option in OPTIONS.values():
    setattr(Config, _option.name, _start_value(_option))

config = Config()


def config_changes(old: tuple, new: tuple) -> list[tuple[str, Any, Any]]:
    """The options that differ between two of `trace_key`'s values: name, old and new value."""
    triples = zip(_KEY_NAMES, old, new, strict=True)
    return [(name, a, b) for name, a, b in triples if a != b]


class Scope(ContextDecorator):
    """Options set inside a block, in the calling thread; also a decorator."""

    __slots__ = ("_changes", "_saved")

    def __init__(self, changes: dict[str, Any]) -> None:
        self._changes = {name: OPTIONS[name].convert(v) for name, v in changes.items()}
        for name, value in self._changes.items():
            _warn_if_inert(OPTIONS[name], value)
        self._saved: list[list[tuple[str, Any]]] = []

    def __enter__(self) -> None:
        self._saved.append([(n, config.set_local(n, v)) for n, v in self._changes.items()])

    def __exit__(self, *exc_info: object) -> None:
        for name, previous in reversed(self._saved.pop()):
            config.restore_local(name, previous)


def _switch(name: str) -> Callable[..., Scope]:
    def scope(new_val: Any = True) -> Scope:
        return Scope({name: new_val})

    return _named(scope, name)


def _choice(name: str) -> Callable[..., Scope]:
    def scope(new_val: Any) -> Scope:
        return Scope({name: new_val})

    return _named(scope, name)


def _named(scope: Callable[..., Scope], name: str) -> Callable[..., Scope]:
    scope.__name__ = scope.__qualname__ = name.removeprefix("jax_")
    scope.__doc__ = f"A block in which `{name}` holds: {OPTIONS[name].doc}."
    return scope


enable_x64 = _switch("jax_enable_x64")
debug_nans = _switch("jax_debug_nans")
debug_infs = _switch("jax_debug_infs")
debug_key_reuse = _switch("jax_debug_key_reuse")
enable_checks = _switch("jax_enable_checks")
enable_custom_prng = _switch("jax_enable_custom_prng")
log_compiles = _switch("jax_log_compiles")
explain_cache_misses = _switch("jax_explain_cache_misses")
check_tracer_leaks = _switch("jax_check_tracer_leaks")
softmax_custom_jvp = _switch("jax_softmax_custom_jvp")
threefry_partitionable = _switch("jax_threefry_partitionable")
numpy_rank_promotion = _choice("jax_numpy_rank_promotion")
numpy_dtype_promotion = _choice("jax_numpy_dtype_promotion")
default_matmul_precision = _choice("jax_default_matmul_precision")
default_prng_impl = _choice("jax_default_prng_impl")
default_device = _choice("jax_default_device")
legacy_prng_key = _choice("jax_legacy_prng_key")
transfer_guard_host_to_device = _choice("jax_transfer_guard_host_to_device")
transfer_guard_device_to_device = _choice("jax_transfer_guard_device_to_device")
transfer_guard_device_to_host = _choice("jax_transfer_guard_device_to_host")


def disable_jit(disable: bool = True) -> Scope:
    """A block in which jitted functions and control flow run as plain Python."""
    return Scope({"jax_disable_jit": disable})


def checking_leaks() -> Scope:
    """A block in which a tracer that outlives its trace raises."""
    return Scope({"jax_check_tracer_leaks": True})


def transfer_guard(new_val: str) -> Scope:
    """A block in which all three transfer guards hold."""
    directions = ("host_to_device", "device_to_device", "device_to_host")
    return Scope({f"jax_transfer_guard_{d}": new_val for d in directions})
