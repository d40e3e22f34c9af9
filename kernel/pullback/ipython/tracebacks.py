"""Tracebacks that show the user's lines and fold the engine's.

Builds on IPython's ultratb; tested in tests/kernel/test_tracebacks.py.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from types import SimpleNamespace, TracebackType
from typing import Any

from IPython.core.ultratb import AutoFormattedTB
from traitlets import Bool
from traitlets.config import Configurable

from pullback.core import source
from pullback.xla.runtime_errors import add_advice

_SHOWN_ALIKE = 2  # of frames that call themselves from one line; the last of them is shown too
_ALSO_FOLDED = ("/jaxlib/", "<frozen ", "/contextlib.py", "/functools.py")


class PullbackTracebacks(Configurable):
    """The switch: `%config PullbackTracebacks.show_engine_frames = True`."""

    show_engine_frames = Bool(
        False, help="Show every frame of a traceback instead of folding the engine's."
    ).tag(config=True)


def _is_folded_after_engine(filename: str) -> bool:
    return any(part in filename for part in _ALSO_FOLDED)


def _walk(tb: TracebackType | None) -> Iterator[TracebackType]:
    while tb is not None:
        yield tb
        tb = tb.tb_next


def split_frames(
    tb: TracebackType | None,
) -> tuple[list[TracebackType], dict[int, list[TracebackType]]]:
    """The user's frames of a traceback, and the folded ones by the user's frame before them.

    Args:
        tb: the outermost entry.
    Returns:
        the user's entries in order, and the runs of engine entries: run `i` was called by the
        `i`-th user's entry (run -1 comes before all).
    """
    kept: list[TracebackType] = []
    folded: dict[int, list[TracebackType]] = {}
    inside = False
    for entry in _walk(tb):
        filename = entry.tb_frame.f_code.co_filename
        inside = source.is_engine_file(filename) or (inside and _is_folded_after_engine(filename))
        if inside:
            folded.setdefault(len(kept) - 1, []).append(entry)
        else:
            kept.append(entry)
    return kept, folded


def _chain(entries: list[TracebackType]) -> TracebackType | None:
    head = None
    for entry in reversed(entries):
        head = TracebackType(head, entry.tb_frame, entry.tb_lasti, _line_of(entry))
    return head


def _line_of(entry: TracebackType) -> int:
    """The entry's line; an interrupt can fall on an instruction that belongs to none."""
    line: int | None = entry.tb_lineno
    return entry.tb_frame.f_code.co_firstlineno if line is None else line


def _fold_recursion(
    kept: list[TracebackType], folded: dict[int, list[TracebackType]]
) -> tuple[list[TracebackType], dict[int, list[TracebackType]], dict[int, int]]:
    """The frames of `split_frames` without most of those that call themselves from the same line.

    Returns:
        entries and runs as before, and after which entry how many alike were left out.
    """
    places = [(entry.tb_frame.f_code, _line_of(entry)) for entry in kept]
    short: list[TracebackType] = []
    runs = {-1: folded[-1]} if -1 in folded else {}
    left_out: dict[int, int] = {}
    start = 0
    for i, entry in enumerate(kept):
        start = i if i == 0 or places[i] != places[i - 1] else start
        is_last = i + 1 == len(kept) or places[i + 1] != places[i]
        if i - start >= _SHOWN_ALIKE and not is_last:
            left_out[len(short) - 1] = left_out.get(len(short) - 1, 0) + 1
            continue
        if i in folded:
            runs[len(short)] = folded[i]
        short.append(entry)
    return short, runs, left_out


def _is_fault(error: BaseException, last: TracebackType) -> bool:
    """Whether the engine ran into an error; where an interrupt or a full stack found it is chance."""
    if isinstance(error, KeyboardInterrupt | RecursionError):
        return False
    return not source.raised_on_purpose(error, last)


class _FoldedFrames(SimpleNamespace):
    """Stands in a list of frame records for a run of engine frames."""

    def __init__(self, run: list[TracebackType]) -> None:
        super().__init__(
            run=run,
            _sd=None,
            frame=SimpleNamespace(f_locals={}),
            filename=run[-1].tb_frame.f_code.co_filename,
            lineno=_line_of(run[-1]),
        )

    def text(self) -> str:
        first, last = (entry.tb_frame.f_code.co_name for entry in (self.run[0], self.run[-1]))
        names = first if len(self.run) == 1 else f"{first} ... {last}"
        return (
            f"    [{len(self.run)} engine frame{'s' * (len(self.run) > 1)}: {names}; "
            "%config PullbackTracebacks.show_engine_frames = True shows all]\n"
        )


class _AlikeFrames(SimpleNamespace):
    """Stands in a list of frame records for frames of a recursion."""

    def __init__(self, entry: TracebackType, count: int) -> None:
        frame = SimpleNamespace(f_locals={})
        code = entry.tb_frame.f_code
        super().__init__(
            name=code.co_name,
            count=count,
            _sd=None,
            frame=frame,
            filename=code.co_filename,
            lineno=_line_of(entry),
        )

    def text(self) -> str:
        return f"    [{self.count} more frames of {self.name}, line {self.lineno}]\n"


class FoldingTB(AutoFormattedTB):
    """IPython's formatter with runs of engine frames folded into one line each.

    An error that the engine did not raise but ran into keeps its innermost frame: it is a fault of
    the engine, and the line says which.
    """

    def __init__(self, *args: Any, switch: PullbackTracebacks, **kwargs: Any) -> None:
        self.switch = switch
        self.shown: BaseException | None = None
        super().__init__(*args, **kwargs)

    def structured_traceback(
        self,
        etype: type,
        evalue: BaseException | None = None,
        etb: TracebackType | None = None,
        tb_offset: int | None = None,
        context: int = 5,
    ) -> list[str]:
        """The lines of a traceback, in any mode."""
        add_advice(evalue)
        return super().structured_traceback(etype, evalue, etb, tb_offset, context)

    def format_exception_as_a_whole(
        self,
        etype: type,
        evalue: BaseException | None,
        etb: TracebackType | None,
        context: int,
        tb_offset: int | None,
    ) -> list[list[str]]:
        """The frames and the message of one exception of a chain."""
        self.shown = evalue
        add_advice(evalue)
        return super().format_exception_as_a_whole(etype, evalue, etb, context, tb_offset)

    def get_records(self, etb: TracebackType, context: int, tb_offset: int) -> Any:
        """The frame records to print, a placeholder for each folded run."""
        if any(entry.tb_lineno is None for entry in _walk(etb)):
            etb = _chain(list(_walk(etb))) or etb
        if self.switch.show_engine_frames:
            return super().get_records(etb, context, tb_offset)
        kept, folded, left_out = _fold_recursion(*split_frames(etb))
        if not folded and not left_out:
            return super().get_records(etb, context, tb_offset)
        last = folded.get(len(kept) - 1, [])
        failed = last and self.shown and _is_fault(self.shown, last[-1])
        chain = _chain([*kept, last[-1]] if failed else kept)
        records = super().get_records(chain, context, tb_offset) if chain is not None else []
        run_after = {id(kept[i].tb_frame): run for i, run in folded.items() if i >= 0}
        alike_after = {id(kept[i].tb_frame): (kept[i], n) for i, n in left_out.items()}
        out: list[Any] = [_FoldedFrames(folded[-1])] if -1 in folded else []
        for record in records:
            out.append(record)
            place = id(record.frame) if record.frame is not None else None
            if place in run_after:
                out.append(_FoldedFrames(run_after[place]))
            if place in alike_after:
                out.append(_AlikeFrames(*alike_after[place]))
        return out

    def format_record(self, frame_info: Any) -> str:
        """One frame, or the line that stands for a folded run."""
        if isinstance(frame_info, _FoldedFrames | _AlikeFrames):
            return frame_info.text()
        if frame_info.lineno is None and frame_info.frame is not None:
            frame_info.lineno = frame_info.frame.f_code.co_firstlineno
        return super().format_record(frame_info)

    def _extract_tb(self, tb: TracebackType | None) -> Any:
        """The frames of the `Plain` mode."""
        if tb is None or self.switch.show_engine_frames:
            return super()._extract_tb(tb)
        return traceback.extract_tb(_chain(split_frames(tb)[0]))


def _user_debugger(stock: type, switch: PullbackTracebacks) -> type:
    """A debugger that starts at the user's frame, and passes over the engine's going up and down.

    Args:
        stock: the shell's own debugger class.
        switch: where it says so, engine frames are frames as any other.
    """

    class UserDebugger(stock):  # type: ignore[misc]
        def get_stack(self, f: Any, t: TracebackType | None) -> tuple[list[Any], int]:
            stack, index = super().get_stack(f, t)
            if t is None or switch.show_engine_frames:
                return stack, index
            in_traceback = {id(entry.tb_frame) for entry in _walk(t)}
            for i in range(index, -1, -1):
                frame = stack[i][0]
                if id(frame) not in in_traceback:
                    break
                if not source.is_engine_file(frame.f_code.co_filename):
                    return stack, i
            return stack, index

        def _hidden_predicate(self, frame: Any) -> bool:
            if super()._hidden_predicate(frame):
                return True
            is_engine = source.is_engine_file(frame.f_code.co_filename)
            return is_engine and frame is not self.curframe and not switch.show_engine_frames

    return UserDebugger


class _CellLabels:
    """How messages call the shell's cells: `Cell In[5]`, or None for another file."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell

    def __call__(self, filename: str) -> str | None:
        words = self.shell.compile.format_code_name(filename)
        return " ".join(words) if words else None


def install(shell: Any) -> PullbackTracebacks:
    """Fold engine frames in a shell's tracebacks; doing it twice changes nothing.

    Args:
        shell: an IPython shell, ours or a stock one.
    Returns:
        the switch, which `%config PullbackTracebacks` reaches.
    """
    current = shell.InteractiveTB
    if isinstance(current, FoldingTB):
        return current.switch
    switch = PullbackTracebacks(parent=shell)
    folding = FoldingTB(
        mode=current.mode,
        theme_name=current._theme_name,
        tb_offset=current.tb_offset,
        debugger_cls=_user_debugger(current.debugger_cls, switch),
        switch=switch,
    )
    folding.stock = current
    shell.InteractiveTB = folding
    source.client_folds_frames[0] = True
    source.label_resolvers.append(_CellLabels(shell))
    shell.configurables.append(switch)
    return switch


def uninstall(shell: Any) -> None:
    """Give a shell its own tracebacks back."""
    current = shell.InteractiveTB
    if isinstance(current, FoldingTB):
        shell.InteractiveTB = current.stock
        source.client_folds_frames[0] = False
        source.label_resolvers[:] = [
            resolver
            for resolver in source.label_resolvers
            if not (isinstance(resolver, _CellLabels) and resolver.shell is shell)
        ]
        shell.configurables.remove(current.switch)
