"""A magic's line: Python expression and options, in any order.

Builds on faults.py and IPython's magic_arguments. Tested in tests/magics/test_options.py.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from IPython.core.error import UsageError

from pullback_magics.faults import MagicError

_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Line:
    """A parsed line. `full` is the line as typed, with the magic's name; `start` is where the
    expression begins in it.
    """

    options: Any
    expression: str
    full: str
    start: int

    def fault(self, message: str, at: str = "") -> MagicError:
        """An error with the caret under the word `at` (under the expression if it is not there)."""
        column = self.full.find(at, self.full.find(" ") + 1) if at else -1
        return MagicError(message, self.full, column if column >= 0 else self.start)


def chunks(line: str) -> Iterator[tuple[int, str]]:
    """The parts of a line between blanks that stand outside brackets and quotes."""
    start: int | None = None
    open_brackets: list[str] = []
    quote = ""
    skip = False
    for i, c in enumerate(line):
        if start is None:
            if c.isspace():
                continue
            start = i
        if skip:
            skip = False
        elif quote:
            skip = c == "\\"
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in _CLOSING:
            open_brackets.append(_CLOSING[c])
        elif open_brackets and c == open_brackets[-1]:
            open_brackets.pop()
        elif c.isspace() and not open_brackets:
            yield start, line[start:i]
            start = None
    if start is not None:
        yield start, line[start:]


def parse_line(function: Callable[..., Any], name: str, line: str) -> Line:
    """Split a line into options and the rest.

    Args:
        function: the magic, declared with `magic_arguments`.
        name: the magic with its percent signs, such as `%grad`.
        line: what stands after it.

    Raises:
        MagicError: an unknown option, or a wrong or missing value.
    """
    parser: argparse.ArgumentParser = function.parser  # type: ignore[attr-defined]
    line = line.rstrip().removesuffix(";")  # a semicolon silences the result, as in Python cells
    full = f"{name} {line}".rstrip()
    shift = len(name) + 1
    known = parser._option_string_actions
    words: list[str] = []
    rest: list[tuple[int, str]] = []
    pending = list(chunks(line))
    while pending:
        at, chunk = pending.pop(0)
        option, has_value, _ = chunk.partition("=")
        action = known.get(option)
        if action is None:
            if chunk.startswith("--") and chunk[2:3].isalpha():
                choices = ", ".join(o for o in known if o.startswith("--")) or "none"
                raise MagicError(f"no option {option}; there are: {choices}", full, at + shift)
            rest.append((at, chunk))
            continue
        words.append(chunk)
        if action.nargs != 0 and not has_value:
            if not pending:
                raise MagicError(f"{option} needs a value", full, at + len(chunk) + shift)
            at, chunk = pending.pop(0)
            words.append(chunk)
        _check(parser, words, full, at + shift)
    options = _check(parser, words, full, shift)
    if not rest:
        return Line(options, "", full, min(shift, len(full)))
    first, last = rest[0], rest[-1]
    covered = line[first[0] : last[0] + len(last[1])]
    if len(rest) > 1 and any(o.strip() in covered for o in words if o.startswith("-")):
        covered = " ".join(chunk for _, chunk in rest)
    return Line(options, covered, full, first[0] + shift)


def _check(parser: argparse.ArgumentParser, words: list[str], full: str, column: int) -> Any:
    try:
        return parser.parse_args(words)
    except UsageError as e:
        raise MagicError(str(e).split("\n")[-1], full, column) from None


def parse_expression(line: Line) -> ast.expr:
    """The expression of a line.

    Raises:
        MagicError: there is none, or it is no Python expression.
    """
    if not line.expression:
        name = line.full.split()[0]
        raise MagicError(f"an expression is missing, such as {name} f(x)", line.full, line.start)
    try:
        return ast.parse(line.expression, mode="eval").body
    except SyntaxError as e:
        column = line.start + (e.offset or 1) - 1
        raise MagicError(f"SyntaxError: {e.msg}", line.full, min(column, len(line.full))) from None


def name_list(text: str | None) -> list[str]:
    """`w,b` as ['w', 'b']."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]
