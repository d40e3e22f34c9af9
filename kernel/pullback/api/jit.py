"""`jit`, `make_jaxpr` and `eval_shape`.

Builds on program.py and stages.py. Tested in tests/api/test_jit.py.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from pullback.api import cache_misses as _cache_misses  # noqa: F401 (it follows its option)
from pullback.api import find_fault as _find_fault  # noqa: F401 (debug_nans asks it)
from pullback.api.program import JitFunction, JitOptions
from pullback.api.signature import names_and_numbers
from pullback.api.stages import ShapeDtypeStruct, Traced
from pullback.core import errors, pytree
from pullback.core.source import api_boundary
from pullback.core.tracer import state
from pullback.xla import arguments, compat, debug_values
from pullback.xla.array import Array


def _shard_arg(value: Any, sharding: Any, layout: Any) -> Any:
    device = arguments.first_device(sharding)
    buf = value._buf if isinstance(value, Array) else value
    if isinstance(buf, compat.ArrayImpl):
        return arguments.on_device(buf, device, False)
    return arguments.to_buffer(value, device)


debug_values.install()


@api_boundary
def jit(
    fun: Callable[..., Any] | None = None,
    /,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
) -> Any:
    """A function that is traced once per signature, compiled by XLA, and called from C++.

    Args:
        fun: a pure function of arrays and containers (pytrees) of arrays.
        static_argnums, static_argnames: arguments compiled in as constants; they must be hashable.
        donate_argnums, donate_argnames: arguments whose memory may be reused for results; they
            are deleted by the call.
        keep_unused: pass also arguments that the program does not read.
        device: where to run; by default where the arguments are.
        backend: the platform whose first device to run on.
        inline: in another program, write the equations in place rather than a call.
        compiler_options: XLA's options by name.

    Returns:
        A callable with `trace`, `lower`, `eval_shape` and `clear_cache`.

    Raises:
        ValueError: a number or name that is no argument, or an unhashable static argument.

    Example:
        >>> import pullback.numpy as jnp
        >>> jit(lambda x: x * 2)(jnp.arange(3))
        Array([0, 2, 4], dtype=int32)
    """
    if fun is None:
        return functools.partial(
            jit,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
            keep_unused=keep_unused,
            device=device,
            backend=backend,
            inline=inline,
            compiler_options=compiler_options,
        )
    if not callable(fun):
        raise errors.not_a_function("jit", fun)
    static_nums, static_names = names_and_numbers(fun, static_argnums, static_argnames)
    donate_nums, donate_names = names_and_numbers(fun, donate_argnums, donate_argnames)
    overlap = set(static_nums) & set(donate_nums)
    if overlap:
        raise ValueError(f"arguments {sorted(overlap)} cannot be both static and donated")
    options = JitOptions(
        static_nums,
        static_names,
        donate_nums,
        donate_names,
        keep_unused,
        backend if device is None else device,
        inline,
        tuple(sorted((compiler_options or {}).items())),
    )
    state_of = JitFunction(fun, options)
    call = compat.make_pjit(
        state_of.name,
        fun,
        api_boundary(state_of.cache_miss),
        static_nums,
        static_names,
        options,
        _shard_arg,
    )
    functools.update_wrapper(call, fun)
    call.__wrapped__ = fun
    call._jit = state_of
    call.trace = functools.partial(_trace_stage, state_of)
    call.lower = lambda *args, **kwargs: _trace_stage(state_of, *args, **kwargs).lower()
    call.eval_shape = functools.partial(_eval_shape, state_of)
    call.clear_cache = functools.partial(_clear, weakref.ref(call))
    return call


def _clear(reference: weakref.ref[Any]) -> None:
    call = reference()
    if call is not None:
        call._jit.traces.clear()
        call._jit.quick.clear()
        call._clear_cache()


def _eval_shape(state_of: JitFunction, *args: Any, **kwargs: Any) -> Any:
    program, _ = state_of.trace(args, kwargs)
    shapes = [
        ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in program.closed.out_avals
    ]
    return pytree.tree_unflatten(program.out_tree, shapes)


def _trace_stage(state_of: JitFunction, *args: Any, **kwargs: Any) -> Traced:
    return Traced(state_of, state_of.trace(args, kwargs)[0])


@api_boundary
def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] = (),
    axis_env: Sequence[tuple[Any, int]] | None = None,
    return_shape: bool = False,
) -> Callable[..., Any]:
    """A function that gives the jaxpr of `fun` at its arguments' types.

    Args:
        fun: a function of arrays and pytrees.
        static_argnums: arguments that are not traced.
        axis_env: mapped axis names and sizes to assume.
        return_shape: give the result's shapes as well.

    Returns:
        A function with `fun`'s arguments that returns a ClosedJaxpr.

    Example:
        >>> import pullback.numpy as jnp
        >>> make_jaxpr(jnp.sin)(1.0)
        { lambda ; a:f32[]. let b:f32[] = sin a in (b,) }
    """
    state_of = JitFunction(
        fun, JitOptions(static_argnums=names_and_numbers(fun, static_argnums, None)[0])
    )

    @functools.wraps(fun)
    def traced(*args: Any, **kwargs: Any) -> Any:
        previous = state.axis_env
        state.axis_env = (*previous, *(axis_env or ()))
        try:
            program, _ = state_of.trace(args, kwargs)
        finally:
            state.axis_env = previous
            state_of.traces.clear()
        closed = Traced(state_of, program).jaxpr
        if not return_shape:
            return closed
        return closed, _eval_shape(state_of, *args, **kwargs)

    return traced


@api_boundary
def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The shapes and dtypes that `fun` would return, without running it.

    Args:
        fun: a function of arrays and pytrees.
        args, kwargs: arrays or ShapeDtypeStructs.

    Returns:
        A pytree of ShapeDtypeStruct.
    """
    return _eval_shape(JitFunction(fun, JitOptions()), *args, **kwargs)
