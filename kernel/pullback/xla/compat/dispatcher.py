"""The C++ dispatcher: a callable that finds the executable for its arguments' types and runs it.

Builds on state, registry, buffers, programs and, as the way out, xla/pydispatch.
Tested in tests/xla/test_compat.py.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxlib import _jax

from pullback.xla import pydispatch
from pullback.xla.compat.buffers import (
    device_put_buffer,
    result_handler,
    single_device_sharding,
    to_numpy,
)
from pullback.xla.compat.programs import compile_options, make_cpu_client
from pullback.xla.compat.registry import dispatch_registry
from pullback.xla.compat.state import ArrayImpl, DeviceList, jaxlib_version, jit_key_context


class _FastFields(NamedTuple):
    xla_executable: Any
    out_pytree_def: Any
    in_shardings: Sequence[Any]
    out_shardings: Sequence[Any]
    out_avals: Sequence[Any]
    out_committed: Sequence[bool]
    kept_var_bitvec: Sequence[bool]
    in_device_local_layouts: Sequence[Any]
    const_args: Sequence[Any]


class FastData(_FastFields):
    """What a cache miss hands to the dispatcher so that the next such call stays in C++.

    Args:
        xla_executable: the C++ executable.
        out_pytree_def: structure of the result in `dispatch_registry`.
        in_shardings, in_device_local_layouts: one for each constant and kept argument.
        out_shardings, out_avals, out_committed: one for each result.
        kept_var_bitvec: for each argument whether the executable takes it.
        const_args: C++ arrays put before the arguments.
    """

    __slots__ = ()

    def __new__(
        cls,
        xla_executable: Any,
        out_pytree_def: Any,
        in_shardings: Sequence[Any],
        out_shardings: Sequence[Any],
        out_avals: Sequence[Any],
        out_committed: Sequence[bool],
        kept_var_bitvec: Sequence[bool],
        in_device_local_layouts: Sequence[Any],
        const_args: Sequence[Any],
    ) -> FastData:
        # C++ reads the bits of the constants too, and beyond the list's end when they are left out.
        kept = [True] * len(const_args) + list(kept_var_bitvec)
        return super().__new__(
            cls,
            xla_executable,
            out_pytree_def,
            in_shardings,
            out_shardings,
            out_avals,
            out_committed,
            kept,
            in_device_local_layouts,
            const_args,
        )


CacheMiss = Callable[..., tuple[Any, "FastData | None", bool]]

_pjit_cache = _jax.PjitFunctionCache(8192)


def make_pjit(
    name: str,
    fun: Callable[..., Any] | None,
    cache_miss: CacheMiss,
    static_argnums: Sequence[int] = (),
    static_argnames: Sequence[str] = (),
    key: Hashable = (),
    shard_arg_fallback: Callable[[Any, Any, Any], Any] | None = None,
) -> Any:
    """A callable that finds the executable for its arguments' types and runs it, all in C++.

    Args:
        name: what the callable shows.
        fun: held weakly; calls with the same `fun` and equal `key` share entries. None: a cache
            of its own.
        cache_miss: called with the raw arguments on a new signature; returns (result, FastData or
            None, forget). None with forget False means that this signature is Python's for ever;
            with True C++ asks again at the next call.
        static_argnums, static_argnames: arguments that are compared by value.
        key: further part of the cache key; not None.
        shard_arg_fallback: `(value, sharding, layout) -> ArrayImpl` for an argument that lies
            elsewhere than the executable wants it.
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
            jit_key_context,
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
        f"an argument of type {type(value).__name__} is not where the program wants it "
        f"({sharding}); move it with device_put first"
    )


def clear_dispatch_caches() -> None:
    """Forget every signature of every dispatcher; the next calls miss once."""
    _jax.PjitFunctionCache.clear_all()
    pydispatch.clear_all()


# Versions whose dispatcher the tests have driven; any other is tried once, on a compiled program.
_TESTED_JAXLIB = ("0.10.2", "0.11.", "0.12.")


@functools.cache
def fast_dispatch_works() -> bool:
    """Whether the C++ dispatcher can be used; if not, the Python one serves, 3 us a call slower."""
    wanted = os.environ.get("PULLBACK_DISPATCH", "auto")
    if wanted not in ("auto", "cpp", "python"):
        raise ValueError(f"PULLBACK_DISPATCH must be auto, cpp or python, not {wanted!r}")
    if wanted != "auto":
        return wanted == "cpp"
    return jaxlib_version.startswith(_TESTED_JAXLIB) or dispatch_self_test() is None


_TWICE = """func.func public @main(%a: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.add %a, %a : tensor<f32>
  return %0 : tensor<f32>
}"""


def dispatch_self_test() -> str | None:
    """None when a program runs right through the C++ dispatcher, else what went wrong."""

    class Type:
        shape, dtype, weak_type = (), np.dtype(np.float32), False

    misses = []
    try:
        client = make_cpu_client(1)
        device = client.local_devices()[0]
        sharding = single_device_sharding(device)
        loaded = client.compile_and_load(_TWICE, DeviceList((device,)), compile_options([device]))
        handler = result_handler(Type, sharding, False)

        def miss(x: Any) -> tuple[Any, FastData, bool]:
            misses.append(1)
            out = loaded.execute_sharded([x]).consume_with_handlers([handler])[0]
            tree = dispatch_registry.flatten(out)[1]
            s, a = [sharding], [Type]
            return out, FastData(loaded, tree, s, s, a, [False], [True], [None], []), False

        call = _cpp_pjit("self_test", None, miss, (), (), "self_test", _no_shard_arg)
        x = device_put_buffer(np.array(1.5, np.float32), Type, device, committed=False)
        values = [float(to_numpy(call(x))) for _ in range(3)]
    except (AttributeError, TypeError, ValueError, RuntimeError) as e:
        return f"{type(e).__name__}: {e}"
    if values != [3.0] * 3 or len(misses) != 1:
        return f"expected 3.0 three times with one miss, got {values} with {len(misses)}"
    return None
