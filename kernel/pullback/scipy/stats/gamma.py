"""The gamma distribution: an index of its functions in continuous.py."""

from pullback.scipy.stats.continuous import gamma as _functions

cdf = _functions["cdf"]
logcdf = _functions["logcdf"]
logpdf = _functions["logpdf"]
logsf = _functions["logsf"]
pdf = _functions["pdf"]
sf = _functions["sf"]
