"""Where in the user's code something happens, and tracebacks without the engine's frames.

Builds on the standard library only. Tested in tests/core/test_source.py.
"""

from __future__ import annotations

import dis
import functools
import linecache
import os
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, TracebackType
from typing import Any, TypeVar

import numpy as np

from pullback.core.config import config

_Fun = TypeVar("_Fun", bound=Callable[..., Any])


def _folder(path: str) -> str:
    return os.path.abspath(path) + os.sep


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Folders of engine code: this package, the magics beside it (installed, or in a checkout).
_ENGINE = (
    _folder(_PACKAGE),
    _folder(os.path.join(os.path.dirname(_PACKAGE), "pullback_magics")),
    _folder(os.path.join(os.path.dirname(_PACKAGE), "..", "magics", "pullback_magics")),
)
# Folders and files that are passed over on the way from the engine to the user.
_BETWEEN = (_folder(os.path.dirname(np.__file__)), "<frozen ")
_BETWEEN_NAMES = ("contextlib.py", "functools.py")
# The shell runs magics; who called it is the cell.
_BETWEEN_PARTS = tuple(f"-packages{os.sep}{name}{os.sep}" for name in ("IPython", "ipykernel"))

# filename -> whether its frames are the user's; bounded by the number of source files.
_is_user: dict[str, bool] = {}


def is_engine_file(filename: str) -> bool:
    """Whether a source file belongs to the engine."""
    return filename.startswith(_ENGINE)


def _classify(filename: str) -> bool:
    between = (
        filename.startswith(_BETWEEN)
        or os.path.basename(filename) in _BETWEEN_NAMES
        or any(part in filename for part in _BETWEEN_PARTS)
    )
    user = _is_user[filename] = not (between or is_engine_file(filename))
    return user


# ----------------------------------------------------------------------------------- positions


class SourceInfo:
    """A position in the user's code. It keeps the code object; file and line are read when asked.

    Attributes:
        code: the code object.
        lasti: the offset of the instruction that was running.
    """

    __slots__ = ("_line", "code", "lasti")

    def __init__(self, code: CodeType, lasti: int) -> None:
        self.code = code
        self.lasti = lasti
        self._line: int | None = None

    @property
    def file(self) -> str:
        """The file, or the name that a notebook cell was compiled under."""
        return self.code.co_filename

    @property
    def line(self) -> int:
        """The line in the file or cell, from 1."""
        if self._line is None:
            self._line = self._position()[0] or self.code.co_firstlineno
        return self._line

    @property
    def column(self) -> int:
        """The column of the expression, from 0."""
        return self._position()[2] or 0

    @property
    def function(self) -> str:
        """The name of the function."""
        return self.code.co_name

    def _position(self) -> tuple[int | None, int | None, int | None, int | None]:
        for index, position in enumerate(self.code.co_positions()):
            if 2 * index == self.lasti:
                return position
        return (None, None, None, None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SourceInfo) and self.file == other.file and self.line == other.line

    def __hash__(self) -> int:
        return hash((self.file, self.line))

    def __str__(self) -> str:
        return f"{file_label(self.file)}, line {self.line}"

    def __repr__(self) -> str:
        return f"SourceInfo({self}, in {self.function})"


# (id of code, offset) -> position. An entry holds its code object, so the id stays its own.
_positions: dict[tuple[int, int], SourceInfo] = {}
_POSITIONS_LIMIT = 65536


def _info(frame: FrameType) -> SourceInfo:
    code = frame.f_code
    key = (id(code), frame.f_lasti)
    found = _positions.get(key)
    if found is None:
        if len(_positions) >= _POSITIONS_LIMIT:
            _positions.clear()
        found = _positions[key] = SourceInfo(code, frame.f_lasti)
    return found


def user_source(skip: int = 1) -> SourceInfo | None:
    """The position of the innermost frame that is the user's, or None.

    Args:
        skip: how many of the innermost frames are known to be the engine's. A frame costs 0.1 us to
            look at (Python 3.11 makes its object then), one that is skipped 0.01 us.
    """
    frame: FrameType | None = sys._getframe(skip)
    get = _is_user.get
    while frame is not None:
        filename = frame.f_code.co_filename
        user = get(filename)
        if user is None:
            user = _classify(filename)
        if user:
            return _info(frame)
        frame = frame.f_back
    return None


def is_user_frame(frame: FrameType) -> bool:
    """Whether a frame runs the user's code."""
    return _is_user_file(frame.f_code.co_filename)


# Gives the position of the equation that is being processed, if one is; core/tracer.py puts it here.
processed: list[Callable[[], SourceInfo | None]] = [lambda: None]


def current_position() -> SourceInfo | None:
    """Where errors should point: the equation that is being processed, or the user's line."""
    return processed[0]() or user_source(2)


def note_position(error: BaseException, position: SourceInfo | None, name: str) -> None:
    """Add to an error which operation of the user's was being processed; once, the innermost."""
    if position is None or getattr(error, "__notes__", None):
        return
    if str(position) not in str(error):
        error.add_note(f"While `{name}` was processed, of {describe(position)}")


def user_frame() -> tuple[str, int, str] | None:
    """File, line and function of the innermost frame that is the user's, or None."""
    info = user_source()
    return None if info is None else (info.file, info.line, info.function)


def function_source(fun: Any) -> SourceInfo | None:
    """Where a function is defined, or None for one that is not written in Python."""
    while hasattr(fun, "__wrapped__") or hasattr(fun, "func"):
        fun = fun.__wrapped__ if hasattr(fun, "__wrapped__") else fun.func
    code = getattr(fun, "__code__", None)
    return SourceInfo(code, -1) if isinstance(code, CodeType) else None


# -------------------------------------------------------------------------------------- labels

# filename that a cell was compiled under -> its label; a client registers each cell it runs.
_cells: dict[str, str] = {}
_CELLS_LIMIT = 4096
# Asked in turn for the label of a filename; a client may add one that knows its cells.
label_resolvers: list[Callable[[str], str | None]] = []


def register_cell(filename: str, label: str) -> None:
    """Call the code compiled under `filename` by a label such as `Cell In[5]`."""
    if len(_cells) >= _CELLS_LIMIT:
        _cells.pop(next(iter(_cells)))
    _cells[filename] = label


def file_label(filename: str) -> str:
    """How a file is called in messages: a cell by its label, a file by its name."""
    label = _cells.get(filename)
    if label is not None:
        return label
    for resolver in label_resolvers:
        label = resolver(filename)
        if label is not None:
            return label
    return filename if filename.startswith("<") else os.path.basename(filename)


def source_line(info: SourceInfo | None) -> str:
    """The text of the line at a position, stripped; empty if it cannot be read."""
    if info is None:
        return ""
    return linecache.getline(info.file, info.line).strip()


def describe(info: SourceInfo | None) -> str:
    """A position with its line: `Cell In[5], line 3: y = x + 1`; empty without one."""
    if info is None:
        return ""
    text = source_line(info)
    if len(text) > 80:
        text = text[:77] + "..."
    return f"{info}: {text}" if text else str(info)


# ---------------------------------------------------------------------------------- tracebacks

# Set by a client whose formatter folds engine frames itself: then "auto" leaves tracebacks whole.
client_folds_frames: list[bool] = [False]

_RAISING = frozenset({dis.opmap["RAISE_VARARGS"], dis.opmap["RERAISE"]})


def _entries(tb: TracebackType | None) -> Iterator[TracebackType]:
    while tb is not None:
        yield tb
        tb = tb.tb_next


def raised_on_purpose(exc: BaseException, last: TracebackType) -> bool:
    """Whether the engine raised with a `raise`; a failure inside it should show all its frames."""
    if not is_engine_file(last.tb_frame.f_code.co_filename):
        return True
    if type(exc).__module__.partition(".")[0] == "jaxlib":
        return True
    return last.tb_frame.f_code.co_code[last.tb_lasti] in _RAISING


def filtered(exc: BaseException) -> TracebackType | None:
    """The traceback of an exception without engine frames.

    It is left whole if no user frame is in it, or if the error is a failure inside the engine.
    """
    entries = list(_entries(exc.__traceback__))
    if not entries or not raised_on_purpose(exc, entries[-1]):
        return exc.__traceback__
    kept, inside = [], False
    for entry in entries:
        filename = entry.tb_frame.f_code.co_filename
        inside = is_engine_file(filename) or (inside and not _is_user_file(filename))
        if not inside:
            kept.append(entry)
    head = None
    for entry in reversed(kept):
        head = TracebackType(head, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return head


def _is_user_file(filename: str) -> bool:
    user = _is_user.get(filename)
    return _classify(filename) if user is None else user


def filter_traceback(exc: BaseException) -> BaseException:
    """The exception, its traceback changed as `jax_traceback_filtering` says.

    "off" shows every frame; "auto" removes the engine's, unless the client folds them;
    "tracebackhide" marks them for IPython; the others remove them.
    """
    mode = config.jax_traceback_filtering
    if mode == "off" or (mode == "auto" and client_folds_frames[0]):
        return exc
    if mode == "tracebackhide":
        for entry in _entries(exc.__traceback__):
            if is_engine_file(entry.tb_frame.f_code.co_filename):
                entry.tb_frame.f_locals["__tracebackhide__"] = True
        return exc
    exc.__traceback__ = filtered(exc)
    return exc


# The function that starts to watch for leaked tracers (core/leaks.py); api/jit.py puts it here.
leak_watcher: list[Callable[[], Callable[[], None]] | None] = [None]


def _watched(fun: Callable[..., Any], args: tuple, kwargs: dict) -> Any:
    watch = leak_watcher[0]
    if watch is None:
        return fun(*args, **kwargs)
    check = watch()
    out = fun(*args, **kwargs)
    check()
    return out


def api_boundary(fun: _Fun) -> _Fun:
    """A public function whose errors reach the user with filtered tracebacks.

    While `jax_check_tracer_leaks` is on, it also raises if the call leaked a traced value.
    """

    @functools.wraps(fun)
    def boundary(*args: Any, **kwargs: Any) -> Any:
        try:
            if config.jax_check_tracer_leaks:
                return _watched(fun, args, kwargs)
            return fun(*args, **kwargs)
        except Exception as exc:
            filter_traceback(exc)
            raise

    return boundary  # type: ignore[return-value]
