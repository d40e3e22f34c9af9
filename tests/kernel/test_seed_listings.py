"""The document's listings, verbatim, in the running kernel: each prints what the document says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

LISTINGS = sorted((Path(__file__).parents[1] / "data" / "seed").glob("*.py"))


def as_pattern(expected):
    """Expected output as a regular expression; `<seconds>` stands for a duration."""
    parts = map(re.escape, expected.split("<seconds>"))
    return r"\d+\.\d+(?:e-\d+)?".join(parts)


@pytest.mark.parametrize("listing", LISTINGS, ids=lambda path: path.stem)
def test_a_listing_prints_what_the_document_says(kernel, listing):
    expected = listing.with_suffix(".out").read_text(encoding="utf-8")
    result = kernel.run(listing.read_text(encoding="utf-8"))
    assert re.fullmatch(as_pattern(expected), result.stdout), result.stdout
    assert result.stderr == ""


def test_all_six_listings_are_here():
    assert len(LISTINGS) == 6
