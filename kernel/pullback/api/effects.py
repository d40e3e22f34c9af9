"""Python functions called by compiled programs: pure_callback, io_callback, debug.print.

Builds on lax/callback.py. Tested in tests/api/test_effects.py.
"""

from __future__ import annotations

import logging
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from pullback.core import dtypes, pytree
from pullback.core.aval import ShapedArray, is_arraylike, make_aval
from pullback.core.source import api_boundary, current_position
from pullback.lax.callback import debug_callback_p, io_callback_p, pure_callback_p
from pullback.xla.array import array_from_numpy

VmapMethod = Literal[
    "sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized"
]


_VMAP_METHODS = get_args(VmapMethod)


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
        dtype = dtypes.canonicalize_dtype(leaf.dtype)
        if dtype != leaf.dtype:
            raise ValueError(
                f"{what}: result_shape_dtypes asks for {np.dtype(leaf.dtype)}, but jax_enable_x64 is "
                f"off.\nInstead: ask for {dtype}, or jax.config.update('jax_enable_x64', True)."
            )
        avals.append(make_aval(tuple(leaf.shape), dtype))
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
    if vmap_method is not None and vmap_method not in _VMAP_METHODS:
        raise ValueError(
            f"pure_callback: vmap_method must be one of {', '.join(map(repr, _VMAP_METHODS))}, got "
            f"{vmap_method!r}.\nInstead: vmap_method='sequential' calls once per element."
        )
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
    """Prints, or logs, a format string with values, as NumPy's print options were when traced.

    Attributes:
        text: the format string; without places, the values follow it.
        has_places: whether it has any.
        options_text: the print options as text, by which they are compared.
        options: the print options.
        place: for the log: file and line.
    """

    text: str
    has_places: bool
    options_text: str
    options: dict[str, Any] = field(compare=False)
    place: tuple[str, int] | None

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        with np.printoptions(**self.options):
            if self.has_places:
                message = self.text.format(*args, **kwargs)
            else:
                message = " ".join([self.text, *map(str, args)])
        if self.place is None:
            print(f"{message}\n", end="")  # one write: several devices may print at once
            return
        file, line = self.place
        _log.handle(_log.makeRecord(_log.name, logging.INFO, file, line, message, (), None))


_log = logging.getLogger("pullback.debug")


_NO_F = (
    ".\nInstead: give each value a place, debug.print('x is {}', x), in a plain string: an f-string "
    "is formatted while tracing."
)


class _Check(string.Formatter):
    """Formats like str.format, and refuses arguments that the string does not use."""

    def __init__(self, what: str) -> None:
        self.what = what

    def check_unused_args(self, used_args: Any, args: Any, kwargs: Any) -> None:
        unused = [i for i in range(len(args)) if i not in used_args]
        named = [k for k in kwargs if k not in used_args]
        if unused:
            values = [args[i] for i in unused]
            raise ValueError(f"Unused positional arguments to `jax.{self.what}`: {values}{_NO_F}")
        if named:
            raise ValueError(f"Unused keyword arguments to `jax.{self.what}`: {named}{_NO_F}")

    def format_field(self, value: Any, format_spec: str) -> str:
        return ""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return value


@api_boundary
def debug_print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Callable[..., None] | None:
    """Print values as they pass, also inside compiled programs.

    Args:
        fmt: format string as for str.format. Left out, a function of it and the values comes back:
            debug.print(ordered=True)("x is {}", x).
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
    options = {"ordered": ordered, "partitioned": partitioned}
    return _printing("debug.print", False, options, skip_format_check, fmt, args, kwargs)


@api_boundary
def debug_log(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Callable[..., None] | None:
    """What `debug_print` does, into the log `pullback.debug` at level INFO, with the user's line."""
    options = {"ordered": ordered, "partitioned": partitioned}
    return _printing("debug.log", True, options, skip_format_check, fmt, args, kwargs)


def _printing(
    what: str,
    logged: bool,
    options: dict[str, bool],
    skip_check: bool,
    fmt: str | None,
    args: tuple,
    kwargs: dict,
) -> Callable[..., None] | None:
    if fmt is None:
        if args or kwargs:
            raise TypeError(
                f"{what} got values without a format string: {(*args, *kwargs)}\n"
                f"Instead: {what}('x is {{}}', x)."
            )

        def printing(fmt: str, *args: Any, **kwargs: Any) -> None:
            _printing(what, logged, options, skip_check, fmt, args, kwargs)

        return printing
    if not skip_check:
        _Check(what).format(fmt, *args, **kwargs)
    position = current_position() if logged else None
    where = ("(unknown file)", 0) if position is None else (position.file, position.line)
    has_places = any(name is not None for _, name, _, _ in string.Formatter().parse(fmt))
    how: dict[str, Any] = {**np.get_printoptions()}
    show = _Print(fmt, has_places or not args, repr(how), how, where if logged else None)
    leaves, in_tree = pytree.tree_flatten((args, kwargs))
    arrays, fixed = _split_static(leaves)
    debug_callback_p.bind(
        *arrays,
        callback=_OnLeaves(show, in_tree, fixed, keep_results=False),
        ordered=bool(options["ordered"]),
    )
    return None


def effects_barrier() -> None:
    """Wait for side effects: programs that have any run to their end before they return."""
