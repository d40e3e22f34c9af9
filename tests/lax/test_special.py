"""Error functions, gamma family, incomplete gamma and beta, Bessel, against SciPy."""

from __future__ import annotations

import harness
import ml_dtypes
import numpy as np
import pytest
from harness import Case
from scipy import special as sp

import pullback as pb
from pullback import lax
from pullback.core.config import enable_x64

X = np.array([0.3, -0.7, 0.9], np.float32)
P = np.array([0.4, 1.7, 3.2], np.float32)
A = np.array([0.5, 2.3, 4.1], np.float32)
M = np.array([1, 2, 3], np.float32)
ORDER = np.array([2.5, 1.7, 4], np.float32)
UNIT = np.array([0.2, 0.5, 0.9], np.float32)


def polygamma(m: np.ndarray, x: np.ndarray) -> np.ndarray:
    return sp.polygamma(m.astype(int), x)


def gamma_slope(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """dP/da by differences of SciPy's values."""
    a, x, h = a.astype(np.float64), x.astype(np.float64), 1e-4
    ends = [sp.gammainc(a + k * h, x) for k in (-2, -1, 1, 2)]
    return (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * h)


def sample_slope(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    density = np.exp((a - 1) * np.log(x) - x - sp.gammaln(a))
    return -gamma_slope(a, x) / density


CASES = [
    Case("erf", lax.erf, (X,), sp.erf),
    Case("erfc", lax.erfc, (X,), sp.erfc),
    Case("erf_inv", lax.erf_inv, (X,), sp.erfinv),
    Case("erf-bfloat16", lax.erf, (X.astype(ml_dtypes.bfloat16),), sp.erf, order=0, vmap=False),
    Case("lgamma", lax.lgamma, (P,), sp.gammaln),
    Case("lgamma-negative", lax.lgamma, (X,), sp.gammaln),
    Case("digamma", lax.digamma, (P,), sp.digamma),
    Case("polygamma", lax.polygamma, (M, P), polygamma, ulps=32, argnums=(1,)),
    Case("zeta", lax.zeta, (ORDER, P), sp.zeta, ulps=32, argnums=(1,)),
    Case("igamma", lax.igamma, (A, P), sp.gammainc, ulps=16, order=1, vmap=False),
    Case("igamma-by-x", lax.igamma, (A, P), argnums=(1,), vmap=False),
    Case("igammac", lax.igammac, (A, P), sp.gammaincc, ulps=16, order=0, vmap=False),
    Case(
        "igamma-float16",
        lax.igamma,
        (A.astype(np.float16), P.astype(np.float16)),
        sp.gammainc,
        order=0,
        vmap=False,
    ),
    Case("igamma_grad_a", lax.igamma_grad_a, (A, P), gamma_slope, ulps=64, order=0, vmap=False),
    Case(
        "random_gamma_grad",
        lax.random_gamma_grad,
        (A, P),
        sample_slope,
        ulps=64,
        order=0,
        vmap=False,
    ),
    Case("betainc", lax.betainc, (A, P, UNIT), sp.betainc, ulps=32, argnums=(2,), vmap=False),
    Case("bessel_i0e", lax.bessel_i0e, (4 * X,), sp.i0e),
    Case("bessel_i0e-far", lax.bessel_i0e, (10 * P,), sp.i0e),
    Case("bessel_i1e", lax.bessel_i1e, (4 * X,), sp.i1e, ulps=16),
]


@pytest.mark.parametrize("case", harness.params(CASES))
def test_operation(case: Case) -> None:
    harness.check_case(case)


def test_vmap_of_incomplete_gamma() -> None:
    out = pb.vmap(lax.igamma, in_axes=(None, 0))(A, np.stack([P, P + 1]))
    np.testing.assert_allclose(out, sp.gammainc(A, np.stack([P, P + 1])), rtol=1e-6)


def log_grid(low: float, high: float, n: int) -> np.ndarray:
    return np.exp(np.linspace(np.log(low), np.log(high), n))


def gamma_domain() -> tuple[np.ndarray, np.ndarray]:
    """A grid of a and x, both large and near each other, and the edges; one shape for all."""
    inf, nan = np.inf, np.nan
    a, x = (g.ravel() for g in np.meshgrid(log_grid(1e-2, 3e3, 12), log_grid(1e-2, 3e3, 12)))
    large = np.array([1e2, 1e3, 1e4, 1e5])
    a = np.concatenate([a, large, [0, 0, 1, -1, 1, inf, 1, inf, nan, 2]])
    x = np.concatenate([x, large * [1.01, 0.99, 1.001, 1], [1, 0, 0, 1, -1, 1, inf, inf, 1, nan]])
    return a, x


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_incomplete_gamma_over_its_domain_and_on_its_edges(dtype: type) -> None:
    a, x = (v.astype(dtype) for v in gamma_domain())
    # The condition number grows like sqrt(a) where a and x are large and close.
    rtol = np.finfo(dtype).eps * (800 + 50 * np.sqrt(np.where(np.isfinite(a), np.abs(a), 0)))
    with enable_x64(dtype is np.float64):
        for fun, ref in ((lax.igamma, sp.gammainc), (lax.igammac, sp.gammaincc)):
            out, expected = np.asarray(fun(a, x)), ref(a.astype(np.float64), x.astype(np.float64))
            np.testing.assert_array_equal(np.isnan(out), np.isnan(expected))
            wrong = np.abs(out - expected) > rtol * (np.abs(expected) + 1 / 30)
            assert not wrong.any(), [(a[wrong], x[wrong], out[wrong], expected[wrong])]


def test_upper_tail_has_the_opposite_slope() -> None:
    a, x = A.astype(np.float64), P.astype(np.float64)
    with enable_x64(True):
        _, lower = pb.jvp(lax.igamma, (a, x), (a, x))
        _, upper = pb.jvp(lax.igammac, (a, x), (a, x))
    np.testing.assert_array_equal(upper, -np.asarray(lower))


def test_gamma_slopes_over_their_domain() -> None:
    a, x = np.meshgrid(log_grid(0.05, 200, 9), log_grid(0.05, 200, 9))
    with enable_x64(True):
        slopes = np.asarray(lax.igamma_grad_a(a, x))
        np.testing.assert_allclose(slopes, gamma_slope(a, x), rtol=1e-5, atol=1e-8)
        near = (x > 0.3 * a) & (x < 3 * a) & (a > 0.5) & (a < 20)
        samples = np.asarray(lax.random_gamma_grad(a, x))
        np.testing.assert_allclose(samples[near], sample_slope(a[near], x[near]), rtol=1e-4)
        assert np.isfinite(samples).all()


@pytest.mark.parametrize("fun", [lax.igamma_grad_a, lax.random_gamma_grad])
def test_gamma_slopes_have_forward_derivatives(fun: object) -> None:
    args, h = (A.astype(np.float64), P.astype(np.float64)), 1e-4
    with enable_x64(True):
        for argnum in (0, 1):
            tangents = [np.zeros(3), np.zeros(3)]
            tangents[argnum] = np.ones(3)
            _, t = pb.jvp(fun, args, tuple(tangents))
            expected = harness.numerical_jvp(fun, args, tangents, h)
            np.testing.assert_allclose(t, expected[0], rtol=1e-6)


def test_gamma_slopes_on_the_edges() -> None:
    a, x = np.array([1, -1], np.float32), np.array([0, 1], np.float32)
    np.testing.assert_array_equal(lax.igamma_grad_a(a, x), [0, np.nan])


@pytest.mark.parametrize("dtype,rtol", [(np.float32, 1e-3), (np.float64, 1e-12)])
def test_incomplete_beta_over_its_domain(dtype: type, rtol: float) -> None:
    grids = np.meshgrid(log_grid(0.05, 50, 5), log_grid(0.05, 50, 5), np.linspace(0.02, 0.98, 5))
    a, b, x = (g.astype(dtype) for g in grids)
    with enable_x64(dtype is np.float64):
        expected = sp.betainc(*(g.astype(np.float64) for g in (a, b, x)))
        np.testing.assert_allclose(lax.betainc(a, b, x), expected, rtol=rtol, atol=rtol / 30)


def test_incomplete_beta_on_the_edges() -> None:
    inf, nan = np.inf, np.nan
    a = np.array([0, 1, 1, 1, -1, 1, 1, nan, inf, 1, 0], np.float32)
    b = np.array([1, 0, 1, 1, 1, 1, 1, 1, 1, inf, 0], np.float32)
    x = np.array([0.5, 0.5, 0, 1, 0.5, -0.1, 1.1, 0.5, 0.5, 0.5, 0.5], np.float32)
    expected = [1, 0, 0, 1, nan, nan, nan, nan, 0, 1, nan]
    np.testing.assert_array_equal(lax.betainc(a, b, x), expected)


def test_bessel_over_its_domain() -> None:
    x = np.concatenate([-log_grid(1e-3, 500, 20), [0.0, 8.0, np.inf], log_grid(1e-3, 500, 20)])
    with enable_x64(True):
        np.testing.assert_allclose(lax.bessel_i0e(x), sp.i0e(x), rtol=2e-15)
        np.testing.assert_allclose(lax.bessel_i1e(x), sp.i1e(x), rtol=1e-14)
    x = x.astype(np.float32)
    np.testing.assert_allclose(lax.bessel_i0e(x), sp.i0e(x), rtol=3e-7)


def test_bessel_derivative_at_zero() -> None:
    assert float(pb.grad(lax.bessel_i1e)(0.0)) == 0.5
    assert float(pb.grad(lax.bessel_i0e)(0.0)) == 0.0


def test_error_function_far_out() -> None:
    x = np.array([-10, -3, 3, 9], np.float32)
    np.testing.assert_allclose(lax.erfc(x), sp.erfc(x), rtol=1e-5)
    np.testing.assert_array_equal(
        lax.erf_inv(np.array([-1, 1, 2], np.float32)), [-np.inf, np.inf, np.nan]
    )


ERRORS = [
    (lax.erf, (np.ones(3, np.complex64),), TypeError, ["erf does not accept dtype complex64"]),
    (lax.lgamma, (np.ones(3, np.int32),), TypeError, ["lgamma does not accept dtype int32"]),
    (lax.polygamma, (1, P), TypeError, ["polygamma", "int32"]),
    (lax.igamma, (A, P[:2]), TypeError, ["igamma", "float32[3]", "float32[2]"]),
    (pb.grad(lax.polygamma), (1.0, 2.0), NotImplementedError, ["polygamma", "operand x"]),
    (pb.grad(lax.betainc), (1.0, 2.0, 0.5), NotImplementedError, ["incomplete_beta", "operand x"]),
    (pb.grad(lax.igamma_grad_a), (1.0, 2.0), ValueError, ["while"]),
]


@pytest.mark.parametrize("fun,args,error,parts", ERRORS)
def test_errors_name_the_operands(fun: object, args: tuple, error: type, parts: list) -> None:
    harness.check_error(error, parts, fun, *args)
