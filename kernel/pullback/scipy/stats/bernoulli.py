"""The Bernoulli distribution: an index of its functions in discrete.py."""

# ruff: noqa: F401

from pullback.scipy.stats.discrete import bernoulli_cdf as cdf
from pullback.scipy.stats.discrete import bernoulli_logpmf as logpmf
from pullback.scipy.stats.discrete import bernoulli_pmf as pmf
from pullback.scipy.stats.discrete import bernoulli_ppf as ppf
