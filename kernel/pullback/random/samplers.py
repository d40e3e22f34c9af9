"""Random numbers by inversion of uniform bits, and shuffles: the same streams as JAX's.

Each sampler is a compiled function of the key's words and the parameters; the shape is static.
Builds on keys.py, numpy and lax. Tested in tests/random/test_samplers.py against jax itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback import lax
from pullback import numpy as jnp
from pullback.api.jit import jit
from pullback.core import dtypes
from pullback.core.aval import typeof
from pullback.core.source import api_boundary
from pullback.random.keys import shape_tuple, words_of
from pullback.random.threefry import random_bits, split_key

_UINT = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def float_dtype(name: str, dtype: Any) -> Any:
    """The canonical dtype of a real sampler.

    Raises:
        ValueError: not a floating-point dtype.
    """
    found = dtypes.canonicalize_dtype(np.float64 if dtype is None else dtype)
    if not dtypes.issubdtype(found, np.floating):
        raise ValueError(
            f"dtype argument to `{name}` must be a float dtype, got {dtypes.name(found)}"
        )
    return found


def split_words(words: Any, n: int = 2) -> list[Any]:
    """The words of `n` new keys."""
    keys = split_key(words, (n,))
    return [lax.index_in_dim(keys, i, 0, False) for i in range(n)]


def parameter_shape(name: str, shape: Any, *params: Any) -> tuple[int, ...]:
    """The result's shape: the one asked for, which the parameters must broadcast to.

    Raises:
        ValueError: they do not.
    """
    shapes = [np.shape(p) for p in params]
    if shape is None:
        return np.broadcast_shapes(*shapes)
    wanted = shape_tuple(shape)
    try:
        fits = np.broadcast_shapes(wanted, *shapes) == wanted
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{name} parameter shapes must be broadcast-compatible with shape argument, and the "
            f"result of broadcasting the shapes must equal the shape argument, but got "
            f"{', '.join(map(str, shapes))} and shape {wanted}"
        )
    return wanted


def uniform_words(
    words: Any, minval: Any, maxval: Any, *, shape: tuple[int, ...], dtype: Any
) -> Any:
    """Uniform floats in [minval, maxval): the mantissa filled with random bits."""
    info = dtypes.finfo(dtype)
    n_bits, n_mantissa = info.bits, info.nmant
    rng_bits = 8 if n_mantissa < 8 else n_bits
    unsigned = np.dtype(_UINT[np.dtype(dtype).itemsize])
    found = random_bits(words, rng_bits, shape)
    if rng_bits != n_bits:
        found = lax.convert_element_type(found, unsigned)
    shift = unsigned.type(rng_bits - n_mantissa)
    one_bits = np.array(1.0, dtype).view(unsigned)[()]
    floats = lax.bitwise_or(lax.shift_right_logical(found, shift), one_bits)
    floats = lax.sub(lax.bitcast_convert_type(floats, dtype), np.array(1.0, dtype)[()])
    minval, maxval = (
        jnp.broadcast_to(lax.convert_element_type(v, dtype), shape) for v in (minval, maxval)
    )
    return lax.max(minval, lax.add(lax.mul(floats, lax.sub(maxval, minval)), minval))


_uniform = jit(uniform_words, static_argnames=("shape", "dtype"))


def _check_shape(name: str, shape: Any, *params: Any) -> tuple[int, ...]:
    return parameter_shape(name, shape, *params)


@api_boundary
def uniform(
    key: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0
) -> Any:
    """Uniform floats in [minval, maxval).

    Args:
        key: a single random key.
        shape: the result's.
        dtype: a float dtype (float32, or float64 under enable_x64, by default).
        minval, maxval: bounds, which broadcast to the shape.

    Example:
        >>> uniform(PRNGKey(0), (2,)).shape
        (2,)
    """
    dtype = float_dtype("uniform", dtype)
    words, _ = words_of("uniform", key)
    shape = _check_shape("uniform", shape, minval, maxval)
    return _uniform(words, minval, maxval, shape=shape, dtype=dtype)


def normal_words(words: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    """Standard normal numbers (complex ones have variance 1/2 in each part)."""
    if dtypes.issubdtype(dtype, np.complexfloating):
        real = dtypes.real_dtype(dtype)
        k_re, k_im = split_words(words)
        re = normal_words(k_re, shape=shape, dtype=real)
        im = normal_words(k_im, shape=shape, dtype=real)
        return lax.div(lax.complex(re, im), np.array(math.sqrt(2), dtype)[()])
    low = np.nextafter(np.array(-1.0, dtype), np.array(0.0, dtype), dtype=dtype)
    u = uniform_words(words, low, np.array(1.0, dtype)[()], shape=shape, dtype=dtype)
    return lax.mul(np.array(math.sqrt(2), dtype)[()], lax.erf_inv(u))


_normal = jit(normal_words, static_argnames=("shape", "dtype"))


@api_boundary
def normal(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Standard normal floats, or complex numbers.

    Args:
        key: a single random key.
        shape: the result's.
        dtype: a float or complex dtype.
    """
    found = dtypes.canonicalize_dtype(np.float64 if dtype is None else dtype)
    if not dtypes.issubdtype(found, np.inexact):
        raise ValueError(
            f"dtype argument to `normal` must be a float or complex dtype, got {found}"
        )
    words, _ = words_of("normal", key)
    return _normal(words, shape=shape_tuple(shape), dtype=found)


def _bernoulli_words(words: Any, p: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    u = uniform_words(words, 0.0, 1.0, shape=shape, dtype=dtype)
    return lax.lt(u, jnp.broadcast_to(lax.convert_element_type(p, dtype), shape))


_bernoulli = jit(_bernoulli_words, static_argnames=("shape", "dtype"))


def _parameter_dtype(*params: Any) -> Any:
    return dtypes.to_inexact_dtype(dtypes.result_type(*params))


@api_boundary
def bernoulli(key: Any, p: Any = 0.5, shape: Any = None, mode: str = "low") -> Any:
    """Booleans that are True with probability `p`.

    Args:
        key: a single random key.
        p: probabilities, float.
        shape: the result's; p's by default.
    """
    _check_mode("bernoulli", mode)
    if not dtypes.issubdtype(dtypes.result_type(p), np.floating):
        if not isinstance(p, int | np.integer):
            raise TypeError(f"bernoulli probability `p` must have a floating dtype, got {p!r:.60}")
        p = float(p)
    words, _ = words_of("bernoulli", key)
    return _bernoulli(
        words, p, shape=_check_shape("bernoulli", shape, p), dtype=_parameter_dtype(p)
    )


def _check_mode(name: str, mode: Any) -> None:
    if mode not in (None, "low"):
        raise ValueError(f"{name}: mode must be 'low' (JAX's default), got {mode!r}")


def _randint_words(
    words: Any, minval: Any, maxval: Any, *, shape: tuple[int, ...], dtype: Any
) -> Any:
    minval, maxval = jnp.asarray(minval), jnp.asarray(maxval)
    if not dtypes.issubdtype(minval.dtype, np.integer):
        minval = minval.astype(int)
    if not dtypes.issubdtype(maxval.dtype, np.integer):
        maxval = maxval.astype(int)
    info = np.iinfo(dtype)
    wide = np.iinfo(maxval.dtype)
    limit = np.array(min(info.max, wide.max), maxval.dtype)[()]
    beyond = lax.gt(maxval, limit)
    minval = _into(minval, dtype)
    maxval = _into(maxval, dtype)
    minval, maxval = jnp.broadcast_to(minval, shape), jnp.broadcast_to(maxval, shape)
    beyond = jnp.broadcast_to(beyond, shape)
    k1, k2 = split_words(words)
    high, low = random_bits(k1, info.bits, shape), random_bits(k2, info.bits, shape)
    unsigned = np.dtype(_UINT[np.dtype(dtype).itemsize])
    one = unsigned.type(1)
    span = lax.convert_element_type(lax.sub(maxval, minval), unsigned)
    span = lax.select(lax.le(maxval, minval), lax.full_like(span, 1), span)
    grow = lax.bitwise_and(beyond, lax.gt(maxval, minval))
    span = lax.select(grow, lax.add(span, one), span)
    multiplier = lax.rem(lax.full_like(span, 2 ** (info.bits // 2)), span)
    multiplier = lax.rem(lax.mul(multiplier, multiplier), span)
    offset = lax.add(lax.mul(lax.rem(high, span), multiplier), lax.rem(low, span))
    offset = lax.rem(offset, span)
    return lax.add(minval, lax.convert_element_type(offset, dtype))


def _into(x: Any, dtype: Any) -> Any:
    """Integers clipped to a dtype's range and converted."""
    source, target = np.iinfo(x.dtype), np.iinfo(dtype)
    low, high = max(source.min, target.min), min(source.max, target.max)
    if low > source.min or high < source.max:
        x = lax.clamp(np.array(low, x.dtype)[()], x, np.array(high, x.dtype)[()])
    return lax.convert_element_type(x, dtype)


_randint = jit(_randint_words, static_argnames=("shape", "dtype"))


@api_boundary
def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None) -> Any:
    """Integers in [minval, maxval).

    Args:
        key: a single random key.
        shape: the result's.
        minval, maxval: bounds, which broadcast to the shape.
        dtype: an integer dtype (int32, or int64 under enable_x64, by default).
    """
    found = dtypes.canonicalize_dtype(np.int64 if dtype is None else dtype)
    if not dtypes.issubdtype(found, np.integer):
        raise TypeError(f"randint only accepts integer dtypes, got {found}")
    words, _ = words_of("randint", key)
    shape = _check_shape("randint", shape, minval, maxval)
    if np.iinfo(found).bits >= 32:
        return _randint(words, minval, maxval, shape=shape, dtype=found)
    # Short integers are drawn with 32 bits: the bias of the modulus falls with the width.
    i32, info = np.dtype(np.int32), np.iinfo(found)
    minval = jnp.clip(jnp.asarray(minval).astype(i32), info.min, info.max)
    maxval = jnp.clip(jnp.asarray(maxval).astype(i32), info.min, int(info.max) + 1)
    return _randint(words, minval, maxval, shape=shape, dtype=i32).astype(found)


def shuffle_words(words: Any, x: Any, *, axis: int) -> Any:
    """The slices along an axis in random order, by sorting on random keys (often enough)."""
    size = typeof(x).size
    if not size:
        return x
    rounds = int(np.ceil(3 * np.log(max(1, size)) / np.log(np.iinfo(np.uint32).max)))
    for _ in range(rounds):
        words, sub = split_words(words)
        order = random_bits(sub, 32, typeof(x).shape)
        _, x = lax.sort_key_val(order, x, axis)
    return x


_shuffle = jit(shuffle_words, static_argnames="axis")


@api_boundary
def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Any:
    """The slices of an array along an axis, or the numbers 0 ... x-1, in random order.

    Args:
        key: a single random key.
        x: an array, or an integer.
        axis: which axis.
        independent: shuffle each vector along the axis by itself.
    """
    words, _ = words_of("permutation", key)
    if np.ndim(x) == 0:
        if not dtypes.issubdtype(typeof(x).dtype, np.integer):
            raise TypeError("x must be an integer or at least 1-dimensional")
        return _shuffle(words, jnp.arange(int(x)), axis=0)
    x = jnp.asarray(x)
    axis = axis + x.ndim if axis < 0 else axis
    if independent or x.ndim == 1:
        return _shuffle(words, x, axis=axis)
    order = _shuffle(words, jnp.arange(x.shape[axis]), axis=0)
    return jnp.take(x, order, axis)


@api_boundary
def choice(
    key: Any,
    a: Any,
    shape: Any = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    mode: str | None = None,
) -> Any:
    """A random sample of an array's slices.

    Args:
        key: a single random key.
        a: an array, or an integer n for the numbers 0 ... n-1.
        shape: how many.
        replace: whether a slice may come more than once.
        p: a probability for each.
        axis: along which axis.
    """
    _check_mode("choice", mode)
    words, _ = words_of("choice", key)
    shape = shape_tuple(shape)
    numbers = np.ndim(a) == 0
    a = a if numbers else jnp.asarray(a)
    n_inputs = int(a) if numbers else a.shape[axis]
    n_draws = math.prod(shape)
    if n_draws == 0:
        return jnp.zeros(shape, jnp.asarray(a).dtype)
    if n_inputs <= 0:
        raise ValueError("a must be greater than 0 unless no samples are taken")
    if not replace and n_draws > n_inputs:
        raise ValueError(
            f"Cannot take a larger sample (size {n_draws}) than population (size {n_inputs}) when "
            "'replace=False'"
        )
    if p is not None:
        p = jnp.asarray(p, dtype=_parameter_dtype(p))
        if p.shape != (n_inputs,):
            raise ValueError(f"p must be None or match the shape of a: {p.shape} for {n_inputs}")
    if p is None and replace:
        found = randint(key, shape, 0, n_inputs)
    elif p is None:
        found = permutation(key, n_inputs)[:n_draws]
    elif replace:
        total = jnp.cumsum(p)
        r = total[-1] * (1 - uniform(key, shape, dtype=total.dtype))
        found = jnp.searchsorted(total, r).astype(int)
    else:
        g = gumbel(key, (n_inputs,), dtype=p.dtype) + jnp.log(p)
        found = lax.top_k(g, n_draws)[1].astype(int)
    if numbers:
        return found.reshape(shape)
    return jnp.take(a, found.reshape(shape), axis=axis)


def transformed(
    name: str,
    fun: Callable[..., Any],
    low: Callable[[Any], Any],
    high: Callable[[Any], Any],
    doc: str,
) -> Callable[..., Any]:
    """A sampler that maps uniform floats in [low, high) through a function."""

    def words_sampler(words: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
        u = uniform_words(words, low(dtype), high(dtype), shape=shape, dtype=dtype)
        return fun(u, dtype)

    words_sampler.__name__ = f"_{name}"
    compiled = jit(words_sampler, static_argnames=("shape", "dtype"))

    def sampler(key: Any, shape: Any = (), dtype: Any = None) -> Any:
        found = float_dtype(name, dtype)
        words, _ = words_of(name, key)
        return compiled(words, shape=shape_tuple(shape), dtype=found)

    sampler.__name__ = sampler.__qualname__ = name
    sampler.__doc__ = f"""{doc}

    Args:
        key: a single random key.
        shape: the result's.
        dtype: a float dtype.
    """
    return api_boundary(sampler)


def _tiny(dtype: Any) -> Any:
    return dtypes.finfo(dtype).tiny


def _one(dtype: Any) -> float:
    return 1.0


exponential = transformed(
    "exponential",
    lambda u, dtype: lax.neg(lax.log1p(lax.neg(u))),
    lambda dtype: 0.0,
    _one,
    "Exponential floats of rate 1.",
)
_gumbel = transformed(
    "gumbel",
    lambda u, dtype: lax.neg(lax.log(lax.neg(lax.log(u)))),
    _tiny,
    _one,
    "Standard Gumbel floats.",
)


@api_boundary
def gumbel(key: Any, shape: Any = (), dtype: Any = None, mode: str | None = None) -> Any:
    """Standard Gumbel floats: -log(-log(u)).

    Args:
        key: a single random key.
        shape: the result's.
        dtype: a float dtype.
        mode: 'low', the only one, as JAX's default.
    """
    _check_mode("gumbel", mode)
    return _gumbel(key, shape, dtype)


laplace = transformed(
    "laplace",
    lambda u, dtype: lax.mul(lax.sign(u), lax.log1p(lax.neg(lax.abs(u)))),
    lambda dtype: -1 + dtypes.finfo(dtype).epsneg,
    _one,
    "Laplace floats of scale 1.",
)
cauchy = transformed(
    "cauchy",
    lambda u, dtype: lax.tan(
        lax.mul(np.array(np.pi, dtype)[()], lax.sub(u, np.array(0.5, dtype)[()]))
    ),
    lambda dtype: dtypes.finfo(dtype).eps,
    _one,
    "Standard Cauchy floats.",
)
logistic = transformed(
    "logistic",
    lambda u, dtype: lax.log(lax.div(u, lax.sub(np.array(1, dtype)[()], u))),
    lambda dtype: dtypes.finfo(dtype).eps,
    _one,
    "Standard logistic floats.",
)


def _truncated_words(
    words: Any, lower: Any, upper: Any, *, shape: tuple[int, ...], dtype: Any
) -> Any:
    root2 = np.array(math.sqrt(2), dtype)[()]
    lower = lax.convert_element_type(lower, dtype)
    upper = lax.convert_element_type(upper, dtype)
    a, b = lax.erf(lax.div(lower, root2)), lax.erf(lax.div(upper, root2))
    u = uniform_words(words, a, b, shape=shape, dtype=dtype)
    out = lax.mul(root2, lax.erf_inv(u))
    low = lax.nextafter(lax.stop_gradient(lower), np.array(np.inf, dtype)[()])
    high = lax.nextafter(lax.stop_gradient(upper), np.array(-np.inf, dtype)[()])
    return jnp.clip(out, low, high)


_truncated = jit(_truncated_words, static_argnames=("shape", "dtype"))


@api_boundary
def truncated_normal(key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Standard normal floats conditioned on lying in [lower, upper]."""
    found = float_dtype("truncated_normal", dtype)
    words, _ = words_of("truncated_normal", key)
    shape = _check_shape("truncated_normal", shape, lower, upper)
    return _truncated(words, lower, upper, shape=shape, dtype=found)


@api_boundary
def rademacher(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers that are -1 or 1 with equal probability."""
    found = dtypes.canonicalize_dtype(np.int64 if dtype is None else dtype)
    return 2 * bernoulli(key, 0.5, shape_tuple(shape)).astype(found) - np.array(1, found)[()]


@api_boundary
def categorical(
    key: Any,
    logits: Any,
    axis: int = -1,
    shape: Sequence[int] | None = None,
    replace: bool = True,
    mode: str | None = None,
) -> Any:
    """Indices drawn with probability softmax(logits) along an axis.

    Args:
        key: a single random key.
        logits: unnormalised log probabilities.
        axis: which axis holds the classes.
        shape: the result's; logits' shape without the axis by default.
        replace: whether the draws of a batch element are independent.

    Returns:
        Integers of that shape.
    """
    _check_mode("categorical", mode)
    logits = jnp.asarray(logits, dtype=_parameter_dtype(logits))
    axis = axis - logits.ndim if axis >= 0 else axis
    batch = tuple(np.delete(logits.shape, axis))
    shape = batch if shape is None else shape_tuple(shape)
    if batch and shape[len(shape) - len(batch) :] != batch:
        raise ValueError(
            f"categorical: shape {shape} must end with the logits' batch shape {batch}"
        )
    prefix = shape[: len(shape) - len(batch)]
    if replace:
        full = list(shape[len(shape) - len(batch) :])
        full.insert(axis % logits.ndim, logits.shape[axis])
        noise = gumbel(key, (*prefix, *full), logits.dtype)
        return jnp.argmax(noise + lax.expand_dims(logits, range(len(prefix))), axis=axis)
    n = math.prod(prefix)
    if n > logits.shape[axis]:
        raise ValueError(
            f"categorical: cannot draw {n} of {logits.shape[axis]} classes without replacement"
        )
    noisy = jnp.moveaxis(gumbel(key, logits.shape, logits.dtype) + logits, axis, -1)
    found = jnp.moveaxis(lax.top_k(noisy, n)[1], -1, 0)
    return found.reshape(shape)


@api_boundary
def multivariate_normal(
    key: Any, mean: Any, cov: Any, shape: Any = None, dtype: Any = None, method: str = "cholesky"
) -> Any:
    """Normal vectors of a given mean and covariance.

    Args:
        key: a single random key.
        mean: float[..., n].
        cov: float[..., n, n].
        shape: the batch shape of the result.
        method: 'cholesky', 'eigh' or 'svd', how the covariance's root is found.
    """
    found = dtypes.to_inexact_dtype(
        dtypes.result_type(mean, cov) if dtype is None else dtypes.canonicalize_dtype(dtype)
    )
    mean, cov = jnp.asarray(mean, found), jnp.asarray(cov, found)
    if cov.ndim < 2 or cov.shape[-1] != cov.shape[-2] or mean.shape[-1:] != cov.shape[-1:]:
        raise ValueError(
            f"multivariate_normal: mean {mean.shape} and cov {cov.shape} do not fit: cov must be "
            "square and as long as mean"
        )
    batch = np.broadcast_shapes(mean.shape[:-1], cov.shape[:-2])
    shape = batch if shape is None else shape_tuple(shape)
    if method == "cholesky":
        root = jnp.linalg.cholesky(cov)
    elif method == "eigh":
        w, v = jnp.linalg.eigh(cov)
        root = v * jnp.sqrt(w[..., None, :])
    elif method == "svd":
        u, s, _ = jnp.linalg.svd(cov)
        root = u * jnp.sqrt(s[..., None, :])
    else:
        raise ValueError(f"method must be 'cholesky', 'eigh' or 'svd', got {method!r}")
    noise = normal(key, (*shape, *mean.shape[-1:]), found)
    return mean + jnp.einsum("...ij,...j->...i", root, noise)
