"""Where an equation comes from, as the user knows it: `Cell In[3], line 2` and the line's text.

Builds on core/source.py. Tested in tests/views/test_sources.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from pullback.core import source
from pullback.core.jaxpr import Eqn
from pullback.views.deterministic import is_deterministic


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the user's program."""

    file: str
    line: int
    text: str

    @property
    def place(self) -> str:
        """`Cell In[3], line 2` or `model.py, line 12`; cells have no numbers if that is asked for."""
        return f"{label_of_file(self.file)}, line {self.line}"


def label_of_file(file: str) -> str:
    """`Cell In[3]` or `model.py`; cells have no numbers if that is asked for."""
    label = source.file_label(file)
    return "cell" if is_deterministic() and label.startswith("Cell In[") else label


def source_line(eqn: Eqn) -> SourceLine | None:
    """The user's line that an equation comes from; None where it is not known."""
    info = eqn.source
    if info is None:
        return None
    return SourceLine(info.file, info.line, source.source_line(info))
