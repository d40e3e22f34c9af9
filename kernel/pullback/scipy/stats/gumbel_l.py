"""The left-skewed Gumbel distribution: an index of its functions in continuous.py."""

from pullback.scipy.stats.continuous import gumbel_l as _functions

cdf = _functions["cdf"]
logcdf = _functions["logcdf"]
logpdf = _functions["logpdf"]
logsf = _functions["logsf"]
pdf = _functions["pdf"]
ppf = _functions["ppf"]
sf = _functions["sf"]
