"""The geometric distribution: an index of its functions in discrete.py."""

# ruff: noqa: F401

from pullback.scipy.stats.discrete import geom_logpmf as logpmf
from pullback.scipy.stats.discrete import geom_pmf as pmf
