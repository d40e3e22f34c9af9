"""Laws that every transformation keeps, on drawn programs of primitives, control flow and rules.

Examples are drawn the same way in every run. The default suite draws few, since each program is
compiled several times; the slow run draws many.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs_for_laws import N, build, programs

import pullback as pb
from pullback import lax
from pullback import numpy as jnp

V = np.array([0.6, -0.3, 0.8])
CT = np.array([0.9, 0.4, -0.5])
# float64: what reordering of sums may change, and what differences of values may resolve.
EXACT = {"rtol": 1e-9, "atol": 1e-10}
DIFFERENCES = {"rtol": 2e-5, "atol": 2e-6}

points = st.sampled_from(
    [
        np.array([0.37, -0.81, 0.53]),
        np.array([-0.44, 0.29, -0.91]),
        np.array([1.13, 0.66, -0.23]),
    ]
)


@pytest.fixture(autouse=True, scope="module")
def _double_precision():
    with pb.enable_x64(True):
        yield


def check(few: int, law, **drawn) -> None:
    """Run a law on so many drawn examples."""
    options = settings(
        max_examples=few,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    options(given(**drawn)(law))()


def sizes(few: int, many: int):
    return pytest.mark.parametrize(
        "n",
        [
            pytest.param(few, id="few"),
            pytest.param(many, id="many", marks=[pytest.mark.slow, pytest.mark.long]),
        ],
    )


def close(got, want, **tolerance) -> None:
    for a, b in zip(pb.tree.leaves(got), pb.tree.leaves(want), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), **(tolerance or EXACT))


def difference(f, x, v, h=1e-5):
    """The directional derivative by central differences."""
    return (np.asarray(f(x + h * v)) - np.asarray(f(x - h * v))) / (2 * h)


def dotted(f):
    return lambda x: (f(x) * CT).sum()


@sizes(4, 150)
@pytest.mark.parametrize("mode", ["both", "forward", "reverse"])
def test_values_are_those_of_plain_python_eagerly_compiled_and_mapped(mode, n):
    def law(program, x):
        f, plain = build(program), build(program, plain=True)
        want = plain(x)
        close(f(x), want)
        close(pb.jit(f)(x), want)
        rows = np.stack([x, x[::-1], -x])
        mapped = [plain(row) for row in rows]
        close(pb.vmap(f)(rows), np.stack([np.asarray(m) for m in mapped]))

    check(n, law, program=programs(mode), x=points)


@sizes(4, 120)
@pytest.mark.parametrize("mode", ["both", "forward"])
def test_jvp_is_the_directional_derivative(mode, n):
    def law(program, x):
        f, plain = build(program), build(program, plain=True)
        value, tangent = pb.jvp(f, (x,), (V,))
        want = pb.jvp(plain, (x,), (V,))
        close((value, tangent), want)
        close(pb.jit(lambda x, v: pb.jvp(f, (x,), (v,)))(x, V), want)
        close(tangent, difference(plain, x, V), **DIFFERENCES)
        basis = np.eye(N)
        close(pb.jacfwd(f)(x) @ V, tangent)
        assert pb.vmap(lambda v: pb.jvp(f, (x,), (v,))[1])(basis).shape == (N, N)

    check(n, law, program=programs(mode), x=points)


@sizes(3, 120)
@pytest.mark.parametrize("mode", ["both", "reverse"])
def test_vjp_is_the_transpose(mode, n):
    def law(program, x):
        f, plain = build(program), build(program, plain=True)
        value, pull = pb.vjp(f, x)
        (ct,) = pull(CT)
        close(value, plain(x))
        close(ct, pb.grad(dotted(plain))(x))
        close(pb.jit(pb.grad(dotted(f)))(x), ct)
        close(pull(CT)[0], ct)
        np.testing.assert_allclose(
            np.vdot(ct, V), np.vdot(CT, difference(plain, x, V)), **DIFFERENCES
        )
        rows = np.stack([x, -x])
        close(
            pb.vmap(pb.grad(dotted(f)))(rows),
            np.stack([np.asarray(pb.grad(dotted(plain))(row)) for row in rows]),
        )

    check(n, law, program=programs(mode), x=points)


@sizes(3, 120)
def test_the_linear_program_is_linear_and_its_transpose_its_adjoint(n):
    def law(program, x):
        f = build(program)
        _, push = pb.linearize(f, x)
        tangent = push(V)
        close(push(2.0 * V - CT), 2.0 * np.asarray(tangent) - np.asarray(push(CT)))
        (ct,) = pb.linear_transpose(push, x)(CT)
        np.testing.assert_allclose(np.vdot(ct, V), np.vdot(CT, tangent), **EXACT)
        close(pb.jit(lambda x, v: pb.linearize(f, x)[1](v))(x, V), tangent)

    check(n, law, program=programs("both"), x=points)


@sizes(2, 100)
def test_second_derivatives_agree_in_every_order_of_modes(n):
    def law(program, x):
        f, plain = dotted(build(program)), dotted(build(program, plain=True))
        forward_reverse = pb.jvp(pb.grad(f), (x,), (V,))[1]
        reverse_forward = pb.grad(lambda x: pb.jvp(f, (x,), (V,))[1])(x)
        reverse_reverse = pb.grad(lambda x: (pb.grad(f)(x) * V).sum())(x)
        close(reverse_forward, forward_reverse)
        close(reverse_reverse, forward_reverse)
        close(pb.jit(pb.hessian(f))(x) @ V, forward_reverse)
        close(forward_reverse, difference(pb.grad(plain), x, V), **DIFFERENCES)

    check(n, law, program=programs("both", max_leaves=3), x=points)


@sizes(2, 100)
def test_second_derivatives_in_reverse_mode_through_custom_rules(n):
    def law(program, x):
        f, plain = dotted(build(program)), dotted(build(program, plain=True))
        got = pb.grad(lambda x: (pb.grad(f)(x) * V).sum())(x)
        close(got, difference(pb.grad(plain), x, V), **DIFFERENCES)

    check(n, law, program=programs("reverse", max_leaves=3), x=points)


POLICIES = [
    None,
    pb.checkpoint_policies.nothing_saveable,
    pb.checkpoint_policies.everything_saveable,
    pb.checkpoint_policies.dots_saveable,
]


@sizes(2, 100)
def test_recomputation_changes_no_value(n):
    def law(program, x, policy):
        f = build(program)
        again = pb.checkpoint(f, policy=policy)
        close(again(x), f(x))
        want = pb.grad(dotted(f))(x)
        close(pb.grad(dotted(again))(x), want)
        close(pb.jit(pb.grad(dotted(again)))(x), want)

        def loop(g):
            return lambda x: lax.scan(lambda c, _: (jnp.tanh(g(c)), c), x, None, length=2)[0]

        close(pb.grad(dotted(loop(again)))(x), pb.grad(dotted(loop(f)))(x))

    check(
        n,
        law,
        program=programs("reverse", max_leaves=3),
        x=points,
        policy=st.sampled_from(POLICIES),
    )


def nested(f, chain, *, plain):
    """Apply a chain of transformations, each float[3] -> float[3]; plain leaves jit out."""
    for name in chain:
        f = (NESTED_PLAIN if plain else NESTED)[name](f)
    return f


NESTED = {
    "jit": lambda f: pb.jit(f),
    "checkpoint": lambda f: pb.checkpoint(f),
    "grad": lambda f: lambda x: pb.grad(lambda y: (f(y) * CT).sum())(x),
    "jvp": lambda f: lambda x: pb.jvp(f, (x,), (V * x,))[1],
    "vmap": lambda f: lambda x: pb.vmap(f, out_axes=1)(jnp.outer(SCALES, x)).sum(1),
    "linearize": lambda f: lambda x: pb.linearize(f, x)[1](V),
}
SCALES = np.array([0.9, -0.6])
NESTED_PLAIN = {
    **NESTED,
    "jit": lambda f: f,
    "checkpoint": lambda f: f,
    "vmap": lambda f: lambda x: sum(f(s * x) for s in SCALES),
    "linearize": lambda f: lambda x: pb.jvp(f, (x,), (V,))[1],
}


@sizes(3, 200)
def test_chains_of_up_to_four_transformations(n):
    def law(program, x, chain):
        got = nested(build(program), chain, plain=False)
        want = nested(build(program, plain=True), chain, plain=True)(x)
        scale = max(1.0, float(np.max(np.abs(want))))
        close(np.asarray(got(x)) / scale, np.asarray(want) / scale)
        close(np.asarray(pb.jit(got)(x)) / scale, np.asarray(want) / scale)

    check(
        n,
        law,
        program=programs("both", max_leaves=2),
        x=points,
        chain=st.lists(st.sampled_from(sorted(NESTED)), min_size=2, max_size=4),
    )
