"""The logistic distribution: an index of its functions in continuous.py."""

from pullback.scipy.stats.continuous import logistic as _functions

cdf = _functions["cdf"]
isf = _functions["isf"]
logpdf = _functions["logpdf"]
pdf = _functions["pdf"]
ppf = _functions["ppf"]
sf = _functions["sf"]
