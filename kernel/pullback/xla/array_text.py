"""How an array and an index read as text.

Builds on NumPy. Tested in tests/xla/test_array.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def index_text(index: Any) -> str:
    """An index as the user would write it."""
    if isinstance(index, tuple) and index:
        parts = ", ".join(index_text(i) for i in index)
        return parts if len(index) > 1 else parts + ","
    if isinstance(index, slice):
        ends = ["" if e is None else str(e) for e in (index.start, index.stop)]
        step = "" if index.step is None else f":{index.step}"
        return f"{ends[0]}:{ends[1]}{step}"
    if index is Ellipsis:
        return "..."
    if hasattr(index, "shape") and getattr(index, "ndim", 0) > 0:
        return "mask" if str(index.dtype) == "bool" else "idx"
    text = str(index)
    return text if len(text) <= 40 else "idx"


def value_text(value: np.ndarray, tail: str) -> str:
    """`Array(<the values>, <tail>)`, broken and aligned as NumPy's print options say."""
    head = "Array("
    width = np.get_printoptions()["linewidth"]
    if value.size == 0:
        body = f"[], shape={value.shape}"
    else:
        body = np.array2string(value, prefix=head, suffix=",", separator=", ", max_line_width=width)
    # JAX's layout: where the type does not fit on the last line, six spaces instead of one.
    last_line = len(body) - (body.rfind("\n") + 1)
    gap = " " if last_line + len(tail) + 3 <= width else " " * len(head)
    return f"{head}{body},{gap}{tail}"
