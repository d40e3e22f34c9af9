"""Which names statements read and bind, in order of execution.

Tested in tests/magics/test_cells.py.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from functools import partial

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Names:
    """Walks statements in order; knows which names are surely bound so far."""

    def __init__(self) -> None:
        self.reads: dict[str, None] = {}
        self.binds: dict[str, None] = {}
        self.sure: set[str] = set()

    def read(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.sure:
                self.reads.setdefault(name)

    def bind(self, name: str) -> None:
        self.binds.setdefault(name)
        self.sure.add(name)

    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Statements one after the other."""
        for statement in statements:
            self.statement(statement)

    def branches(self, blocks: Sequence[Callable[[], None]], *, exhaustive: bool) -> None:
        """Blocks of which one runs; what all of them bind is surely bound afterwards."""
        before = set(self.sure)
        ends = [] if exhaustive else [before]
        for block in blocks:
            self.sure = set(before)
            block()
            ends.append(self.sure)
        self.sure = set.intersection(*ends) if ends else before

    def statement(self, node: ast.stmt) -> None:
        """One statement."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for part in [*node.decorator_list, *_defaults(node)]:
                self.expression(part)
            self.bind(node.name)  # the body runs later, and may call the function itself
            self.expression(node)
        elif isinstance(node, ast.ClassDef):
            self.expression(node)
            self.bind(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                self.bind(alias.asname or alias.name.partition(".")[0])
        elif isinstance(node, ast.Assign):
            self.expression(node.value)
            for target in node.targets:
                self.target(target)
        elif isinstance(node, ast.AugAssign):
            self.read(_loads_of_target(node.target))
            self.expression(node.value)
            self.target(node.target)
        elif isinstance(node, ast.AnnAssign):
            self.expression(node.annotation)
            if node.value is not None:
                self.expression(node.value)
                self.target(node.target)
        elif isinstance(node, ast.If):
            self.expression(node.test)
            blocks = [lambda: self.block(node.body), lambda: self.block(node.orelse)]
            self.branches(blocks, exhaustive=True)
        elif isinstance(node, ast.For):
            self.expression(node.iter)
            self.branches([lambda: self.loop(node)], exhaustive=False)
            self.branches([lambda: self.block(node.orelse)], exhaustive=False)
        elif isinstance(node, ast.While):
            self.expression(node.test)
            self.branches([lambda: self.block(node.body)], exhaustive=False)
            self.branches([lambda: self.block(node.orelse)], exhaustive=False)
        elif isinstance(node, ast.With):
            for item in node.items:
                self.expression(item.context_expr)
                if item.optional_vars is not None:
                    self.target(item.optional_vars)
            self.block(node.body)
        elif isinstance(node, ast.Try | ast.TryStar):
            self.branches([lambda: self.block(node.body)], exhaustive=False)
            for handler in node.handlers:
                self.branches([partial(self.handler, handler)], exhaustive=False)
            self.branches([lambda: self.block(node.orelse)], exhaustive=False)
            self.block(node.finalbody)
        elif isinstance(node, ast.Match):
            self.expression(node.subject)
            for case in node.cases:
                self.branches([partial(self.case, case)], exhaustive=False)
        else:
            self.expression(node)

    def handler(self, node: ast.ExceptHandler) -> None:
        """One except clause; its name is gone after it."""
        if node.type is not None:
            self.expression(node.type)
        if node.name is not None:
            self.sure.add(node.name)
        self.block(node.body)

    def loop(self, node: ast.For) -> None:
        """One pass of a for loop."""
        self.target(node.target)
        self.block(node.body)

    def case(self, node: ast.match_case) -> None:
        """One case of a match."""
        for part in ast.walk(node.pattern):
            name = getattr(part, "name", None) or getattr(part, "rest", None)
            if isinstance(name, str):
                self.bind(name)
        self.expression(node.pattern)
        if node.guard is not None:
            self.expression(node.guard)
        self.block(node.body)

    def target(self, node: ast.expr) -> None:
        """What an assignment binds: names; items and attributes of names are read."""
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                if isinstance(part.ctx, ast.Store):
                    self.bind(part.id)
                else:
                    self.read([part.id])

    def expression(self, node: ast.AST) -> None:
        """Names that an expression (or definition) reads, and binds with `:=`."""
        loads, stores = names_of(node)
        self.read(loads)
        for name in stores:
            self.bind(name)


def _loads_of_target(node: ast.expr) -> list[str]:
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]


def names_of(node: ast.AST) -> tuple[dict[str, None], dict[str, None]]:
    """Names that a node reads from outside, and those it binds outside (by `:=`)."""
    loads: dict[str, None] = {}
    stores: dict[str, None] = {}

    def visit(current: ast.AST) -> None:
        if isinstance(current, ast.Name):
            (loads if isinstance(current.ctx, ast.Load | ast.Del) else stores).setdefault(
                current.id
            )
        elif isinstance(current, SCOPES):
            loads.update(_free(current))
        elif isinstance(current, COMPREHENSIONS):
            loads.update(_free(current))
            for part in ast.walk(current):
                if isinstance(part, ast.NamedExpr):
                    stores.setdefault(part.target.id)
        else:
            for child in ast.iter_child_nodes(current):
                visit(child)

    visit(node)
    return loads, stores


def _free(scope: ast.AST) -> dict[str, None]:
    """Names that a function, class or comprehension reads from outside."""
    outside: dict[str, None] = {}
    inside_loads: dict[str, None] = {}
    own: set[str] = set()
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        for part in [*scope.decorator_list, *_defaults(scope)]:
            outside.update(names_of(part)[0])
        body: list[ast.AST] = list(scope.body)
    elif isinstance(scope, ast.Lambda):
        for part in _defaults(scope):
            outside.update(names_of(part)[0])
        body = [scope.body]
    else:
        body = list(ast.iter_child_nodes(scope))
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        arguments = scope.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
        own.update(a.arg for a in every)
    shared: set[str] = set()
    for statement in body:
        for node in _same_scope(statement):
            if isinstance(node, ast.Global | ast.Nonlocal):
                shared.update(node.names)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                own.add(node.name)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                own.update(a.asname or a.name.partition(".")[0] for a in node.names)
            elif isinstance(node, ast.ExceptHandler) and node.name:
                own.add(node.name)
            if isinstance(node, SCOPES + COMPREHENSIONS):
                inside_loads.update(_free(node))
            elif isinstance(node, ast.Name):
                if isinstance(node.ctx, ast.Store):
                    own.add(node.id)
                else:
                    inside_loads.setdefault(node.id)
    outside.update({n: None for n in inside_loads if n not in own or n in shared})
    return outside


def _defaults(scope: ast.AST) -> list[ast.AST]:
    if isinstance(scope, ast.ClassDef):
        return [*scope.bases, *[k.value for k in scope.keywords]]
    arguments = scope.args  # type: ignore[attr-defined]
    annotated = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    found = [*arguments.defaults, *[d for d in arguments.kw_defaults if d is not None]]
    found += [a.annotation for a in annotated if a.annotation is not None]
    returns = getattr(scope, "returns", None)
    return [*found, returns] if returns is not None else found


def _same_scope(node: ast.AST) -> Iterable[ast.AST]:
    """The node and what is below it, not inside nested scopes."""
    yield node
    if not isinstance(node, SCOPES + COMPREHENSIONS):
        for child in ast.iter_child_nodes(node):
            yield from _same_scope(child)
