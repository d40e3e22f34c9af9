"""Binary functions as objects: calls, and the methods reduce, accumulate, outer, at, reduceat.

Builds on promote.py. Tested in tests/numpy/test_ufuncs.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import lax
from pullback.numpy import promote


class ufunc:
    """An elementwise function with NumPy's ufunc methods.

    Attributes:
        nin, nout, nargs: numbers of inputs, outputs and both.
        identity: the neutral element, or None.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        /,
        nin: int,
        nout: int,
        *,
        name: str | None = None,
        nargs: int | None = None,
        identity: Any = None,
        call: Callable[..., Any] | None = None,
        reduce: Callable[..., Any] | None = None,
        accumulate: Callable[..., Any] | None = None,
        at: str | None = None,
        reduceat: Callable[..., Any] | None = None,
    ) -> None:
        if nargs not in (None, nin + nout) or reduceat is not None:
            raise ValueError("ufunc: nargs must be nin + nout, and reduceat is always derived")
        self.func = func if call is None else call
        self.nin = nin
        self.nout = nout
        self.nargs = nin + nout
        self.identity = identity
        self.__name__ = self.__qualname__ = name or func.__name__
        self.__doc__ = func.__doc__
        self.__module__ = "pullback.numpy"
        self._reduce = reduce
        self._accumulate = accumulate
        self._at = at

    def __hash__(self) -> int:
        return hash((ufunc, self.func))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ufunc) and self.func is other.func

    def __call__(self, *args: Any, out: None = None, where: None = None) -> Any:
        """Apply the function elementwise."""
        if out is not None or where is not None:
            self._refuse(out=out, where=where)
        return self.func(*args)

    def _refuse(self, **options: Any) -> None:
        for option, value in options.items():
            if value is not None:
                raise NotImplementedError(
                    f"{option} argument of {self.__name__}: arrays are immutable and are not "
                    "written in place.\nInstead: use the result, or jnp.where(mask, result, other)."
                )

    def __repr__(self) -> str:
        return f"<jnp.ufunc '{self.__name__}'>"

    def reduce(
        self,
        a: Any,
        axis: int | None = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Any:
        """The function applied along an axis until one element is left.

        Args:
            a: the array.
            axis: which axis; None for all.
            dtype: dtype of the result.
            keepdims: keep the reduced axes with size 1.
            initial: the value to start with.
            where: mask of the elements to take.

        Returns:
            The reduced array.
        """
        self._binary("reduce")
        self._refuse(out=out)
        if where is not None and self.identity is None and initial is None:
            raise ValueError(f"{self.__name__}.reduce with where= needs an initial value")
        if self._reduce is not None:
            options = {} if initial is None else {"initial": initial}
            if where is not None:
                options["where"] = where
            if dtype is not None:
                a = promote.lift(self.__name__, a).astype(dtype)
            return self._reduce(a, axis=axis, keepdims=keepdims, **options)
        a = promote.lift(self.__name__, a)
        if dtype is not None:
            a = a.astype(dtype)
        if where is not None:
            where = promote.broadcast_to(where, a.shape)
        if axis is None:
            kept = (1,) * a.ndim
            a, axis = a.reshape(-1), 0
            where = None if where is None else where.reshape(-1)
        else:
            axis = promote.canonical_axis(axis, a.ndim)
            kept = (*a.shape[:axis], 1, *a.shape[axis + 1 :])
        start = self.identity if initial is None else initial
        if a.shape[axis] == 0 and start is None:
            raise ValueError(
                f"zero-size array to reduction operation {self.__name__} which has no identity"
            )
        a = _axis_first(a, axis)
        mask = None if where is None else _axis_first(where, axis)
        if start is None:
            carry, rest = a[0], a[1:]
        else:
            carry, rest = promote.broadcast_to(promote.cast(start, a.dtype), a.shape[1:]), a

        def step(total: Any, item: Any) -> tuple[Any, None]:
            value, keep = item
            new = self.func(total, value).astype(total.dtype)
            return (new if keep is None else lax.select(keep, new, total)), None

        result, _ = lax.scan(step, carry, (rest, mask))
        return result.reshape(kept) if keepdims else result

    def accumulate(self, a: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Any:
        """The running results of the function along an axis."""
        self._binary("accumulate")
        self._refuse(out=out)
        if self._accumulate is not None:
            return self._accumulate(a, axis=axis, dtype=dtype)
        a = promote.lift(self.__name__, a)
        if dtype is not None:
            a = a.astype(dtype)
        axis = promote.canonical_axis(axis, a.ndim)
        a = _axis_first(a, axis)

        def step(total: Any, item: Any) -> tuple[Any, Any]:
            new = self.func(total, item).astype(total.dtype)
            return new, new

        _, rest = lax.scan(step, a[0], a[1:])
        result = lax.concatenate([a[:1], rest], 0)
        perm = (*range(1, axis + 1), 0, *range(axis + 1, a.ndim))
        return lax.transpose(result, perm)

    def outer(self, A: Any, B: Any, /) -> Any:
        """The function of every pair of elements: shape A.shape + B.shape."""
        self._binary("outer")
        A, B = promote.lift_all(self.__name__, A, B)
        return self.func(A.reshape(A.shape + (1,) * B.ndim), B)

    def at(self, a: Any, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Any:
        """A copy of `a` where the function was applied at the indices, repeats accumulated.

        Raises:
            NotImplementedError: `inplace` is not False: arrays are immutable.
        """
        if inplace:
            raise NotImplementedError(
                f"{self.__name__}.at cannot change its argument: arrays are immutable.\n"
                f"Instead: a = jnp.{self.__name__}.at(a, indices, b, inplace=False)"
            )
        a = promote.lift(self.__name__, a)
        if b is None:
            return a.at[indices].apply(self.func)
        if self._at is not None:
            return getattr(a.at[indices], self._at)(b)
        shape = np.shape(a[indices])
        positions = lax.iota(np.int32, a.size).reshape(a.shape)[indices].reshape(-1)
        values = promote.broadcast_to(promote.lift(self.__name__, b), shape).reshape(-1)

        def body(i: Any, flat: Any) -> Any:
            where = positions[i]
            return flat.at[where].set(self.func(flat[where], values[i]).astype(flat.dtype))

        return lax.fori_loop(0, positions.size, body, a.reshape(-1)).reshape(a.shape)

    def reduceat(
        self, a: Any, indices: Any, axis: int = 0, dtype: Any = None, out: None = None
    ) -> Any:
        """Reductions of the slices that start at the given (known) indices.

        Args:
            a: the array.
            indices: starts, known while tracing.
            axis: the axis to slice.

        Returns:
            One entry per index along `axis`.
        """
        self._binary("reduceat")
        self._refuse(out=out)
        a = promote.lift(self.__name__, a)
        starts = [int(i) for i in np.asarray(indices)]
        axis = promote.canonical_axis(axis, a.ndim)
        a = _axis_first(a, axis)
        parts = []
        for i, start in enumerate(starts):
            stop = starts[i + 1] if i + 1 < len(starts) else a.shape[0]
            if start >= stop:
                parts.append(a[start : start + 1])
            else:
                parts.append(self.reduce(a[start:stop], 0, dtype, keepdims=True))
        result = lax.concatenate(parts, 0)
        return lax.transpose(result, (*range(1, axis + 1), 0, *range(axis + 1, a.ndim)))

    def _binary(self, method: str) -> None:
        if self.nin != 2 or self.nout != 1:
            raise ValueError(f"{method} only supported for functions of two inputs and one output")


def _axis_first(x: Any, axis: int) -> Any:
    if axis == 0:
        return x
    return lax.transpose(x, (axis, *(i for i in range(x.ndim) if i != axis)))
