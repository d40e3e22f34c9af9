"""`jnp.ndarray` and `Array` as names for type checks: arrays, and the tracers that stand for them.

Builds on xla/array.py and core/tracer.py. Tested in tests/numpy/test_array_methods.py.
"""

from __future__ import annotations

import abc

from pullback.core.tracer import Tracer
from pullback.xla.array import Array as _Array


class Array(abc.ABC):  # noqa: B024 (registers what counts as an array; it has no methods)
    """The type of arrays, for annotations and isinstance: traced values count too.

    Arrays are made by functions such as `jnp.array`, never by calling this class.
    """

    def __init__(self) -> None:
        raise TypeError("Array is for type checks. Instead: make arrays with jnp.array(...)")


Array.register(_Array)
Array.register(Tracer)
