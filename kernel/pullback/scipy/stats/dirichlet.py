"""The Dirichlet distribution: an index of its functions in continuous.py."""

# ruff: noqa: F401

from pullback.scipy.stats.continuous import dirichlet_logpdf as logpdf
from pullback.scipy.stats.continuous import dirichlet_pdf as pdf
