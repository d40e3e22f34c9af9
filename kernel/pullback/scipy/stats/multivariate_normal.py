"""The multivariate normal distribution: an index of its functions in continuous.py."""

# ruff: noqa: F401

from pullback.scipy.stats.continuous import multivariate_normal_logpdf as logpdf
from pullback.scipy.stats.continuous import multivariate_normal_pdf as pdf
