"""A program as a table: one row a variable, with type, operation, value, cotangent and place.

Builds on views/adjoints.py and views/text.py. Tested in tests/views/test_listing.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pullback.core.jaxpr import Eqn, Jaxpr, Literal, Var
from pullback.core.pretty import variable_names
from pullback.views.adjoints import Evaluation
from pullback.views.html import html_table
from pullback.views.sources import SourceLine, source_line
from pullback.views.text import NOT_COMPUTED, SYMBOLIC_ZERO, clip, table, value_text

MAX_ROWS = 200


@dataclass(frozen=True, slots=True)
class Row:
    """One variable: how it comes about, and what it held."""

    name: str
    type: str
    operation: str
    value: str | None
    cotangent: str | None
    source: SourceLine | None
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Listing:
    """The rows of a program; `left_out` says how many more there are."""

    rows: tuple[Row, ...]
    left_out: int = 0
    has_values: bool = False
    has_cotangents: bool = False

    def _columns(self) -> tuple[list[str], list[list[str]]]:
        with_place = any(row.source for row in self.rows)
        header = ["variable", "operation"]
        header += ["value"] if self.has_values else []
        header += ["cotangent"] if self.has_cotangents else []
        header += ["line"] if with_place else []
        cells = []
        for row in self.rows:
            line = [f"{'  ' * row.depth}{row.name}:{row.type}", clip(row.operation, 60)]
            line += [row.value or ""] if self.has_values else []
            line += [row.cotangent or ""] if self.has_cotangents else []
            if with_place:
                line.append(_place_text(row.source))
            cells.append(line)
        return header, cells

    def text(self) -> str:
        """The table as plain text."""
        header, cells = self._columns()
        more = f"\n... and {self.left_out} more" if self.left_out else ""
        return table(cells, header) + more

    def html(self, caption: str = "") -> str:
        """The table as HTML; what was not computed stands in grey italics."""
        header, cells = self._columns()
        more = f"<p>... and {self.left_out} more</p>" if self.left_out else ""
        return html_table(cells, header, caption, muted=(NOT_COMPUTED, SYMBOLIC_ZERO)) + more


def _place_text(source: SourceLine | None) -> str:
    return f"{source.place}: {clip(source.text, 50)}" if source else ""


def build_listing(
    jaxpr: Jaxpr,
    arg_names: Sequence[str] = (),
    values: Evaluation | None = None,
    backward: bool = False,
    const_names: Sequence[str] = (),
) -> Listing:
    """The rows of a program; calls whose values are known are followed by their own rows."""
    names = variable_names(jaxpr)
    rows: list[Row] = []
    for i, var in enumerate(jaxpr.invars):
        written = arg_names[i] if i < len(arg_names) else ""
        rows.append(_row(var, f"input {written}".strip(), names, values, backward, None, 0))
    for i, var in enumerate(jaxpr.constvars):
        written = const_names[i] if i < len(const_names) else ""
        what = f"captured {written}" if written else "constant"
        rows.append(_row(var, what, names, values, False, None, 0))
    _rows_of(jaxpr, names, values, backward, 0, rows)
    return Listing(
        tuple(rows[:MAX_ROWS]), max(len(rows) - MAX_ROWS, 0), values is not None, backward
    )


def _rows_of(
    jaxpr: Jaxpr,
    names: dict[Var, str],
    values: Evaluation | None,
    backward: bool,
    depth: int,
    rows: list[Row],
) -> None:
    for index, eqn in enumerate(jaxpr.eqns):
        source = source_line(eqn)
        for var in eqn.outvars:
            rows.append(
                _row(var, operation_text(eqn, names), names, values, backward, source, depth)
            )
        below = values.inner.get(index) if values is not None else None
        if below is not None:
            _rows_of(below.jaxpr, names, below, backward, depth + 1, rows)


def operation_text(eqn: Eqn, names: dict[Var, str]) -> str:
    """`mul a 2.0`: the operation and what it reads."""
    name = eqn.primitive.name
    called = eqn.params.get("name")
    if name == "jit" and called:
        name = f"call {called}"
    read = [str(a) if isinstance(a, Literal) else names.get(a, "?") for a in eqn.invars]
    return " ".join([name, *read])


def _row(
    var: Var,
    operation: str,
    names: dict[Var, str],
    values: Evaluation | None,
    backward: bool,
    source: Any,
    depth: int,
) -> Row:
    value = value_text(values.values.get(var)) if values is not None else None
    ct = value_text(values.cotangents.get(var)) if values is not None and backward else None
    return Row(names.get(var, "_"), var.aval.str_short(), operation, value, ct, source, depth)
