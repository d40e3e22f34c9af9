"""The real jax, asked in a subprocess of its own environment.

`PULLBACK_JAX_PYTHON` names a Python that has it; tests that ask are skipped where it is not set.
"""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

needs_jax = pytest.mark.skipif(
    not os.environ.get("PULLBACK_JAX_PYTHON"),
    reason="PULLBACK_JAX_PYTHON names no Python with the real jax",
)


@functools.cache
def ask(code: str, **environment: str) -> dict[str, np.ndarray]:
    """Run code that fills a dictionary `answer` of arrays, with jax, jnp and np imported."""
    python = os.environ["PULLBACK_JAX_PYTHON"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "answer.npz")
        program = (
            "import numpy as np, jax, jax.numpy as jnp\nanswer = {}\n"
            + code
            + f"\nnp.savez({str(path)!r}, **{{k: np.asarray(v) for k, v in answer.items()}})\n"
        )
        done = subprocess.run(
            [python, "-c", program],
            capture_output=True,
            text=True,
            env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": "", **environment},
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"the real jax failed:\n{done.stderr}")
        with np.load(path) as found:
            return dict(found)
