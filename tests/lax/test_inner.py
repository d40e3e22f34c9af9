"""Tracing of functions inside primitives, and interning of what comes out."""

from __future__ import annotations

import numpy as np

from pullback import lax
from pullback import numpy as jnp
from pullback.core import pytree
from pullback.core.aval import make_aval
from pullback.lax import inner

F32 = make_aval((), np.dtype(np.float32))


def trace(fun):
    return inner.trace_function(fun, pytree.tree_structure((0,)), [F32])


def test_same_program_is_the_same_object():
    make = lambda k: lambda x: {"y": jnp.sin(x) * k}
    first, again, other = trace(make(2.0)), trace(make(2.0)), trace(make(3.0))
    assert first.jaxpr is again.jaxpr
    assert first.jaxpr is not other.jaxpr
    assert pytree.tree_unflatten(first.out_tree, [1]) == {"y": 1}


def test_captured_arrays_are_operands_and_stay_true():
    """A loop sees the value that a global has now, and is not compiled again for it."""
    scale = jnp.ones(3)
    body = lambda c, x: (c + jnp.vdot(scale, scale) * x, None)
    assert float(lax.scan(body, 0.0, jnp.ones(2))[0]) == 6.0
    scale = 2 * scale
    assert float(lax.scan(body, 0.0, jnp.ones(2))[0]) == 24.0


def test_the_table_is_bounded():
    inner.clear_interned()
    for k in range(inner._INTERN_LIMIT + 20):
        trace(lambda x, k=k: x * float(k))
    assert inner.interned_count() <= inner._INTERN_LIMIT


def test_leaf_paths():
    tree = pytree.tree_structure({"a": (1, 2), "b": 3})
    assert inner.leaf_paths(tree, "carry") == ["carry['a'][0]", "carry['a'][1]", "carry['b']"]
