"""The typed program that functions are traced to: variables, equations, jaxprs, their evaluation.

Builds on aval.py and tracer.py. Tested in tests/core/test_jaxpr.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.core.aval import ShapedArray, typeof
from pullback.core.source import note_position
from pullback.core.tracer import Primitive, state


class Var:
    """A variable, bound once. Two variables are the same only if they are the same object."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var({self.aval.str_short()})"


class DropVar(Var):
    """A result that nobody reads, printed as `_`."""

    __slots__ = ()


class Literal:
    """A scalar written into the program, compared by value and type."""

    __slots__ = ("_key", "aval", "val")

    def __init__(self, val: Any, aval: ShapedArray) -> None:
        self.val = val
        self.aval = aval
        self._key = (np.asarray(val).tobytes(), aval)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"{literal_text(self.val)}:{self.aval.str_short()}"


Atom = Var | Literal


def literal_text(val: Any) -> str:
    """A scalar as it is printed in a jaxpr."""
    item = val.item() if hasattr(val, "item") else val
    return repr(item)


class Eqn:
    """One application of a primitive: `outvars = primitive[params] invars`, with its source."""

    __slots__ = ("invars", "outvars", "params", "primitive", "source")

    def __init__(
        self,
        primitive: Primitive,
        invars: Sequence[Atom],
        outvars: Sequence[Var],
        params: dict[str, Any],
        source: Any = None,
    ) -> None:
        self.primitive = primitive
        self.invars = invars
        self.outvars = outvars
        self.params = params
        self.source = source

    @property
    def effectful(self) -> bool:
        """Whether the equation must run even if nobody reads its results."""
        test = self.primitive.effectful
        if test is not None and test(self.params):
            return True
        return any(jaxpr.effectful for jaxpr in inner_jaxprs(self.params))

    def __repr__(self) -> str:
        return f"Eqn({self.primitive.name}, {len(self.invars)} in, {len(self.outvars)} out)"


class Jaxpr:
    """A program: constvars and invars to outvars by equations. Not changed once it is built.

    Jaxprs that stand in an equation's parameters have no constvars: their constants are operands.
    `cache` holds what was derived from this jaxpr (its jvp, its compiled form ...), and dies with it.
    """

    __slots__ = (
        "__weakref__",
        "_effectful",
        "cache",
        "constvars",
        "debug_name",
        "eqns",
        "invars",
        "outvars",
        "var_names",
    )

    def __init__(
        self,
        constvars: Sequence[Var],
        invars: Sequence[Var],
        outvars: Sequence[Atom],
        eqns: Sequence[Eqn],
        debug_name: str = "",
    ) -> None:
        self.constvars = tuple(constvars)
        self.invars = tuple(invars)
        self.outvars = tuple(outvars)
        self.eqns = tuple(eqns)
        self.debug_name = debug_name
        self.cache: dict[Any, Any] = {}
        self.var_names: dict[Var, str] = {}
        self._effectful: bool | None = None

    @property
    def in_avals(self) -> list[ShapedArray]:
        """The types of the invars."""
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[ShapedArray]:
        """The types of the outvars."""
        return [v.aval for v in self.outvars]

    @property
    def effectful(self) -> bool:
        """Whether any equation has side effects."""
        if self._effectful is None:
            self._effectful = any(e.effectful for e in self.eqns)
        return self._effectful

    def replace(self, **changes: Any) -> Jaxpr:
        """A new jaxpr with some fields replaced."""
        get = changes.get
        return Jaxpr(
            get("constvars", self.constvars),
            get("invars", self.invars),
            get("outvars", self.outvars),
            get("eqns", self.eqns),
            get("debug_name", self.debug_name),
        )

    def __str__(self) -> str:
        return printing.text(self)

    __repr__ = __str__


class _Printing:
    """The text of a jaxpr; provided by core/pretty.py."""

    text: Callable[[Jaxpr], str]


printing = _Printing()


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class ClosedJaxpr:
    """A jaxpr with the values of its constants; what `make_jaxpr` gives."""

    jaxpr: Jaxpr
    consts: list[Any]

    @property
    def in_avals(self) -> list[ShapedArray]:
        """The types of the invars."""
        return self.jaxpr.in_avals

    @property
    def out_avals(self) -> list[ShapedArray]:
        """The types of the outvars."""
        return self.jaxpr.out_avals

    @property
    def eqns(self) -> tuple[Eqn, ...]:
        """The equations."""
        return self.jaxpr.eqns

    @property
    def literals(self) -> list[Any]:
        """The values of the constants (JAX's older name for `consts`)."""
        return self.consts

    def __str__(self) -> str:
        return str(self.jaxpr)

    __repr__ = __str__


def inner_jaxprs(params: dict[str, Any]) -> Iterable[Jaxpr]:
    """The jaxprs that stand in an equation's parameters."""
    for value in params.values():
        if isinstance(value, Jaxpr):
            yield value
        elif isinstance(value, ClosedJaxpr):
            yield value.jaxpr
        elif isinstance(value, tuple):
            for item in value:
                if isinstance(item, Jaxpr):
                    yield item
                elif isinstance(item, ClosedJaxpr):
                    yield item.jaxpr


def axis_names(jaxpr: Jaxpr) -> frozenset[Any]:
    """The mapped axis names that a program's collectives mention."""
    found = jaxpr.cache.get("axis_names")
    if found is None:
        names: set[Any] = set()
        for eqn in jaxpr.eqns:
            param = eqn.primitive.axis_param
            if param is not None:
                value = eqn.params[param]
                names.update(value if isinstance(value, tuple | list) else (value,))
            for inner in inner_jaxprs(eqn.params):
                names |= axis_names(inner)
        found = jaxpr.cache["axis_names"] = frozenset(names)
    return found


def close(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with its constvars turned into leading invars."""
    if not jaxpr.constvars:
        return jaxpr
    closed = Jaxpr((), jaxpr.constvars + jaxpr.invars, jaxpr.outvars, jaxpr.eqns, jaxpr.debug_name)
    closed.var_names.update(jaxpr.var_names)
    return closed


def eval_jaxpr(
    jaxpr: Jaxpr,
    consts: Sequence[Any],
    *args: Any,
    on_eqn: Callable[[Eqn, list[Any], list[Any]], None] | None = None,
    apply: Callable[[Eqn, list[Any]], Sequence[Any]] | None = None,
) -> list[Any]:
    """Apply the jaxpr's equations under the current trace.

    Args:
        jaxpr: the program.
        consts: values of its constvars.
        args: values of its invars, arrays or tracers.
        on_eqn: called with each equation, its operands and its results, in order.
        apply: gives an equation's results from its operands, in place of its primitive.

    Returns:
        The values of the outvars.
    """
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    last_use = _last_uses(jaxpr)
    outer_source = state.source
    try:
        for index, eqn in enumerate(jaxpr.eqns):
            operands = [env[a] if type(a) is not Literal else a.val for a in eqn.invars]
            state.source = eqn.source
            if apply is None:
                result = eqn.primitive.bind(*operands, **eqn.params)
                results = result if eqn.primitive.multiple_results else (result,)
            else:
                results = apply(eqn, operands)
            for var, value in zip(eqn.outvars, results, strict=True):
                env[var] = value
            if on_eqn is not None:
                on_eqn(eqn, operands, list(results))
            for var in last_use.get(index, ()):
                env.pop(var, None)
    except Exception as error:
        note_position(error, state.source, eqn.primitive.name)
        raise
    finally:
        state.source = outer_source
    return [env[a] if type(a) is not Literal else a.val for a in jaxpr.outvars]


def _last_uses(jaxpr: Jaxpr) -> dict[int, list[Var]]:
    """For each equation, the variables that nobody reads after it (so memory can go)."""
    cached = jaxpr.cache.get("last_uses")
    if cached is None:
        seen: set[Atom] = {v for v in jaxpr.outvars if type(v) is not Literal}
        cached = {}
        for index in range(len(jaxpr.eqns) - 1, -1, -1):
            eqn = jaxpr.eqns[index]
            dying = [v for v in {*eqn.invars, *eqn.outvars} if type(v) is not Literal]
            dying = [v for v in dying if v not in seen]
            if dying:
                cached[index] = dying
            seen.update(eqn.invars)
        jaxpr.cache["last_uses"] = cached
    return cached


def dce_jaxpr(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], keep_inputs: bool = False
) -> tuple[Jaxpr, list[bool]]:
    """Dead-code elimination: drop equations whose results nobody reads.

    The same question has the same answer, so that calls of one program stay calls of one program.

    Args:
        jaxpr: the program, without constvars.
        used_outputs: which outvars are wanted.
        keep_inputs: keep all invars.

    Returns:
        The smaller jaxpr and, per invar, whether it is still there.
    """
    key = ("dce", tuple(used_outputs), keep_inputs)
    found = jaxpr.cache.get(key)
    if found is None:
        found = jaxpr.cache[key] = _eliminate(jaxpr, used_outputs, keep_inputs)
    small, used_inputs = found
    return small, list(used_inputs)


def _eliminate(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], keep_inputs: bool
) -> tuple[Jaxpr, list[bool]]:
    live: set[Any] = {v for v, used in zip(jaxpr.outvars, used_outputs, strict=True) if used}
    eqns: list[Eqn] = []
    for eqn in reversed(jaxpr.eqns):
        if eqn.effectful or any(v in live for v in eqn.outvars):
            eqn = _dce_inside(eqn, live)
            eqns.append(eqn)
            live.update(v for v in eqn.invars if type(v) is not Literal)
    eqns.reverse()
    used_inputs = [keep_inputs or v in live for v in jaxpr.invars]
    small = Jaxpr(
        jaxpr.constvars,
        [v for v, used in zip(jaxpr.invars, used_inputs, strict=True) if used],
        [v for v, used in zip(jaxpr.outvars, used_outputs, strict=True) if used],
        eqns,
        jaxpr.debug_name,
    )
    small.var_names.update(jaxpr.var_names)
    return small, used_inputs


# name of primitive -> (eqn, used results) -> smaller eqn; call-like primitives add theirs.
dce_rules: dict[str, Callable[[Eqn, list[bool]], Eqn]] = {}


def _dce_inside(eqn: Eqn, live: set[Any]) -> Eqn:
    rule = dce_rules.get(eqn.primitive.name)
    if rule is None or eqn.effectful:
        return eqn
    used = [v in live for v in eqn.outvars]
    return rule(eqn, used)


def check_jaxpr(jaxpr: Jaxpr) -> None:
    """Check that a jaxpr is well formed: single assignment, typed, defined before use.

    Raises:
        TypeError: with the equation at fault.
    """
    known: set[Var] = set()

    def define(var: Var, where: str) -> None:
        if var in known:
            raise TypeError(f"{where}: variable bound twice in\n{jaxpr}")
        known.add(var)

    def use(atom: Atom, where: str) -> None:
        if type(atom) is Literal:
            if typeof(atom.val).shape != atom.aval.shape:
                raise TypeError(f"{where}: literal {atom} does not have its type")
        elif atom not in known:
            raise TypeError(f"{where}: variable used before it is bound, in\n{jaxpr}")

    for var in (*jaxpr.constvars, *jaxpr.invars):
        define(var, "inputs")
    for eqn in jaxpr.eqns:
        where = f"equation {eqn.primitive.name}"
        for atom in eqn.invars:
            use(atom, where)
        out = eqn.primitive.abstract(*(a.aval for a in eqn.invars), **eqn.params)
        outs = out if eqn.primitive.multiple_results else (out,)
        if len(outs) != len(eqn.outvars):
            raise TypeError(f"{where}: {len(outs)} results for {len(eqn.outvars)} variables")
        for aval, var in zip(outs, eqn.outvars, strict=True):
            if (aval.shape, aval.dtype) != (var.aval.shape, var.aval.dtype):
                raise TypeError(f"{where}: result {aval} bound to a variable of type {var.aval}")
            define(var, where)
        for inner in inner_jaxprs(eqn.params):
            check_jaxpr(inner)
    for atom in jaxpr.outvars:
        use(atom, "outputs")
