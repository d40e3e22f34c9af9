"""The binomial distribution: an index of its functions in discrete.py."""

# ruff: noqa: F401

from pullback.scipy.stats.discrete import binom_logpmf as logpmf
from pullback.scipy.stats.discrete import binom_pmf as pmf
