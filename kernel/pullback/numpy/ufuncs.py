"""The functions that have NumPy's ufunc methods (reduce, accumulate, outer, at, reduceat).

Builds on ufunc.py. Tested in tests/numpy/test_ufuncs.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.numpy import arithmetic, elementwise, integers, reductions
from pullback.numpy.ufunc import ufunc
from pullback.numpy.vectorize import vectorize

add = ufunc(
    arithmetic.add,
    2,
    1,
    identity=0,
    reduce=reductions.sum,
    accumulate=reductions.cumsum,
    at="add",
)
multiply = ufunc(
    arithmetic.multiply,
    2,
    1,
    identity=1,
    reduce=reductions.prod,
    accumulate=reductions.cumprod,
    at="multiply",
)
subtract = ufunc(arithmetic.subtract, 2, 1, at="subtract")
negative = ufunc(elementwise.negative, 1, 1)
maximum = ufunc(arithmetic.maximum, 2, 1, reduce=reductions.max, at="max")
minimum = ufunc(arithmetic.minimum, 2, 1, reduce=reductions.min, at="min")
logaddexp = ufunc(integers.logaddexp, 2, 1, identity=-np.inf)
logaddexp2 = ufunc(integers.logaddexp2, 2, 1, identity=-np.inf)
bitwise_and = ufunc(arithmetic.bitwise_and, 2, 1, identity=-1)
bitwise_or = ufunc(arithmetic.bitwise_or, 2, 1, identity=0)
bitwise_xor = ufunc(arithmetic.bitwise_xor, 2, 1, identity=0)
logical_and = ufunc(arithmetic.logical_and, 2, 1, identity=True, reduce=reductions.all)
logical_or = ufunc(arithmetic.logical_or, 2, 1, identity=False, reduce=reductions.any)
logical_xor = ufunc(arithmetic.logical_xor, 2, 1, identity=False)


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """A ufunc of a function on scalars.

    Args:
        func: a function of `nin` scalars, traceable.
        nin: number of inputs.
        nout: number of outputs.
        identity: the neutral element.

    Returns:
        The ufunc.
    """
    name = getattr(func, "__name__", "function")
    return ufunc(vectorize(func), nin, nout, name=name, identity=identity)
