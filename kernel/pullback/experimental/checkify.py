"""Checks of values in compiled programs: an index."""

# ruff: noqa: F401

from pullback.api.check import check, check_error, debug_check
from pullback.api.check_error import Error, ErrorCategory, JaxRuntimeError, init_error
from pullback.api.checkify import (
    all_checks,
    automatic_checks,
    checkify,
    div_checks,
    float_checks,
    index_checks,
    nan_checks,
    user_checks,
)
