"""Values and tables as plain text."""

import numpy as np
import pytest

from pullback.core.aval import make_aval
from pullback.core.jvp import Zero
from pullback.views.text import (
    NOT_COMPUTED,
    SYMBOLIC_ZERO,
    clip,
    count_text,
    number_text,
    seconds_text,
    table,
    value_text,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (True, "True"),
        (0.5, "0.5"),
        (2.0, "2.0"),
        (1e-9, "1e-09"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (1 + 2j, "1+2j"),
        (123456.0, "1.235e+05"),
    ],
)
def test_numbers(value, text):
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, NOT_COMPUTED),
        (Zero(make_aval((), np.dtype("float32"))), SYMBOLIC_ZERO),
        (np.float32(0), "0.0"),
        (np.array([1, 2, 3]), "[1 2 3]"),
        (np.zeros((0, 3)), "empty"),
        (np.zeros((2, 2)), "all 0.0"),
        (np.arange(6.0), "0.0…5.0, mean 2.5"),
        (np.array([1.0, np.nan, 3.0, np.inf, 2.0]), "1.0…3.0, mean 2.0, 1 nan, 1 inf"),
        (np.full(5, np.nan), "5 nan"),
        (np.float32([-1, 1, -1, 1, 1e-9]), "-1.0…1.0, mean 0.0"),
        (np.array([True, False, True, True, False]), "3 of 5 true"),
        (np.array([3 + 4j] * 5), "|·| 5.0…5.0"),
    ],
)
def test_values_in_one_line(value, text):
    assert value_text(value) == text


def test_what_was_not_computed_differs_from_zero():
    assert len({value_text(None), value_text(0.0), SYMBOLIC_ZERO}) == 3


def test_bfloat16_is_shown_as_numbers():
    import ml_dtypes

    assert value_text(np.array([1.5, 2.0], ml_dtypes.bfloat16)) == "[1.5 2.0]"


def test_table_is_aligned_without_blanks_at_line_ends():
    text = table([["a", "bb"], ["ccc", ""]], ["x", "y"])
    assert text == "x    y\n---  --\na    bb\nccc"
    assert table([]) == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.5 s"), (0.0123, "12.3 ms"), (4.56e-5, "45.6 us"), (0, "0 us")]
)
def test_durations(seconds, text):
    assert seconds_text(seconds) == text


def test_clip_and_count():
    assert clip("abcdef", 4) == "abc…" and clip("abc", 4) == "abc"
    assert count_text(1, "equation") == "1 equation"
    assert count_text(0, "equation") == "0 equations"
