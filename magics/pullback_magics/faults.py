"""One clear line for a wrong magic line or cell, with a caret under the fault.

Not IPython's UsageError: that one is written to stderr. Tested in tests/magics/test_faults.py.
"""

from __future__ import annotations


class MagicError(Exception):
    """A magic cannot do what its line or cell asks for.

    Attributes:
        message: what is wrong and what to write instead.
        source: the line at fault as the user typed it; may be empty.
        column: where in `source` the caret stands.
        place: such as `line 3`; may be empty.
    """

    def __init__(self, message: str, source: str = "", column: int = 0, place: str = "") -> None:
        self.message = message
        self.source = source
        self.column = max(column, 0)
        self.place = place
        super().__init__("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """The message, then the source line with the caret beneath."""
        head = f"{self.place}: {self.message}" if self.place else self.message
        if not self.source:
            return [head]
        # Tabs are kept before the caret, so that it stands under the fault at any tab width.
        before = "".join(c if c == "\t" else " " for c in self.source[: self.column])
        return [head, f"    {self.source}", f"    {before}^"]

    def _render_traceback_(self) -> list[str]:
        """What a shell shows instead of a traceback."""
        first, *rest = self.lines()
        return [f"MagicError: {first}", *rest]


def from_syntax_error(error: SyntaxError, source: str) -> MagicError:
    """The fault of a syntax error in a cell.

    Args:
        error: what the compiler raised; its line counts from the cell's first line.
        source: the whole cell.
    """
    lines = source.splitlines()
    number = error.lineno or 1
    text = lines[number - 1] if 0 < number <= len(lines) else (error.text or "").rstrip("\n")
    column = (error.offset or 1) - 1
    message = f"{type(error).__name__}: {error.msg}"
    if text.lstrip().startswith(("%", "!")):
        message = "magics and shell commands cannot run inside a compiled or differentiated cell"
    return MagicError(message, text, min(column, len(text)), f"line {number}")
