"""Small programs that the views' tests look at."""

import numpy as np

from pullback.api.jit import jit
from pullback.core.stage import record
from pullback.lax import add, exp, mul, sin, tanh
from pullback.lax.shape import reduce_sum_p

W = np.float32([0.1, 0.2, 0.3])
X = np.float32([1.0, 2.0, 3.0])


@jit
def double_sine(x):
    return mul(sin(x), np.float32(2))


def loss(w, x):
    h = tanh(mul(w, x))
    exp(x)  # nobody reads it
    return reduce_sum_p.bind(add(double_sine(h), h), axes=(0,))


def straight(x, n):
    """`n` times sine and square, one after the other."""
    for _ in range(n):
        x = sin(x)
        x = mul(x, x)
    return x


def straight_program(n):
    """The jaxpr of `straight`."""
    return record(lambda x: [straight(x, n)], [X])[0]
