"""HTML that reads without scripts or style sheets: figures, tables, listings, and bundles.

Everything that comes from the user goes through `esc`. Builds on nothing; tested in
tests/views/test_html.py.
"""

from __future__ import annotations

import hashlib
import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_MONO = "font-family:ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace"
_CELL = "text-align:left;padding:1px 10px 1px 0;white-space:nowrap;vertical-align:top"


def esc(text: object) -> str:
    """The text with everything that could be markup written as character references."""
    # Control characters but tab and newline are no XML: they show as their escapes.
    plain = "".join(
        c
        if c in "\t\n" or (c >= " " and not "\x7f" <= c <= "\x9f" and not _unpaired(c))
        else repr(c)[1:-1]
        for c in str(text)
    )
    return html.escape(plain, quote=True)


def _unpaired(c: str) -> bool:
    return "\ud800" <= c <= "\udfff" or c in "\ufffe\uffff"


def content_id(*parts: str) -> str:
    """An id that the same content always gets: `pb` and ten hexadecimal digits."""
    digest = hashlib.sha256("\x00".join(parts).encode("utf-8", "backslashreplace"))
    return f"pb{digest.hexdigest()[:10]}"


def html_table(
    rows: Sequence[Sequence[str]],
    header: Sequence[str],
    caption: str = "",
    muted: Sequence[str] = (),
) -> str:
    """A table; cells whose text is in `muted` stand in grey italics."""
    head = "".join(f'<th scope="col" style="{_CELL}">{esc(h)}</th>' for h in header)
    body = "".join(f"<tr>{''.join(_cell(c, c in muted) for c in row)}</tr>" for row in rows)
    title = f'<caption style="text-align:left">{esc(caption)}</caption>' if caption else ""
    return (
        f'<table style="border-collapse:collapse;{_MONO};font-size:12px">{title}'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _cell(text: str, is_muted: bool) -> str:
    inner = f"<i>{esc(text)}</i>" if is_muted else esc(text)
    colour = ";color:#767676" if is_muted else ""
    return f'<td style="{_CELL}{colour}">{inner}</td>'


def details(summary: str, inner: str) -> str:
    """A part that opens on a click; it is open to readers without CSS or scripts."""
    return f"<details><summary>{esc(summary)}</summary>{inner}</details>"


def pre(text: str) -> str:
    """A listing."""
    return f'<pre style="{_MONO};font-size:12px;line-height:1.35;margin:4px 0">{esc(text)}</pre>'


def figure(picture: str, caption: str, below: str = "") -> str:
    """A picture with its caption."""
    return (
        '<figure style="margin:4px 0">'
        f'<div style="overflow:auto">{picture}</div>'
        f'<figcaption style="font-size:12px">{esc(caption)}</figcaption>{below}</figure>'
    )


@dataclass(frozen=True, slots=True, repr=False)
class Bundle:
    """Displays itself: text always, HTML and a picture where the front end shows them.

    Attributes:
        text: useful alone, and what `print` gives.
        html: the same without scripts or outside files.
        svg: the picture alone.
        png: the picture alone, as bytes.
        data: what the view was drawn from, for programs that want to read it.
    """

    text: str
    html: str | None = None
    svg: str | None = None
    png: bytes | None = None
    data: Any = field(default=None)

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        found = {
            "text/plain": self.text,
            "text/html": self.html,
            "image/svg+xml": self.svg,
            "image/png": self.png,
        }
        return {mime: content for mime, content in found.items() if content is not None}
