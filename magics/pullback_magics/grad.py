"""`%grad` and `%%grad`: gradients of an expression or of a cell, with the tape on request.

Builds on gradients.py and cells.py. Tested in tests/magics/test_grad.py.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
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

from pullback.api.autodiff import value_and_grad
from pullback.core import pytree
from pullback_magics.cells import (
    LAST,
    cell_function,
    lines_before,
    parse_cell,
    raw_cell,
    register_source,
)
from pullback_magics.gradients import (
    Gradient,
    check_inexact,
    choose,
    gradient,
    not_a_number,
    tape,
)
from pullback_magics.options import Line, name_list, parse_line
from pullback_magics.output import say, show
from pullback_magics.targets import Target, is_numeric


@magics_class
class GradMagics(Magics):
    """`%grad` and `%%grad`."""

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

    @magic_arguments()
    @argument("--wrt", metavar="NAMES", required=True, help="names to differentiate by: w,b")
    @argument("-o", "--output", metavar="NAME", help="bind the gradient to this name")
    @argument("--value", action="store_true", help="give (value, gradient)")
    @argument("--tape", action="store_true", help="show each equation's value and cotangent")
    @output_can_be_silenced
    @cell_magic("grad")
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
        found, bound, target = run_grad_cell(self.shell, parsed, line, cell)
        self.shell.user_ns.update(bound)
        options = parsed.options
        say("\n".join(found.lines(options.value)))
        if options.tape:
            show(tape(target, range(len(found.wrt))))
        result = found.result(options.value)
        if options.output:
            self.shell.user_ns[options.output] = result
            return None
        return result


def run_grad_cell(
    shell: Any, line: Line, text: str, body: str
) -> tuple[Gradient, dict[str, Any], Target]:
    """The gradient of a cell, the names that it bound, and the cell as a target."""
    namespace = shell.user_ns
    source = raw_cell(shell, "%%grad", text, body)
    cell = parse_cell(source, body)
    if cell.last is None:
        if not cell.tree.body:
            raise line.fault("the cell is empty")
        raise cell.fault(
            "the cell must end with an expression: the number to differentiate", cell.tree.body[-1]
        )
    asked = name_list(line.options.wrt)
    for name in asked:
        if name not in cell.reads:
            reads = [n for n in cell.reads if is_numeric(namespace.get(n))]
            raise line.fault(
                f"the cell reads no name {name!r}; it reads {', '.join(reads) or 'none'}", name
            )
        if name not in namespace:
            raise line.fault(f"no name {name!r} here", name)
        check_inexact(line, name, namespace[name])
    if line.options.output and not line.options.output.isidentifier():
        raise line.fault(f"{line.options.output!r} is no name to bind", line.options.output)
    filename = register_source(shell, source)
    given = [n for n in cell.reads if n in cell.binds and n in namespace and n not in asked]
    function = cell_function(cell, [*asked, *given], filename, namespace)
    constants = {n: namespace[n] for n in given}
    others: dict[str, Any] = {}

    def whole(*values: Any) -> tuple[Any, Any]:
        found = function(**dict(zip(asked, values, strict=True)), **constants)
        trouble = not_a_number(found[LAST])
        if trouble:
            raise cell.fault(f"the last expression {trouble}", cell.last)
        flat, tree = pytree.tree_flatten({n: found[n] for n in cell.binds if n in found})
        arrays = [is_numeric(x) for x in flat]
        others["spec"] = (tree, arrays, flat)
        return found[LAST], [x for x, a in zip(flat, arrays, strict=True) if a]

    values = tuple(namespace[n] for n in asked)
    numbers = tuple(range(len(asked)))
    (value, aux), grads = value_and_grad(whole, argnums=numbers, has_aux=True)(*values)
    tree, arrays, flat = others.pop("spec")
    kept = iter(aux)
    bound = pytree.tree_unflatten(
        tree, [next(kept) if a else x for x, a in zip(flat, arrays, strict=True)]
    )
    text = ast.get_source_segment("\n" * lines_before(source, body) + body, cell.last)
    label = " ".join((text or "the cell").split())
    only: Callable[..., Any] = lambda *values: whole(*values)[0]
    target = Target(label, "cell", only, tuple(asked), values)
    return Gradient(label, tuple(asked), value, tuple(grads)), bound, target
