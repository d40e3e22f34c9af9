"""Functions on scalars or vectors applied over arrays: vectorize, apply_along_axis.

Builds on api/vmap.py. Tested in tests/numpy/test_vectorize.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import wraps
from typing import Any

import numpy as np

from pullback.api.vmap import vmap
from pullback.numpy import promote

_NAMES = r"\w+(?:,\w+)*,?|"
_SIGNATURE = re.compile(
    rf"^\((?:{_NAMES})\)(?:,\((?:{_NAMES})\))*->\((?:{_NAMES})\)(?:,\((?:{_NAMES})\))*$"
)


def _parse_signature(signature: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The core axes of inputs and outputs, of a text such as "(n,k),(k)->(n)"."""
    text = signature.replace(" ", "")
    if not _SIGNATURE.match(text):
        raise ValueError(f"not a valid gufunc signature: {signature}")
    sides = []
    for side in text.split("->"):
        groups = re.findall(r"\(([^)]*)\)", side)
        sides.append([tuple(n for n in group.split(",") if n) for group in groups])
    return sides[0], sides[1]


def vectorize(
    pyfunc: Callable[..., Any],
    *,
    excluded: Collection[int | str] = frozenset(),
    signature: str | None = None,
) -> Callable[..., Any]:
    """A function that maps `pyfunc` over arrays, with NumPy's broadcasting.

    Args:
        pyfunc: a function of scalars, or of arrays with the axes that the signature names.
        excluded: numbers or names of arguments to pass on as they are.
        signature: axes of inputs and outputs, such as "(n),(n)->()".

    Returns:
        The function; it works under every transformation.

    Example:
        >>> vectorize(jnp.dot, signature="(n),(n)->()")(jnp.ones((2, 3)), jnp.ones(3))
        Array([3., 3.], dtype=float32)
    """
    if any(not isinstance(e, (str, int)) for e in excluded):
        raise TypeError(
            f"jax.numpy.vectorize can only exclude integer or string arguments, got {excluded!r}"
        )
    if any(isinstance(e, int) and e < 0 for e in excluded):
        raise ValueError(f"excluded={excluded!r} contains negative numbers")

    @wraps(pyfunc)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        fun = _without_excluded(pyfunc, args, kwargs, excluded)
        mapped = [x for i, x in enumerate(args) if i not in excluded]
        names = [k for k in kwargs if k not in excluded]
        mapped += [kwargs[k] for k in names]
        if signature is None:
            in_axes: list[tuple[str, ...]] = [()] * len(mapped)
            out_axes = None
        else:
            in_axes, out_axes = _parse_signature(signature)
            if len(in_axes) != len(mapped):
                raise TypeError(
                    f"wrong number of positional arguments: expected {len(in_axes)}, got {len(mapped)}"
                )
        arrays = promote.lift_all("vectorize", *mapped)
        return _map(fun, arrays, in_axes, out_axes)

    return wrapped


def _without_excluded(
    fun: Callable[..., Any], args: tuple, kwargs: dict[str, Any], excluded: Collection[Any]
) -> Callable[..., Any]:
    """The function of the mapped arguments alone."""
    names = [k for k in kwargs if k not in excluded]

    def call(*mapped: Any) -> Any:
        values = iter(mapped)
        full = [x if i in excluded else next(values) for i, x in enumerate(args)]
        named = {k: (v if k in excluded else None) for k, v in kwargs.items()}
        named.update({k: next(values) for k in names})
        return fun(*full, **named)

    return call


def _map(
    fun: Callable[..., Any],
    arrays: list[Any],
    in_axes: list[tuple[str, ...]],
    out_axes: list[tuple[str, ...]] | None,
) -> Any:
    sizes: dict[str, int] = {}
    loops = []
    for x, axes in zip(arrays, in_axes, strict=True):
        if x.ndim < len(axes):
            raise ValueError(
                f"input with shape {x.shape} does not have enough dimensions for core axes {axes}"
            )
        split = x.ndim - len(axes)
        for name, n in zip(axes, x.shape[split:], strict=True):
            if sizes.setdefault(name, n) != n:
                raise ValueError(
                    f"inconsistent size for core dimension {name!r}: {n} vs {sizes[name]}"
                )
        loops.append(x.shape[:split])
    loop = promote.check_shapes("vectorize", *loops) if loops else ()

    def checked(*args: Any) -> Any:
        out = fun(*args)
        if out_axes is not None:
            outs = out if isinstance(out, tuple) else (out,)
            if len(outs) != len(out_axes):
                raise TypeError(
                    f"wrong number of results: expected {len(out_axes)}, got {len(outs)}"
                )
            for value, axes in zip(outs, out_axes, strict=True):
                shape = np.shape(value)
                if len(shape) != len(axes):
                    raise ValueError(f"output shape {shape} does not have the core axes {axes}")
                for name, n in zip(axes, shape, strict=True):
                    if sizes.setdefault(name, n) != n:
                        raise ValueError(
                            f"inconsistent size for core dimension {name!r}: {n} vs {sizes[name]}"
                        )
        return out

    # Axes of size 1 that broadcast are taken away rather than repeated.
    mapped: Callable[..., Any] = checked
    plans = []
    squeezed = []
    for x, dims in zip(arrays, loops, strict=True):
        lead = len(loop) - len(dims)
        drop = tuple(i for i, n in enumerate(dims) if n == 1 != loop[lead + i])
        plans.append([i >= lead and (i - lead) not in drop for i in range(len(loop))])
        squeezed.append(
            x.reshape(tuple(n for i, n in enumerate(x.shape) if i not in drop)) if drop else x
        )
    for level in range(len(loop) - 1, -1, -1):
        in_dims = tuple(0 if plan[level] else None for plan in plans)
        if any(d == 0 for d in in_dims):
            mapped = vmap(mapped, in_axes=in_dims)
    return mapped(*squeezed)


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any
) -> Any:
    """The function of every vector along an axis.

    Args:
        func1d: a function of a 1-D array.
        axis: which axis.
        arr: array.
        args, kwargs: passed on.

    Returns:
        The array with the axis replaced by the axes of the results.
    """
    arr = promote.lift("apply_along_axis", arr)
    axis = promote.canonical_axis(axis, arr.ndim)

    def fun(row: Any) -> Any:
        return promote.lift("apply_along_axis", func1d(row, *args, **kwargs))

    for i in range(1, arr.ndim - axis):
        fun = vmap(fun, in_axes=i, out_axes=-1)
    for _ in range(axis):
        fun = vmap(fun, in_axes=0, out_axes=0)
    return fun(arr)


def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Any:
    """func(a, axis) applied over several axes in turn, which keep size 1."""
    a = promote.lift("apply_over_axes", a)
    for axis in (axes,) if isinstance(axes, int) else axes:
        out = func(a, axis=axis)
        if out.ndim == a.ndim:
            a = out
        elif out.ndim == a.ndim - 1:
            a = out.reshape((*out.shape[: axis % a.ndim], 1, *out.shape[axis % a.ndim :]))
        else:
            raise ValueError("function is not returning an array of the correct shape")
    return a
