"""Views of programs: plain dataclasses, then SVG, HTML or text. The engine needs none of them."""
