"""What `dir` shows of the packages: what they are for, and none of their files."""

from __future__ import annotations

from types import ModuleType

import pytest

import pullback
import pullback.lax
import pullback.nn
import pullback.numpy
import pullback.random
import pullback.scipy
from pullback.core.index import public_names


def test_files_and_helpers_are_left_out():
    import math
    from typing import Any

    namespace = {"annotations": 1, "Any": Any, "sin": math.sin, "file": math}
    assert public_names(namespace, "later") == ["later", "sin"]


@pytest.mark.parametrize(
    ("package", "some", "modules"),
    [
        (pullback.numpy, {"sin", "poly", "array"}, {"fft", "linalg"}),
        (pullback.lax, {"sin_p", "scan"}, {"linalg"}),
        (pullback.nn, {"relu"}, {"initializers"}),
        (pullback.random, {"normal"}, set()),
        (pullback.scipy, set(), {"linalg", "special", "stats"}),
    ],
)
def test_dir_shows_what_a_package_is_for(package, some, modules):
    shown = set(dir(package))
    assert some <= shown
    assert {n for n in shown if isinstance(getattr(package, n), ModuleType)} == modules
    assert not shown & {"Any", "annotations", "public_names"}
