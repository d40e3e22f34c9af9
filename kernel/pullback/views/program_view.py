"""A program's whole view: picture, table and text in one bundle.

Builds on the other files of views/. Tested in tests/views/test_program_view.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pullback.core.jaxpr import Jaxpr
from pullback.core.pretty import print_jaxpr
from pullback.views.adjoints import Evaluation
from pullback.views.graph import Graph, build_graph
from pullback.views.html import Bundle, details, esc, figure, html_table, pre
from pullback.views.layout import LayoutUnavailable, dot_source, lay_out
from pullback.views.listing import build_listing
from pullback.views.svg import draw_svg, picture_html

_MAX_BODIES = 12


@dataclass(frozen=True, slots=True, repr=False)
class GraphView(Bundle):
    """A drawn program: `graph` is the model, `dot` its DOT source, `save` writes either."""

    graph: Graph | None = None

    @property
    def dot(self) -> str:
        """The graph in Graphviz's language, to edit."""
        return dot_source(self.graph) if self.graph is not None else ""

    def save(self, path: str) -> Path:
        """Write the picture or source to a `.svg`, `.dot` or `.html` file; gives its path.

        Raises:
            ValueError: another ending, or there is no picture to write.
        """
        target = Path(path)
        content = {".svg": self.svg, ".dot": self.dot, ".html": self.html}.get(target.suffix)
        if not content:
            raise ValueError(
                f"cannot save a graph as {target.name!r}: the name must end in .svg, .dot or .html"
                + ("" if self.svg else ", and there is no picture here")
            )
        target.write_text(content, encoding="utf-8")
        return target


def view_program(
    jaxpr: Jaxpr,
    title: str,
    *,
    arg_names: Sequence[str] = (),
    const_names: Sequence[str] = (),
    values: Evaluation | None = None,
    backward: bool = False,
    depth: int | None = None,
    as_jaxpr: bool = False,
) -> GraphView:
    """The view of a program.

    Args:
        jaxpr: the program.
        title: what it is called.
        arg_names: the inputs' names as the user wrote them.
        const_names: names of the captured arrays, empty where nobody knows.
        values: forward values and, with `backward`, cotangents to show.
        backward: draw the backward pass too.
        depth: levels of inner programs drawn out; None decides by size.
        as_jaxpr: print the jaxpr as the text form rather than a table.
    """
    graph = build_graph(
        jaxpr,
        title,
        arg_names=arg_names,
        const_names=const_names,
        values=values,
        backward=backward,
        depth=depth,
    )
    listing = build_listing(jaxpr, arg_names, values, backward, const_names)
    printed = shortened(print_jaxpr(jaxpr))
    text = printed if as_jaxpr else f"{graph.summary}\n\n{listing.text()}"
    below = details("As a table", listing.html()) + details("As a jaxpr", pre(printed))
    try:
        layout = lay_out(graph)
    except LayoutUnavailable as e:
        page = (
            f"<p>{esc(e)}</p>" + listing.html(graph.summary) + details("As a jaxpr", pre(printed))
        )
        return GraphView(f"{e}\n{text}", page, None, None, graph, graph)
    svg = draw_svg(graph, layout)
    below = "".join(_bodies(graph)) + below
    page = figure(picture_html(graph, layout, svg), graph.summary, below)
    return GraphView(text, page, svg, None, graph, graph)


def shortened(text: str, limit: int = 400) -> str:
    """The first `limit` lines of a long listing, and how many more there are."""
    lines = text.split("\n")
    if len(lines) <= limit:
        return text
    return "\n".join([*lines[:limit], f"... and {len(lines) - limit} more lines"])


def _bodies(graph: Graph) -> list[str]:
    """The folded inner programs, each to be opened."""
    out: list[str] = []
    seen: set[Any] = set()
    for label, body in graph.bodies:
        if body in seen or len(out) >= _MAX_BODIES:
            continue
        seen.add(body)
        inner = build_graph(body, label)
        layout = lay_out(inner)
        picture = picture_html(inner, layout, draw_svg(inner, layout))
        out.append(details(f"Open {label}", f'<div style="overflow:auto">{picture}</div>'))
    return out


def view_text(title: str, text: str) -> Bundle:
    """A listing, such as StableHLO, as a bundle."""
    return Bundle(text, f"<p>{esc(title)}</p>{pre(text)}")


def view_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], text: str
) -> Bundle:
    """A small table as a bundle."""
    return Bundle(text, html_table(rows, header, title))
