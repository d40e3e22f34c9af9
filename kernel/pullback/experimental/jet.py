"""Taylor mode: an index."""

# ruff: noqa: F401

from pullback.api.jet import ZeroSeries, ZeroTerm, jet, zero_series, zero_term
