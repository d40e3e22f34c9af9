"""Distributions against SciPy, on points inside, outside and at the ends of their support."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats as reference

import pullback as pb
from pullback import numpy as jnp
from pullback.scipy import stats

X = np.array([-1.5, 0.0, 0.25, 0.8, 1.0, 3.0], np.float32)
Q = np.array([0.01, 0.3, 0.5, 0.99], np.float32)
SHAPES: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(
        ("norm", "uniform", "expon", "laplace", "logistic", "cauchy", "gumbel_r", "gumbel_l"), ()
    ),
    "gamma": (2.5,),
    "chi2": (3.0,),
    "t": (4.0,),
    "pareto": (2.0,),
    "beta": (2.0, 3.0),
}
KINDS = ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf")


@pytest.mark.parametrize("name", SHAPES)
def test_continuous_as_scipy(name: str) -> None:
    ours, theirs = getattr(stats, name), getattr(reference, name)
    for kind in KINDS:
        if not hasattr(ours, kind):
            continue
        points = Q if kind in ("ppf", "isf") else X
        for loc, scale in ((0, 1), (0.5, 2.0)):
            got = getattr(ours, kind)(points, *SHAPES[name], loc, scale)
            with np.errstate(all="ignore"):
                want = getattr(theirs, kind)(points.astype(float), *SHAPES[name], loc, scale)
            np.testing.assert_allclose(got, want, rtol=3e-5, atol=2e-6, err_msg=f"{name}.{kind}")


DISCRETE: dict[str, tuple[float, ...]] = {
    "bernoulli": (0.3,),
    "poisson": (2.5,),
    "binom": (5, 0.3),
    "geom": (0.4,),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_as_scipy(name: str) -> None:
    k = np.arange(-1, 8)
    for kind in ("pmf", "logpmf", "cdf"):
        if hasattr(getattr(stats, name), kind):
            got = getattr(getattr(stats, name), kind)(k, *DISCRETE[name])
            with np.errstate(all="ignore"):
                want = getattr(getattr(reference, name), kind)(k, *DISCRETE[name])
            np.testing.assert_allclose(got, want, rtol=3e-5, atol=1e-6, err_msg=kind)


def test_vectors_as_scipy() -> None:
    mean, cov = np.array([0.5, -1.0]), np.array([[2.0, 0.3], [0.3, 1.0]])
    x = np.array([[0.0, 0.0], [1.0, -2.0]])
    got = stats.multivariate_normal.logpdf(x, mean, cov)
    np.testing.assert_allclose(got, reference.multivariate_normal.logpdf(x, mean, cov), rtol=1e-5)
    alpha, p = np.array([1.0, 2.0, 3.0]), np.array([0.2, 0.3, 0.5])
    np.testing.assert_allclose(
        stats.dirichlet.pdf(p, alpha), reference.dirichlet.pdf(p, alpha), rtol=1e-5
    )


def test_derivatives_and_maps() -> None:
    score: Any = pb.grad(lambda m: stats.norm.logpdf(1.0, m, 2.0))
    assert float(score(0.0)) == pytest.approx(0.25)
    assert float(pb.grad(lambda x: stats.norm.cdf(x))(0.3)) == pytest.approx(
        reference.norm.pdf(0.3), rel=1e-5
    )
    assert pb.jit(pb.vmap(lambda x: stats.norm.logpdf(x)))(jnp.ones(3)).shape == (3,)
