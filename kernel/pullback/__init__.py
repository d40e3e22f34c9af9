"""Pullback: differentiable computing in notebooks. This file is an index: names load when first used.

The public names follow JAX's; see the README for what is there.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

# Read when jaxlib is loaded, which any module below may do first: keeps XLA's log lines (fatal ones
# excepted) out of the notebook.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

__version__ = "0.1.0"

_MODULES = (
    "ad_checkpoint checkpoint_policies custom_batching custom_derivatives debug dlpack dtypes "
    "errors experimental flatten_util lax magics nn numpy ops random scipy sharding stages tree "
    "tree_util typing views"
).split()

_NAMES = {
    "api.autodiff": "grad jvp linear_transpose linearize value_and_grad vjp",
    "api.fwd_and_bwd": "fwd_and_bwd",
    "api.jacobian": "hessian jacfwd jacrev",
    "api.vmap": "vmap",
    "api.jit": "eval_shape jit make_jaxpr",
    "api.stages": "ShapeDtypeStruct",
    "api.place": (
        "block_until_ready copy_to_host_async device_get device_put device_put_replicated "
        "device_put_sharded live_arrays clear_caches"
    ),
    "api.pmap": "pmap",
    "api.shard_map": "shard_map",
    "api.custom": "custom_jvp custom_vjp custom_gradient closure_convert",
    "api.checkpoint": "checkpoint remat",
    "api.effects": "pure_callback effects_barrier",
    "core.config": (
        "config enable_x64 disable_jit debug_nans debug_infs checking_leaks check_tracer_leaks "
        "log_compiles explain_cache_misses default_matmul_precision default_prng_impl "
        "default_device enable_checks enable_custom_prng numpy_rank_promotion "
        "numpy_dtype_promotion threefry_partitionable transfer_guard "
        "transfer_guard_device_to_device transfer_guard_device_to_host "
        "transfer_guard_host_to_device debug_key_reuse softmax_custom_jvp legacy_prng_key"
    ),
    "core.aval": "typeof",
    "core.dtypes": "float0",
    "api.evaltime": "ensure_compile_time_eval named_call named_scope",
    "random.threefry": "threefry2x32_p",
    "xla.array": "Shard",
    "numpy.ndarray": "Array",
    "xla.client": (
        "Device default_backend device_count devices local_device_count local_devices "
        "process_count process_index"
    ),
    "xla.mesh": "make_mesh",
    "xla.sharding": "NamedSharding",
    "ipython.extension": "load_ipython_extension unload_ipython_extension",
}

_OTHER = {
    "Mesh": ("xla.sharding", "Mesh"),
    "P": ("xla.sharding", "PartitionSpec"),
    "print_environment_info": ("ipython.doctor", "print_environment_info"),
}

_where: dict[str, tuple[str, str]] = dict(_OTHER)
for _module, _text in _NAMES.items():
    for _name in _text.split():
        _where[_name] = (_module, _name)

_ENGINE = frozenset({"lax", "random", "nn", "ops", "scipy"})

__all__ = ["__version__", *_MODULES, *_where]


def __getattr__(name: str) -> Any:
    if name in _ENGINE or name in _where:
        # Operators and methods of arrays live in numpy/, above the engine: attach them before
        # anyone can hold an array.
        importlib.import_module(f"{__name__}.numpy")
    if name in _where:
        module, attribute = _where[name]
        value = getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
    elif name in _MODULES:
        value = importlib.import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
