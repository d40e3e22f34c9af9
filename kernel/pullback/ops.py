"""Reductions over segments of an array.

Builds on numpy. Tested in tests/numpy/test_segments.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import numpy as jnp
from pullback.core import dtypes

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]


def _segments(name: str, method: str, start: Callable[[Any], Any], doc: str) -> Callable[..., Any]:
    def reduce(
        data: Any,
        segment_ids: Any,
        num_segments: int | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        bucket_size: int | None = None,
        mode: Any = None,
    ) -> Any:
        if bucket_size is not None:
            raise NotImplementedError(f"{name}: bucket_size is not served; leave it out")
        data, segment_ids = jnp.asarray(data), jnp.asarray(segment_ids)
        if num_segments is None:
            num_segments = int(np.max(np.asarray(segment_ids), initial=-1)) + 1
        if num_segments < 0:
            raise ValueError(f"{name}: num_segments must be non-negative, got {num_segments}")
        n = segment_ids.ndim
        if data.shape[:n] != segment_ids.shape:
            raise ValueError(
                f"{name}: data {data.shape} must begin with the shape of segment_ids "
                f"{segment_ids.shape}"
            )
        out = jnp.full((num_segments, *data.shape[n:]), start(data.dtype), data.dtype)
        update = getattr(out.at[segment_ids], method)
        return update(
            data,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            mode="drop" if mode is None else mode,
        )

    reduce.__name__ = reduce.__qualname__ = name
    reduce.__doc__ = f"""{doc}

    Args:
        data: values, shape (*ids.shape, ...).
        segment_ids: integers that say which segment each belongs to; those out of range are
            left out.
        num_segments: how many there are; by default the largest id plus one.

    Returns:
        An array of shape (num_segments, ...).
    """
    return reduce


def _lowest(dtype: Any) -> Any:
    if dtypes.issubdtype(dtype, np.floating):
        return -np.inf
    return False if dtype == np.bool_ else np.iinfo(dtype).min


def _highest(dtype: Any) -> Any:
    if dtypes.issubdtype(dtype, np.floating):
        return np.inf
    return True if dtype == np.bool_ else np.iinfo(dtype).max


segment_sum = _segments("segment_sum", "add", lambda d: 0, "Sums over segments.")
segment_prod = _segments("segment_prod", "multiply", lambda d: 1, "Products over segments.")
segment_max = _segments("segment_max", "max", _lowest, "Maxima over segments.")
segment_min = _segments("segment_min", "min", _highest, "Minima over segments.")
