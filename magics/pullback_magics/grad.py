"""`%grad` and `%%grad`: gradients of an expression or of a cell, with the tape on request.

Builds on gradients.py and cell_gradients.py. Tested in tests/magics/test_grad.py.
"""

from __future__ import annotations

from typing import Any

from IPython.core.magic import (
    Magics,
    cell_magic,
    line_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
    output_can_be_silenced,
)
from IPython.core.magic_arguments import argument, magic_arguments

from pullback_magics.cell_gradients import bind, cell_gradient, check_read
from pullback_magics.cell_sources import raw_cell, register_source
from pullback_magics.cells import parse_cell
from pullback_magics.choices import check_inexact, choose
from pullback_magics.gradients import gradient, tape
from pullback_magics.leaks import holders, leak_note
from pullback_magics.options import name_list, parse_line
from pullback_magics.output import say, show


@magics_class
class GradMagics(Magics):
    """`%grad` and `%%grad`."""

    shell: Any

    @magic_arguments()
    @argument("expression", nargs="*", help="a call or any scalar expression of named arrays")
    @argument("--wrt", metavar="WHAT", help="argument numbers or names: 0,1 or w,b (default: 0)")
    @argument("--value", action="store_true", help="give (value, gradient)")
    @argument("--tape", action="store_true", help="show each equation's value and cotangent")
    @no_var_expand
    @needs_local_scope
    @output_can_be_silenced
    @line_magic
    def grad(self, line: str, local_ns: dict[str, Any] | None = None) -> Any:
        """Evaluate an expression and its gradient; prints it with a label and returns the array.

        Example::

            %grad loss(w, b)                   # with respect to argument 0
            g = %grad loss(w, b) --wrt w,b     # a tuple of two
            %grad (x * y).sum() --wrt y --tape

        The same from Python: ``pullback.magics.grad(f, x, wrt=0)``.
        """
        parsed = parse_line(GradMagics.grad, "%grad", line)
        namespace = {**self.shell.user_ns, **(local_ns or {})}
        target, wrt = choose(parsed, namespace, self.shell)
        found = gradient(target, wrt)
        say("\n".join(found.lines(parsed.options.value)))
        if parsed.options.tape:
            show(tape(target, wrt))
        return found.result(parsed.options.value)

    @magic_arguments("%grad")
    @argument("--wrt", metavar="NAMES", required=True, help="names to differentiate by: w,b")
    @argument("-o", "--output", metavar="NAME", help="bind the gradient to this name")
    @argument("--value", action="store_true", help="give (value, gradient)")
    @argument("--tape", action="store_true", help="show each equation's value and cotangent")
    @output_can_be_silenced
    @cell_magic("grad")  # type: ignore[arg-type]
    def grad_cell(self, line: str, cell: str) -> Any:
        """Run the cell and differentiate its last expression, which must be a scalar.

        Names that the cell binds keep their values afterwards.

        Example::

            %%grad --wrt w,b -o g
            error = x @ w + b - y
            (error**2).mean()

        The same from Python: ``pullback.magics.grad_cell(source, namespace, wrt="w,b")``.
        """
        parsed = parse_line(GradMagics.grad_cell, "%%grad", line)
        if parsed.expression:
            raise parsed.fault("%%grad takes options only; what it differentiates is the cell")
        namespace = self.shell.user_ns
        taken = parse_cell(raw_cell(self.shell, "%%grad", line, cell), cell)
        asked = name_list(parsed.options.wrt)
        options = parsed.options
        for name in asked:
            check_read(taken, name, namespace, parsed.fault)
            check_inexact(parsed, name, namespace[name])
        if options.output and not options.output.isidentifier():
            raise parsed.fault(f"{options.output!r} is no name to bind", options.output)
        filename = register_source(self.shell, taken.source)
        found, bound, target = cell_gradient(taken, asked, filename, namespace)
        bind(taken, bound, namespace)
        say("\n".join(found.lines(options.value)))
        leaked = holders(taken.reads, list(bound.values()), namespace)
        if leaked:
            say(leak_note(leaked))
        if options.tape:
            show(tape(target, range(len(found.wrt))))
        result = found.result(options.value)
        if options.output:
            self.shell.user_ns[options.output] = result
            return None
        return result
