"""NumPy's index tricks mgrid, ogrid, r_ and c_; bits packed in bytes; texts and files.

Builds on creation.py and manipulation.py. Tested in tests/numpy/test_grids.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import lax
from pullback.numpy import promote
from pullback.numpy.creation import asarray
from pullback.numpy.fused import fused
from pullback.numpy.joining import concatenate, stack
from pullback.numpy.manipulation import moveaxis, ravel
from pullback.numpy.positions import meshgrid
from pullback.numpy.ranges import arange, linspace

lift = promote.lift


def _axis(part: slice) -> Any:
    """The values of a slice: a complex step counts points and includes the end."""
    step = 1 if part.step is None else part.step
    start = 0 if part.start is None else part.start
    if isinstance(step, complex):
        return linspace(start, part.stop, int(abs(step)))
    return arange(start, part.stop, step)


class Grid:
    """Coordinates of a grid, by slices: `mgrid[0:2, 0:3]`, complex steps count points."""

    def __init__(self, name: str, sparse: bool) -> None:
        self.name = name
        self.sparse = sparse

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return _axis(key)
        axes = [_axis(part) for part in key]
        axes = promote.promote(self.name, *axes)
        grids = meshgrid(*axes, indexing="ij", sparse=self.sparse)
        if self.sparse:
            return grids
        return stack(grids, 0) if grids else asarray(np.zeros((0,)))

    def __repr__(self) -> str:
        return f"<jnp.{self.name}>"


class Joiner:
    """Ranges, lists and arrays joined along an axis: `r_[0:3, 7, x]`, `c_[x, y]`.

    A first entry such as "1,2,0" gives the axis to join, the least number of axes, and where the
    axes of an entry with fewer stand.
    """

    def __init__(self, name: str, axis: int, ndmin: int, trans1d: int) -> None:
        self.name = name
        self.defaults = (axis, ndmin, trans1d)

    def __getitem__(self, key: Any) -> Any:
        items = list(key) if isinstance(key, tuple) else [key]
        axis, ndmin, trans1d = self.defaults
        if items and isinstance(items[0], str):
            text = items.pop(0)
            if text in ("r", "c"):
                raise NotImplementedError(
                    f"jnp.{self.name}: the matrix form {text!r} is not supported"
                )
            numbers = [int(n) for n in text.split(",")]
            axis = numbers[0]
            ndmin = numbers[1] if len(numbers) > 1 else ndmin
            trans1d = numbers[2] if len(numbers) > 2 else trans1d
        parts = []
        for item in items:
            x = _axis(item) if isinstance(item, slice) else asarray(item)
            missing = max(ndmin, 1) - x.ndim
            if missing > 0:
                at = trans1d if trans1d >= 0 else max(ndmin, 1) + trans1d
                rank = x.ndim
                x = x.reshape((1,) * missing + x.shape)
                if rank and at != missing:
                    source = tuple(range(missing, missing + rank))
                    x = moveaxis(x, source, tuple(range(at, at + rank)))
            parts.append(x)
        return concatenate(parts, axis)

    def __repr__(self) -> str:
        return f"<jnp.{self.name}>"


mgrid = Grid("mgrid", False)
ogrid = Grid("ogrid", True)
r_ = Joiner("r_", 0, 1, -1)
c_ = Joiner("c_", -1, 2, 0)


# ---------------------------------------------------------------- bits


def packbits(a: Any, axis: int | None = None, bitorder: str = "big") -> Any:
    """Booleans packed, eight to a byte.

    Args:
        a: boolean or integer array; what is not 0 is a 1.
        axis: which axis; None for the flattened array.
        bitorder: "big" or "little".

    Returns:
        uint8 array, missing bits filled with 0.
    """
    a = lift("packbits", a)
    if a.dtype.kind not in "iub":
        raise TypeError("Expected an input array of integer or boolean data type")
    if bitorder not in ("little", "big"):
        raise ValueError("'order' must be either 'little' or 'big'")
    if axis is None:
        a, axis = ravel(a), 0
    return _packbits(a, promote.canonical_axis(axis, a.ndim), bitorder)


@fused("axis", "bitorder")
def _packbits(a: Any, axis: int, bitorder: str) -> Any:
    bits = lax.convert_element_type(moveaxis(a, axis, a.ndim - 1) != 0, np.uint8)
    n = bits.shape[-1]
    config = [(0, 0, 0)] * (bits.ndim - 1) + [(0, -n % 8, 0)]
    bits = lax.pad(bits, np.uint8(0), config)
    bits = lax.reshape(bits, (*bits.shape[:-1], bits.shape[-1] // 8, 8))
    weights = 2 ** np.arange(8, dtype=np.uint8)
    if bitorder == "big":
        weights = weights[::-1].copy()
    packed = lax.reduce_sum(
        bits * lax.broadcast_in_dim(weights, bits.shape, (bits.ndim - 1,)), (bits.ndim - 1,)
    )
    return moveaxis(packed, -1, axis)


def unpackbits(
    a: Any, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Any:
    """The bits of bytes.

    Args:
        a: uint8 array.
        axis: which axis; None for the flattened array.
        count: how many bits to give (negative: to leave out).
        bitorder: "big" or "little".

    Returns:
        uint8 array of zeros and ones.
    """
    a = lift("unpackbits", a)
    if a.dtype != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    if bitorder not in ("little", "big"):
        raise ValueError("'order' must be either 'little' or 'big'")
    if axis is None:
        a, axis = ravel(a), 0
    return _unpackbits(a, promote.canonical_axis(axis, a.ndim), count, bitorder)


@fused("axis", "count", "bitorder")
def _unpackbits(a: Any, axis: int, count: int | None, bitorder: str) -> Any:
    x = moveaxis(a, axis, a.ndim - 1)
    shifts = np.arange(8, dtype=np.uint8)
    if bitorder == "big":
        shifts = shifts[::-1].copy()
    bits = lax.shift_right_logical_p.bind(x[..., None], shifts) & np.uint8(1)
    bits = lax.reshape(bits, (*x.shape[:-1], x.shape[-1] * 8))
    n = bits.shape[-1]
    if count is not None:
        if count > n:
            bits = lax.pad(bits, np.uint8(0), [(0, 0, 0)] * (bits.ndim - 1) + [(0, count - n, 0)])
        else:
            bits = bits[..., :count]
    return moveaxis(bits, -1, axis)


# ---------------------------------------------------------------- texts and files


def array_repr(
    arr: Any,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The text that `repr` gives."""
    if max_line_width is None and precision is None and suppress_small is None:
        return repr(arr)
    text = np.array_repr(np.asarray(arr), max_line_width, precision, suppress_small)
    return text.replace("array(", "Array(", 1)


def array_str(
    a: Any,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The text that `str` gives."""
    return np.array_str(np.asarray(a), max_line_width, precision, suppress_small)


def save(file: Any, arr: Any, allow_pickle: bool = True) -> None:
    """Write an array to a .npy file, as `numpy.save`."""
    np.save(file, np.asarray(arr), allow_pickle)


def savez(file: Any, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Write arrays to a .npz file, as `numpy.savez`."""
    np.savez(
        file,
        *map(np.asarray, args),
        allow_pickle=allow_pickle,
        **{k: np.asarray(v) for k, v in kwds.items()},
    )
