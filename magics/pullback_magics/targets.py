"""An expression such as `loss(w, b)` as a function of named inputs.

Builds on cells.py and options.py. Tested in tests/magics/test_targets.py.
"""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pullback.core import pytree
from pullback.core.aval import is_arraylike
from pullback.xla.array import Array
from pullback_magics.cell_sources import register_line
from pullback_magics.faults import MagicError
from pullback_magics.names import names_of
from pullback_magics.options import Line, parse_expression


@dataclass(frozen=True, slots=True)
class Target:
    """`fun(*values)` is what the expression computes; `names` are the inputs as written.

    Attributes:
        text: the expression as written.
        name: short, for titles: the called function's name or the expression.
        called: the function that the expression calls, if that is all it does.
        namespace: the user's names, for naming what the function captures.
    """

    text: str
    name: str
    fun: Callable[..., Any]
    names: tuple[str, ...]
    values: tuple[Any, ...]
    called: Callable[..., Any] | None = None
    namespace: dict[str, Any] = field(default_factory=dict, repr=False)


def has_arrays(value: Any) -> bool:
    """Whether a value is an array or a container with one in it."""
    if inspect.ismodule(value) or isinstance(value, type) or not has_leaves(value):
        return False
    return any(is_array(leaf) for leaf in pytree.tree_leaves(value))


def has_leaves(value: Any) -> bool:
    """Whether a value can be taken apart: not if a dict in it has keys without an order."""
    try:
        pytree.tree_leaves(value)
    except ValueError:
        return False
    return True


def is_array(leaf: Any) -> bool:
    """Whether a leaf is an array, rather than a Python number or something else."""
    return isinstance(leaf, Array | np.ndarray | np.generic)


def is_numeric(value: Any) -> bool:
    """Whether a value is an array, a number, or a container of nothing else, and has one."""
    leaves = pytree.tree_leaves(value) if has_leaves(value) else []
    return bool(leaves) and all(is_arraylike(leaf) for leaf in leaves)


def names_in(node: ast.expr, namespace: dict[str, Any]) -> list[str]:
    """The names that an expression reads, in the order of the text.

    Raises:
        NameError: one that is neither in the namespace nor built in.
    """
    loads = list(names_of(node)[0])
    for name in loads:
        if name not in namespace and not hasattr(builtins, name):
            raise NameError(name)
    return loads


def check_names(line: Line, node: ast.expr, namespace: dict[str, Any]) -> list[str]:
    """`names_in`, with a caret under a name that nobody knows."""
    try:
        return names_in(node, namespace)
    except NameError as e:
        name = str(e.args[0])
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id == name:
                at = line.start + len(line.expression.encode()[: part.col_offset].decode())
                raise MagicError(f"no name {name!r} here", line.full, at) from None
        raise line.fault(f"no name {name!r} here", name) from None


def is_call(node: ast.expr) -> bool:
    """Whether an expression is a call of a named function with positional arguments."""
    return has_arguments(node) and isinstance(node.func, ast.Name)  # type: ignore[attr-defined]


def has_arguments(node: ast.expr) -> bool:
    """Whether an expression is a call of anything with positional arguments."""
    return (
        isinstance(node, ast.Call)
        and bool(node.args)
        and not any(isinstance(a, ast.Starred) for a in node.args)
        and not any(k.arg is None for k in node.keywords)
    )


def _evaluator(
    line: Line, node: ast.expr, namespace: dict[str, Any], place: tuple[str, int]
) -> Callable[[dict[str, Any]], Any]:
    """Evaluates a part of the line's expression with some names replaced.

    Args:
        place: the file name and number of the line.
    """
    filename, number = place
    # Columns are moved to where the expression stands in the line, so that carets are right.
    node = copy.deepcopy(node)
    for part in ast.walk(node):
        if isinstance(part, ast.expr | ast.keyword | ast.arg):
            part.col_offset += line.start
            part.end_col_offset = (part.end_col_offset or 0) + line.start
    ast.increment_lineno(node, number - 1)
    code = compile(ast.Expression(node), filename, "eval", dont_inherit=True)
    return lambda replaced: eval(code, {**namespace, **replaced} if replaced else namespace)


def _place(slot: Any) -> str:
    """The name that stands for an argument in a call."""
    return f"__pullback_argument_{slot}"


def _placeholder(slot: Any, node: ast.expr) -> ast.expr:
    return ast.copy_location(ast.Name(_place(slot), ast.Load()), node)


def target_of_call(line: Line, node: ast.Call, namespace: dict[str, Any], shell: Any) -> Target:
    """A call as a function of its arguments; those that hold no numbers stay as they are."""
    place = register_line(shell, line.full)

    def value_of(part: ast.expr) -> Any:
        return _evaluator(line, part, namespace, place)({})

    texts = [
        ast.get_source_segment(line.expression, a) or f"argument {i}"
        for i, a in enumerate(node.args)
    ]
    called = value_of(node.func)
    positional = [value_of(a) for a in node.args]
    named = {k.arg: value_of(k.value) for k in node.keywords if k.arg is not None}
    slots: list[tuple[str, Any]] = [
        (text, i) for i, text in enumerate(texts) if is_numeric(positional[i])
    ]
    slots += [(key, key) for key, value in named.items() if is_numeric(value)]
    # The call itself stays code of the user's, with placeholders for the arguments.
    call = copy.deepcopy(node)
    call.args = [_placeholder(i, a) for i, a in enumerate(call.args)]
    for keyword in call.keywords:
        keyword.value = _placeholder(keyword.arg, keyword.value)
    evaluate = _evaluator(line, call, namespace, place)

    def fun(*values: Any) -> Any:
        given = {_place(i): value for i, value in enumerate(positional)}
        given |= {_place(key): value for key, value in named.items()}
        given |= {_place(s): value for (_, s), value in zip(slots, values, strict=True)}
        return evaluate(given)

    values = [positional[s] if isinstance(s, int) else named[s] for _, s in slots]
    name = ast.get_source_segment(line.expression, node.func) or "function"
    fun.__name__ = name if name.isidentifier() else "function"
    plain = called if not named and len(slots) == len(positional) else None
    return Target(
        line.expression, name, fun, tuple(n for n, _ in slots), tuple(values), plain, namespace
    )


def target_of_names(
    line: Line, node: ast.expr, names: Sequence[str], namespace: dict[str, Any], shell: Any
) -> Target:
    """An expression as a function of some of the names in it."""
    evaluate = _evaluator(line, node, namespace, register_line(shell, line.full))

    def fun(*values: Any) -> Any:
        return evaluate(dict(zip(names, values, strict=True)))

    fun.__name__ = "expression"
    values = tuple(namespace[n] for n in names)
    return Target(line.expression, line.expression, fun, tuple(names), values, None, namespace)


def target_of(line: Line, namespace: dict[str, Any], shell: Any) -> Target:
    """The expression of a line as a function of its arguments, or of the arrays that it names."""
    node = parse_expression(line)
    names = check_names(line, node, namespace)
    if is_call(node):
        return target_of_call(line, node, namespace, shell)  # type: ignore[arg-type]
    return target_of_names(
        line,
        node,
        [n for n in names if n in namespace and has_arrays(namespace[n])],
        namespace,
        shell,
    )


def leaf_names(names: Sequence[str], values: Sequence[Any]) -> list[str]:
    """A name for each leaf of the values: `params['w']` within `params`."""
    out = []
    for name, value in zip(names, values, strict=True):
        paths, _ = pytree.tree_flatten_with_path(value)
        out += [f"{name}{path_text(path)}" for path, _ in paths]
    return out


def path_text(path: Sequence[Any]) -> str:
    """A key path as written after a name: `['w'].bias`; plain numbers where a node has no keys."""
    return "".join(
        f"[{key.key}]" if isinstance(key, pytree.FlattenedIndexKey) else str(key) for key in path
    )


def names_of_values(values: Sequence[Any], namespace: dict[str, Any]) -> list[str]:
    """The user's name of each captured array; empty for what has none."""
    known = {id(v): n for n, v in namespace.items() if is_array(v) and not n.startswith("_")}
    return [known.get(id(value), "") for value in values]
