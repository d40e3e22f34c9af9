"""`pullback.scipy`: an index of the SciPy functions that this engine has."""

from pullback.scipy import special

__all__ = ["special"]
