"""Run with the real jax: asks it the expressions of tests/data/numpy_golden.json again.

python record_golden.py ../data/numpy_golden.json [group expression ...]

More expressions may be given, each after its group (such as "indexing").
"""

from __future__ import annotations

import json
import sys

import golden_values
import jax
import jax.numpy as jnp
import numpy as np

path, *more = sys.argv[1:]
with open(path) as file:
    groups = {group: list(found) for group, found in json.load(file)["answers"].items()}
for group, expression in zip(more[::2], more[1::2], strict=True):
    groups.setdefault(group, []).append(expression)
scope = {"jnp": jnp, "jax": jax, "np": np, **golden_values.inputs(jnp, np)}
answers = {
    group: {e: golden_values.evaluate(e, scope) for e in expressions}
    for group, expressions in groups.items()
}
with open(path, "w") as file:
    json.dump({"jax": jax.__version__, "answers": answers}, file, indent=0)
