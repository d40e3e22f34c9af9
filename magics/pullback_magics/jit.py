"""`%%jit`: a cell compiled as one XLA program, or its functions jitted.

Builds on cells.py, programs.py, captured.py. Tested in tests/magics/test_jit.py.
"""

from __future__ import annotations

import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from IPython.core.magic import Magics, cell_magic, magics_class, output_can_be_silenced
from IPython.core.magic_arguments import argument, magic_arguments

from pullback.api.jit import jit
from pullback.views.graph import count_equations
from pullback.views.program_view import view_program
from pullback.views.text import count_text
from pullback.xla import client
from pullback_magics.captured import Watch
from pullback_magics.cell_sources import raw_cell, register_source
from pullback_magics.cells import LAST, Cell, parse_cell
from pullback_magics.leaks import leak_note
from pullback_magics.options import Line, name_list, parse_line
from pullback_magics.output import is_deterministic, say, show, stage_times
from pullback_magics.programs import CellProgram, Run
from pullback_magics.targets import names_of_values

_MAX_PROGRAMS = 64


@magics_class
class JitMagics(Magics):
    """`%%jit`, with the programs of the cells that ran and a watch on captured globals."""

    shell: Any

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.programs: OrderedDict[tuple[Any, ...], CellProgram] = OrderedDict()
        self.watch = Watch(shell.user_ns, say)

    @magic_arguments("%jit")
    @argument("--static", metavar="NAMES", help="names to compile in as constants: n,axis")
    @argument("--donate", metavar="NAMES", help="inputs whose memory may be reused: w,b")
    @argument("--device", metavar="D", help="where to run: cpu:0, or a number")
    @argument("--graph", action="store_true", help="draw the traced program")
    @argument("--quiet", action="store_true", help="no report")
    @output_can_be_silenced
    @cell_magic
    def jit(self, line: str, cell: str) -> Any:
        """Compile the cell with XLA.

        A cell that only defines things binds each top-level function jitted. Any other cell is
        compiled as one program: its inputs are the arrays (and containers of arrays) that it
        reads, its results the names that it binds and the value of its last expression. Other
        names are constants: when one changes, the next run traces again and says why.

        Example::

            %%jit
            h = jnp.tanh(x @ w)
            h.sum()

        The same from Python: ``pullback.magics.jit_cell(source, namespace)``.
        """
        parsed = parse_line(JitMagics.jit, "%%jit", line)
        if parsed.expression:
            raise parsed.fault("%%jit takes options only; the program is the cell below it")
        source = raw_cell(self.shell, "%%jit", line, cell)
        taken = parse_cell(source, cell)
        if not taken.tree.body:
            raise parsed.fault("the cell is empty")
        filename = register_source(self.shell, source)
        if taken.definitions is not None:
            return self._define(taken, filename, parsed)
        return self._run(taken, filename, parsed)

    # ------------------------------------------------------------------ definitions

    def _define(self, cell: Cell, filename: str, line: Line) -> None:
        options = line.options
        namespace = self.shell.user_ns
        code = compile(cell.tree, filename, "exec", dont_inherit=True)
        exec(code, namespace)
        names = cell.definitions or ()
        static, donate = name_list(options.static), name_list(options.donate)
        _check_arguments(names, [*static, *donate], namespace, line)
        device = find_device(options.device, line)
        for name in names:
            namespace[name] = self._jitted(name, namespace[name], static, donate, device)
        if options.quiet:
            return
        if not names:
            what = "the cell defines no function; there is nothing to compile"
        elif len(names) == 1:
            what = f"{names[0]} is jitted: it is traced and compiled at its first call"
        else:
            what = f"{_listed(names)} are jitted: each is traced and compiled at its first call"
        say(f"%%jit: {what}")
        if options.graph and names:
            say(f"%%jit: there is no call to draw yet; try %graph {names[0]}(...)")

    def _jitted(
        self,
        name: str,
        plain: Callable[..., Any],
        static: list[str],
        donate: list[str],
        device: Any,
    ) -> Any:
        accepted = inspect.signature(plain).parameters

        @functools.wraps(plain)
        def traced(*args: Any, **kwargs: Any) -> Any:
            self.watch.traced(name, plain)
            return plain(*args, **kwargs)

        result = jit(
            traced,
            static_argnames=[n for n in static if n in accepted] or None,
            donate_argnames=[n for n in donate if n in accepted] or None,
            device=device,
        )
        self.watch.add(name, result, plain)
        return result

    # ------------------------------------------------------------------ programs

    def _run(self, cell: Cell, filename: str, line: Line) -> Any:
        options = line.options
        static, donate = name_list(options.static), name_list(options.donate)
        for name in [*static, *donate]:
            if name not in cell.reads:
                raise line.fault(f"the cell reads no name {name!r}", name)
        device = find_device(options.device, line)
        key = (cell.source, tuple(static), tuple(donate), options.device)
        program = self.programs.setdefault(key, CellProgram(cell))
        self.programs.move_to_end(key)
        while len(self.programs) > _MAX_PROGRAMS:
            self.programs.popitem(last=False)
        run = program.run(self.shell.user_ns, filename, static, donate, device)
        last = run.bind(self.shell.user_ns)
        if not options.quiet:
            say(report(run))
        if options.graph:
            show(draw_run(run, self.shell.user_ns))
        return last


def _check_arguments(
    functions: Sequence[str], names: Sequence[str], namespace: dict[str, Any], line: Line
) -> None:
    """Raise for an option's name that is no argument of any function."""
    every = [p for f in functions for p in inspect.signature(namespace[f]).parameters]
    for name in names:
        if name not in every:
            raise line.fault(
                f"{name!r} is no argument of {_listed(functions)}: "
                f"there are {', '.join(dict.fromkeys(every)) or 'none'}",
                name,
            )


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "the cell's functions"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def find_device(text: str | None, line: Line) -> Any:
    """The device that an option names (`cpu:1`, `1`); None if there is no option."""
    if text is None:
        return None
    platform, _, number = text.rpartition(":")
    try:
        if not number.isdigit():
            return client.devices(number)[0]
        return client.devices(platform or None)[int(number)]
    except (RuntimeError, IndexError):
        known = ", ".join(f"{d.platform}:{d.id}" for d in client.devices())
        raise line.fault(f"no device {text!r}; there are: {known}", text) from None


def report(run: Run) -> str:
    """What happened, in two or three lines."""
    version = run.version
    jaxpr = version.traced.jaxpr.jaxpr
    names = version.inputs.leaf_names()
    inputs = [f"{n}:{a.str_short()}" for n, a in zip(names, version.inputs.avals, strict=True)]
    bound = [n for n in run.values if n != LAST]
    bound += [f"{n} (deleted)" for n in run.gone]
    results = [*bound, *(["the last value"] if LAST in run.values else [])]
    lines = [
        f"%%jit: one program of {count_text(count_equations(jaxpr), 'equation')}; "
        f"inputs {_shortened(inputs)}; results {_shortened(results)}"
    ]
    lines.append(f"  cache {'hit' if run.hit else 'miss'}: {run.reason}")
    if not is_deterministic():
        lines.append(f"  {stage_times(run.seconds, version.source)} on {run.device}")
    if version.printed:
        if run.hit:
            lines.append("  the prints in the cell ran when it was traced, not now")
        else:
            lines.append(
                "  printing happened while tracing, so it shows types instead of values and is "
                "not repeated; use jax.debug.print for values"
            )
    if version.leaked:
        lines.append(f"  {leak_note(version.leaked)}")
    return "\n".join(lines)


def _shortened(items: Sequence[str], limit: int = 8) -> str:
    if not items:
        return "none"
    more = f", and {len(items) - limit} more" if len(items) > limit else ""
    return ", ".join(items[:limit]) + more


def draw_run(run: Run, namespace: dict[str, Any]) -> Any:
    """The traced program of a cell, drawn."""
    version = run.version
    closed = version.traced.jaxpr
    return view_program(
        closed.jaxpr,
        "cell",
        arg_names=version.inputs.leaf_names(),
        const_names=names_of_values(closed.consts, namespace),
    )
