"""Evaluating the expressions of tests/data/numpy_golden.json, with results as plain data."""

from __future__ import annotations

import base64
import warnings
from typing import Any

import numpy as np


def inputs(jnp: Any, np: Any) -> dict[str, Any]:
    """The arrays that the expressions name."""
    rng = np.random.RandomState(0)
    v = np.array([0.5, -1.25, 2.0, 3.5], np.float32)
    return {
        "v": jnp.asarray(v),
        "w": jnp.asarray(np.array([1.5, 0.25, -2.0, 0.75], np.float32)),
        "u": jnp.asarray(np.array([0.1, 0.3, 0.5, 0.9], np.float32)),
        "m": jnp.asarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
        "s": jnp.asarray(rng.randn(3, 3).astype(np.float32)),
        "t": jnp.asarray(rng.randn(2, 3, 4).astype(np.float32)),
        "i": jnp.asarray(np.array([3, -1, 2, 0], np.int32)),
        "j": jnp.asarray(np.array([2, 5, -3, 4], np.int32)),
        "k8": jnp.asarray(np.array([100, -7, 3, 50], np.int8)),
        "u8": jnp.asarray(np.array([200, 7, 3, 50], np.uint8)),
        "b": jnp.asarray(np.array([True, False, True, True])),
        "b2": jnp.asarray(np.array([True, True, False, True])),
        "h": jnp.asarray(v.astype(np.float16)),
        "bf": jnp.asarray(v).astype("bfloat16"),
        "c": jnp.asarray(np.array([1 + 2j, -0.5j, 3, -1 - 1j], np.complex64)),
        "n": jnp.asarray(np.array([1.0, np.nan, -2.0, np.inf], np.float32)),
        "wk": jnp.full((2,), 2.0),
        "z": jnp.zeros((0, 3), np.float32),
        "e": jnp.zeros((0,), np.float32),
        "nv": v,
    }


def _leaf(x: Any) -> Any:
    if isinstance(x, (bool, int, float, str)):
        return {"python": repr(x)}
    if isinstance(x, np.dtype) or isinstance(x, type):
        return {"dtype": np.dtype(x).name}
    value = np.asarray(x)
    weak = bool(getattr(x, "weak_type", False))
    stored = value
    if value.dtype.name in ("bfloat16",) or value.dtype.name.startswith("float8"):
        stored = value.astype(np.float32)
    return {
        "array": value.dtype.name + ("*" if weak else ""),
        "shape": list(value.shape),
        "data": base64.b64encode(np.ascontiguousarray(stored).tobytes()).decode(),
        "stored": stored.dtype.name,
    }


def evaluate(expression: str, scope: dict[str, Any]) -> Any:
    """The result of an expression as a list of leaves, or the kind of error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = eval(expression, scope)
    except Exception as error:
        kinds = [k.__name__ for k in type(error).__mro__ if k.__module__ == "builtins"]
        return {"error": kinds[0]}
    leaves = list(out) if isinstance(out, (tuple, list)) else [out]
    flat: list[Any] = []
    for x in leaves:
        flat.extend(x if isinstance(x, (tuple, list)) else [x])
    return [_leaf(x) for x in flat]


def decode(leaf: dict[str, Any]) -> np.ndarray:
    """The array of a leaf."""
    data = np.frombuffer(base64.b64decode(leaf["data"]), np.dtype(leaf["stored"]))
    return data.reshape(leaf["shape"])


def difference(got: Any, want: Any) -> str:
    """What differs between two results; empty if nothing does."""
    if isinstance(got, dict) or isinstance(want, dict):
        if got == want:
            return ""
        texts = [str(x) if isinstance(x, dict) else "a value" for x in (got, want)]
        return f"got {texts[0]}, want {texts[1]}"
    if len(got) != len(want):
        return f"{len(got)} results, want {len(want)}"
    for x, y in zip(got, want, strict=True):
        if "array" not in x or "array" not in y:
            if x != y:
                return f"got {x}, want {y}"
            continue
        if x["array"].startswith("bool"):  # weak booleans promote like strong ones
            x, y = ({**leaf, "array": leaf["array"].rstrip("*")} for leaf in (x, y))
        if (x["array"], x["shape"]) != (y["array"], y["shape"]):
            return f"got {x['array']}{x['shape']}, want {y['array']}{y['shape']}"
        a, b = decode(x), decode(y)
        tolerance = {"f2": 2e-3, "f4": 2e-5, "c8": 2e-5}.get(a.dtype.str[1:], 1e-12)
        if x["array"].startswith("bfloat16"):
            tolerance = 1e-2
        if a.dtype.kind in "fc":
            if not np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True):
                return f"got {a.tolist()}, want {b.tolist()}"
        elif not np.array_equal(a, b):
            return f"got {a.tolist()}, want {b.tolist()}"
    return ""
