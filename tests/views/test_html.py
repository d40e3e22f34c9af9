"""Escaping and bundles."""

import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from pullback.views.html import Bundle, content_id, esc, html_table


@given(st.text())
def test_escaped_text_is_inert_and_well_formed(text):
    element = ET.fromstring(f"<p a='{esc(text)}'>{esc(text)}</p>")
    assert not list(element)


def test_markup_shows_as_text():
    assert esc("<script>alert('x')&\"") == "&lt;script&gt;alert(&#x27;x&#x27;)&amp;&quot;"
    table = html_table([["<b>", "not computed"]], ["<i>"], "<u>", muted=["not computed"])
    assert "<b>" not in table and "<u>" not in table and "<i>not computed</i>" in table


def test_ids_follow_the_content():
    assert content_id("a", "b") == content_id("a", "b") != content_id("ab")
    assert content_id("\ud800").startswith("pb")


def test_bundle_gives_only_what_it_has():
    assert Bundle("t")._repr_mimebundle_() == {"text/plain": "t"}
    full = Bundle("t", "<p>", "<svg/>", b"png")
    assert set(full._repr_mimebundle_()) == {
        "text/plain",
        "text/html",
        "image/svg+xml",
        "image/png",
    }
    assert repr(full) == "t"
