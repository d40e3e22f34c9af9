"""Where the nodes of a graph go: Graphviz's `dot` algorithm, run inside this process.

`dot_source` writes the graph as DOT that users can save and edit. `lay_out` hands Graphviz boxes of
known size without any text, so that the result does not depend on the machine's fonts, and reads
the positions back. Builds on views/graph.py. Tested in tests/views/test_layout.py.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import graphviz

from pullback.views.graph import Box, Edge, Graph, Node
from pullback.views.text import clip

CHAR = 7.23  # width of a character of the 12 px monospace font
LINE = 16.0  # height of a line of text
SMALL_CHAR = 6.03  # the 10 px font of edge labels
SMALL_LINE = 13.0
_LINE_LIMIT = 44
_ASIDE = 4.0  # how far the two lanes of an edge with a way back lie from its middle
_ARROW = 7.0

Point = tuple[float, float]


class LayoutUnavailable(RuntimeError):
    """Graphviz's library cannot be used here; the message says what to install."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A rectangle: its centre and size in px, y downwards."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Route:
    """An edge's Bezier control points, the tip of its arrow, and the centre of its label."""

    points: tuple[Point, ...]
    tip: Point | None
    label_at: Point | None


@dataclass(frozen=True, slots=True)
class Layout:
    """Positions of everything in a graph. `back` are the edges that carry cotangents."""

    width: float
    height: float
    nodes: dict[str, Placed]
    boxes: dict[str, Placed]
    edges: tuple[Route | None, ...]
    back: tuple[Route | None, ...]


def node_lines(node: Node) -> list[tuple[str, str]]:
    """The lines of text on a node with the role of each: label, type, value, cotangent, detail."""
    lines = [("label", node.label)]
    if node.kind == "input" and node.types:
        lines[0] = ("label", f"{node.label}: {node.types[0]}")
    if node.detail and node.kind in ("folded", "input"):
        lines.append(("detail", node.detail))
    if node.value is not None:
        lines.append(("value", f"= {node.value}"))
    if node.cotangent is not None:
        lines.append(("cotangent", f"ct {node.cotangent}"))
    return [(role, clip(text, _LINE_LIMIT)) for role, text in lines]


def node_size(node: Node) -> tuple[float, float]:
    """Width and height of a node in px."""
    lines = node_lines(node)
    widest = max(len(text) for _, text in lines)
    return max(widest * CHAR + 18, 34.0), len(lines) * LINE + 10


def dot_source(graph: Graph) -> str:
    """The graph as DOT, labels and all, to save and edit."""
    dot = graphviz.Digraph(
        name="traced",
        graph_attr={
            "rankdir": "TB",
            "label": graphviz.escape(graph.title),
            "fontname": "monospace",
        },
        node_attr={"fontname": "monospace", "fontsize": "12", "shape": "box"},
        edge_attr={"fontname": "monospace", "fontsize": "10"},
    )

    def node(where: Any, item: Node) -> None:
        label = graphviz.nohtml("\\n".join(graphviz.escape(text) for _, text in node_lines(item)))
        tip = f"{item.source.place}: {item.source.text}" if item.source else item.detail
        shape = {"input": "ellipse", "output": "ellipse", "folded": "box3d"}.get(item.kind, "box")
        where.node(item.id, label=label, shape=shape, tooltip=graphviz.escape(tip))

    def frame(attributes: dict[str, str], box: Box) -> dict[str, str]:
        return {**attributes, "label": graphviz.escape(box.label)}

    _write(dot, graph, node, frame)
    for edge in graph.edges:
        style = "dotted" if edge.to_body else "solid"
        dot.edge(edge.tail, edge.head, label=graphviz.escape(edge.label), style=style)
        if edge.contribution is not None:
            dot.edge(
                edge.head,
                edge.tail,
                label=graphviz.escape(edge.contribution),
                style="dashed",
                constraint="false",
            )
    return dot.source


def _write(
    dot: Any,
    graph: Graph,
    node: Callable[[Any, Node], None],
    frame: Callable[[dict[str, str], Box], dict[str, str]],
) -> None:
    """Write nodes into their boxes and boxes into their parents."""

    def fill(where: Any, box: str | None) -> None:
        for item in graph.nodes:
            if item.box == box:
                node(where, item)
        for inner in graph.boxes:
            if inner.parent == box:
                with where.subgraph(name=f"cluster_{inner.id}") as cluster:
                    cluster.attr(**frame({}, inner))
                    fill(cluster, inner.id)

    fill(dot, None)


def _blank(width: float, height: float) -> str:
    """An empty label of a given size in px."""
    return (
        f'<<TABLE FIXEDSIZE="TRUE" WIDTH="{width:.0f}" HEIGHT="{height:.0f}" BORDER="0" '
        'CELLPADDING="0" CELLSPACING="0"><TR><TD></TD></TR></TABLE>>'
    )


def _sized_source(graph: Graph) -> str:
    dot = graphviz.Digraph(
        name="sized",
        graph_attr={"rankdir": "TB", "nodesep": "0.3", "ranksep": "0.35", "margin": "0"},
        node_attr={"shape": "box", "fixedsize": "true", "label": ""},
        edge_attr={"arrowsize": "0.7"},
    )

    def node(where: Any, item: Node) -> None:
        width, height = node_size(item)
        where.node(item.id, width=f"{width / 72:.4f}", height=f"{height / 72:.4f}")

    def frame(attributes: dict[str, str], box: Box) -> dict[str, str]:
        size = _blank(len(box.label) * CHAR + 8, LINE)
        return {**attributes, "label": size, "labeljust": "l", "margin": "10"}

    _write(dot, graph, node, frame)
    for edge in graph.edges:
        dot.edge(edge.tail, edge.head, label=edge_label_box(edge))
    return dot.source


def label_width(label: str) -> float:
    """The room in px that a label of an edge takes."""
    return len(clip(label, _LINE_LIMIT)) * SMALL_CHAR + 6 if label else 0.0


def edge_label_box(edge: Edge) -> str:
    """The room that an edge's label takes, with that of the cotangent's way back beside it."""
    width = label_width(edge.label) + label_width(edge.contribution or "")
    if edge.contribution is not None:
        width += 2 * _ASIDE
    return _blank(width, SMALL_LINE) if width else ""


def back_edges(graph: Graph) -> list[Edge]:
    """The edges on which a cotangent comes back."""
    return [e for e in graph.edges if e.contribution is not None]


def lay_out(graph: Graph) -> Layout:
    """Positions for a graph.

    Raises:
        LayoutUnavailable: pygraphviz is missing or cannot load its libraries.
    """
    try:
        import pygraphviz
    except ImportError as e:
        raise LayoutUnavailable(
            f"no picture: pygraphviz cannot be loaded ({e}). Install it: pip install pygraphviz"
        ) from e
    sized = pygraphviz.AGraph(string=_sized_source(graph))
    with contextlib.redirect_stderr(io.StringIO()):  # pygraphviz announces large graphs there
        found = json.loads(sized.draw(format="json0", prog="dot"))
    return _read_layout(graph, found)


def _read_layout(graph: Graph, found: dict[str, Any]) -> Layout:
    _, _, width, height = _numbers(found["bb"])
    nodes: dict[str, Placed] = {}
    boxes: dict[str, Placed] = {}
    for item in found.get("objects", ()):
        name = item["name"]
        if name.startswith("cluster_"):
            left, low, right, high = _numbers(item["bb"])
            boxes[name.removeprefix("cluster_")] = Placed(
                (left + right) / 2, height - (low + high) / 2, right - left, high - low
            )
        elif "pos" in item:
            x, y = _numbers(item["pos"])
            nodes[name] = Placed(
                x, height - y, float(item["width"]) * 72, float(item["height"]) * 72
            )
    forward: list[Route | None] = []
    back: list[Route | None] = []
    for edge, item in zip(graph.edges, found.get("edges", ()), strict=True):
        route = _route(item, height)
        if edge.contribution is None:
            forward.append(route)
            continue
        there, again = (None, None) if route is None else two_lanes(route, edge, nodes)
        forward.append(there)
        back.append(again)
    return Layout(width, height, nodes, boxes, tuple(forward), tuple(back))


def two_lanes(route: Route, edge: Edge, nodes: dict[str, Placed]) -> tuple[Route, Route]:
    """The way there and the way back of an edge, side by side along one route."""
    points = [*route.points, *([] if route.tip is None else [route.tip])]
    ends = nodes[edge.tail], nodes[edge.head]
    there = _aside(points, _ASIDE, *ends)
    again = _aside(points, -_ASIDE, *ends)[::-1]
    tip = None
    if route.tip is not None:  # the tip is no control point: the curve ends at the arrow's base
        tip = there.pop()
        del again[1]
    end, before = again[-1], again[-2]
    dx, dy = end[0] - before[0], end[1] - before[1]
    pull = min(_ARROW / max((dx * dx + dy * dy) ** 0.5, 1e-6), 0.9)
    again[-1] = (end[0] - dx * pull, end[1] - dy * pull)
    label_there = label_again = None
    if route.label_at is not None:
        x, y = route.label_at
        one, two = label_width(edge.label), label_width(edge.contribution or "")
        left = x - (one + two) / 2 + _ASIDE
        label_there, label_again = (left + one / 2, y), (left + one + two / 2, y)
    return Route(tuple(there), tip, label_there), Route(tuple(again), end, label_again)


def _aside(points: list[Point], distance: float, tail: Placed, head: Placed) -> list[Point]:
    """Points moved to one side of the way that they go; the ends stay on the nodes' outlines."""
    last = len(points) - 1
    moved = []
    for i, (x, y) in enumerate(points):
        dx = dy = 0.0
        for reach in (1, 2, 3):  # control points may lie on one another
            (ax, ay), (bx, by) = points[max(i - reach, 0)], points[min(i + reach, last)]
            dx, dy = bx - ax, by - ay
            if abs(dx) + abs(dy) > 0.5:
                break
        length = max((dx * dx + dy * dy) ** 0.5, 1e-6)
        right, down = -dy / length * distance, dx / length * distance
        if i in (0, last):
            node = tail if i == 0 else head
            if abs(abs(x - node.x) - node.width / 2) < abs(abs(y - node.y) - node.height / 2):
                right, down = 0.0, (abs(distance) if dx * distance >= 0 else -abs(distance))
            else:
                right, down = (-abs(distance) if dy * distance >= 0 else abs(distance)), 0.0
        moved.append((x + right, y + down))
    return moved


def _route(item: dict[str, Any], height: float) -> Route | None:
    if "pos" not in item:
        return None
    points: list[Point] = []
    tip = None
    for word in item["pos"].split():
        x, y = _numbers(word.removeprefix("e,"))
        if word.startswith("e,"):
            tip = (x, height - y)
        else:
            points.append((x, height - y))
    label_at = None
    if "lp" in item:
        x, y = _numbers(item["lp"])
        label_at = (x, height - y)
    return Route(tuple(points), tip, label_at)


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]
