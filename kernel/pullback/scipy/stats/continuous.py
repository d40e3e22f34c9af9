"""Densities and distribution functions of continuous distributions, as SciPy parametrises them.

Every function takes loc and scale: the density of (x - loc) / scale, divided by scale. The module
of each distribution (norm.py, ...) is an index of its functions here.
Builds on special.py. Tested in tests/scipy/test_stats.py against SciPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import lax
from pullback import numpy as jnp
from pullback.numpy import promote
from pullback.numpy.fused import fused
from pullback.scipy import special

_INF = math.inf


def _inputs(name: str, *args: Any) -> list[Any]:
    return promote.broadcast(name, *promote.lift_all(name, *promote.promote_inexact(name, *args)))


def location_scale(
    name: str, kind: str, formula: Callable[..., Any], n_shapes: int, doc: str
) -> Callable[..., Any]:
    """A function of x, shape parameters, loc and scale from the standard one's formula.

    Args:
        name: of the distribution, for errors.
        kind: pdf, logpdf, cdf, logcdf, sf, logsf, ppf or isf.
        formula: of the standardised x and the shape parameters.
        n_shapes: how many shape parameters.
        doc: one line.
    """

    def body(args: list[Any]) -> Any:
        x, *shapes, loc, scale = args
        if kind in ("ppf", "isf"):
            return formula(x, *shapes) * scale + loc
        out = formula((x - loc) / scale, *shapes)
        if kind == "logpdf":
            return out - lax.log(scale)
        return out / scale if kind == "pdf" else out

    run = fused()(body)
    label = f"{name}.{kind}"
    if n_shapes == 0:

        def fun(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
            return run(_inputs(label, x, loc, scale))

    elif n_shapes == 1:

        def fun(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:  # type: ignore[misc]
            return run(_inputs(label, x, a, loc, scale))

    else:

        def fun(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:  # type: ignore[misc]
            return run(_inputs(label, x, a, b, loc, scale))

    fun.__name__ = fun.__qualname__ = kind
    fun.__doc__ = (
        f"{doc}\n\nArgs:\n    x: where to evaluate; shape parameters, loc and scale broadcast."
    )
    return fun


def family(
    name: str, n_shapes: int, **formulas: Callable[..., Any]
) -> dict[str, Callable[..., Any]]:
    """The functions of one distribution; pdf and cdf, sf follow from their logarithms if missing."""
    if "logpdf" in formulas and "pdf" not in formulas:
        logpdf = formulas["logpdf"]
        formulas["pdf"] = lambda x, *s: lax.exp(logpdf(x, *s))
    if "cdf" in formulas and "sf" not in formulas:
        cdf = formulas["cdf"]
        formulas["sf"] = lambda x, *s: 1 - cdf(x, *s)
    for plain in ("cdf", "sf"):
        if plain in formulas and "log" + plain not in formulas:
            known = formulas[plain]
            formulas["log" + plain] = lambda x, *s, known=known: lax.log(known(x, *s))
    words = {
        "pdf": "density",
        "logpdf": "logarithm of the density",
        "cdf": "distribution function",
        "logcdf": "logarithm of the distribution function",
        "sf": "survival function 1 - cdf",
        "logsf": "logarithm of the survival function",
        "ppf": "inverse of the distribution function",
        "isf": "inverse of the survival function",
    }
    return {
        kind: location_scale(name, kind, f, n_shapes, f"The {words[kind]} ({name}).")
        for kind, f in formulas.items()
    }


def _inside(x: Any, ok: Any, value: Any, outside: Any) -> Any:
    return jnp.where(ok, value, outside)


norm = family(
    "norm",
    0,
    logpdf=lambda x: -0.5 * (x * x) - 0.5 * math.log(2 * math.pi),
    cdf=special.ndtr,
    logcdf=special.log_ndtr,
    sf=lambda x: special.ndtr(-x),
    logsf=lambda x: special.log_ndtr(-x),
    ppf=special.ndtri,
    isf=lambda q: -special.ndtri(q),
)
uniform = family(
    "uniform",
    0,
    logpdf=lambda x: _inside(x, (x >= 0) & (x <= 1), 0.0, -_INF).astype(x.dtype),
    cdf=lambda x: jnp.clip(x, 0, 1),
    ppf=lambda q: jnp.where((q >= 0) & (q <= 1), q, np.nan),
)
expon = family(
    "expon",
    0,
    logpdf=lambda x: _inside(x, x >= 0, -x, -_INF),
    cdf=lambda x: _inside(x, x >= 0, -lax.expm1(-x), 0),
    logcdf=lambda x: _inside(x, x >= 0, lax.log1p(-lax.exp(-jnp.maximum(x, 0))), -_INF),
    sf=lambda x: _inside(x, x >= 0, lax.exp(-x), 1),
    logsf=lambda x: _inside(x, x >= 0, -x, 0),
    ppf=lambda q: -lax.log1p(-q),
)
laplace = family(
    "laplace",
    0,
    logpdf=lambda x: -lax.abs(x) - math.log(2),
    cdf=lambda x: jnp.where(x <= 0, 0.5 * lax.exp(x), 1 - 0.5 * lax.exp(-x)),
)
logistic = family(
    "logistic",
    0,
    logpdf=lambda x: -lax.abs(x) - 2 * lax.log1p(lax.exp(-lax.abs(x))),
    cdf=special.expit,
    sf=lambda x: special.expit(-x),
    ppf=special.logit,
    isf=lambda q: -special.logit(q),
)
cauchy = family(
    "cauchy",
    0,
    logpdf=lambda x: -math.log(math.pi) - lax.log1p(x * x),
    cdf=lambda x: 0.5 + lax.atan2(x, jnp.ones_like(x)) / math.pi,
    sf=lambda x: 0.5 - lax.atan2(x, jnp.ones_like(x)) / math.pi,
    ppf=lambda q: lax.tan(math.pi * (q - 0.5)),
    isf=lambda q: lax.tan(math.pi * (0.5 - q)),
)
gumbel_r = family(
    "gumbel_r",
    0,
    logpdf=lambda x: -(x + lax.exp(-x)),
    cdf=lambda x: lax.exp(-lax.exp(-x)),
    logcdf=lambda x: -lax.exp(-x),
    sf=lambda x: -lax.expm1(-lax.exp(-x)),
    ppf=lambda q: -lax.log(-lax.log(q)),
)
gumbel_l = family(
    "gumbel_l",
    0,
    logpdf=lambda x: x - lax.exp(x),
    cdf=lambda x: -lax.expm1(-lax.exp(x)),
    sf=lambda x: lax.exp(-lax.exp(x)),
    logsf=lambda x: -lax.exp(x),
    ppf=lambda q: lax.log(-lax.log1p(-q)),
)
gamma = family(
    "gamma",
    1,
    logpdf=lambda x, a: _inside(x, x >= 0, special.xlogy(a - 1, x) - x - lax.lgamma(a), -_INF),
    cdf=lambda x, a: special.gammainc(a, jnp.clip(x, 0)),
    sf=lambda x, a: special.gammaincc(a, jnp.clip(x, 0)),
)
chi2 = family(
    "chi2",
    1,
    logpdf=lambda x, df: _inside(
        x,
        x >= 0,
        special.xlogy(df / 2 - 1, x) - x / 2 - lax.lgamma(df / 2) - df / 2 * math.log(2),
        -_INF,
    ),
    cdf=lambda x, df: special.gammainc(df / 2, jnp.clip(x, 0) / 2),
    sf=lambda x, df: special.gammaincc(df / 2, jnp.clip(x, 0) / 2),
)
t = family(
    "t",
    1,
    logpdf=lambda x, df: (
        lax.lgamma((df + 1) / 2)
        - lax.lgamma(df / 2)
        - 0.5 * lax.log(math.pi * df)
        - (df + 1) / 2 * lax.log1p(x * x / df)
    ),
)
pareto = family(
    "pareto",
    1,
    logpdf=lambda x, b: _inside(x, x >= 1, lax.log(b) - (b + 1) * lax.log(x), -_INF),
    cdf=lambda x, b: _inside(x, x >= 1, 1 - lax.pow(jnp.maximum(x, 1), -b), 0),
    sf=lambda x, b: _inside(x, x >= 1, lax.pow(jnp.maximum(x, 1), -b), 1),
    ppf=lambda q, b: lax.pow(1 - q, -1 / b),
)
beta = family(
    "beta",
    2,
    logpdf=lambda x, a, b: _inside(
        x,
        (x >= 0) & (x <= 1),
        special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - special.betaln(a, b),
        -_INF,
    ),
    cdf=lambda x, a, b: special.betainc(a, b, jnp.clip(x, 0, 1)),
    sf=lambda x, a, b: special.betainc(b, a, 1 - jnp.clip(x, 0, 1)),
)


def _quadratic(x: Any, mean: Any, cov: Any) -> Any:
    """The logarithm of the multivariate normal density."""
    n = mean.shape[-1] if mean.ndim else 1
    if not mean.ndim:
        return -0.5 * ((x - mean) ** 2 / cov + lax.log(2 * math.pi * cov))
    lower = jnp.linalg.cholesky(cov)
    apart = jnp.broadcast_arrays(x - mean, jnp.zeros(cov.shape[:-1], x.dtype))[0]
    full = jnp.broadcast_to(lower, (*apart.shape[:-1], n, n))
    y = lax.linalg.triangular_solve(full, apart[..., None], left_side=True, lower=True)[..., 0]
    logs = lax.log(jnp.diagonal(lower, axis1=-2, axis2=-1)).sum(-1)
    return -0.5 * (y * y).sum(-1) - n / 2 * math.log(2 * math.pi) - logs


_multivariate = fused()(_quadratic)


def multivariate_normal_logpdf(x: Any, mean: Any, cov: Any, allow_singular: None = None) -> Any:
    """The logarithm of the multivariate normal density.

    Args:
        x: float[..., n].
        mean: float[..., n], or a number.
        cov: float[..., n, n], positive definite, or a variance.
        allow_singular: not supported.
    """
    if allow_singular is not None:
        raise NotImplementedError("allow_singular argument of multivariate_normal.logpdf")
    x, mean, cov = promote.lift_all("logpdf", *promote.promote_inexact("logpdf", x, mean, cov))
    if mean.ndim == 0 and cov.ndim == 0:
        return _multivariate(x, mean, cov)
    if cov.ndim < 2 or cov.shape[-1] != cov.shape[-2] or x.shape[-1:] != cov.shape[-1:]:
        raise ValueError(f"multivariate_normal: shapes {x.shape} and {cov.shape} do not fit")
    return _multivariate(x, jnp.broadcast_to(mean, (*mean.shape[:-1], cov.shape[-1])), cov)


def multivariate_normal_pdf(x: Any, mean: Any, cov: Any) -> Any:
    """The multivariate normal density. Arguments as in `logpdf`."""
    return lax.exp(multivariate_normal_logpdf(x, mean, cov))


@fused()
def _dirichlet(x: Any, alpha: Any) -> Any:
    shape = alpha.reshape(alpha.shape + (1,) * (x.ndim - 1))
    logs = special.xlogy(shape - 1, x).sum(0)
    total = lax.lgamma(alpha.sum()) - lax.lgamma(alpha).sum()
    fits = (jnp.abs(x.sum(0) - 1) < 1e-4) & (x > 0).all(0)
    return jnp.where(fits, logs + total, -_INF)


def dirichlet_logpdf(x: Any, alpha: Any) -> Any:
    """The logarithm of the Dirichlet density.

    Args:
        x: float[n, ...] adding up to 1 along the first axis (or n - 1 of the n components).
        alpha: float[n].
    """
    x, alpha = promote.lift_all("logpdf", *promote.promote_inexact("logpdf", x, alpha))
    if alpha.ndim != 1:
        raise ValueError(f"`alpha` must be one-dimensional; got alpha.shape={alpha.shape}")
    if x.shape[0] == alpha.size - 1:
        x = jnp.concatenate([x, 1 - x.sum(0, keepdims=True)])
    if x.shape[0] != alpha.size:
        raise ValueError(f"dirichlet: x of shape {x.shape} does not fit {alpha.size} parameters")
    return _dirichlet(x, alpha)


def dirichlet_pdf(x: Any, alpha: Any) -> Any:
    """The Dirichlet density. Arguments as in `dirichlet_logpdf`."""
    return lax.exp(dirichlet_logpdf(x, alpha))
