"""Running primitives and jaxprs on concrete arrays: the eager cache and compiled jaxprs.

Builds on lowering.py, compile.py, array.py; gives the core its `eval_trace.run` and `backend.run`.
Tested in tests/xla/test_dispatch.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.core import pytree
from pullback.core.aval import ShapedArray, typeof
from pullback.core.config import config
from pullback.core.jaxpr import Eqn, Jaxpr, Var, inner_jaxprs
from pullback.core.tracer import Primitive, backend, eval_trace
from pullback.xla import client, compat, spmd
from pullback.xla.arguments import (
    buffer_of,
    clear_scalars,
    move_together,
    n_scalars,
    refuse_deleted,
    scalar_array,
    to_buffer,
)
from pullback.xla.array import Array
from pullback.xla.callbacks import run_to_end
from pullback.xla.compile import Executable, compile_module
from pullback.xla.lowering import LoweredModule, lower_module

compat.register_array_class(Array)
pytree.mirror_into(compat.dispatch_registry)


# --------------------------------------------------------------------------- compiled programs


class CompiledJaxpr:
    """An executable of a jaxpr for one device with what is needed to call it from Python."""

    __slots__ = (
        "committed",
        "device",
        "executable",
        "handlers",
        "has_callbacks",
        "in_avals",
        "lowered",
        "out_avals",
        "run_bufs",
    )

    def __init__(
        self,
        executable: Executable,
        in_avals: Any,
        out_avals: Any,
        device: Any,
        committed: bool,
        has_callbacks: bool = False,
    ) -> None:
        sharding = compat.single_device_sharding(device)
        self.executable = executable
        self.in_avals = in_avals
        self.out_avals = out_avals
        self.device = device
        self.committed = committed
        self.handlers = [compat.result_handler(a, sharding, committed) for a in out_avals]
        self.has_callbacks = has_callbacks
        execute, handlers = executable.loaded.execute_sharded, self.handlers

        def run_bufs(bufs: list[Any]) -> list[Any]:
            if has_callbacks:
                return run_to_end(execute, bufs, handlers)
            return execute(bufs).consume_with_handlers(handlers)

        self.run_bufs = run_bufs

    def __call__(self, bufs: list[Any]) -> list[Array]:
        try:
            return [Array(b) for b in self.run_bufs(bufs)]
        except compat.XlaRuntimeError:
            refuse_deleted(bufs)
            raise


def compile_lowered(
    lowered: LoweredModule,
    in_avals: Sequence[ShapedArray],
    out_avals: Sequence[ShapedArray],
    device: Any,
    committed: bool,
    compiler_options: dict[str, Any] | None = None,
) -> CompiledJaxpr:
    """Compile a lowered module for one device."""
    executable = compile_module(
        lowered.module,
        name=lowered.name,
        devices=(device,),
        callbacks=lowered.callbacks,
        compiler_options=compiler_options,
    )
    return CompiledJaxpr(
        executable, list(in_avals), list(out_avals), device, committed, bool(lowered.callbacks)
    )


def compile_jaxpr(
    jaxpr: Jaxpr,
    device: Any,
    committed: bool,
    name: str = "",
    donated: Sequence[bool] = (),
    separately: bool = False,
) -> CompiledJaxpr:
    """The executable of a jaxpr without constvars, kept with it.

    With `separately`, no operations are fused or rewritten together, so that each gives the same
    bits as when it is run alone.
    """
    key = ("compiled", device, committed, tuple(donated), separately, config.trace_key())
    found = jaxpr.cache.get(key)
    if found is None:
        lowered = lower_module(
            jaxpr,
            name or jaxpr.debug_name,
            platform=device.platform,
            donated=donated,
            separately=separately,
        )
        own = separately and device.platform == "cpu"  # elsewhere fusing is what makes it fast
        options = compat.SEPARATE_OPERATIONS if own else None
        found = jaxpr.cache[key] = compile_lowered(
            lowered, jaxpr.in_avals, jaxpr.out_avals, device, committed, options
        )
    return found


# --------------------------------------------------------------------------- eager operations

# key -> (run, avals whose ids stand in the key, the compiled program if it runs on one device)
_eager: dict[tuple, tuple[Callable[[list[Any]], Any], tuple, CompiledJaxpr | None]] = {}
# Primitive, or (primitive, *parameter items) -> a C++ dispatcher over the signatures seen.
_dispatchers: dict[Any, Any] = {}
_EAGER_LIMIT = 16384

# Observers of each operation run, for debug_nans and the like: called with (primitive, results).
after_run: list[Callable[[Primitive, Sequence[Array]], None]] = []
# Called when the caches are emptied.
on_clear: list[Callable[[], None]] = []
# Observers of each program run: called with (jaxpr, arguments, results, name).
after_program: list[Callable[[Jaxpr, Sequence[Any], Sequence[Any], str], None]] = []


def run_primitive(prim: Primitive, args: tuple, params: dict) -> Any:
    """Run one primitive on concrete arguments: in C++ where the signature has been seen."""
    key = (prim, *params.items()) if params else prim
    call = _dispatchers.get(key)
    if call is None or after_run:
        return _run_in_python(prim, args, params)
    for x in args:
        if type(x) is not Array:
            args = tuple([a if type(a) is Array else scalar_array(a) for a in args])
            break
    try:
        return call(*args)
    except (RuntimeError, ValueError):
        refuse_deleted([x._buf for x in args])
        raise


def _dispatcher(prim: Primitive, params: dict) -> Any:
    """A C++ dispatcher for a primitive: what it has not seen goes through Python once."""

    def miss(*args: Array) -> tuple[Any, Any, bool]:
        out = _run_in_python(prim, args, params)
        compiled = compiled_at_home(prim, [x._buf for x in args], params)
        if compiled is None:
            return out, None, False
        home = compat.single_device_sharding(compiled.device)
        n_in, n_out = len(args), len(compiled.out_avals)
        fast = compat.FastData(
            compiled.executable.loaded,
            compat.dispatch_registry.flatten(out)[1],
            [home] * n_in,
            [home] * n_out,
            compiled.out_avals,
            [compiled.committed] * n_out,
            [True] * n_in,
            [None] * n_in,
            [],
        )
        return out, fast, False

    return compat.make_pjit(prim.name, None, miss)


def compiled_at_home(prim: Primitive, bufs: list[Any], params: dict) -> CompiledJaxpr | None:
    """The program that has run a primitive on such buffers, if they all lie on the default device."""
    device = client.default_device()
    home = compat.single_device_sharding(device)
    if any(b._sharding is not home for b in bufs):
        return None
    committed = any(b._committed for b in bufs)
    entry = _eager.get((prim, device, committed, *[id(b.aval) for b in bufs], *params.items()))
    return None if entry is None else entry[2]


def _remember(prim: Primitive, params: dict) -> None:
    """Let the next calls of a primitive go to C++."""
    key = (prim, *params.items()) if params else prim
    if key not in _dispatchers:
        if len(_dispatchers) >= _EAGER_LIMIT:
            _dispatchers.clear()
        _dispatchers[key] = _dispatcher(prim, params)


def _run_in_python(prim: Primitive, args: tuple, params: dict) -> Any:
    """Run one primitive on concrete arguments by its cached executable."""
    device = client.default_device()
    home = compat.single_device_sharding(device)
    bufs = []
    # Avals are interned and kept alive by the cache entries, so that their ids may stand for them.
    key: list[Any] = [prim, device, False]
    for x in args:
        buf = x._buf if type(x) is Array else buffer_of(x, device)
        bufs.append(buf)
        key.append(id(buf.aval))
        if buf._sharding is not home:
            return _run_away(prim, args, params)
        if buf._committed:
            key[2] = True
    if params:
        key.extend(params.items())
    entry = _eager.get(tuple(key)) or _compile_primitive(
        tuple(key), prim, params, tuple([b.aval for b in bufs]), device, key[2]
    )
    try:
        if after_run:
            return _observed(prim, entry[0](bufs))
        if entry[2] is not None:
            _remember(prim, params)
        return entry[0](bufs)
    except compat.XlaRuntimeError:
        refuse_deleted(bufs)
        raise


def observed_program(jaxpr: Jaxpr, args: Sequence[Any], outs: list[Any], name: str) -> list[Any]:
    """The results of a program, shown to the observers of programs."""
    for observer in tuple(after_program):
        observer(jaxpr, args, outs, name)
    return outs


def _observed(prim: Primitive, out: Any) -> Any:
    for observer in tuple(after_run):
        observer(prim, out if prim.multiple_results else [out])
    return out


def _compile_primitive(
    key: tuple, prim: Primitive, params: dict, avals: tuple, device: Any, committed: bool
) -> tuple[Callable[[list[Any]], Any], tuple, CompiledJaxpr | None]:
    # A program over an inner jaxpr (a loop, say) is kept with it, and goes when it goes.
    inner = next(iter(inner_jaxprs(params)), None)
    cache: dict[Any, Any] = _eager if inner is None else inner.cache
    if key in cache:
        return cache[key]
    jaxpr = primitive_jaxpr(prim, params, avals)
    mesh = spmd.find_mesh(jaxpr)
    if mesh is not None:
        cache[key] = (_over_mesh(jaxpr, mesh, prim), avals, None)
        return cache[key]
    lowered = lower_module(jaxpr, prim.name, platform=device.platform)
    compiled = compile_lowered(lowered, avals, jaxpr.out_avals, device, committed)
    execute, handlers = compiled.executable.loaded.execute_sharded, compiled.handlers
    keep = compiled

    if prim.multiple_results:

        def run(bufs: list[Any]) -> Any:
            return [Array(b) for b in keep.run_bufs(bufs)]

    else:

        def run(bufs: list[Any]) -> Any:
            return Array(execute(bufs).consume_with_handlers(handlers)[0])

    if len(_eager) >= _EAGER_LIMIT:
        _eager.clear()
    in_cpp = inner is None and not lowered.callbacks
    cache[key] = (run, avals, compiled if in_cpp else None)
    return cache[key]


def _over_mesh(jaxpr: Jaxpr, mesh: Any, prim: Primitive) -> Callable[[list[Any]], Any]:
    """What runs a primitive whose inner program is divided over the devices of a mesh."""

    def run(bufs: list[Any]) -> Any:
        outs = spmd.run_spmd(jaxpr, [Array(b) for b in bufs], mesh, prim.name)
        return outs if prim.multiple_results else outs[0]

    return run


def primitive_jaxpr(prim: Primitive, params: dict, avals: Sequence[ShapedArray]) -> Jaxpr:
    """The jaxpr of a single equation."""
    invars = [Var(a) for a in avals]
    out = prim.abstract(*avals, **params)
    outvars = [Var(a) for a in (out if prim.multiple_results else (out,))]
    return Jaxpr((), invars, outvars, [Eqn(prim, invars, outvars, params)], prim.name)


def _run_away(prim: Primitive, args: tuple, params: dict) -> Any:
    """Run where a committed argument lives: another device, or several."""
    mesh = spmd.input_mesh(args)
    if mesh is not None:
        return _observed(prim, _run_spread(prim, args, params, mesh))
    default = client.default_device()
    device, bufs, committed = move_together(
        [x._buf if type(x) is Array else to_buffer(x, default) for x in args]
    )
    avals = tuple([b.aval for b in bufs])
    key = (prim, tuple(params.items()), avals, device, committed)
    entry = _eager.get(key) or _compile_primitive(key, prim, params, avals, device, committed)
    return _observed(prim, entry[0](bufs))


def _run_spread(prim: Primitive, args: tuple, params: dict, mesh: Any) -> Any:
    """Run one primitive over the devices of a mesh that an argument is spread over."""
    avals = tuple([typeof(x) for x in args])
    key = ("spread", prim, tuple(params.items()), avals)
    entry = _eager.get(key)
    if entry is None:
        jaxpr = primitive_jaxpr(prim, params, avals)
        entry = _eager[key] = (lambda bufs: jaxpr, avals, None)
    outs = spmd.run_spmd(entry[0]([]), args, mesh, prim.name)
    return outs if prim.multiple_results else outs[0]


def run_jaxpr(jaxpr: Jaxpr, args: Sequence[Any], params: dict) -> list[Any]:
    """Run a jaxpr (without constvars) on concrete arguments by its compiled form."""
    name, separately = params.get("name", ""), params.get("separately", False)
    mesh = spmd.find_mesh(jaxpr)
    if mesh is not None:
        return spmd.run_spmd(jaxpr, args, mesh, name)
    device = client.default_device()
    home = compat.single_device_sharding(device)
    bufs = []
    away = committed = False
    for x in args:
        buf = x._buf if type(x) is Array else buffer_of(x, device)
        bufs.append(buf)
        if buf._sharding is not home:
            away = True
        if buf._committed:
            committed = True
    if away:
        mesh = spmd.input_mesh(args)
        if mesh is not None:
            outs = spmd.run_spmd(jaxpr, args, mesh, name)
            return observed_program(jaxpr, args, outs, name)
        device, bufs, committed = move_together(bufs)
        outs = compile_jaxpr(jaxpr, device, committed, name, separately=separately)(bufs)
        return observed_program(jaxpr, args, outs, name)
    key = ("home", committed, separately)
    fast = jaxpr.cache.get(key)
    if fast is None or fast[0] is not device or fast[1] != config.trace_key():
        compiled = compile_jaxpr(jaxpr, device, committed, name, separately=separately)
        fast = jaxpr.cache[key] = (device, config.trace_key(), compiled.run_bufs)
    try:
        outs = [Array(b) for b in fast[2](bufs)]
    except compat.XlaRuntimeError:
        refuse_deleted(bufs)
        raise
    if after_program:
        observed_program(jaxpr, args, outs, name)
    return outs


def clear_caches() -> None:
    """Forget every eager executable and scalar."""
    _eager.clear()
    clear_scalars()
    _dispatchers.clear()
    for forget in on_clear:
        forget()


def cache_sizes() -> dict[str, int]:
    """The number of entries of each cache."""
    return {"eager": len(_eager), "scalars": n_scalars()}


eval_trace.run = run_primitive
backend.run = run_jaxpr
backend.watched = lambda: bool(after_run or after_program or config.jax_disable_jit)
