"""custom_linear_solve and custom_root."""

from __future__ import annotations

import harness
import numpy as np
import pytest
from harness import Case

import pullback as pb
from pullback import lax
from pullback import numpy as jnp

A = np.array([[3.0, 1.0], [0.5, 2.0]], np.float32)
B = np.array([1.0, 2.0], np.float32)


def richardson(matvec, b):
    return lax.fori_loop(0, 120, lambda i, y: y + 0.3 * (b - matvec(y)), jnp.zeros_like(b))


def solve(a, b):
    return lax.custom_linear_solve(lambda x: a @ x, b, richardson, richardson)


def square_root(a):
    def newton(f, x):
        return lax.while_loop(lambda x: jnp.abs(f(x)) > 1e-12, lambda x: x - f(x) / (2 * x), x)

    return lax.custom_root(lambda x: x * x - a, a, newton, lambda g, y: y / g(jnp.ones_like(y)))


CASES = [
    Case("solve", solve, (A, B), np.linalg.solve, ulps=64),
]


@pytest.mark.parametrize("case", harness.params(CASES))
def test_laws(case):
    harness.check_case(case)


def test_root_is_differentiated_through_the_equation_not_the_loop():
    with pb.enable_x64():
        np.testing.assert_allclose(square_root(2.0), np.sqrt(2), rtol=1e-9)
        np.testing.assert_allclose(pb.grad(square_root)(2.0), 0.5 * 2**-0.5, rtol=1e-9)
        np.testing.assert_allclose(pb.grad(pb.grad(square_root))(2.0), -0.25 * 2**-1.5, rtol=1e-9)
        xs = jnp.array([2.0, 3.0])
        np.testing.assert_allclose(pb.vmap(pb.grad(square_root))(xs), 0.5 * xs**-0.5, rtol=1e-9)
        np.testing.assert_allclose(pb.jit(square_root)(2.0), np.sqrt(2), rtol=1e-9)


def test_symmetric_and_aux():
    s = jnp.asarray(A + A.T)

    def f(s, b):
        x, count = lax.custom_linear_solve(
            lambda x: s @ x,
            b,
            lambda mv, b: (0.0 * b + jnp.linalg.solve(A + A.T, b), 7),
            symmetric=True,
            has_aux=True,
        )
        assert count is not None
        return x

    np.testing.assert_allclose(f(s, B), np.linalg.solve(A + A.T, B), rtol=1e-5)
    g = pb.grad(lambda b: f(s, b).sum())(jnp.asarray(B))
    np.testing.assert_allclose(g, np.linalg.solve(A + A.T, np.ones(2)), rtol=1e-5)


def test_reverse_mode_needs_the_transposed_solution():
    f = lambda b: lax.custom_linear_solve(lambda x: A @ x, b, richardson).sum()
    with pytest.raises(TypeError, match="transpose_solve"):
        pb.grad(f)(jnp.asarray(B))


def test_shapes_are_checked():
    with pytest.raises(TypeError, match="matvec must return values like its argument"):
        lax.custom_linear_solve(lambda x: x[:1], jnp.asarray(B), richardson)


def test_custom_root_checks_the_structure_that_solve_gives():
    def root(solve, **options):
        return lax.custom_root(lambda v: v - 1, 0.0, solve, lambda g, y: y, **options)

    with pytest.raises(TypeError, match="must return a root like initial_guess"):
        root(lambda f, x: (x, x))
    with pytest.raises(TypeError, match="must return a pair"):
        root(lambda f, x: x, has_aux=True)
    assert [float(v) for v in root(lambda f, x: (x + 1, 7.0), has_aux=True)] == [1.0, 7.0]
