"""Times of stages and calls."""

import numpy as np
import pytest
from view_programs import W, X, loss

from pullback.api.jit import jit
from pullback.lax import mul
from pullback.views.timeline import Timing, draw_timing, measure, spread_text, view_timing

EXAMPLE = Timing(
    "f(<x>)",
    (("trace", 0.001), ("lower", 0.002), ("compile", 0.03), ("first run", 0.0001)),
    "compiled",
    0.004,
    (2e-3, 3e-3, 4e-3),
    (1e-4, 2e-4, 3e-4),
    "cpu:0",
)


def test_measure_times_every_stage():
    timing = measure(loss, (W, X), "loss(w, x)", repeats=6)
    assert [name for name, _ in timing.stages] == ["trace", "lower", "compile", "first run"]
    assert all(seconds > 0 for _, seconds in timing.stages)
    assert len(timing.eager) == len(timing.jitted) == 6
    assert timing.first_call == pytest.approx(sum(s for _, s in timing.stages))


def test_eager_times_of_a_jitted_function_are_of_the_function_within():
    calls = []

    def f(x):
        calls.append(type(x).__name__)
        return mul(x, np.float32(2))

    measure(jit(f), (X,), "f", repeats=3)
    assert calls.count("ndarray") == 4  # the first eager call and three more
    assert len(calls) == 5  # and one trace


def test_text_table_and_picture():
    view = view_timing(EXAMPLE)
    assert "eager / jit" in view.text and "15" in view.text
    assert "quartiles" in view.text
    assert view.png.startswith(b"\x89PNG")
    assert 'alt="' in view.html and "<x>" not in view.html
    assert view.data is EXAMPLE


def test_deterministic_output_has_no_times():
    view = view_timing(EXAMPLE, deterministic=True)
    assert "ms" not in view.text and "cpu" not in view.text and view.png is None
    assert "trace, lower, compile, first run" in view.text


def test_the_picture_leaves_matplotlibs_state_alone():
    import matplotlib

    backend = matplotlib.get_backend()
    draw_timing(EXAMPLE)
    assert matplotlib.get_backend() == backend


def test_spread():
    assert spread_text((1e-3,)) == "1 ms (1 call)"
    assert spread_text((1e-3, 2e-3, 3e-3)) == "2 ms (quartiles 1 ms to 3 ms, 3 calls)"
