"""`%timing`: the time of each stage, the first call against the later ones, eager against jitted.

Builds on views/timeline.py. Tested in tests/magics/test_timing.py.
"""

from __future__ import annotations

from typing import Any

from IPython.core.magic import (
    Magics,
    line_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
    output_can_be_silenced,
)
from IPython.core.magic_arguments import argument, magic_arguments

from pullback.views.timeline import measure, view_timing
from pullback_magics.options import parse_line
from pullback_magics.output import is_deterministic
from pullback_magics.targets import Target, target_of


def timing_view(target: Target, repeats: int | None = None) -> Any:
    """The times of a target as a bundle."""
    fun = target.called or target.fun
    return view_timing(measure(fun, target.values, target.text, repeats), is_deterministic())


@magics_class
class TimingMagics(Magics):
    """`%timing`."""

    shell: Any

    @magic_arguments()
    @argument("expression", nargs="*", help="a call or expression of named arrays")
    @argument("--repeats", type=int, metavar="N", help="calls to time each way (default: 5 to 200)")
    @no_var_expand
    @needs_local_scope
    @output_can_be_silenced
    @line_magic
    def timing(self, line: str, local_ns: dict[str, Any] | None = None) -> Any:
        """Show where the time of an expression goes; every time waits for the device.

        Trace, lower, compile and first run of the jitted expression, then later calls, jitted and
        operation by operation: median and quartiles.

        Example::

            %timing f(x)

        The same from Python: ``pullback.magics.timing(f, x)``.
        """
        parsed = parse_line(TimingMagics.timing, "%timing", line)
        repeats = parsed.options.repeats
        if repeats is not None and repeats < 1:
            raise parsed.fault("--repeats must be at least 1", "--repeats")
        namespace = {**self.shell.user_ns, **(local_ns or {})}
        return timing_view(target_of(parsed, namespace, self.shell), repeats)
