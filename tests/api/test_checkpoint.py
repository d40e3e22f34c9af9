"""checkpoint: no value changes, policies decide what is kept, memory falls."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import lax
from pullback import numpy as jnp
from pullback.ad_checkpoint import checkpoint_name
from pullback.core.jaxpr import check_jaxpr

policies = pb.checkpoint_policies
W = jnp.asarray(np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32))
X = jnp.asarray(np.random.default_rng(1).normal(size=(2, 3)).astype(np.float32))


def block(w, x):
    h = checkpoint_name(jnp.tanh(x @ w), "hidden")
    return (jnp.sin(h @ w) ** 2).sum()


POLICIES = {
    "none": None,
    "everything": policies.everything_saveable,
    "nothing": policies.nothing_saveable,
    "dots": policies.dots_saveable,
    "dots without batch": policies.dots_with_no_batch_dims_saveable,
    "names": policies.save_only_these_names("hidden"),
    "but names": policies.save_any_names_but_these("hidden"),
    "except names": policies.save_anything_except_these_names("hidden"),
    "both": policies.save_from_both_policies(
        policies.dots_saveable, policies.save_only_these_names("hidden")
    ),
}


@pytest.mark.parametrize("name", POLICIES)
def test_values_do_not_change(name):
    f = pb.checkpoint(block, policy=POLICIES[name])
    np.testing.assert_allclose(f(W, X), block(W, X), rtol=1e-6)
    expected = pb.grad(block)(W, X)
    np.testing.assert_allclose(pb.grad(f)(W, X), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(pb.jit(pb.grad(f))(W, X), expected, rtol=1e-5, atol=1e-6)
    jaxpr = pb.make_jaxpr(pb.grad(f))(W, X).jaxpr
    check_jaxpr(jaxpr)
    assert [e.primitive.name for e in jaxpr.eqns].count("checkpoint") == 1


def test_other_transformations():
    f = pb.checkpoint(block)
    np.testing.assert_allclose(pb.hessian(f)(W, X), pb.hessian(block)(W, X), rtol=1e-4, atol=1e-5)
    stacked = jnp.stack([X, 2 * X])
    np.testing.assert_allclose(
        pb.vmap(pb.grad(f), (None, 0))(W, stacked),
        pb.vmap(pb.grad(block), (None, 0))(W, stacked),
        rtol=1e-5,
        atol=1e-6,
    )
    np.testing.assert_allclose(
        pb.jvp(f, (W, X), (W, X))[1], pb.jvp(block, (W, X), (W, X))[1], rtol=1e-5
    )


def backward_equation(f, *args):
    jaxpr = pb.make_jaxpr(pb.grad(f))(*args).jaxpr
    return next(e for e in jaxpr.eqns if e.primitive.name == "checkpoint")


def test_what_the_backward_pass_takes():
    """Inputs, saved values and the cotangent; recomputed operations stand inside."""
    sines = lambda x: jnp.sin(jnp.sin(jnp.sin(x)))
    eqn = backward_equation(pb.checkpoint(sines), 1.0)
    inside = [e.primitive.name for e in eqn.params["jaxpr"].eqns]
    assert inside.count("sin") == 2 and inside.count("cos") == 3
    assert len(eqn.invars) == 2
    everything = pb.checkpoint(sines, policy=policies.everything_saveable)
    inside = [e.primitive.name for e in backward_equation(everything, 1.0).params["jaxpr"].eqns]
    assert "sin" not in inside and "cos" not in inside


def test_policy_sees_inside_jit():
    f = pb.checkpoint(lambda w, x: pb.jit(block)(w, x), policy=policies.dots_saveable)
    inside = [e.primitive.name for e in backward_equation(f, W, X).params["jaxpr"].eqns]
    plain = backward_equation(pb.checkpoint(block), W, X).params["jaxpr"].eqns
    assert inside.count("dot_general") < [e.primitive.name for e in plain].count("dot_general")


def test_memory_falls():
    def layers(checkpointed, w, x):
        f = lambda h, _: (jnp.tanh(jnp.sin(jnp.cos(h @ w))), None)
        if checkpointed:
            f = pb.checkpoint(f)
        return lax.scan(f, x, None, length=16)[0].sum()

    w, x = jnp.ones((32, 32)) / 32, jnp.ones((64, 32))
    sizes = [
        pb.jit(pb.grad(lambda w, c=c: layers(c, w, x)))
        .lower(w)
        .compile()
        .memory_analysis()
        .temp_size_in_bytes
        for c in (True, False)
    ]
    assert sizes[0] < 0.7 * sizes[1]


def test_static_arguments():
    f = pb.checkpoint(lambda x, flag: jnp.sin(x) if flag else x, static_argnums=1)
    np.testing.assert_allclose(pb.grad(f)(0.5, True), np.cos(0.5), rtol=1e-6)
    named = pb.checkpoint(lambda x, flag: x * x if flag else x, static_argnames="flag")
    assert float(pb.grad(named)(2.0, flag=True)) == 4.0


def _offloading(saved, offloaded):
    return policies.save_and_offload_only_these_names(
        names_which_can_be_saved=saved,
        names_which_can_be_offloaded=offloaded,
        offload_src="device",
        offload_dst="pinned_host",
    )


def test_offloaded_values_stay_in_the_memory_of_the_cpu():
    def fun(w, x):
        return (checkpoint_name(jnp.sin(x @ w), "a") @ w).sum()

    counts = []
    for policy in (
        _offloading([], ["a"]),
        policies.offload_dot_with_no_batch_dims("device", "pinned_host"),
        policies.nothing_saveable,
    ):
        gradient = pb.grad(pb.checkpoint(lambda w, x: fun(w, jnp.cos(x @ w)), policy=policy))
        np.testing.assert_allclose(
            gradient(W, X), pb.grad(lambda w: fun(w, jnp.cos(X @ w)))(W), rtol=1e-4, atol=1e-5
        )
        found = _count(pb.make_jaxpr(gradient)(W, X).jaxpr, ("dot_general", "sin"))
        counts.append(tuple(found.values()))
    # The named sine, or the products, are not computed again.
    assert counts == [(10, 2), (8, 3), (10, 3)]


def test_errors():
    with pytest.raises(NotImplementedError, match="static_argnums"):
        pb.checkpoint(lambda x: x, concrete=True)
    with pytest.raises(ValueError, match="unknown memory 'elsewhere'"):
        policies.offload_dot_with_no_batch_dims("device", "elsewhere")
    with pytest.raises(ValueError, match="both to be saved and to be offloaded"):
        _offloading(["a"], ["a"])
    with pytest.raises(ValueError, match="of which there are 2"):
        pb.checkpoint(lambda x, n: x, static_argnums=5)(1.0, 2)
    with pytest.raises(TypeError, match="must be a function"):
        pb.checkpoint(3)


def test_optimization_barrier():
    f = lambda x: lax.optimization_barrier(x * 2)
    assert float(f(2.0)) == 4.0 and float(pb.grad(f)(2.0)) == 2.0
    np.testing.assert_array_equal(pb.vmap(f)(jnp.ones(2)), [2, 2])


def test_layers_of_one_program_are_lowered_once():
    """Forward and backward of a layer are one function each, however many layers there are."""

    def loss(n, params):
        def layer(w, x):
            for _ in range(8):
                x = jnp.sin(jnp.tanh(x @ w))
            return x

        layer, x = pb.checkpoint(layer), X
        for w in params[:n]:
            x = layer(w, x)
        return x.sum()

    def n_functions(n):
        lowered = pb.jit(pb.grad(lambda ws: loss(n, ws))).lower([W] * n)
        return lowered.as_text().count("func.func private")

    assert n_functions(8) == n_functions(3) <= 5


def rnn(w, xs):
    def step(h, x):
        z = checkpoint_name(h @ w, "z")
        h = jnp.tanh(z + x)
        return h, jnp.sin(h)

    h, ys = lax.scan(step, jnp.zeros(3), xs)
    return (h * ys.sum(0)).sum()


def nested_loops(w, xs):
    def outer(c, x):
        inner = pb.jit(lambda c: jnp.tanh(c @ w))
        c, _ = lax.scan(lambda c, _: (inner(c) + x, None), c, None, length=2)
        return c, c

    return lax.scan(outer, jnp.ones(3), xs)[1].sum()


def _count(jaxpr, names, found=None):
    found = dict.fromkeys(names, 0) if found is None else found
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in found:
            found[eqn.primitive.name] += 1
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    _count(inner, names, found)
    return found


# As the real jax has them: products and tanh of forward, recomputation and backward together.
IN_LOOPS = {
    "none": (4, 2),
    "nothing": (4, 2),
    "everything": (3, 1),
    "dots": (3, 2),
    "except names": (3, 1),
}


@pytest.mark.parametrize("name", IN_LOOPS)
@pytest.mark.parametrize("fun", [rnn, nested_loops])
def test_a_policy_is_applied_in_the_body_of_a_scan(fun, name):
    xs = jnp.stack([X[0], X[1], X[0] - X[1]])
    gradient = pb.grad(pb.checkpoint(fun, policy=POLICIES[name]))
    np.testing.assert_allclose(gradient(W, xs), pb.grad(fun)(W, xs), rtol=1e-4, atol=1e-5)
    jaxpr = pb.make_jaxpr(gradient)(W, xs).jaxpr
    check_jaxpr(jaxpr)
    found = _count(jaxpr, ("dot_general", "tanh"))
    assert tuple(found.values()) == IN_LOOPS[name]


def test_names_in_the_body_of_a_scan():
    xs = jnp.stack([X[0], X[1]])
    policy = policies.save_only_these_names("z")
    jaxpr = pb.make_jaxpr(pb.grad(pb.checkpoint(rnn, policy=policy)))(W, xs).jaxpr
    assert _count(jaxpr, ("dot_general",)) == {"dot_general": 3}


def test_policies_in_loops_under_other_transformations():
    xs = jnp.stack([X[0], X[1]])
    kept = pb.checkpoint(rnn, policy=policies.dots_saveable)
    np.testing.assert_allclose(
        pb.hessian(kept)(W, xs), pb.hessian(rnn)(W, xs), rtol=1e-3, atol=1e-4
    )
    several = jnp.stack([xs, 2 * xs])
    np.testing.assert_allclose(
        pb.vmap(pb.grad(kept), (None, 0))(W, several),
        pb.vmap(pb.grad(rnn), (None, 0))(W, several),
        rtol=1e-4,
        atol=1e-5,
    )

    def reverse(w, xs):
        return lax.scan(lambda c, x: (jnp.tanh(c @ w) * x, None), xs[0], xs, reverse=True)[0].sum()

    kept = pb.checkpoint(reverse, policy=policies.dots_saveable)
    np.testing.assert_allclose(
        pb.grad(kept, (0, 1))(W, xs)[1], pb.grad(reverse, (0, 1))(W, xs)[1], rtol=1e-4, atol=1e-5
    )


# As the real jax has them: products and tanh, by inner and outer policy.
NESTED = {
    ("none", "none"): (4, 3),
    ("none", "dots"): (2, 3),
    ("none", "everything"): (2, 1),
    ("dots", "nothing"): (3, 3),
    ("dots", "everything"): (2, 1),
    ("everything", "dots"): (2, 2),
    ("nothing", "everything"): (2, 1),
    ("nothing", "nothing"): (4, 3),
}


@pytest.mark.parametrize(("inside", "outside"), NESTED)
def test_a_policy_reaches_into_inner_checkpoints(inside, outside):
    def fun(w, x):
        inner = pb.checkpoint(lambda v: jnp.tanh(v @ w), policy=POLICIES[inside])
        return jnp.exp(inner(jnp.sin(x))).sum()

    gradient = pb.grad(pb.checkpoint(fun, policy=POLICIES[outside]))
    np.testing.assert_allclose(gradient(W, X[0]), pb.grad(fun)(W, X[0]), rtol=1e-4, atol=1e-5)
    found = _count(pb.make_jaxpr(gradient)(W, X[0]).jaxpr, ("dot_general", "tanh"))
    assert tuple(found.values()) == NESTED[inside, outside]


def branches(w, x):
    first, second = (lambda v: jnp.tanh(v @ w)), (lambda v: jnp.sin(v @ w))
    return lax.cond(x[0] > 0, first, second, x).sum()


def branches_in_a_loop(w, x):
    def step(h, v):
        ways = [lambda h: jnp.tanh(h @ w), lambda h: jnp.sin(h @ w) + jnp.exp(h), lambda h: h]
        return lax.switch((v > 0).astype(int), ways, h), None

    return lax.scan(step, x, x)[0].sum()


@pytest.mark.parametrize(
    ("name", "n_dots", "n_tanh"),
    [("none", 8, 2), ("dots", 6, 2), ("everything", 6, 1), ("nothing", 8, 2)],
)
@pytest.mark.parametrize("fun", [branches, branches_in_a_loop])
def test_a_policy_is_applied_in_branches(fun, name, n_dots, n_tanh):
    """The counts are those of the real jax."""
    gradient = pb.grad(pb.checkpoint(fun, policy=POLICIES[name]), (0, 1))
    for x in (jnp.abs(X[0]), -jnp.abs(X[0])):
        for got, want in zip(gradient(W, x), pb.grad(fun, (0, 1))(W, x), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    jaxpr = pb.make_jaxpr(gradient)(W, X[0]).jaxpr
    check_jaxpr(jaxpr)
    assert tuple(_count(jaxpr, ("dot_general", "tanh")).values()) == (n_dots, n_tanh)
