"""Functions with derivatives of their own: an index."""

# ruff: noqa: F401

from pullback.api.custom import closure_convert, custom_gradient, custom_jvp, custom_vjp
from pullback.api.custom_call import (
    CustomVJPPrimal,
    SymbolicZero,
    custom_vjp_primal_tree_values,
    zero_from_primal,
)
from pullback.lax.custom_rules import custom_jvp_call_p, custom_vjp_call_p
from pullback.lax.linear_call import linear_call
