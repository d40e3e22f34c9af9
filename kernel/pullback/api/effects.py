"""Python functions called by compiled programs: pure_callback, io_callback, debug.print.

Builds on lax/callback.py. Tested in tests/api/test_effects.py.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pullback.core import dtypes, pytree
from pullback.core.aval import ShapedArray, is_arraylike, make_aval
from pullback.core.source import api_boundary
from pullback.lax.callback import debug_callback_p, io_callback_p, pure_callback_p
from pullback.xla.array import array_from_numpy

VmapMethod = Literal[
    "sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized"
]


@dataclass(frozen=True, slots=True)
class _OnLeaves:
    """A function of pytrees as one of leaves; arguments that are not arrays stay as they are.

    It is called with arrays of ours, so that it can compute with them, as in JAX.
    """

    function: Callable[..., Any]
    in_tree: Any
    fixed: tuple[tuple[int, Any], ...] = ()
    keep_results: bool = True

    def __call__(self, *leaves: Any) -> Sequence[Any]:
        rest = iter(leaves)
        known = dict(self.fixed)
        n = self.in_tree.num_leaves
        full = [known[i] if i in known else array_from_numpy(next(rest)) for i in range(n)]
        args, kwargs = pytree.tree_unflatten(self.in_tree, full)
        out = self.function(*args, **kwargs)
        return pytree.tree_leaves(out) if self.keep_results else ()


def _result_avals(what: str, spec: Any) -> tuple[tuple[ShapedArray, ...], Any]:
    leaves, tree = pytree.tree_flatten(spec)
    avals = []
    for leaf in leaves:
        if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
            raise TypeError(
                f"{what}: result_shape_dtypes must hold things with a shape and a dtype, got "
                f"{leaf!r:.60}.\nInstead: jax.ShapeDtypeStruct(shape, dtype)."
            )
        avals.append(make_aval(tuple(leaf.shape), dtypes.canonicalize_dtype(leaf.dtype)))
    return tuple(avals), tree


@api_boundary
def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: VmapMethod | None = None,
    **kwargs: Any,
) -> Any:
    """The results of a Python function without side effects, also inside compiled programs.

    Args:
        callback: takes the arguments as arrays; may be called any number of times, or never.
        result_shape_dtypes: pytree of things with shape and dtype, like what `callback` gives.
        args, kwargs: pytrees of arrays.
        sharding: not supported; must be None.
        vmap_method: what to do under vmap: call once per element ('sequential'), or once for all
            with a leading axis, of size 1 ('expand_dims') or repeated ('broadcast_all') for
            arguments that are not mapped.

    Returns:
        A pytree of arrays like `result_shape_dtypes`.

    Example:
        >>> import numpy as np
        >>> import pullback as jax
        >>> f = jax.jit(lambda x: jax.pure_callback(np.sort, x, x))
        >>> f(np.float32([3, 1, 2]))
        Array([1., 2., 3.], dtype=float32)
    """
    _refuse_sharding("pure_callback", sharding)
    avals, out_tree = _result_avals("pure_callback", result_shape_dtypes)
    leaves, in_tree = pytree.tree_flatten((args, kwargs))
    outs = pure_callback_p.bind(
        *leaves,
        callback=_OnLeaves(callback, in_tree),
        result_avals=avals,
        vmap_method=vmap_method,
    )
    return pytree.tree_unflatten(out_tree, _as_arrays(outs))


@api_boundary
def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """The results of a Python function with side effects, also inside compiled programs.

    Args:
        callback: takes the arguments as arrays; called once each time the program gets there.
        result_shape_dtypes: pytree of things with shape and dtype, like what `callback` gives.
        args, kwargs: pytrees of arrays.
        sharding: not supported; must be None.
        ordered: keep the order of the program's ordered calls.

    Returns:
        A pytree of arrays like `result_shape_dtypes`.
    """
    _refuse_sharding("io_callback", sharding)
    avals, out_tree = _result_avals("io_callback", result_shape_dtypes)
    leaves, in_tree = pytree.tree_flatten((args, kwargs))
    outs = io_callback_p.bind(
        *leaves, callback=_OnLeaves(callback, in_tree), result_avals=avals, ordered=bool(ordered)
    )
    return pytree.tree_unflatten(out_tree, _as_arrays(outs))


def _refuse_sharding(what: str, sharding: Any) -> None:
    if sharding is not None:
        raise NotImplementedError(f"{what}: sharding= is not supported; leave it out.")


def _as_arrays(outs: Sequence[Any]) -> list[Any]:
    """Results of an immediate call (NumPy arrays) as arrays."""
    return [array_from_numpy(o) if isinstance(o, np.ndarray) else o for o in outs]


def _split_static(leaves: Sequence[Any]) -> tuple[list[Any], tuple[tuple[int, Any], ...]]:
    """The leaves that are arrays, and the others with their positions."""
    fixed = tuple([(i, x) for i, x in enumerate(leaves) if not is_arraylike(x)])
    return [x for x in leaves if is_arraylike(x)], fixed


@api_boundary
def debug_callback(
    callback: Callable[..., Any] | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a Python function with values as they pass, also inside compiled programs.

    Under vmap it is called per element, under grad with the values of the forward pass.

    Args:
        callback: takes the arguments as arrays; its result is dropped.
        args, kwargs: pytrees of arrays, and other values that are passed as they are.
        ordered: keep the order of the program's ordered calls.
        partitioned: call with each device's part; what always happens under shard_map.

    Returns:
        None; a decorator, if called without a function.
    """
    if callback is None:
        return lambda fun: (
            lambda *a, **k: debug_callback(fun, *a, ordered=ordered, partitioned=partitioned, **k)
        )
    if not callable(callback):
        raise TypeError(f"debug.callback: the function must be callable, got {callback!r:.60}")
    leaves, in_tree = pytree.tree_flatten((args, kwargs))
    arrays, fixed = _split_static(leaves)
    debug_callback_p.bind(
        *arrays,
        callback=_OnLeaves(callback, in_tree, fixed, keep_results=False),
        ordered=bool(ordered),
    )
    return None


@dataclass(frozen=True, slots=True)
class _Print:
    """Prints a format string with values."""

    text: str

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        print(self.text.format(*args, **kwargs))


class _Check(string.Formatter):
    """Formats like str.format, and refuses arguments that the string does not use."""

    def check_unused_args(self, used_args: Any, args: Any, kwargs: Any) -> None:
        unused = [i for i in range(len(args)) if i not in used_args]
        named = [k for k in kwargs if k not in used_args]
        if unused:
            values = [args[i] for i in unused]
            raise ValueError(f"Unused positional arguments to `debug.print`: {values}")
        if named:
            raise ValueError(f"Unused keyword arguments to `debug.print`: {named}")

    def format_field(self, value: Any, format_spec: str) -> str:
        return ""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return value


@api_boundary
def debug_print(
    fmt: str,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> None:
    """Print values as they pass, also inside compiled programs.

    Args:
        fmt: format string as for str.format.
        args, kwargs: what it formats: arrays and other values.
        ordered: keep the order of the program's ordered calls.
        partitioned: print each device's part; what always happens under shard_map.
        skip_format_check: do not check the string against the arguments.

    Raises:
        ValueError: an argument is not used by the string.
        IndexError: the string asks for more arguments than there are.

    Example:
        >>> import pullback as jax
        >>> @jax.jit
        ... def f(x):
        ...     jax.debug.print("x is {}", x)
        ...     return 2 * x
        >>> y = f(3)
        x is 3
    """
    if not skip_format_check:
        _Check().format(fmt, *args, **kwargs)
    debug_callback(_Print(fmt), *args, ordered=ordered, partitioned=partitioned, **kwargs)


def effects_barrier() -> None:
    """Wait for side effects: programs that have any run to their end before they return."""
