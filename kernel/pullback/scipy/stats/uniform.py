"""The uniform distribution: an index of its functions in continuous.py."""

from pullback.scipy.stats.continuous import uniform as _functions

cdf = _functions["cdf"]
logpdf = _functions["logpdf"]
pdf = _functions["pdf"]
ppf = _functions["ppf"]
