"""What a cell reads, binds and ends with, found in its syntax tree; and the cell as a function.

Builds on names.py and faults.py. Tested in tests/magics/test_cells.py.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import CellType
from typing import Any

from pullback_magics.faults import MagicError, from_syntax_error
from pullback_magics.names import SCOPES, Names

LAST = "__pullback_last__"
_LOCALS = "__pullback_locals__"
_SHARED = "__pullback_shared__"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell's body, taken apart.

    Attributes:
        source: the cell as the user sees it, the magic's line first.
        reads: names read before the cell itself has surely bound them, in order.
        binds: names that its statements bind, in order.
        last: the expression that the cell ends with.
        definitions: names of its top-level functions, if it only defines things; empty if these
            are classes alone.
        deletes: names that `del` takes away.
    """

    source: str
    tree: ast.Module
    reads: tuple[str, ...]
    binds: tuple[str, ...]
    last: ast.expr | None
    definitions: tuple[str, ...] | None
    deletes: tuple[str, ...] = ()

    def fault(self, message: str, node: ast.AST) -> MagicError:
        """An error with the caret under a part of the cell."""
        line = getattr(node, "lineno", 1)
        text = self.source.splitlines()[line - 1]
        column = len(text.encode()[: getattr(node, "col_offset", 0)].decode(errors="replace"))
        return MagicError(message, text, column, f"line {line}")

    def where(self, name: str) -> ast.AST:
        """The first place where a name stands."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name) and node.id == name:
                return node
        return self.tree


def parse_cell(source: str, body: str) -> Cell:
    """Take a cell apart.

    Args:
        source: the whole cell, magic line included.
        body: what stands after the magic's line.

    Raises:
        MagicError: a syntax error, or something that cannot stand in such a cell.
    """
    text = "\n" * lines_before(source, body) + body
    try:
        tree = ast.parse(text)
        compile(tree, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as e:
        raise from_syntax_error(e, source) from None
    names = Names()
    names.block(tree.body)
    last = tree.body[-1].value if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    definitions = None
    if tree.body and all(_only_defines(node) for node in tree.body):
        found = tuple(n.name for n in tree.body if isinstance(n, ast.FunctionDef))
        if found or any(isinstance(n, ast.ClassDef) for n in tree.body):
            definitions = found
    binds = tuple(names.binds)
    deletes = tuple(dict.fromkeys(deleted_names(tree)))
    cell = Cell(source, tree, tuple(names.reads), binds, last, definitions, deletes)
    _refuse(cell)
    return cell


def deleted_names(tree: ast.AST) -> Iterator[str]:
    """The names that `del` statements take away, outside functions and classes."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del):
            yield node.id
        elif not isinstance(node, SCOPES):
            yield from deleted_names(node)


def lines_before(source: str, body: str) -> int:
    """How many lines of a cell stand before its body."""
    return max(source.rstrip("\n").count("\n") - body.rstrip("\n").count("\n"), 0)


def _only_defines(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Assign | ast.AnnAssign):
        value = node.value
        return value is None or all(
            isinstance(
                n, ast.Constant | ast.Tuple | ast.List | ast.Load | ast.UnaryOp | ast.unaryop
            )
            for n in ast.walk(value)
        )
    return isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom)


def _refuse(cell: Cell) -> None:
    """Raise for what cannot stand at the top level of a cell that becomes a function."""

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
            raise cell.fault(
                "await cannot stand in this cell: it becomes one program, which runs to its end "
                "at once; await the value in a cell before this one",
                node,
            )
        if isinstance(node, ast.AsyncFunctionDef):
            raise cell.fault("an async function cannot be compiled or differentiated", node)
        if isinstance(node, ast.Global):
            raise cell.fault("global is not needed here: names bound in the cell survive", node)
        if isinstance(node, ast.ImportFrom) and any(a.name == "*" for a in node.names):
            raise cell.fault(
                "import * cannot stand in this cell: import the names, or put it in a "
                "cell of its own",
                node,
            )
        if not isinstance(node, SCOPES):
            for child in ast.iter_child_nodes(node):
                visit(child)

    for statement in cell.tree.body:
        visit(statement)


def cell_function(
    cell: Cell, params: Sequence[str], filename: str, namespace: dict[str, Any]
) -> Callable[..., dict[str, Any]]:
    """The cell as a function of some of the names that it reads.

    Returns:
        A function, called with `params` by name, that gives the cell's local names; under `LAST`
        the value of its last expression. `shared_cells` takes the variables that inner functions
        share with the cell out of it.
    """
    body = list(cell.tree.body)
    if cell.last is not None:
        target = ast.Name(LAST, ast.Store())
        body[-1] = ast.copy_location(
            ast.Assign([ast.copy_location(target, cell.last)], cell.last), body[-1]
        )
    end = body[-1].end_lineno or 1
    place = {"lineno": end, "end_lineno": end, "col_offset": 0, "end_col_offset": 0}
    call = ast.Call(ast.Name(_LOCALS, ast.Load()), [], [])
    result: ast.expr = call
    for _ in range(2):  # once to see which variables are shared, once to hand these out
        definition = _definition([*body, ast.Return(result, **place)], params, end)
        made: dict[str, Any] = {_LOCALS: builtins.locals}
        module = ast.fix_missing_locations(ast.Module([definition], []))
        exec(compile(module, filename, "exec", dont_inherit=True), namespace, made)
        function = made["cell"]
        shared = function.__code__.co_cellvars
        if not shared or result is not call:
            break
        names = ast.Tuple([ast.Name(name, ast.Load()) for name in shared], ast.Load())
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        result = ast.Dict([None, ast.Constant(_SHARED)], [call, ast.Lambda(nothing, names)])
    # Tracebacks and `inspect` take code of this name for a whole file's, which the cell is.
    function.__code__ = function.__code__.replace(co_name="<module>", co_qualname="<module>")
    return function


def _definition(body: list[ast.stmt], params: Sequence[str], end: int) -> ast.FunctionDef:
    arguments = ast.arguments(
        posonlyargs=[],
        args=[],
        kwonlyargs=[ast.arg(p) for p in (*params, _LOCALS)],
        kw_defaults=[*[None for _ in params], ast.Name(_LOCALS, ast.Load())],
        defaults=[],
    )
    definition = ast.FunctionDef(  # type: ignore[call-overload]
        name="cell",
        args=arguments,
        body=body,
        decorator_list=[],
        lineno=1,
        end_lineno=end,
        col_offset=0,
        end_col_offset=0,
    )
    if hasattr(ast, "TypeAlias"):  # Python 3.12 has type parameters
        definition.type_params = []
    return definition


def shared_cells(found: dict[str, Any]) -> dict[str, CellType]:
    """The variables that functions defined in a cell share with it, taken out of its result."""
    function = found.pop(_SHARED, None)
    if function is None:
        return {}
    return dict(zip(function.__code__.co_freevars, function.__closure__, strict=True))


def settle(cells: dict[str, CellType], *values: dict[str, Any]) -> None:
    """Give shared variables their values, in place of those that stood for them while tracing.

    Args:
        cells: the variables.
        values: where to find their values, the first that has one.
    """
    for name, cell in cells.items():
        for known in values:
            if name in known:
                cell.cell_contents = known[name]
                break
