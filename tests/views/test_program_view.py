"""The whole view of a program."""

import base64
import re
import xml.etree.ElementTree as ET

import pytest

from pullback.views import program_view
from pullback.views.layout import LayoutUnavailable
from pullback.views.program_view import shortened, view_program, view_text


def test_bundle_has_text_html_and_svg(evaluation):
    view = view_program(evaluation.jaxpr, "loss", values=evaluation, backward=True)
    bundle = view._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", "image/svg+xml"}
    assert "cotangent" in bundle["text/plain"]
    assert "<details>" in bundle["text/html"] and "<script" not in bundle["text/html"]
    ET.fromstring(bundle["image/svg+xml"])
    assert view.graph.title == "loss" and "digraph" in view.dot


def test_folded_bodies_can_be_opened(evaluation):
    view = view_program(evaluation.jaxpr, "loss", depth=0)
    assert "<summary>Open double_sine</summary>" in view.html
    assert view.html.count("<img ") == 2 and "<svg" not in view.html


def test_html_carries_the_picture_as_an_image_with_tooltips(evaluation):
    view = view_program(evaluation.jaxpr, "loss")
    (data,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', view.html)
    assert base64.b64decode(data).decode() == view.svg
    (used,) = re.findall(r'usemap="#(\w+)"', view.html)
    assert f'<map name="{used}">' in view.html
    assert view.html.count("<area ") == len(view.graph.nodes)
    assert 'alt="loss: 8 equations' in view.html
    assert "h = tanh(mul(w, x))" in view.html


def test_without_the_layout_library_the_text_says_what_to_install(evaluation, monkeypatch):
    def missing(graph):
        raise LayoutUnavailable("no picture: install pygraphviz")

    monkeypatch.setattr(program_view, "lay_out", missing)
    view = view_program(evaluation.jaxpr, "loss")
    assert "install pygraphviz" in view.text and "tanh" in view.text
    assert view.svg is None and "install pygraphviz" in view.html


def test_save(evaluation, tmp_path):
    view = view_program(evaluation.jaxpr, "loss")
    for ending, start in ((".svg", "<svg"), (".dot", "digraph"), (".html", "<figure")):
        path = view.save(str(tmp_path / f"loss{ending}"))
        assert path.read_text(encoding="utf-8").startswith(start)
    with pytest.raises(ValueError, match=r"\.svg, \.dot or \.html"):
        view.save(str(tmp_path / "loss.png"))


def test_the_same_program_gives_the_same_bytes(evaluation):
    def once():
        return view_program(evaluation.jaxpr, "loss", values=evaluation, backward=True)

    assert once()._repr_mimebundle_() == once()._repr_mimebundle_()


def test_long_listings_are_cut():
    assert shortened("a\nb\nc\nd", 2) == "a\nb\n... and 2 more lines"
    assert view_text("<t>", "<x>").html.count("<x>") == 0
