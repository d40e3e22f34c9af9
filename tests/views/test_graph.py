"""The model of a traced graph."""

import numpy as np
from view_programs import X, straight, straight_program

from pullback.api.jit import jit
from pullback.core.stage import record
from pullback.lax import add, cos, gt, mul, sin
from pullback.lax.control_flow import cond
from pullback.lax.loops import scan
from pullback.views.adjoints import one_like, pull_back, record_forward
from pullback.views.folding import MAX_NODES, fold_runs
from pullback.views.graph import MAX_DRAWN, build_graph


def labels(graph, kind="operation"):
    return [n.label for n in graph.nodes if n.kind == kind]


def edges(graph):
    names = {n.id: n.label for n in graph.nodes}
    return {(names[e.tail], names[e.head], e.label) for e in graph.edges}


def test_operations_inputs_results_and_edges(evaluation):
    graph = build_graph(evaluation.jaxpr, "loss", arg_names=["w", "x"])
    assert labels(graph, "input") == ["w", "x"]
    assert labels(graph, "output") == ["result"]
    assert ("w", "mul", "f32[3]") in edges(graph)
    assert ("tanh", "sin", "f32[3]") in edges(graph)  # through the border of the call's box
    assert graph.n_equations == 8


def test_literals_stand_in_the_label(evaluation):
    assert "mul(·, 2.0)" in labels(build_graph(evaluation.jaxpr, "loss"))


def test_calls_are_boxes_and_can_be_folded(evaluation):
    drawn = build_graph(evaluation.jaxpr, "loss")
    assert [b.label for b in drawn.boxes] == ["double_sine (2 equations)"]
    folded = build_graph(evaluation.jaxpr, "loss", depth=0)
    assert not folded.boxes
    assert "double_sine" in labels(folded)
    assert [label for label, _ in folded.bodies] == ["double_sine"]


def test_values_and_cotangents_stand_on_the_nodes(evaluation):
    graph = build_graph(evaluation.jaxpr, "loss", values=evaluation, backward=True)
    found = {n.label: n for n in graph.nodes}
    assert found["tanh"].value == "[0.09967 0.3799 0.7163]"
    assert found["exp"].cotangent == "not computed"
    assert found["sin"].cotangent == "[2.0 2.0 2.0]"
    assert any(e.contribution == "[1.0 1.0 1.0]" for e in graph.edges)


def test_source_lines_are_kept(evaluation):
    graph = build_graph(evaluation.jaxpr, "loss")
    (tanh,) = [n for n in graph.nodes if n.label == "tanh"]
    assert tanh.source.text == "h = tanh(mul(w, x))"
    assert tanh.source.place.startswith("view_programs.py, line ")


def test_bodies_and_branches_are_boxes_of_their_own():
    def f(x):
        total, _ = scan(lambda c, a: (add(c, sin(a)), None), np.float32(0), x)
        return cond(gt(total, np.float32(1)), sin, cos, total)

    jaxpr, _, _ = record(lambda x: [f(x)], [X])
    graph = build_graph(jaxpr, "f")
    texts = [b.label for b in graph.boxes]
    assert any("body" in t for t in texts)
    assert sum("branch" in t for t in texts) == 2
    assert sum(e.to_body for e in graph.edges) == 3
    assert graph.summary.startswith("f: ") and "1 input, 1 result" in graph.summary


def test_large_graphs_are_folded():
    jaxpr = straight_program(1000)
    graph = build_graph(jaxpr, "f")
    assert graph.n_equations == 2000
    assert len(graph.nodes) <= MAX_NODES
    assert sum(int(n.label.split()[0]) for n in graph.nodes if n.kind == "folded") == 2000
    assert "folded" in graph.summary


def test_runs_are_of_one_source_line_where_that_is_enough():
    def f(x):
        for _ in range(100):
            x = sin(sin(sin(sin(x))))
        return x

    jaxpr, _, _ = record(lambda x: [f(x)], [X])
    assert [len(run) for run in fold_runs(jaxpr.eqns)] == [400]


def unrolled(x):
    total = x
    for _ in range(500):
        y = sin(x)
        z = add(y, x)
        x = mul(z, y)
        total = add(total, x)
    return total


def test_an_unrolled_loop_is_folded_where_it_repeats():
    jaxpr, _, _ = record(lambda x: [unrolled(sin(x))], [X])
    graph = build_graph(jaxpr, "f")
    folded = [n for n in graph.nodes if n.kind == "folded"]
    assert len(folded) <= 18
    assert folded[1].detail == "32 × (sin, add, mul, add)"
    assert sum(int(n.label.split()[0]) for n in folded) == 2001


def test_folded_runs_show_values_and_carry_cotangents():
    evaluation = record_forward(lambda x: [straight(x, 1000)], [np.float32(1)], "f")
    pull_back(evaluation, [True], [one_like(np.float32(1))])
    graph = build_graph(evaluation.jaxpr, "f", values=evaluation, backward=True)
    folded = [n for n in graph.nodes if n.kind == "folded"]
    assert all(n.value is not None and n.cotangent is not None for n in folded)
    back = [e for e in graph.edges if e.contribution is not None]
    assert len(back) >= len(folded)


def test_the_branch_that_ran_is_marked():
    def f(x):
        return [cond(gt(x, np.float32(0)), lambda v: sin(v), lambda v: add(v, v), x)]

    evaluation = record_forward(f, [np.float32(1)], "f")
    graph = build_graph(evaluation.jaxpr, "f", values=evaluation)
    marked = [box.label for box in graph.boxes if "taken" in box.label]
    assert len(marked) == 1 and "branch 1" in marked[0]
    (ran,) = [n for n in graph.nodes if n.label == "sin"]
    (other,) = [n for n in graph.nodes if n.label == "add"]
    assert ran.value == "0.8415" and other.value is None


def test_unread_constants_are_left_out_and_unread_inputs_said():
    jaxpr, _, _ = record(lambda x, y: [sin(x)], [X, X])
    graph = build_graph(jaxpr, "f", arg_names=["x", "y"])
    (node,) = [n for n in graph.nodes if n.label == "y"]
    assert node.detail == "not read"


def test_depth_never_draws_out_too_much():
    inner = jit(lambda x: straight(x, 200))

    def f(x):
        for _ in range(6):
            x = jit(lambda v: add(inner(v), v))(x)
        return x

    jaxpr, _, _ = record(lambda x: [f(x)], [X])
    assert len(build_graph(jaxpr, "f", depth=9).nodes) < MAX_DRAWN


def test_a_great_many_inputs_and_results_are_folded():
    names = [f"params['w{i}']" for i in range(200)] + ["x"]
    jaxpr, _, _ = record(lambda *xs: [sin(x) for x in xs[:70]], [X] * 201)
    graph = build_graph(jaxpr, "f", arg_names=names)
    assert labels(graph, "folded")[:2] == ["params: 200 arrays", "x: 1 array"]
    assert labels(graph, "output") == ["70 results"]
    assert "201 inputs, 70 results" in graph.summary
    assert len(graph.nodes) < 80
