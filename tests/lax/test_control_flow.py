"""cond and switch: laws, mapped predicates, residual slots, errors."""

from __future__ import annotations

import itertools

import harness
import numpy as np
import pytest
from harness import Case

import pullback as pb
from pullback import lax
from pullback import numpy as jnp
from pullback.core.jaxpr import check_jaxpr

X = np.array([0.4, -1.2], np.float32)


def choose(x):
    return lax.cond(x[0] > 0, lambda x: jnp.sin(x) * x, lambda x: jnp.exp(x), x)


def choose_numpy(x):
    return np.sin(x) * x if x[0] > 0 else np.exp(x)


def three(x, w):
    i = (x > 0).astype(int) + (x > 1).astype(int)
    return lax.switch(i, [lambda x: x * w, lambda x: x * x * w, lambda x: jnp.cos(x)], x)


def three_numpy(x, w):
    return [x * w, x * x * w, np.cos(x)][int(x > 0) + int(x > 1)]


CASES = [
    Case("cond true", choose, (X,), choose_numpy),
    Case("cond false", choose, (-X,), choose_numpy),
    Case("switch 0", three, (np.float32(-0.5), np.float32(2)), three_numpy),
    Case("switch 1", three, (np.float32(0.5), np.float32(2)), three_numpy),
    Case("switch 2", three, (np.float32(1.5), np.float32(2)), three_numpy),
]


@pytest.mark.parametrize("case", harness.params(CASES))
def test_laws(case):
    harness.check_case(case)


TRANSFORMS = {
    "grad": lambda f: lambda x: pb.grad(lambda x: jnp.sum(f(x)))(x),
    "jvp": lambda f: lambda x: pb.jvp(f, (x,), (jnp.ones_like(x),))[1],
    "vmap": lambda f: lambda x: pb.vmap(f)(jnp.stack([x, -x, 2 * x])).sum(0),
    "jit": lambda f: pb.jit(f),
}


@pytest.mark.parametrize("names", itertools.product(TRANSFORMS, repeat=3), ids="-".join)
def test_nesting_matches_where(names):
    def ours(x):
        return lax.cond(x[0] > 0, lambda x: (jnp.sin(x) * x).sum(), lambda x: jnp.exp(x).sum(), x)

    def reference(x):
        return jnp.where(x[0] > 0, (jnp.sin(x) * x).sum(), jnp.exp(x).sum())

    for name in names:
        ours, reference = TRANSFORMS[name](ours), TRANSFORMS[name](reference)
    np.testing.assert_allclose(ours(jnp.asarray(X)), pb.jit(reference)(X), rtol=1e-4, atol=1e-5)


def test_only_the_taken_branch_runs():
    seen = []
    f = pb.jit(
        lambda p: lax.cond(
            p,
            lambda: pb.debug.callback(lambda: seen.append("true")),
            lambda: pb.debug.callback(lambda: seen.append("false")),
        )
    )
    f(True)
    f(False)
    assert seen == ["true", "false"]


def test_mapped_predicate_becomes_select():
    f = pb.vmap(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x))
    names = [e.primitive.name for e in pb.make_jaxpr(f)(np.array([True, False]), X).jaxpr.eqns]
    assert "cond" not in names and "select_n" in names
    unmapped = pb.vmap(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x), (None, 0))
    names = [e.primitive.name for e in pb.make_jaxpr(unmapped)(True, X).jaxpr.eqns]
    assert "cond" in names


def test_mapped_index_is_clamped():
    f = pb.vmap(lambda i: lax.switch(i, [lambda: 10, lambda: 20, lambda: 30]))
    np.testing.assert_array_equal(f(jnp.array([-5, 0, 1, 2, 9])), [10, 10, 20, 30, 30])
    assert int(lax.switch(9, [lambda: 10, lambda: 20])) == 20


def test_branches_share_residual_slots():
    f = pb.grad(lambda x: lax.cond(x > 0, jnp.sin, jnp.exp, x))
    jaxpr = pb.make_jaxpr(f)(1.0).jaxpr
    check_jaxpr(jaxpr)
    known = next(e for e in jaxpr.eqns if e.primitive.name == "cond")
    assert len(known.outvars) <= 2


def test_closures_and_operands():
    def f(w, x):
        return lax.cond(x > 0, lambda: w * x, lambda: w + x)

    assert float(pb.grad(f)(2.0, 3.0)) == 3.0
    assert float(pb.grad(f)(2.0, -3.0)) == 1.0
    assert float(pb.grad(pb.grad(f), 1)(2.0, 3.0)) == 1.0


def test_older_forms():
    assert float(lax.cond(True, 2.0, lambda x: x + 1, 3.0, lambda x: x - 1)) == 3.0
    assert float(lax.cond(False, lambda x: x, lambda x: -x, operand=2.0)) == -2.0
    assert int(lax.cond(3, lambda: 1, lambda: 0)) == 1


def test_errors():
    with pytest.raises(TypeError) as error:
        lax.cond(True, lambda x: {"a": x}, lambda x: {"a": x.astype(int)}, X)
    text = str(error.value)
    assert "['a']" in text and "f32[2]" in text and "i32[2]" in text and "true_fun" in text
    with pytest.raises(TypeError, match="different structures"):
        lax.cond(True, lambda x: (x, x), lambda x: [x], X)
    with pytest.raises(TypeError, match="scalar"):
        lax.cond(X > 0, lambda: 1, lambda: 0)
    with pytest.raises(TypeError, match="callable"):
        lax.cond(True, 1, 2)
    with pytest.raises(ValueError, match="empty"):
        lax.switch(0, [])
    with pytest.raises(TypeError, match="integer"):
        lax.switch(0.5, [lambda: 1, lambda: 2])


def test_disable_jit_takes_one_branch():
    with pb.disable_jit():
        assert lax.cond(True, lambda: "taken", lambda: 1 / 0) == "taken"


def test_platform_dependent():
    f = lambda x: lax.platform_dependent(x, cpu=lambda x: 7 * x, tpu=lambda x: 1 * x)
    assert float(f(2.0)) == 14.0
    assert float(pb.grad(f)(2.0)) == 7.0
    g = pb.jit(lambda x: lax.platform_dependent(x, tpu=jnp.sin, default=lambda x: 2 * x))
    assert float(g(3.0)) == 6.0
    with pytest.raises(NotImplementedError, match="default="):
        lax.platform_dependent(1.0, tpu=jnp.sin)


def test_platform_dependent_calls_only_the_chosen_function_where_the_platform_is_known():
    def fun(x):
        return lax.platform_dependent(x, cpu=lambda x: 2 * x, tpu=lambda x: 1 / 0)

    assert fun(jnp.ones(2)).tolist() == [2.0, 2.0]
    assert pb.vmap(fun)(jnp.ones(2)).tolist() == [2.0, 2.0]
    assert pb.grad(fun)(1.0) == 2.0
    with pytest.raises(ZeroDivisionError):
        pb.jit(fun)(jnp.ones(2))
    with pytest.raises(NotImplementedError, match="no function for 'cpu'"):
        lax.platform_dependent(1.0, tpu=lambda x: x)
