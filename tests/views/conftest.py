"""A recorded program to look at."""

import pytest
from view_programs import W, X, loss

from pullback.views.adjoints import one_like, pull_back, record_forward


@pytest.fixture
def evaluation():
    """`loss` recorded, its cotangents with respect to `w` filled in."""
    found = record_forward(lambda *a: [loss(*a)], [W, X], "loss")
    pull_back(found, [True, False], [one_like(found.read(found.jaxpr.outvars[0]))])
    return found
