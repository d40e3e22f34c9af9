"""Run with the real jax: writes what it answers to the expressions of golden_cases.py.

python record_golden.py ../data/numpy_golden.json
"""

from __future__ import annotations

import json
import sys

import golden_cases
import golden_values
import jax
import jax.numpy as jnp
import numpy as np

scope = {"jnp": jnp, "jax": jax, "np": np, **golden_cases.inputs(jnp, np)}
answers = {
    group: {e: golden_values.evaluate(e, scope) for e in expressions}
    for group, expressions in golden_cases.GROUPS.items()
}
with open(sys.argv[1], "w") as file:
    json.dump({"jax": jax.__version__, "answers": answers}, file, indent=0)
for group, found in answers.items():
    for expression, answer in found.items():
        if isinstance(answer, dict):
            print(group, expression, answer)
