"""Evaluating the expressions of golden_cases.py and writing results as plain data."""

from __future__ import annotations

import base64
import warnings
from typing import Any

import numpy as np


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
        return (
            ""
            if got == want
            else f"got {got if isinstance(got, dict) else 'a value'}, want {want if isinstance(want, dict) else 'a value'}"
        )
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
