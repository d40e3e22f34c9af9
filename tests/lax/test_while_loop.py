"""while_loop: laws in forward mode, mapped conditions, refusals."""

from __future__ import annotations

import harness
import numpy as np
import pytest
from harness import Case

import pullback as pb
from pullback import lax
from pullback import numpy as jnp


def power(x):
    return lax.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, c[1] * x), (0, x))[1]


def until(x):
    return lax.while_loop(lambda c: c < 10, lambda c: c * c + 0.5, x)


def until_numpy(x):
    while x < 10:
        x = x * x + np.float32(0.5)
    return x


CASES = [
    Case("counted", power, (np.float32(1.3),), lambda x: x**5, modes=("fwd",), ulps=16),
    Case("until", until, (np.float32(1.7),), until_numpy, modes=("fwd",), ulps=64),
]


@pytest.mark.parametrize("case", harness.params(CASES))
def test_laws(case):
    harness.check_case(case)


def test_mapped_condition_stops_each_element_by_itself():
    xs = jnp.array([1.1, 2.0, 300.0])
    expected = [until_numpy(np.float32(x)) for x in xs]
    np.testing.assert_allclose(pb.vmap(until)(xs), expected, rtol=1e-5)


def test_nested_vmap_over_condition_and_body():
    """The inner vmap maps the condition, the outer one only the body."""

    def f(limit, step):
        return lax.while_loop(lambda c: c < limit, lambda c: c + step, 0.0)

    limits, steps = jnp.array([1.0, 2.0]), jnp.array([0.3, 0.5, 0.7])
    expected = [[f(a, b) for a in limits] for b in steps]
    inner = pb.vmap(f, (0, None))
    np.testing.assert_allclose(pb.vmap(inner, (None, 0))(limits, steps), expected, rtol=1e-6)
    outer = pb.vmap(pb.vmap(f, (None, 0)), (0, None))(limits, steps)
    np.testing.assert_allclose(outer, np.transpose(expected), rtol=1e-6)


def test_jvp_of_vmap_and_vmap_of_jvp():
    xs = jnp.array([1.1, 2.0, 3.0])
    tangents = jnp.ones_like(xs)
    a = pb.jvp(pb.vmap(until), (xs,), (tangents,))[1]
    b = pb.vmap(lambda x, t: pb.jvp(until, (x,), (t,))[1])(xs, tangents)
    np.testing.assert_allclose(a, b, rtol=1e-6)


def test_linearize_runs_forward():
    y, f_jvp = pb.linearize(power, 1.3)
    np.testing.assert_allclose(f_jvp(1.0), 5 * 1.3**4, rtol=1e-5)


def test_reverse_mode_says_what_to_use():
    with pytest.raises(ValueError, match="lax.scan") as error:
        pb.grad(power)(1.3)
    assert "Reverse-mode differentiation does not work for lax.while_loop" in str(error.value)
    assert "Instead:" in str(error.value)


def test_reverse_mode_through_undifferentiated_loop():
    def f(x):
        n = lax.while_loop(lambda n: n < 3, lambda n: n + 1, 0)
        return x * n

    assert float(pb.grad(f)(2.0)) == 3.0


def test_type_errors_name_both_types():
    with pytest.raises(TypeError) as error:
        lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + jnp.ones(2), c[1]), (1.0, 2))
    assert "c[0]" in str(error.value) and "f32[2]" in str(error.value)
    with pytest.raises(TypeError, match="boolean scalar"):
        lax.while_loop(lambda c: c, lambda c: c, 1.0)
    with pytest.raises(TypeError, match="callable"):
        lax.while_loop(1, lambda c: c, 1.0)


def test_cond_closes_over_tracer():
    f = pb.jit(lambda n: lax.while_loop(lambda c: c < n, lambda c: 2 * c, 1))
    assert int(f(20)) == 32


def test_without_jit_numbers_come_as_arrays():
    def step(state):
        return state[0] + 1, state[1].astype(jnp.float16) * 2

    with pb.disable_jit():
        n, x = lax.while_loop(lambda state: state[0] < 2, step, (0, 1.5))
    assert (int(n), float(x), x.dtype) == (2, 6.0, jnp.float16)
