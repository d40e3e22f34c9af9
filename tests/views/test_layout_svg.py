"""DOT, layout and SVG."""

import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from view_programs import straight_program

from pullback.views.graph import Graph, Node, build_graph
from pullback.views.layout import dot_source, lay_out
from pullback.views.svg import draw_svg

SVG = "{http://www.w3.org/2000/svg}"


def draw(graph):
    return draw_svg(graph, lay_out(graph))


@pytest.fixture
def graph(evaluation):
    return build_graph(
        evaluation.jaxpr, "loss", arg_names=["w", "x"], values=evaluation, backward=True
    )


def test_every_node_and_box_is_placed_inside(graph):
    layout = lay_out(graph)
    assert set(layout.nodes) == {n.id for n in graph.nodes}
    assert set(layout.boxes) == {b.id for b in graph.boxes}
    for at in [*layout.nodes.values(), *layout.boxes.values()]:
        assert -1 <= at.x - at.width / 2 and at.x + at.width / 2 <= layout.width + 1
        assert -1 <= at.y - at.height / 2 and at.y + at.height / 2 <= layout.height + 1
    assert len(layout.edges) == len(graph.edges)
    assert all(route is not None for route in layout.edges)


def test_nodes_do_not_overlap(graph):
    placed = list(lay_out(graph).nodes.values())
    for i, a in enumerate(placed):
        for b in placed[i + 1 :]:
            apart_x = abs(a.x - b.x) >= (a.width + b.width) / 2 - 0.5
            apart_y = abs(a.y - b.y) >= (a.height + b.height) / 2 - 0.5
            assert apart_x or apart_y


def test_the_way_back_lies_beside_the_way_there(graph):
    layout = lay_out(graph)
    edges = list(zip(graph.edges, layout.edges, strict=True))
    there = [(edge, route) for edge, route in edges if edge.contribution is not None]
    assert len(there) == len(layout.back) > 0
    for (edge, out), again in zip(there, layout.back, strict=True):
        tail, head = layout.nodes[edge.tail], layout.nodes[edge.head]
        for (x, y), node in ((out.tip, head), (again.tip, tail), (again.points[0], head)):
            # On the outline of the node: neither hidden behind it nor away from it.
            off = max(abs(x - node.x) - node.width / 2, abs(y - node.y) - node.height / 2)
            assert abs(off) < 2
        for a, b in zip(out.points[::3], reversed(again.points[::3]), strict=True):
            assert 2 < abs(a[0] - b[0]) + abs(a[1] - b[1]) < 20
        assert out.label_at[0] < again.label_at[0] and out.label_at[1] == again.label_at[1]


def test_svg_is_well_formed_with_alternative_text(graph):
    root = ET.fromstring(draw(graph))
    assert root.get("role") == "img"
    ids = root.get("aria-labelledby").split()
    named = {e.get("id"): e for e in root.iter() if e.get("id")}
    assert named[ids[0]].text == "loss"
    assert "tanh" in named[ids[1]].text
    tips = [t.text for t in root.iter(f"{SVG}title")]
    assert any("h = tanh(mul(w, x))" in (t or "") for t in tips)


def test_ids_are_unique_and_reproducible(graph):
    first = draw(graph)
    ids = [e.get("id") for e in ET.fromstring(first).iter() if e.get("id")]
    assert len(ids) == len(set(ids))
    assert draw(graph) == first
    other = draw(replace(graph, title="another"))
    assert ET.fromstring(other).get("id") != ET.fromstring(first).get("id")


def test_user_text_is_escaped_everywhere():
    evil = "<script>alert(1)</script>&\"'"
    node = Node("n0", "input", evil, name=evil, detail=evil, types=(evil,), value=evil)
    graph = Graph(evil, (node,), (), (), 0)
    text = draw(graph)
    assert "<script" not in text
    ET.fromstring(text)
    assert "script" in dot_source(graph)
    lay_out(graph)


@pytest.mark.parametrize("label", ["\\n", "a\\", "<b>x</b>", '"quoted"', "\\l\\r", "ünïcödé ∂"])
def test_labels_cannot_break_dot(label):
    import pygraphviz

    graph = Graph("t", (Node("n0", "operation", label),), (), (), 1)
    parsed = pygraphviz.AGraph(string=dot_source(graph))
    assert parsed.nodes() == ["n0"]
    draw(graph)


def test_a_large_graph_is_drawn_in_seconds():
    start = time.perf_counter()
    draw(build_graph(straight_program(1000), "long"))
    assert time.perf_counter() - start < 5


def test_an_empty_path_still_draws(tmp_path):
    code = (
        "import sys\n"
        "from pullback.views.graph import Graph, Node\n"
        "from pullback.views.layout import lay_out\n"
        "lay_out(Graph('t', (Node('n0', 'input', 'x'),), (), (), 0))\n"
    )
    env = {**os.environ, "PATH": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_text_is_no_part_of_the_layout_so_fonts_do_not_matter(graph):
    from pullback.views import layout

    source = layout._sized_source(graph)
    assert "tanh" not in source and "loss" not in source
