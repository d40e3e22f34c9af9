"""Student's t distribution: an index of its functions in continuous.py."""

from pullback.scipy.stats.continuous import t as _functions

logpdf = _functions["logpdf"]
pdf = _functions["pdf"]
