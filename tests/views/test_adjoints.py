"""Forward values and cotangents of every variable."""

import numpy as np
import pytest
from view_programs import W, X, loss

import pullback.numpy as jnp
from pullback import custom_vjp
from pullback.api.autodiff import grad
from pullback.api.jit import jit
from pullback.api.vmap import vmap
from pullback.lax import cos, mul, sin, stop_gradient
from pullback.lax.loops import scan
from pullback.views.adjoints import one_like, pull_back, record_forward
from pullback.views.text import NOT_COMPUTED, value_text


def by_name(evaluation, name):
    (index,) = [i for i, e in enumerate(evaluation.jaxpr.eqns) if e.primitive.name == name]
    return index, evaluation.jaxpr.eqns[index]


def test_values_are_those_of_the_run(evaluation):
    _, eqn = by_name(evaluation, "tanh")
    np.testing.assert_allclose(evaluation.values[eqn.outvars[0]], np.tanh(W * X), rtol=1e-6)


def test_cotangent_of_the_input_is_the_gradient(evaluation):
    ct = evaluation.cotangents[evaluation.jaxpr.invars[0]]
    np.testing.assert_allclose(ct, grad(loss)(W, X), rtol=1e-6)


def test_cotangents_of_intermediates_are_partial_derivatives(evaluation):
    _, eqn = by_name(evaluation, "tanh")
    h = np.tanh(W * X)
    np.testing.assert_allclose(evaluation.cotangents[eqn.outvars[0]], 2 * np.cos(h) + 1, rtol=1e-6)


def test_what_the_backward_pass_does_not_reach_is_not_there(evaluation):
    assert evaluation.jaxpr.invars[1] not in evaluation.cotangents
    _, eqn = by_name(evaluation, "exp")
    assert value_text(evaluation.cotangents.get(eqn.outvars[0])) == NOT_COMPUTED


def test_calls_are_looked_into(evaluation):
    index, eqn = by_name(evaluation, "jit")
    inner = evaluation.inner[index]
    sine = inner.jaxpr.eqns[0].outvars[0]
    np.testing.assert_allclose(inner.values[sine], np.sin(np.tanh(W * X)), rtol=1e-6)
    np.testing.assert_allclose(inner.cotangents[sine], [2, 2, 2])
    np.testing.assert_allclose(inner.cotangents[inner.jaxpr.outvars[0]], [1, 1, 1])


def test_contributions_add_up(evaluation):
    index_add, _ = by_name(evaluation, "add")
    index_jit, _ = by_name(evaluation, "jit")
    _, tanh = by_name(evaluation, "tanh")
    parts = [
        np.asarray(ct)
        for (i, _), ct in evaluation.contributions.items()
        if i in (index_add, index_jit) and evaluation.jaxpr.eqns[i].invars[_] is tanh.outvars[0]
    ]
    np.testing.assert_allclose(sum(parts), evaluation.cotangents[tanh.outvars[0]], rtol=1e-6)


def test_an_array_of_zeros_is_a_cotangent():
    found = record_forward(lambda x: [mul(x, np.float32(0))], [np.float32(2)])
    pull_back(found, [True], [one_like(found.read(found.jaxpr.outvars[0]))])
    assert value_text(found.cotangents[found.jaxpr.invars[0]]) == "0.0"


def test_loops_are_pulled_back_whole():
    def f(x):
        return scan(lambda c, a: (mul(c, sin(a)), None), np.float32(1), x)[0]

    found = record_forward(lambda x: [f(x)], [X])
    (ct,) = pull_back(found, [True], [np.float32(1)])
    np.testing.assert_allclose(ct, grad(f)(X), rtol=1e-5)


def test_gradient_starts_from_a_scalar(evaluation):
    with pytest.raises(TypeError, match=r"f32\[3\]\n.*\.sum\(\)"):
        one_like(X)
    with pytest.raises(TypeError, match="i32"):
        one_like(np.int32(1))


@custom_vjp
def doubled(x):
    return sin(x)


doubled.defvjp(lambda x: (sin(x), x), lambda x, ct: (mul(mul(ct, cos(x)), np.float32(2)),))


def test_custom_rules_are_followed():
    found = record_forward(lambda x: [doubled(x)], [np.float32(0.5)])
    (ct,) = pull_back(found, [True], [np.float32(1)])
    np.testing.assert_allclose(ct, 2 * np.cos(0.5), rtol=1e-6)
    inner = found.inner[0]
    assert inner.values and not inner.cotangents


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: jnp.where(x > 0, x, 0.0).sum(),
        lambda x: x[1] * x[0] + x[::2].sum(),
        lambda x: x.at[1].set(3.0).sum() * x[1],
        lambda x: (jnp.ones((3, 3)) @ x) @ x,
        lambda x: scan(lambda c, a: (c * jnp.sin(a), c), 1.0, x)[0],
        lambda x: (jnp.sort(x) * jnp.arange(3.0)).sum(),
        lambda x: vmap(lambda a: a * a)(x).sum(),
        lambda x: (stop_gradient(x) * x).sum(),
        lambda x: x[jnp.argmax(x)],
        lambda x: jit(lambda y: jit(jnp.sin)(y) * y)(x).sum(),
        lambda x: grad(lambda y: jnp.sin(y).sum())(x).sum(),
        lambda x: jnp.abs(x + 1j * x).sum(),
        lambda x: jnp.var(x),
    ],
)
def test_the_tape_agrees_with_grad(fun):
    x = jnp.array([0.3, -1.2, 2.0])
    found = record_forward(lambda v: [fun(v)], [x])
    (ct,) = pull_back(found, [True], [one_like(found.read(found.jaxpr.outvars[0]))])
    np.testing.assert_allclose(ct, grad(fun)(x), rtol=1e-5)
