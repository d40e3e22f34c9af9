"""A laid-out graph as SVG: roles, alternative text, tooltips, reproducible ids.

Colours are from the Okabe-Ito set, which colour-blind people tell apart; shape and line style say
the same again. Builds on views/layout.py. Tested in tests/views/test_svg.py.
"""

from __future__ import annotations

import base64

from pullback.views.graph import Box, Edge, Graph, Node
from pullback.views.html import content_id, esc
from pullback.views.layout import (
    LINE,
    Layout,
    Placed,
    Route,
    back_edges,
    dot_source,
    node_lines,
)
from pullback.views.text import NOT_COMPUTED, SYMBOLIC_ZERO, clip

INK = "#222222"
BLUE = "#0072B2"
SKY = "#56B4E9"
GREEN = "#009E73"
ORANGE = "#E69F00"
VERMILION = "#D55E00"
PURPLE = "#CC79A7"
GREY = "#767676"

_FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
_FILL = {
    "input": "#DDF0FB",
    "constant": "#EEEEEE",
    "operation": "#FFFFFF",
    "folded": "#FBEBC8",
    "output": "#D5F0E7",
}
_STROKE = {
    "input": BLUE,
    "constant": GREY,
    "operation": INK,
    "folded": ORANGE,
    "output": GREEN,
}
_MARGIN = 8.0


def _n(x: float) -> str:
    """A coordinate, to a tenth of a pixel."""
    text = f"{x:.1f}"
    text = text[:-2] if text.endswith(".0") else text
    return "0" if text == "-0" else text


def draw_svg(graph: Graph, layout: Layout) -> str:
    """The picture. The same graph gives the same bytes."""
    uid = content_id(graph.summary, dot_source(graph))
    width, height = layout.width + 2 * _MARGIN, layout.height + 2 * _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" id="{uid}" role="img" '
        f'aria-labelledby="{uid}-title {uid}-desc" width="{_n(width)}" height="{_n(height)}" '
        f'viewBox="{_n(-_MARGIN)} {_n(-_MARGIN)} {_n(width)} {_n(height)}" '
        f'style="max-width:100%;height:auto" font-family="{_FONT}" font-size="12">',
        f'<title id="{uid}-title">{esc(graph.title)}</title>',
        f'<desc id="{uid}-desc">{esc(description(graph))}</desc>',
        f'<rect x="{_n(-_MARGIN)}" y="{_n(-_MARGIN)}" width="{_n(width)}" height="{_n(height)}" '
        'fill="#FFFFFF"/>',
    ]
    parts += [_box(box, layout.boxes[box.id], uid) for box in graph.boxes if box.id in layout.boxes]
    for edge, route in zip(graph.edges, layout.edges, strict=True):
        if route is not None:
            parts.append(_edge(edge, route))
    for edge, route in zip(back_edges(graph), layout.back, strict=True):
        if route is not None:
            parts.append(_back_edge(edge, route))
    parts += [_node(node, layout.nodes[node.id], uid) for node in graph.nodes]
    return "\n".join([*parts, "</svg>"])


def picture_html(graph: Graph, layout: Layout, svg: str) -> str:
    """The picture for HTML: an image with alternative text, and a tooltip over each node.

    Not the SVG's elements themselves: front ends take those out of a notebook that is not trusted
    yet and leave their texts in a heap, where an image is shown.
    """
    uid = content_id("map", graph.summary, dot_source(graph))
    width, height = layout.width + 2 * _MARGIN, layout.height + 2 * _MARGIN
    data = base64.b64encode(svg.encode("utf-8", "backslashreplace")).decode()
    areas = []
    for node in graph.nodes:
        at = layout.nodes[node.id]
        left, top = at.x - at.width / 2 + _MARGIN, at.y - at.height / 2 + _MARGIN
        corners = f"{left:.0f},{top:.0f},{left + at.width:.0f},{top + at.height:.0f}"
        tip = esc(tooltip(node))
        areas.append(f'<area shape="rect" coords="{corners}" title="{tip}" alt="">')
    return (
        f'<img src="data:image/svg+xml;base64,{data}" alt="{esc(description(graph))}" '
        f'width="{width:.0f}" height="{height:.0f}" usemap="#{uid}" style="max-width:none">'
        f'<map name="{uid}">{"".join(areas)}</map>'
    )


def description(graph: Graph) -> str:
    """The alternative text: what there is, and the operations in order."""
    operations = [n.label for n in graph.nodes if n.kind in ("operation", "folded")]
    listed = ", ".join(operations[:40]) + (", …" if len(operations) > 40 else "")
    return f"{graph.summary}. Operations in order: {listed or 'none'}."


def tooltip(node: Node) -> str:
    """What the pointer shows over a node: the equation, its parameters, the user's line."""
    types = ", ".join(node.types)
    head = f"{node.name}:{types} = {node.label}" if node.name and types else node.label
    lines = [head, node.detail]
    if node.value is not None:
        lines.append(f"value: {node.value}")
    if node.cotangent is not None:
        lines.append(f"cotangent: {node.cotangent}")
    if node.source is not None:
        lines += [node.source.place, node.source.text]
    return "\n".join(line for line in lines if line)


def _box(box: Box, whole: Placed, uid: str) -> str:
    # Graphviz lets neighbouring boxes touch; drawn a little smaller they stay apart.
    at = Placed(whole.x, whole.y, whole.width - 6, whole.height - 4)
    left, top = at.x - at.width / 2, at.y - at.height / 2
    return (
        f'<g id="{uid}-{box.id}"><title>{esc(box.label)}</title>'
        f'<rect x="{_n(left)}" y="{_n(top)}" width="{_n(at.width)}" height="{_n(at.height)}" '
        f'rx="6" fill="{PURPLE}" fill-opacity="0.10" stroke="{PURPLE}" stroke-width="1.5"/>'
        f'<text x="{_n(left + 8)}" y="{_n(top + 15)}" font-style="italic" fill="{INK}">'
        f"{esc(box.label)}</text></g>"
    )


def _shape(node: Node, at: Placed) -> str:
    left, top = at.x - at.width / 2, at.y - at.height / 2
    fill, stroke = _FILL[node.kind], _STROKE[node.kind]
    round_ = at.height / 2 if node.kind in ("input", "output") else 3
    rect = (
        f'<rect x="{_n(left)}" y="{_n(top)}" width="{_n(at.width)}" height="{_n(at.height)}" '
        f'rx="{_n(min(round_, 13))}" fill="{fill}" stroke="{stroke}" stroke-width="1.4"/>'
    )
    if node.kind == "folded":  # a second sheet behind says that there are several
        behind = (
            f'<rect x="{_n(left + 3)}" y="{_n(top + 3)}" width="{_n(at.width)}" '
            f'height="{_n(at.height)}" rx="3" fill="{fill}" stroke="{stroke}"/>'
        )
        return behind + rect
    return rect


def _node(node: Node, at: Placed, uid: str) -> str:
    lines = node_lines(node)
    texts = []
    for i, (role, text) in enumerate(lines):
        y = at.y - (len(lines) - 1) * LINE / 2 + i * LINE + 4
        texts.append(f'<text x="{_n(at.x)}" y="{_n(y)}"{_style(role, text)}>{esc(text)}</text>')
    return (
        f'<g id="{uid}-{node.id}" text-anchor="middle"><title>{esc(tooltip(node))}</title>'
        f"{_shape(node, at)}{''.join(texts)}</g>"
    )


def _style(role: str, text: str) -> str:
    if role == "label":
        return f' font-weight="bold" fill="{INK}"'
    if role == "value":
        return f' fill="{BLUE}"'
    if role == "cotangent":
        if text.endswith((NOT_COMPUTED, SYMBOLIC_ZERO)):
            return f' fill="{GREY}" font-style="italic"'
        return ' fill="#A84A00"'
    return f' fill="{GREY}"'


def _path(route: Route) -> str:
    first, *rest = route.points
    text = f"M{_n(first[0])} {_n(first[1])}C"
    return text + " ".join(f"{_n(x)} {_n(y)}" for x, y in rest)


def _arrow(route: Route, colour: str) -> str:
    if route.tip is None:
        return ""
    (bx, by), (tx, ty) = route.points[-1], route.tip
    dx, dy = tx - bx, ty - by
    length = max((dx * dx + dy * dy) ** 0.5, 1e-6)
    ox, oy = -dy / length * 3.2, dx / length * 3.2
    points = f"{_n(tx)},{_n(ty)} {_n(bx + ox)},{_n(by + oy)} {_n(bx - ox)},{_n(by - oy)}"
    return f'<polygon points="{points}" fill="{colour}"/>'


def _edge_label(text: str, route: Route, colour: str) -> str:
    if not text or route.label_at is None:
        return ""
    x, y = route.label_at
    return (
        f'<text x="{_n(x)}" y="{_n(y + 3.5)}" text-anchor="middle" font-size="10" '
        f'fill="{colour}">{esc(clip(text, 44))}</text>'
    )


def _edge(edge: Edge, route: Route) -> str:
    dash = ' stroke-dasharray="1.5 3"' if edge.to_body else ""
    colour = PURPLE if edge.to_body else "#555555"
    return (
        f'<g><path d="{_path(route)}" fill="none" stroke="{colour}"{dash}/>'
        f"{_arrow(route, colour)}{_edge_label(edge.label, route, '#555555')}</g>"
    )


def _back_edge(edge: Edge, route: Route) -> str:
    return (
        f"<g><title>cotangent {esc(edge.contribution)}</title>"
        f'<path d="{_path(route)}" fill="none" stroke="{VERMILION}" stroke-dasharray="5 3"/>'
        f"{_arrow(route, VERMILION)}{_edge_label(edge.contribution or '', route, '#A84A00')}</g>"
    )
