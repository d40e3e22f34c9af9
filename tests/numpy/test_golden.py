"""Every function against what JAX 0.10.2 gave: value, shape, dtype, weak type, or kind of error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import golden_values
import numpy as np
import pytest

import pullback as pb
from pullback import numpy as jnp

_FILE = Path(__file__).parents[1] / "data" / "numpy_golden.json"
ANSWERS = json.loads(_FILE.read_text())["answers"]


@pytest.fixture(scope="module")
def scope() -> dict[str, Any]:
    return {"jnp": jnp, "jax": pb, "np": np, **golden_values.inputs(jnp, np)}


@pytest.mark.parametrize(
    "group, expression",
    [pytest.param(g, e, id=f"{g}-{e}") for g, found in ANSWERS.items() for e in found],
)
def test_same_as_jax(group: str, expression: str, scope: dict[str, Any]) -> None:
    got = golden_values.evaluate(expression, scope)
    assert golden_values.difference(got, ANSWERS[group][expression]) == ""
