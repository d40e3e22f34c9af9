"""What of an eager call is XLA's own: `python bench/floor.py` prints microseconds, best of 9.

The first line runs the compiled sine from Python with nothing of the engine around it.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

import pullback.numpy as jnp
from pullback import lax
from pullback.xla import dispatch

N = 20_000
v = jnp.asarray(np.linspace(0, 1, 10, dtype=np.float32))
for _ in range(3):
    jnp.sin(v), v + 1

compiled = dispatch.compiled_at_home(lax.sin_p, [v._buf], {})
assert compiled is not None
execute, handlers, buf = compiled.executable.loaded.execute_sharded, compiled.handlers, v._buf


def best(call: Callable[[], Any]) -> float:
    """Microseconds a call."""
    return min(timeit.repeat(call, number=N, repeat=9)) / N * 1e6


print(f"execute_sharded alone  {best(lambda: execute([buf]).consume_with_handlers(handlers)):.2f}")
print(f"jnp.sin(v)             {best(lambda: jnp.sin(v)):.2f}")
print(f"v + 1                  {best(lambda: v + 1):.2f}")
