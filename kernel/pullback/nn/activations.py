"""Activation functions and softmax: what a layer applies to its numbers.

Builds on numpy and lax. Tested in tests/nn/test_activations.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback import lax
from pullback import numpy as jnp
from pullback.api.custom import custom_jvp
from pullback.api.jit import jit
from pullback.core import dtypes
from pullback.numpy.fused import fused


@custom_jvp
@jit
def relu(x: Any) -> Any:
    """max(x, 0), whose derivative at 0 is 0.

    Example:
        >>> relu(jnp.array([-1.0, 2.0]))
        Array([0., 2.], dtype=float32)
    """
    return jnp.maximum(x, 0)


@relu.defjvp
def _relu_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return relu(x), lax.select(x > 0, t, lax.full_like(t, 0))


@custom_jvp
@jit
def relu6(x: Any) -> Any:
    """min(max(x, 0), 6), whose derivative at 0 and 6 is 0."""
    return jnp.minimum(jnp.maximum(x, 0), 6.0)


@relu6.defjvp
def _relu6_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    inside = lax.bitwise_and(x > 0, x < 6)
    return relu6(x), lax.select(inside, t, lax.full_like(t, 0))


@fused()
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return lax.logistic(_inexact(x))


@fused()
def softplus(x: Any) -> Any:
    """log(1 + exp(x))."""
    return jnp.logaddexp(x, 0)


@fused()
def sparse_plus(x: Any) -> Any:
    """0 up to -1, (x + 1)**2 / 4 up to 1, then x."""
    x = jnp.asarray(x)
    return jnp.where(x <= -1.0, 0.0, jnp.where(x >= 1.0, x, (x + 1.0) ** 2 / 4))


@fused()
def soft_sign(x: Any) -> Any:
    """x / (|x| + 1)."""
    x = _inexact(x)
    return x / (jnp.abs(x) + 1)


@fused()
def sparse_sigmoid(x: Any) -> Any:
    """(clip(x, -1, 1) + 1) / 2."""
    return 0.5 * jnp.clip(x + 1.0, 0.0, 2.0)


@fused()
def silu(x: Any) -> Any:
    """x * sigmoid(x), also called swish."""
    x = _inexact(x)
    return x * sigmoid(x)


@fused()
def mish(x: Any) -> Any:
    """x * tanh(softplus(x))."""
    x = _inexact(x)
    return x * jnp.tanh(softplus(x))


@fused()
def log_sigmoid(x: Any) -> Any:
    """log(sigmoid(x)), accurate for large negative x."""
    x = _inexact(x)
    return -softplus(-x)


@fused()
def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    return jnp.tanh(x)


def _inexact(x: Any) -> Any:
    x = jnp.asarray(x)
    return x if dtypes.is_inexact(x.dtype) else x.astype(dtypes.to_inexact_dtype(x.dtype))


@fused()
def elu(x: Any, alpha: Any = 1.0) -> Any:
    """x for x > 0, else alpha * (exp(x) - 1)."""
    x = _inexact(x)
    return jnp.where(x > 0, x, alpha * jnp.expm1(jnp.where(x > 0, 0.0, x)))


@fused()
def leaky_relu(x: Any, negative_slope: Any = 1e-2) -> Any:
    """x for x >= 0, else negative_slope * x."""
    x = _inexact(x)
    return jnp.where(x >= 0, x, negative_slope * x)


@fused()
def hard_tanh(x: Any) -> Any:
    """clip(x, -1, 1)."""
    x = jnp.asarray(x)
    return jnp.where(x > 1, 1, jnp.where(x < -1, -1, x)).astype(x.dtype)


@fused()
def celu(x: Any, alpha: Any = 1.0) -> Any:
    """max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)."""
    x = _inexact(x)
    return jnp.maximum(x, 0.0) + alpha * jnp.expm1(jnp.minimum(x, 0.0) / alpha)


@fused()
def selu(x: Any) -> Any:
    """Scaled elu, with the constants of Klambauer et al. 2017."""
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return scale * elu(x, alpha)


@fused("approximate")
def gelu(x: Any, approximate: bool = True) -> Any:
    """x times the normal distribution function, by tanh (Hendrycks and Gimpel 2016) or exactly."""
    x = _inexact(x)
    if approximate:
        scale = np.sqrt(2 / np.pi).astype(x.dtype)
        return x * (0.5 * (1.0 + jnp.tanh(scale * (x + 0.044715 * (x**3)))))
    root_half = np.sqrt(0.5).astype(x.dtype)
    return 0.5 * x * lax.erfc(-x * root_half)


@fused("axis")
def glu(x: Any, axis: int = -1) -> Any:
    """The first half of an axis times the sigmoid of the second."""
    x = jnp.asarray(x)
    if x.shape[axis] % 2:
        raise ValueError(f"glu: axis {axis} must have even size, got {x.shape[axis]}")
    first, second = jnp.split(x, 2, axis)
    return first * sigmoid(second)


@fused()
def squareplus(x: Any, b: Any = 4) -> Any:
    """(x + sqrt(x**2 + b)) / 2."""
    x = _inexact(x)
    return 0.5 * (x + jnp.sqrt(x * x + b))


@fused()
def hard_sigmoid(x: Any) -> Any:
    """relu6(x + 3) / 6."""
    return relu6(_inexact(x) + 3.0) / 6.0


@fused()
def hard_silu(x: Any) -> Any:
    """x * hard_sigmoid(x)."""
    x = _inexact(x)
    return x * hard_sigmoid(x)


@fused()
def identity(x: Any) -> Any:
    """x."""
    return jnp.asarray(x)


swish = silu
hard_swish = hard_silu


def logsumexp(
    a: Any,
    axis: Any = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
) -> Any:
    """log(sum(b * exp(a))), computed without overflow.

    Args:
        a: any shape.
        axis: axes to reduce; all by default.
        b: weights, may be negative.
        keepdims: keep reduced axes with length 1.
        return_sign: give (log of the magnitude, sign).
        where: elements to include.

    Returns:
        The log-sum; NaN where the sum is negative and `return_sign` is not set.
    """
    axis = tuple(axis) if isinstance(axis, list) else axis
    return _logsumexp(a, axis, b, keepdims, return_sign, where)


@fused("axis", "keepdims", "return_sign")
def _logsumexp(a: Any, axis: Any, b: Any, keepdims: bool, return_sign: bool, where: Any) -> Any:
    a = _inexact(a)
    if b is not None:
        b = jnp.asarray(b)
        a = jnp.where(b != 0, a, -jnp.inf)
        a, b = jnp.broadcast_arrays(a, b)
    if a.size == 0 and a.ndim == 0:
        return a
    real = jnp.real(a)
    top = jnp.max(real, axis=axis, keepdims=True, where=where, initial=-jnp.inf)
    top = lax.stop_gradient(jnp.where(jnp.isfinite(top), top, 0))
    terms = jnp.exp(a - top.astype(a.dtype))
    if b is not None:
        terms = terms * b
    total = jnp.sum(terms, axis=axis, keepdims=keepdims, where=where)
    if not keepdims:
        top = jnp.squeeze(top, axis=axis)
    complex_ = dtypes.issubdtype(a.dtype, np.complexfloating)
    if complex_:
        if return_sign:
            magnitude = jnp.abs(total)
            return jnp.log(magnitude) + top, jnp.where(magnitude == 0, 0, total / magnitude)
        return jnp.log(total) + top
    sign = jnp.sign(total)
    out = jnp.log(jnp.abs(total)) + top
    if return_sign:
        return out, sign
    return out if b is None else jnp.where(sign < 0, jnp.nan, out)


@fused("axis")
def log_softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """log(softmax(x)) along axes, accurate where the softmax is tiny."""
    x = _inexact(x)
    top = jnp.max(x, axis, where=where, initial=-jnp.inf, keepdims=True)
    shifted = x - lax.stop_gradient(top)
    total = jnp.log(jnp.sum(jnp.exp(shifted), axis, where=where, keepdims=True))
    out = shifted - total
    return out if where is None else jnp.where(where, out, -jnp.inf)


@fused("axis")
def softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """exp(x) divided by its sum along axes.

    Args:
        x: any shape.
        axis: along which the results add to 1; an int or a tuple.
        where: elements to include; the others give 0.
    """
    return _softmax(axis, _inexact(x), where)


def _softmax(axis: Any, x: Any, where: Any) -> Any:
    top = jnp.max(x, axis, where=where, initial=-jnp.inf, keepdims=True)
    terms = jnp.exp(x - lax.stop_gradient(top))
    if where is not None:
        terms = jnp.where(where, terms, 0)
    return terms / jnp.sum(terms, axis, keepdims=True)


@fused("axis")
def standardize(
    x: Any,
    axis: Any = -1,
    mean: Any = None,
    variance: Any = None,
    epsilon: Any = 1e-5,
    where: Any = None,
) -> Any:
    """(x - mean) / sqrt(variance + epsilon) along axes."""
    x = _inexact(x)
    if mean is None:
        mean = jnp.mean(x, axis, keepdims=True, where=where)
    if variance is None:
        variance = jnp.mean(jnp.square(x), axis, keepdims=True, where=where) - jnp.square(mean)
    return jnp.subtract(x, jnp.asarray(mean)) * lax.rsqrt(jnp.asarray(variance) + epsilon)


@fused("num_classes", "dtype", "axis")
def _one_hot(x: Any, num_classes: int, dtype: Any, axis: int) -> Any:
    x = jnp.asarray(x)
    where = axis % (x.ndim + 1)
    shape = [1] * (x.ndim + 1)
    shape[where] = num_classes
    classes = lax.reshape(lax.iota(x.dtype, num_classes), tuple(shape))
    return (jnp.expand_dims(x, where) == classes).astype(dtype)


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Any:
    """A new axis that holds 1 at each index and 0 elsewhere.

    Args:
        x: integers; those outside [0, num_classes) give zeros.
        num_classes: length of the new axis.
        dtype: of the result, float by default.
        axis: where the new axis goes.

    Example:
        >>> one_hot(jnp.array([0, 2]), 3)
        Array([[1., 0., 0.],
               [0., 0., 1.]], dtype=float32)
    """
    found = dtypes.canonicalize_dtype(np.float64 if dtype is None else dtype)
    return _one_hot(x, int(num_classes), found, axis)


@fused()
def log1mexp(x: Any) -> Any:
    """log(1 - exp(-x)) for x >= 0, accurate near 0 and for large x (Maechler 2012)."""
    x = _inexact(x)
    c = math.log(2.0)
    return jnp.where(
        x < c,
        jnp.log(-jnp.expm1(-jnp.where(x < c, x, 1.0))),
        jnp.log1p(-jnp.exp(-jnp.where(x < c, 1.0, x))),
    )
