"""Special functions against SciPy, and their derivatives against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special as sp

import pullback as pb
from pullback.scipy import special

UNARY = {
    "expit": (-4, 4),
    "logit": (0.05, 0.95),
    "erf": (-3, 3),
    "erfc": (-3, 3),
    "erfinv": (-0.9, 0.9),
    "gammaln": (0.1, 20),
    "digamma": (0.2, 10),
    "gamma": (0.2, 6),
    "i0": (-3, 3),
    "i0e": (-3, 3),
    "i1": (-3, 3),
    "i1e": (-3, 3),
    "entr": (0.1, 3),
    "ndtr": (-4, 4),
    "ndtri": (0.02, 0.98),
    "log_ndtr": (-20, 6),
    "spence": (0.0, 5),
}
BINARY = {
    "xlogy": ((0, 3), (0.1, 3)),
    "xlog1py": ((0, 3), (0.1, 3)),
    "rel_entr": ((0.1, 3), (0.1, 3)),
    "kl_div": ((0.1, 3), (0.1, 3)),
    "betaln": ((0.1, 3), (0.1, 3)),
    "beta": ((0.3, 3), (0.3, 3)),
    "gammainc": ((0.5, 3), (0.1, 4)),
    "gammaincc": ((0.5, 3), (0.1, 4)),
    "poch": ((0.5, 3), (0.0, 4)),
    "boxcox": ((0.5, 3), (0.1, 2)),
}


@pytest.mark.parametrize("name", UNARY)
def test_unary_values_and_derivatives(name):
    low, high = UNARY[name]
    x = np.linspace(low, high, 9)
    with pb.enable_x64(True):
        fun = getattr(special, name)
        rtol = 1e-6 if name in ("ndtri", "log_ndtr", "spence") else 1e-10
        np.testing.assert_allclose(fun(x), getattr(sp, name)(x), rtol=rtol, atol=1e-12)
        mid = x[1:-1]
        eps = 1e-6
        want = (getattr(sp, name)(mid + eps) - getattr(sp, name)(mid - eps)) / (2 * eps)
        got = pb.vmap(pb.grad(fun))(mid)
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("name", BINARY)
def test_binary_values(name):
    (a0, a1), (b0, b1) = BINARY[name]
    a, b = np.linspace(a0, a1, 7), np.linspace(b0, b1, 7)
    with pb.enable_x64(True):
        got = getattr(special, name)(a, b)
    np.testing.assert_allclose(got, getattr(sp, name)(a, b), rtol=1e-8, atol=1e-12)


def test_zero_times_log_zero_has_finite_gradient():
    assert float(pb.grad(lambda x: special.xlogy(x, 1.0))(0.0)) == 0.0
    assert float(special.xlogy(0.0, 0.0)) == 0.0


def test_logsumexp_and_softmax():
    x = np.array([[1.0, 1000.0], [-1000.0, 0.0]], np.float32)
    np.testing.assert_allclose(special.logsumexp(x), sp.logsumexp(x))
    np.testing.assert_allclose(special.logsumexp(x, axis=1), sp.logsumexp(x, axis=1))
    b = np.array([1.0, -2.0], np.float32)
    got, sign = special.logsumexp(x, axis=1, b=b, return_sign=True)
    want, want_sign = sp.logsumexp(x, axis=1, b=b, return_sign=True)
    np.testing.assert_allclose(got, want)
    np.testing.assert_array_equal(sign, want_sign)
    np.testing.assert_allclose(special.softmax(x, axis=0), sp.softmax(x, axis=0))
    assert float(special.logsumexp(np.array([-np.inf, -np.inf], np.float32))) == -np.inf


def test_integers_are_taken_as_floats():
    assert special.expit(0).dtype == np.float32
    n = np.arange(1, 5)
    np.testing.assert_allclose(special.gammaln(n), sp.gammaln(n), rtol=1e-5, atol=1e-6)
