"""scan: laws, residuals, errors; in all nestings of transformations."""

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

W = np.array([[0.3, -0.2], [0.5, 0.1]], np.float32)
H = np.array([0.1, -0.4], np.float32)
XS = np.array([[0.2, 0.7], [-0.3, 0.4], [0.9, -0.6]], np.float32)


def rnn(w, h, xs):
    def body(h, x):
        h = jnp.tanh(h @ w + x)
        return h, h * x

    return lax.scan(body, h, xs)


def rnn_numpy(w, h, xs):
    ys = []
    for x in xs:
        h = np.tanh(h @ w + x)
        ys.append(h * x)
    return h, np.stack(ys)


def reverse_unrolled(h, xs):
    return lax.scan(lambda c, x: (c * jnp.sin(x), c + x), h, xs, reverse=True, unroll=2)


def reverse_numpy(h, xs):
    ys = []
    for x in xs[::-1]:
        ys.append(h + x)
        h = h * np.sin(x)
    return h, np.stack(ys[::-1])


def mixed_carry(h, xs):
    """Only part of the carry is differentiable, and part of that only after a step."""

    def body(carry, x):
        i, a, b = carry
        return (i + 1, a * x + i, b + a), (a, i)

    (i, a, b), (ys, _) = lax.scan(body, (0, h, jnp.zeros_like(h)), xs)
    return a, b, ys


def mixed_numpy(h, xs):
    a, b, ys = h, np.zeros_like(h), []
    for i, x in enumerate(xs):
        ys.append(a)
        a, b = a * x + i, b + a
    return a, b, np.stack(ys)


CASES = [
    Case("rnn", rnn, (W, H, XS), rnn_numpy, ulps=16),
    Case("reverse, unrolled", reverse_unrolled, (H, XS), reverse_numpy, ulps=16),
    Case("partial carry", mixed_carry, (H, XS), mixed_numpy, ulps=16),
]


@pytest.mark.parametrize("case", harness.params(CASES))
def test_laws(case):
    harness.check_case(case)


def loss(w, x):
    return rnn(w, x, jnp.asarray(XS))[1].sum()


TRANSFORMS = {
    "grad": lambda f: lambda w, x: pb.grad(lambda w: jnp.sum(f(w, x)))(w),
    "jvp": lambda f: lambda w, x: pb.jvp(lambda w: f(w, x), (w,), (jnp.ones_like(w),))[1],
    "vmap": lambda f: lambda w, x: pb.vmap(f, (None, 0))(w, jnp.stack([x, 2 * x])).sum(0),
    "jit": lambda f: pb.jit(f),
}


@pytest.mark.parametrize("names", itertools.product(TRANSFORMS, repeat=3), ids="-".join)
def test_nesting_matches_the_unrolled_loop(names):
    """(grad, jvp, vmap, jit)^3 of a scan equals the same of a Python loop."""

    def by_hand(w, x):
        total = 0.0
        for row in XS:
            x = jnp.tanh(x @ w + row)
            total = total + (x * row).sum()
        return total

    ours, reference = loss, by_hand
    for name in names:
        ours, reference = TRANSFORMS[name](ours), TRANSFORMS[name](reference)
    np.testing.assert_allclose(
        ours(jnp.asarray(W), jnp.asarray(H)),
        pb.jit(reference)(jnp.asarray(W), jnp.asarray(H)),
        rtol=2e-4,
        atol=2e-5,
    )


def scans(jaxpr):
    return [e for e in jaxpr.eqns if e.primitive.name == "scan"]


def test_gradient_is_two_scans_with_few_residuals():
    """Known and backward scan; what is stacked anyway, or constant, is not stacked again."""
    jaxpr = pb.make_jaxpr(pb.grad(loss))(W, H).jaxpr
    check_jaxpr(jaxpr)
    forward, backward = scans(jaxpr)
    assert forward.params["num_carry"] == 1
    # per step: y, h before, and the derivative of tanh
    assert len(forward.outvars) - 1 <= 4
    assert backward.params["reverse"] is True


def test_loop_invariant_residuals_are_computed_once():
    def f(w, xs):
        return lax.scan(lambda c, x: (c * jnp.exp(w) + x, None), 0.0, xs)[0]

    jaxpr = pb.make_jaxpr(pb.grad(f, (0, 1)))(0.3, XS[:, 0]).jaxpr
    forward, _ = scans(jaxpr)
    assert "exp" in [e.primitive.name for e in jaxpr.eqns]
    assert "exp" not in [e.primitive.name for e in forward.params["jaxpr"].eqns]
    stacked = [v.aval.shape for v in forward.outvars[1:]]
    assert stacked.count((3,)) == 1  # the carry


def test_body_is_traced_once_per_call():
    calls = []

    def body(c, x):
        calls.append(1)
        return c + x, c

    lax.scan(body, jnp.float32(0), jnp.ones(3))
    assert len(calls) == 1
    calls.clear()
    pb.jit(pb.grad(lambda x: lax.scan(body, x, jnp.ones(3))[0]))(jnp.float32(1))
    assert len(calls) == 1


def test_same_program_is_compiled_once():
    from pullback.xla import compile as xla_compile

    lax.scan(lambda c, x: (c + 2 * x, None), jnp.float32(0), jnp.ones(5))
    events = []
    observer = events.append
    xla_compile.on_compile.append(observer)
    try:
        for _ in range(3):
            lax.scan(lambda c, x: (c + 2 * x, None), jnp.float32(0), jnp.ones(5))
    finally:
        xla_compile.on_compile.remove(observer)
    assert len(events) <= 1  # another source line is another program


def test_pytrees_none_and_length():
    carry, ys = lax.scan(lambda c, _: ({"n": c["n"] + 1}, None), {"n": 0}, None, length=4)
    assert int(carry["n"]) == 4 and ys is None
    _, ys = lax.scan(lambda c, x: (c, {"a": x["a"], "b": ()}), None, {"a": jnp.arange(3)})
    np.testing.assert_array_equal(ys["a"], [0, 1, 2])


def test_zero_steps():
    carry, ys = lax.scan(lambda c, x: (c + x, c), 1.5, jnp.zeros((0,)))
    assert float(carry) == 1.5 and ys.shape == (0,)


def test_weak_carry_is_promoted():
    carry, _ = lax.scan(lambda c, x: (c + x, None), 0, jnp.ones(3, jnp.float32))
    assert carry.dtype == np.float32 and float(carry) == 3


def test_carry_mismatch_names_the_leaf_and_both_types():
    def body(state, x):
        return {"a": state["a"].astype(int), "b": state["b"]}, x

    with pytest.raises(TypeError) as error:
        lax.scan(body, {"a": 1.0, "b": jnp.ones(3)}, jnp.ones(3))
    text = str(error.value)
    assert "state['a']" in text and "f32[]" in text and "i32[]" in text and "Instead:" in text
    with pytest.raises(TypeError, match="different structures"):
        lax.scan(lambda c, x: ((c, c), x), 1.0, jnp.ones(3))
    with pytest.raises(TypeError, match="must be a pair"):
        lax.scan(lambda c, x: c, 1.0, jnp.ones(3))


def test_lengths_are_checked():
    with pytest.raises(ValueError, match="different leading axis sizes"):
        lax.scan(lambda c, x: (c, x), 0, {"a": jnp.ones(3), "b": jnp.ones(4)})
    with pytest.raises(ValueError, match="disagrees"):
        lax.scan(lambda c, x: (c, x), 0, jnp.ones(3), length=2)
    with pytest.raises(ValueError, match="`length` not provided"):
        lax.scan(lambda c, x: (c, x), 0, None)


def test_closure_over_outer_tracers():
    def f(w):
        return lax.scan(lambda c, x: (c * w + x, None), w, jnp.asarray(XS[:, 0]))[0]

    def by_hand(w):
        c = w
        for x in XS[:, 0]:
            c = c * w + x
        return c

    np.testing.assert_allclose(pb.grad(f)(0.7), pb.grad(by_hand)(0.7), rtol=1e-5)
    np.testing.assert_allclose(pb.grad(pb.grad(f))(0.7), pb.grad(pb.grad(by_hand))(0.7), rtol=1e-5)


def test_linear_transpose_with_a_counter():
    """The counter is not linear: it runs forward first."""

    def f(x):
        return lax.fori_loop(0, 3, lambda i, c: c * (i + 2.0), x)

    (ct,) = pb.linear_transpose(f, np.float32(1))(np.float32(1))
    assert float(ct) == 24.0


def test_disable_jit_runs_python():
    seen = []

    def body(c, x):
        seen.append(float(c))
        return c + x, c

    with pb.disable_jit():
        carry, ys = lax.scan(body, 0.0, jnp.arange(3.0))
    assert seen == [0.0, 0.0, 1.0] and float(carry) == 3.0
    np.testing.assert_array_equal(ys, [0.0, 0.0, 1.0])
