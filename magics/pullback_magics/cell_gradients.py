"""The gradient of a cell's last expression with respect to names that the cell reads.

Builds on cells.py and gradients.py. Tested in tests/magics/test_grad.py.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from pullback.api.autodiff import value_and_grad
from pullback.core import pytree
from pullback_magics.cells import LAST, Cell, cell_function, settle, shared_cells
from pullback_magics.choices import not_a_number
from pullback_magics.gradients import Gradient
from pullback_magics.leaks import traced_cells
from pullback_magics.targets import Target, is_numeric


def check_read(
    cell: Cell, name: str, namespace: dict[str, Any], fault: Callable[[str, str], Exception]
) -> None:
    """Raise if a cell cannot be differentiated by a name: it does not read it, or it is not there.

    Args:
        fault: makes the error, from a message and the word at fault.
    """
    if name not in cell.reads:
        reads = [n for n in cell.reads if is_numeric(namespace.get(n))]
        listed = ", ".join(reads) or "none"
        raise fault(f"the cell reads no name {name!r}; it reads {listed}", name)
    if name not in namespace:
        raise fault(f"no name {name!r} here", name)


def cell_gradient(
    cell: Cell, asked: Sequence[str], filename: str, namespace: dict[str, Any]
) -> tuple[Gradient, dict[str, Any], Target]:
    """Run a cell and differentiate its last expression.

    Args:
        cell: the cell.
        asked: the names to differentiate by; each is among the names that the cell reads.
        filename: what its code is compiled under.
        namespace: where names are read from.

    Returns:
        The gradient, the names that the cell bound, and the cell as a function of `asked`.

    Raises:
        MagicError: the cell does not end with an expression, or that is no float scalar.
    """
    if cell.last is None:
        where = cell.tree.body[-1] if cell.tree.body else cell.tree
        message = "the cell must end with an expression: the number to differentiate"
        raise cell.fault(message, where)
    local = {*cell.binds, *cell.deletes}
    given = [n for n in cell.reads if n in local and n in namespace and n not in asked]
    function = cell_function(cell, [*asked, *given], filename, namespace)
    constants = {n: namespace[n] for n in given}
    shape: dict[str, Any] = {}

    def whole(*values: Any) -> tuple[Any, Any]:
        found = function(**dict(zip(asked, values, strict=True)), **constants)
        shape["cells"] = shared_cells(found)
        trouble = not_a_number(found[LAST])
        if trouble:
            raise cell.fault(f"the last expression {trouble}", cell.last)  # type: ignore[arg-type]
        flat, tree = pytree.tree_flatten({n: found[n] for n in cell.binds if n in found})
        arrays = [is_numeric(x) and not isinstance(x, bool | int | float | complex) for x in flat]
        inner = traced_cells(flat, shape["cells"].values())
        shape.update(tree=tree, arrays=arrays, flat=flat, inner=inner)
        kept = [x for x, a in zip(flat, arrays, strict=True) if a]
        return found[LAST], [*kept, *(c.cell_contents for c in inner)]

    def only(*values: Any) -> Any:
        return whole(*values)[0]

    values = tuple(namespace[n] for n in asked)
    numbers = tuple(range(len(asked)))
    (value, aux), grads = value_and_grad(whole, argnums=numbers, has_aux=True)(*values)
    kept = iter(aux)
    pairs = zip(shape.pop("flat"), shape["arrays"], strict=True)
    bound = pytree.tree_unflatten(shape["tree"], [next(kept) if a else x for x, a in pairs])
    for variable in shape["inner"]:
        variable.cell_contents = next(kept)
    settle(shape["cells"], bound, namespace)
    label = expression_text(cell)
    target = Target(label, "cell", only, tuple(asked), values, None, namespace)
    return Gradient(label, tuple(asked), value, tuple(grads)), bound, target


def bind(cell: Cell, bound: dict[str, Any], namespace: dict[str, Any]) -> None:
    """Bind what a cell bound in the user's namespace, and delete what it deleted."""
    namespace.update(bound)
    for name in cell.deletes:
        if name not in bound:
            namespace.pop(name, None)


def expression_text(cell: Cell) -> str:
    """The last expression as written, on one line."""
    text = ast.get_source_segment(cell.source, cell.last) if cell.last is not None else None
    return " ".join((text or "the cell").split())
