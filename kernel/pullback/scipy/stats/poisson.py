"""The Poisson distribution: an index of its functions in discrete.py."""

# ruff: noqa: F401

from pullback.scipy.stats.discrete import poisson_cdf as cdf
from pullback.scipy.stats.discrete import poisson_logpmf as logpmf
from pullback.scipy.stats.discrete import poisson_pmf as pmf
