"""Scaled dot-product attention.

Builds on numpy and nn/activations.py. Source: Vaswani et al., Attention is all you need, 2017.
Tested in tests/nn/test_attention.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback import numpy as jnp
from pullback.nn.activations import softmax


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
) -> Any:
    """softmax(query @ key.T * scale + bias) @ value, a head at a time.

    Args:
        query: float[batch, time, heads, dim], or without batch.
        key, value: float[batch, source, kv_heads, dim]; heads must be a multiple of kv_heads.
        bias: added to the logits; broadcasts to [batch, heads, time, source].
        mask: bool, False where a query may not look; broadcasts likewise.
        scale: by default 1 / sqrt(dim).
        is_causal: mask out later positions.

    Returns:
        float[batch, time, heads, dim].

    Raises:
        ValueError: shapes that do not fit.
    """
    unbatched = query.ndim == 3
    if unbatched:
        query, key, value = query[None], key[None], value[None]
    if query.ndim != 4 or key.shape != value.shape or query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"dot_product_attention: shapes do not fit: query {query.shape}, key {key.shape}, "
            f"value {value.shape}; expected [batch, time, heads, dim]"
        )
    n_batch, n_time, n_heads, dim = query.shape
    n_source, n_kv = key.shape[1], key.shape[2]
    if n_heads % n_kv:
        raise ValueError(f"{n_heads} query heads are not a multiple of {n_kv} key heads")
    grouped = query.reshape(n_batch, n_time, n_kv, n_heads // n_kv, dim)
    factor = 1 / math.sqrt(dim) if scale is None else scale
    logits = jnp.einsum("btkgd,bskd->bkgts", grouped, key) * np.array(factor, query.dtype)[()]
    logits = logits.reshape(n_batch, n_heads, n_time, n_source)
    if bias is not None:
        logits = logits + bias
    allowed = mask
    if is_causal:
        causal = jnp.tril(jnp.ones((n_time, n_source), bool))
        allowed = causal if mask is None else jnp.logical_and(mask, causal)
    if allowed is not None:
        lowest = np.array(-0.7 * float(jnp.finfo(logits.dtype).max), logits.dtype)[()]
        logits = jnp.where(allowed, logits, lowest)
    weights = softmax(logits.astype(np.float32), axis=-1).astype(query.dtype)
    weights = weights.reshape(n_batch, n_kv, n_heads // n_kv, n_time, n_source)
    out = jnp.einsum("bkgts,bskd->btkgd", weights, value).reshape(n_batch, n_time, n_heads, dim)
    return out[0] if unbatched else out
