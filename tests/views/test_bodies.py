"""Values inside loops and branches."""

import numpy as np
import pytest

from pullback.lax import add, mul
from pullback.lax.loops import scan
from pullback.views.adjoints import one_like, pull_back, record_forward
from pullback.views.graph import build_graph

XS = np.float32([1.0, 2.0, 3.0])


def running(xs, reverse=False):
    def step(carry, x):
        carry = add(carry, x)
        return carry, mul(carry, carry)

    return scan(step, np.float32(10), xs, reverse=reverse)


@pytest.mark.parametrize(
    ("reverse", "sums"), [(False, "[11.0 13.0 16.0]"), (True, "[16.0 15.0 13.0]")]
)
def test_a_scan_shows_the_values_of_each_step(reverse, sums):
    evaluation = record_forward(lambda xs: list(running(xs, reverse)), [XS])
    graph = build_graph(evaluation.jaxpr, "f", values=evaluation)
    (body,) = [box for box in graph.boxes if "body" in box.label]
    assert "values of each step" in body.label
    inside = {n.label: n for n in graph.nodes if n.box == body.id and n.kind == "operation"}
    assert inside["add"].value == sums


def test_cotangents_are_not_claimed_inside_a_loop():
    evaluation = record_forward(lambda xs: [running(xs)[0]], [XS])
    pull_back(evaluation, [True], [one_like(np.float32(1))])
    graph = build_graph(evaluation.jaxpr, "f", values=evaluation, backward=True)
    inside = [n for n in graph.nodes if n.box is not None]
    assert inside and all(n.cotangent is None for n in inside)


def test_long_loops_show_none():
    evaluation = record_forward(lambda xs: list(running(xs)), [np.ones(3000, np.float32)])
    graph = build_graph(evaluation.jaxpr, "f", values=evaluation)
    assert not any("values of each step" in box.label for box in graph.boxes)
    assert all(n.value is None for n in graph.nodes if n.box is not None)
