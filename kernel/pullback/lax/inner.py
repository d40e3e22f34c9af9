"""Python functions inside primitives: tracing them once, interning what comes out, naming leaves.

Control flow, custom rules and callbacks take functions of pytrees; here those become jaxprs without
constvars, and two traces of the same program become the same object, so that a loop called again in
a cell is not compiled again. Builds on core/stage.py and core/pytree.py.
Tested in tests/lax/test_inner.py.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pullback.core import pytree
from pullback.core.aval import ShapedArray, typeof
from pullback.core.jaxpr import Jaxpr, Literal, close
from pullback.core.stage import trace_to_jaxpr
from pullback.core.tracer import Tracer, state

_INTERN_LIMIT = 256
_interned: OrderedDict[Any, Jaxpr] = OrderedDict()


def clear_interned() -> None:
    """Forget the interned jaxprs."""
    _interned.clear()


def interned_count() -> int:
    """How many jaxprs are interned."""
    return len(_interned)


@dataclass(frozen=True, slots=True)
class TracedFunction:
    """A function of pytrees as a jaxpr.

    Attributes:
        jaxpr: no constvars; the constants are the leading operands.
        consts: their values, arrays or tracers of outer traces.
        out_tree: how the results unflatten.
    """

    jaxpr: Jaxpr
    consts: list[Any]
    out_tree: Any

    @property
    def out_avals(self) -> list[ShapedArray]:
        """The types of the results."""
        return self.jaxpr.out_avals


def function_name(fun: Callable[..., Any]) -> str:
    """The name of a function, for jaxprs and messages."""
    while hasattr(fun, "func") and not hasattr(fun, "__name__"):
        fun = fun.func
    return getattr(fun, "__name__", type(fun).__name__)


def trace_function(
    fun: Callable[..., Any], in_tree: Any, avals: Sequence[ShapedArray], name: str = ""
) -> TracedFunction:
    """Trace a function whose positional arguments flatten to `avals` by `in_tree`.

    Args:
        fun: takes the unflattened arguments.
        in_tree: structure of the tuple of arguments.
        avals: types of the leaves.
        name: what the jaxpr is called; the function's name by default.
    """
    found: list[Any] = []

    def flat(*leaves: Any) -> list[Any]:
        out, tree = pytree.tree_flatten(fun(*pytree.tree_unflatten(in_tree, leaves)))
        found.append(tree)
        for leaf in out:
            typeof(leaf)
        return out

    jaxpr, consts = trace_to_jaxpr(flat, avals, name=name or function_name(fun))
    return TracedFunction(intern_jaxpr(close(jaxpr)), consts, found[0])


def intern_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr, or one made before that is the same program.

    Tracing a function afresh each time keeps captured values true (a notebook reassigns globals);
    giving back the same object keeps everything derived from it, the compiled form included.
    """
    try:
        key = (_structure(jaxpr), state.axis_env)
        known = _interned.get(key)
    except TypeError:
        return jaxpr
    if known is not None:
        _interned.move_to_end(key)
        return known
    if len(_interned) >= _INTERN_LIMIT:
        _interned.popitem(last=False)
    _interned[key] = jaxpr
    return jaxpr


def _structure(jaxpr: Jaxpr) -> tuple:
    """A hashable value that is equal for equal programs."""
    number: dict[Any, int] = {}
    for var in jaxpr.invars:
        number[var] = len(number)

    def atom(a: Any) -> Any:
        return (type(a.val), a) if type(a) is Literal else number[a]

    rows = []
    for eqn in jaxpr.eqns:
        operands = tuple([atom(a) for a in eqn.invars])
        for var in eqn.outvars:
            number[var] = len(number)
        rows.append(
            (
                eqn.primitive,
                operands,
                tuple([v.aval for v in eqn.outvars]),
                tuple(eqn.params.items()),
                eqn.source,
            )
        )
    return (
        tuple([v.aval for v in jaxpr.invars]),
        tuple(rows),
        tuple([atom(a) for a in jaxpr.outvars]),
        jaxpr.debug_name,
    )


def leaf_types(values: Sequence[Any]) -> list[ShapedArray]:
    """The types of leaves as a traced body sees them."""
    return [typeof(x) for x in values]


def is_traced(values: Sequence[Any]) -> bool:
    """Whether any of the values is a tracer."""
    return any(isinstance(x, Tracer) for x in values)


def leaf_paths(tree: Any, root: str = "") -> list[str]:
    """The key path of each leaf of a tree structure, as text such as `carry['a'][0]`."""
    dummy = pytree.tree_unflatten(tree, list(range(tree.num_leaves)))
    paths, _ = pytree.tree_flatten_with_path(dummy)
    return [root + pytree.keystr(path) for path, _ in paths]


def type_difference(a: ShapedArray, b: ShapedArray) -> str:
    """In words, how two types differ; empty if they do not (weak types aside)."""
    parts = []
    if a.shape != b.shape:
        parts.append(f"the shapes do not match ({a.shape} and {b.shape})")
    if a.dtype != b.dtype:
        parts.append(f"the dtypes do not match ({a.dtype} and {b.dtype})")
    return ", and ".join(parts)
