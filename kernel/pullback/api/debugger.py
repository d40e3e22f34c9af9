"""The prompt of `debug.breakpoint`: looks at the frames of a traced program with their real values.

The commands are those of pdb, as far as a program that was compiled can serve them: there is no
stepping, and values are looked at, not changed. Builds on core/source.py.
Tested in tests/api/test_breakpoint.py.
"""

from __future__ import annotations

import bdb
import cmd
import linecache
import pprint
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

from pullback.core.source import file_label

_AROUND = 5  # lines shown before and after the current one


@dataclass(frozen=True, slots=True)
class DebuggerFrame:
    """A frame of the user's as it was when the program was traced.

    Attributes:
        filename: the file, or the name that a cell was compiled under.
        lineno: the line that was running.
        function: the name of the function.
        locals: its variables, traced ones with the values of this run.
        globals: the variables of its module or notebook, as they are now.
    """

    filename: str
    lineno: int
    function: str
    locals: dict[str, Any]
    globals: dict[str, Any]

    def describe(self) -> str:
        """Where it is: `Cell In[5], line 3, in f`."""
        return f"{file_label(self.filename)}, line {self.lineno}, in {self.function}"

    def source(self, around: int) -> list[str]:
        """The lines around the current one, which is marked."""
        lines = linecache.getlines(self.filename)
        first = max(self.lineno - around, 1)
        return [
            f"{n:4} {'->' if n == self.lineno else '  '} {lines[n - 1].rstrip()}"
            for n in range(first, min(self.lineno + around, len(lines)) + 1)
        ]


class Debugger(cmd.Cmd):
    """The loop that reads commands: p, pp, up, down, list, where, args, continue, quit."""

    prompt = "(jdb) "
    doc_header = "Commands (help <command>):"

    def __init__(
        self,
        frames: Sequence[DebuggerFrame],
        stdin: IO[str] | None = None,
        stdout: IO[str] | None = None,
    ) -> None:
        super().__init__(completekey="", stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None
        self.frames = frames
        self.at = 0

    def run(self) -> None:
        """Read commands until the program is to go on.

        Raises:
            RuntimeError: there is nobody to ask.
            bdb.BdbQuit: the program is to end.
        """
        self._say("Stopped at debug.breakpoint (h: help, c: continue, q: quit)")
        self._show_context(2)
        try:
            self.cmdloop()
        except (EOFError, OSError, NotImplementedError) as error:
            # What input() raises: at the end of stdin, under pytest, in a notebook run without a user.
            raise RuntimeError(
                f"debug.breakpoint: no command can be read here ({type(error).__name__}: {error}).\n"
                "Instead: run the cell in a front end with an input line; or debug.print(...); or "
                "give the commands, debug.breakpoint(stdin=io.StringIO('p x\\nc\\n'))."
            ) from None

    def _say(self, text: str) -> None:
        print(text, file=self.stdout)

    def _show_context(self, around: int) -> None:
        if not self.frames:
            self._say("There is no frame of yours here (filter_frames=False shows the engine's).")
            return
        frame = self.frames[self.at]
        self._say("\n".join([f"> {frame.describe()}", *frame.source(around)]))

    def _run(self, text: str, show: Any = None) -> None:
        """Evaluate an expression, or run a statement, whose variables the frame then has."""
        frame = self.frames[self.at] if self.frames else DebuggerFrame("", 0, "", {}, {})
        before = {**frame.globals, **frame.locals}
        scope = dict(before)
        try:
            try:
                code = compile(text, "<jdb>", "eval")
            except SyntaxError:
                exec(compile(text, "<jdb>", "exec"), scope)
                if "__builtins__" not in before:
                    del scope["__builtins__"]
                new = {k: v for k, v in scope.items() if k not in before or before[k] is not v}
                frame.locals.update(new)
                return
            self._say((show or repr)(eval(code, scope)))
        except Exception as error:
            self._say(f"*** {type(error).__name__}: {error}")

    def get_names(self) -> list[str]:
        """The methods among which `help` looks for commands."""
        return [name for name in super().get_names() if name != "do_EOF"]

    # Commands; their docstrings are what `help` prints.

    def default(self, line: str) -> None:
        """Any other line is an expression or a statement."""
        self._run(line)

    def emptyline(self) -> bool:
        """Do nothing (cmd would repeat the last command)."""
        return False

    def do_p(self, arg: str) -> None:
        """p expression: its value, in the current frame."""
        self._run(arg)

    def do_pp(self, arg: str) -> None:
        """pp expression: its value, printed over several lines."""
        self._run(arg, pprint.pformat)

    def do_args(self, arg: str) -> None:
        """a(rgs): the variables of the current frame and their values."""
        names = self.frames[self.at].locals if self.frames else {}
        for name, value in names.items():
            self._say(f"{name} = {value!r}")

    do_a = do_args

    def do_up(self, arg: str) -> None:
        """u(p): the frame that called the current one."""
        if self.at + 1 >= len(self.frames):
            self._say("*** Oldest frame")
        else:
            self.at += 1
            self._show_context(2)

    do_u = do_up

    def do_down(self, arg: str) -> None:
        """d(own): the frame that the current one called."""
        if self.at == 0:
            self._say("*** Newest frame")
        else:
            self.at -= 1
            self._show_context(2)

    do_d = do_down

    def do_list(self, arg: str) -> None:
        """l(ist): the source around the current line."""
        self._show_context(_AROUND)

    do_l = do_list

    def do_where(self, arg: str) -> None:
        """w(here), bt: all frames, the newest last."""
        for i in reversed(range(len(self.frames))):
            mark = ">" if i == self.at else " "
            self._say(f"{mark} {self.frames[i].describe()}")

    do_w = do_bt = do_where

    def do_continue(self, arg: str) -> bool:
        """c(ont(inue)): let the program go on."""
        return True

    do_c = do_cont = do_continue

    def do_quit(self, arg: str) -> None:
        """q(uit), exit: end the program with an error."""
        raise bdb.BdbQuit

    do_q = do_exit = do_quit

    def do_EOF(self, arg: str) -> None:  # noqa: N802  (cmd's name)
        """End of the commands: end the program."""
        raise EOFError("end of input") if self.use_rawinput else bdb.BdbQuit

    do_h = cmd.Cmd.do_help


# Programs on several devices may stop at once: one after the other is asked.
_one_at_a_time = threading.Lock()


def run_debugger(
    frames: Sequence[DebuggerFrame], stdin: IO[str] | None = None, stdout: IO[str] | None = None
) -> None:
    """Ask for commands until the program is to go on."""
    with _one_at_a_time:
        Debugger(frames, stdin, stdout).run()
