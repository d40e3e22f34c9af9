"""Functions with derivatives of their own: an index."""

# ruff: noqa: F401

from pullback.api.custom import closure_convert, custom_gradient, custom_jvp, custom_vjp
from pullback.api.custom_call import CustomVJPPrimal, SymbolicZero
