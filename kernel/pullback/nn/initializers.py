"""Initializers: functions of a key, a shape and a dtype that give first weights.

Builds on random. Sources: Glorot and Bengio 2010; He et al. 2015; LeCun et al. 1998; Saxe et al. 2013.
Tested in tests/nn/test_initializers.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from pullback import numpy as jnp
from pullback import random
from pullback.core import dtypes

Initializer = Callable[..., Any]
Mode = Literal["fan_in", "fan_out", "fan_avg"]
Distribution = Literal["truncated_normal", "normal", "uniform"]


def _dtype(dtype: Any) -> Any:
    return dtypes.canonicalize_dtype(np.float64 if dtype is None else dtype)


def zeros(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
    """Zeros; the key is not used."""
    return jnp.zeros(shape, _dtype(dtype))


def ones(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
    """Ones; the key is not used."""
    return jnp.ones(shape, _dtype(dtype))


def constant(value: Any, dtype: Any = None) -> Initializer:
    """An initializer that fills with a value."""

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        return jnp.full(shape, value, dtype=_dtype(dtype))

    return init


def uniform(scale: Any = 1e-2, dtype: Any = None) -> Initializer:
    """An initializer of uniform numbers in [0, scale)."""

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        found = _dtype(dtype)
        return random.uniform(key, shape, found) * np.array(scale, found)[()]

    return init


def normal(stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
    """An initializer of normal numbers with a standard deviation."""

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        found = _dtype(dtype)
        return random.normal(key, shape, found) * np.array(stddev, found)[()]

    return init


def truncated_normal(
    stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0
) -> Initializer:
    """An initializer of normal numbers cut off at `lower` and `upper` standard deviations."""

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        found = _dtype(dtype)
        sample = random.truncated_normal(key, lower, upper, shape, found)
        return sample * np.array(stddev, found)[()]

    return init


def _fans(
    shape: Sequence[int], in_axis: Any, out_axis: Any, batch_axis: Any
) -> tuple[float, float]:
    """How many inputs and outputs each unit has, the receptive field counted in."""
    if len(shape) <= 1:
        raise ValueError(
            f"Can't compute input and output sizes of a {len(shape)}-dimensional weights tensor. "
            "Must be at least 2D."
        )

    def total(axes: Any) -> int:
        return math.prod(shape[a] for a in ((axes,) if isinstance(axes, int) else axes))

    n_in, n_out, n_batch = total(in_axis), total(out_axis), total(batch_axis)
    field = math.prod(shape) / max(n_in * n_out * n_batch, 1)
    return n_in * field, n_out * field


def variance_scaling(
    scale: Any,
    mode: Mode,
    distribution: Distribution,
    in_axis: Any = -2,
    out_axis: Any = -1,
    batch_axis: Any = (),
    dtype: Any = None,
) -> Initializer:
    """An initializer whose variance is `scale` divided by the number of inputs or outputs.

    Args:
        scale: positive number.
        mode: divide by the inputs, the outputs, or their average.
        distribution: 'truncated_normal', 'normal' or 'uniform'.
        in_axis, out_axis, batch_axis: which axes of the weights those are.
        dtype: of the weights.
    """

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        found = _dtype(dtype)
        fan_in, fan_out = _fans(shape, in_axis, out_axis, batch_axis)
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError(f"invalid mode for variance scaling initializer: {mode}")
        denominator = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[
            mode
        ]
        variance = np.array(scale / denominator, dtype=found)
        if distribution == "normal":
            return random.normal(key, shape, found) * np.sqrt(variance)
        if distribution == "uniform":
            return random.uniform(key, shape, found, -1) * np.sqrt(3 * variance)
        if distribution == "truncated_normal":
            # The constant is the standard deviation of a normal cut off at -2 and 2.
            stddev = np.sqrt(variance) / np.array(0.87962566103423978, found)
            return random.truncated_normal(key, -2, 2, shape, found) * stddev
        raise ValueError(f"invalid distribution for variance scaling initializer: {distribution}")

    return init


def _scaled(
    scale: float, mode: Mode, distribution: Distribution, doc: str
) -> Callable[..., Initializer]:
    def make(
        in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (), dtype: Any = None
    ) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    make.__doc__ = doc
    return make


glorot_uniform = _scaled(1.0, "fan_avg", "uniform", "Glorot's uniform initializer.")
glorot_normal = _scaled(1.0, "fan_avg", "truncated_normal", "Glorot's normal initializer.")
lecun_uniform = _scaled(1.0, "fan_in", "uniform", "LeCun's uniform initializer.")
lecun_normal = _scaled(1.0, "fan_in", "truncated_normal", "LeCun's normal initializer.")
he_uniform = _scaled(2.0, "fan_in", "uniform", "He's uniform initializer.")
he_normal = _scaled(2.0, "fan_in", "truncated_normal", "He's normal initializer.")
xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """An initializer of random orthogonal matrices, times a scale."""

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        found = _dtype(dtype)
        if len(shape) < 2:
            raise ValueError("orthogonal initializer requires at least a 2D shape")
        n_rows, n_cols = shape[column_axis], math.prod(shape) // shape[column_axis]
        wide = n_rows <= n_cols
        a = random.normal(key, (n_cols, n_rows) if wide else (n_rows, n_cols), found)
        q, r = jnp.linalg.qr(a)
        q = q * jnp.broadcast_to(jnp.expand_dims(jnp.sign(jnp.diag(r)), -2), q.shape)
        q = q.T if wide else q
        q = jnp.reshape(q, (n_rows, *np.delete(shape, column_axis)))
        return np.array(scale, found)[()] * jnp.moveaxis(q, 0, column_axis)

    return init


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """An initializer of convolution kernels that are orthogonal at the centre, zero elsewhere."""

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        found = _dtype(dtype)
        if len(shape) not in (3, 4, 5):
            raise ValueError("delta orthogonal initializer requires a 3D, 4D or 5D shape")
        if shape[-1] < shape[-2]:
            raise ValueError("`fan_in` must be less or equal than `fan_out`")
        q = orthogonal(scale, column_axis, found)(key, shape[-2:])
        centre = tuple((k - 1) // 2 for k in shape[:-2])
        return jnp.zeros(shape, found).at[centre].set(q)

    return init
