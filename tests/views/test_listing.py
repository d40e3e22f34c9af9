"""A program as a table."""

from pullback.views.listing import build_listing


def test_rows_say_value_and_cotangent(evaluation):
    listing = build_listing(evaluation.jaxpr, ["w", "x"], evaluation, backward=True)
    text = listing.text()
    assert text.splitlines()[0].split() == ["variable", "operation", "value", "cotangent", "line"]
    (row,) = [line for line in text.splitlines() if line.startswith("b:f32[3]")]
    assert "input x" in row and "not computed" in row
    assert "call double_sine" in text
    assert "  f:f32[3]" in text  # the call's own rows are indented


def test_html_marks_what_was_not_computed(evaluation):
    html = build_listing(evaluation.jaxpr, ["<w>", "x"], evaluation, backward=True).html("<t>")
    assert "<i>not computed</i>" in html
    assert "<w>" not in html and "&lt;w&gt;" in html and "<t>" not in html


def test_without_values_there_are_no_such_columns(evaluation):
    header = build_listing(evaluation.jaxpr).text().splitlines()[0]
    assert header.split() == ["variable", "operation", "line"]
