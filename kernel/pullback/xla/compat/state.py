"""jaxlib itself and its process-wide state: version, classes, settings, the hidden import of jax.

Imported before anything else of jaxlib. Tested in tests/xla/test_compat.py.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

# Read when the library is loaded: keeps C++ log lines out of the notebook (fatal ones still show).
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import jaxlib
from jaxlib import _jax
from jaxlib import xla_client as xc

from pullback.core.aval import make_aval

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


def real_jax_loaded() -> bool:
    """Whether the real jax is loaded in this process (our alias of the name is not it)."""
    config = sys.modules.get("jax._src.config")
    return isinstance(getattr(config, "enable_x64", None), Config)


def make_config(name: str, value: Any, *, in_jit_key: bool) -> Any:
    """A C++ thread-local setting; with `in_jit_key` a new value makes dispatchers miss once."""
    config = Config(name, value, include_in_jit_key=in_jit_key)
    (_jit_key_configs if in_jit_key else _other_configs).append(config)
    return config


_jit_key_configs: list[Any] = []
_other_configs: list[Any] = []  # C++ keeps no reference to them


def jit_key_context() -> tuple[Any, ...]:
    return tuple(config.value for config in _jit_key_configs)


def _bootstrap() -> None:
    """Give the dispatcher the three states that it asks for, unless the real jax has done so.

    The x64 state is always True here: values reach C++ already converted, and a False would cut
    int64 to int32.
    """
    if not hasattr(SingleDeviceSharding, "_to_xla_hlo_sharding"):
        # jaxlib 0.10.2 asks this of Python in batched_device_put; from 0.11 on C++ does it.
        SingleDeviceSharding._to_xla_hlo_sharding = lambda self, ndim: HloSharding.replicate()
    if real_jax_loaded():
        return
    _jax.jax_jit.set_enable_x64_state(make_config("pullback_cpp_x64", True, in_jit_key=False))
    _jax.jax_jit.set_disable_jit_state(
        make_config("pullback_cpp_disable_jit", False, in_jit_key=False)
    )
    _jax.jax_jit.set_post_hook_state(make_config("pullback_cpp_post_hook", None, in_jit_key=False))


_bootstrap()

_guard = threading.RLock()


def _make_shard_aval(shape: Any, dtype: Any, weak_type: bool = False) -> Any:
    """The type of a shard, for C++: ours, or the real jax's once that is loaded."""
    if real_jax_loaded():
        return sys.modules["jax._src.core"].ShapedArray(shape, dtype, weak_type)
    return make_aval(tuple(shape), dtype, weak_type)


def _make_shard_sharding(device: Any, memory_kind: str | None = None) -> Any:
    return SingleDeviceSharding(device, memory_kind=memory_kind)


def _stand_ins() -> dict[str, ModuleType]:
    names = ("jax", "jax.core", "jax._src.sharding_impls")
    modules = {name: ModuleType(name) for name in names}
    modules["jax.core"].__dict__["ShapedArray"] = _make_shard_aval
    modules[names[2]].__dict__["make_single_device_sharding"] = _make_shard_sharding
    return modules


_STAND_INS = _stand_ins()


@contextmanager
def no_jax_import() -> Iterator[None]:
    """Around a C++ call that takes an array apart: it then imports no jax.

    For the type and place of each shard C++ imports two functions of jax. It looks for
    `jax.core.ShapedArray` once in the process, and where that fails, a real jax that is imported
    later gets None for ever; so it finds our maker instead, which serves both. Where the real jax
    is loaded already nothing is done.
    """
    if real_jax_loaded():
        yield
        return
    with _guard:
        before = {name: sys.modules.get(name) for name in _STAND_INS}
        sys.modules.update(_STAND_INS)
        try:
            yield
        finally:
            for name, module in before.items():
                if module is None:
                    del sys.modules[name]
                else:
                    sys.modules[name] = module
