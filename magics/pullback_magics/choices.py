"""What a magic's line differentiates, and with respect to what: `--wrt` and the checks of it.

Builds on targets.py and options.py. Tested in tests/magics/test_grad.py.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pullback.core import dtypes, pytree
from pullback.core.aval import is_arraylike, typeof
from pullback_magics.options import Line, name_list, parse_expression
from pullback_magics.targets import (
    Target,
    check_names,
    has_arguments,
    has_arrays,
    is_call,
    is_numeric,
    leaf_names,
    target_of_call,
    target_of_names,
)


def not_a_number(value: Any) -> str:
    """Why a result cannot be differentiated, in words; empty if it can."""
    leaves = pytree.tree_leaves(value)
    if len(leaves) != 1 or not is_arraylike(value):
        return f"is a {type(value).__name__}, not one number: only a float scalar has a gradient"
    aval = typeof(value)
    if aval.shape == () and dtypes.is_inexact(aval.dtype):
        if aval.dtype.kind == "c":
            return (
                f"is {aval.str_short()}, but only a real number has a gradient: take .real or abs()"
            )
        return ""
    hint = "reduce it, with .sum() or .mean()" if aval.shape else "compute in floating point"
    return f"is {aval.str_short()}, but only a float scalar has a gradient: {hint}"


def check_inexact(line: Line, name: str, value: Any) -> None:
    """Raise if a value has parts without a derivative."""
    for label, leaf in zip(leaf_names([name], [value]), pytree.tree_leaves(value), strict=True):
        if not is_arraylike(leaf):
            raise line.fault(f"{label} is no array or number but a {type(leaf).__name__}", name)
        aval = typeof(leaf)
        if not dtypes.is_inexact(aval.dtype):
            if name.isidentifier():
                instead = f"{name} = jnp.float32({name})"
            else:
                instead = f"{name}.0" if name.lstrip("-").isdigit() else f"jnp.float32({name})"
            raise line.fault(
                f"{label} is {aval.str_short()}, which has no derivative: make it floating point, "
                f"for example {instead}",
                name,
            )


def choose(line: Line, namespace: dict[str, Any], shell: Any) -> tuple[Target, list[int]]:
    """What `%grad` differentiates, and with respect to which of its inputs.

    Raises:
        MagicError: the options or the values do not allow it.
    """
    target, wrt = _choose(line, namespace, shell)
    for i in wrt:
        check_inexact(line, target.names[i], target.values[i])
    return with_checked_result(target, line, lambda result: result), wrt


def with_checked_result(target: Target, line: Line, number: Callable[[Any], Any]) -> Target:
    """A target that raises with a caret if its result has no gradient.

    Args:
        number: takes the number to differentiate out of the result.
    """

    def checked(*values: Any) -> Any:
        result = target.fun(*values)
        trouble = not_a_number(number(result))
        if trouble:
            raise line.fault(f"{target.text} {trouble}")
        return result

    checked.__name__ = target.fun.__name__
    return replace(target, fun=checked)


def _choose(line: Line, namespace: dict[str, Any], shell: Any) -> tuple[Target, list[int]]:
    node = parse_expression(line)
    names = check_names(line, node, namespace)
    asked = name_list(line.options.wrt)
    if all(part.lstrip("-").isdigit() for part in asked) and (is_call(node) or asked):
        if not has_arguments(node):
            raise line.fault(
                "--wrt with numbers needs a call such as f(x, y); name the arrays instead",
                line.options.wrt,
            )
        target = target_of_call(line, node, namespace, shell)  # type: ignore[arg-type]
        return target, [_position(line, node, target, part) for part in asked or ["0"]]
    if not asked:
        arrays = [n for n in names if n in namespace and _may_vary(namespace[n])]
        if not arrays and has_arguments(node):
            target = target_of_call(line, node, namespace, shell)  # type: ignore[arg-type]
            return target, [_position(line, node, target, "0")]
        if not arrays:
            raise line.fault("there is nothing to differentiate by: no array is named in it")
        if len(arrays) != 1:
            found = ",".join(arrays)
            numbers = " or argument numbers such as --wrt 0" if has_arguments(node) else ""
            raise line.fault(
                f"with respect to what? Say --wrt NAMES{numbers}; the arrays in it: {found}"
            )
        asked = arrays
    if is_call(node):
        by_argument = _argument_positions(node, asked, names, namespace)
        if by_argument is not None:
            target = target_of_call(line, node, namespace, shell)  # type: ignore[arg-type]
            return target, [_position(line, node, target, str(i)) for i in by_argument]
    for name in asked:
        if name not in names:
            raise line.fault(
                f"{name!r} is no name in {line.expression}: choose from {', '.join(names)}", name
            )
        if not is_numeric(namespace.get(name)):
            kind = type(namespace.get(name)).__name__
            raise line.fault(f"{name} is no array or number but a {kind}", name)
    others = [n for n in names if n in namespace and has_arrays(namespace[n]) and n not in asked]
    target = target_of_names(line, node, [*asked, *others], namespace, shell)
    return target, list(range(len(asked)))


def _may_vary(value: Any) -> bool:
    return isinstance(value, float) or has_arrays(value)


def _position(line: Line, node: Any, target: Target, part: str) -> int:
    """The number among the target's inputs of an argument's number in the call."""
    number = int(part)
    count = len(node.args)
    if not -count <= number < count:
        raise line.fault(f"--wrt {part}: the call has arguments 0 to {count - 1}", part)
    text = ast.get_source_segment(line.expression, node.args[number])
    before = [ast.get_source_segment(line.expression, a) for a in node.args[: number % count]]
    positions = [i for i, name in enumerate(target.names) if name == text]
    if not positions:
        raise line.fault(f"argument {number} ({text}) holds no array or number", text or "")
    return positions[min(before.count(text), len(positions) - 1)]


def _argument_positions(
    node: Any, asked: Sequence[str], names: Sequence[str], namespace: dict[str, Any]
) -> list[int] | None:
    """The argument numbers, if all that is asked for are parameter names of the function."""
    if all(name in names for name in asked):
        return None
    try:
        accepted = list(inspect.signature(namespace[node.func.id]).parameters)
    except (KeyError, TypeError, ValueError):
        return None
    numbers = [accepted.index(name) for name in asked if name in accepted]
    fits = len(numbers) == len(asked) and all(n < len(node.args) for n in numbers)
    return numbers if fits else None
