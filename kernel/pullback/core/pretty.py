"""Printing jaxprs in the layout that JAX's users know.

A small document language (text, line breaks, nesting, groups that stand on one line where they fit)
and the documents of jaxprs in it. Builds on jaxpr.py. Source: Wadler, A prettier printer, 2003.
Tested in tests/core/test_pretty.py.
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.core.jaxpr import (
    ClosedJaxpr,
    DropVar,
    Eqn,
    Jaxpr,
    Literal,
    Var,
    inner_jaxprs,
    printing,
)

WIDTH = 80


@dataclass(frozen=True, slots=True)
class Break:
    """A line break, or `flat` where its group stands on one line."""

    flat: str = " "


@dataclass(frozen=True, slots=True)
class Nest:
    """A document whose line breaks are indented further."""

    indent: int
    doc: Doc


@dataclass(frozen=True, slots=True)
class Group:
    """A document that stands on one line if it fits there."""

    doc: Doc


Doc = str | list | Break | Nest | Group
_FILL = Group(Break())


def render(doc: Doc, width: int = WIDTH) -> str:
    """The text of a document, its groups broken where they do not fit into `width`."""
    out: list[str] = []
    column = 0
    stack: list[tuple[int, bool, Doc]] = [(0, False, doc)]
    while stack:
        indent, flat, item = stack.pop()
        if isinstance(item, str):
            out.append(item)
            column += len(item)
        elif isinstance(item, list):
            stack.extend((indent, flat, part) for part in reversed(item))
        elif isinstance(item, Nest):
            stack.append((indent + item.indent, flat, item.doc))
        elif isinstance(item, Group):
            stack.append((indent, flat or _fits(item.doc, width - column), item.doc))
        elif flat:
            out.append(item.flat)
            column += len(item.flat)
        else:
            out.append("\n" + " " * indent)
            column = indent
    return "".join(out)


def _fits(doc: Doc, room: int) -> bool:
    stack = [doc]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack.extend(reversed(item))
        elif isinstance(item, Nest | Group):
            stack.append(item.doc)
        else:
            room -= len(item if isinstance(item, str) else item.flat)
            if room < 0:
                return False
    return True


def _join(separator: Doc, items: Iterable[Doc]) -> list[Doc]:
    out: list[Doc] = []
    for item in items:
        if out:
            out.append(separator)
        out.append(item)
    return out


def _fill(items: Iterable[Doc], separator: str = "") -> list[Doc]:
    """As many items on each line as there is room for."""
    return _join([separator, _FILL] if separator else _FILL, items)


def letters(index: int) -> str:
    """The `index`-th name of a variable: a ... z, ba, bb ..."""
    text = ""
    while True:
        index, digit = divmod(index, 26)
        text = chr(97 + digit) + text
        if not index:
            return text


class VarNames:
    """Names of variables in the order in which they are printed."""

    def __init__(self) -> None:
        self.names: dict[Var, str] = {}
        self._next = 0

    def of(self, var: Var) -> str:
        """The name of a variable, a new one if it has none yet."""
        name = self.names.get(var)
        if name is None:
            name = self.names[var] = letters(self._next)
            self._next += 1
        return name

    def share_with_call(self, eqn: Eqn, inner: Jaxpr) -> None:
        """Let a call's own variables have the names of the operands and results they stand for."""
        taken: set[str] = set()
        for own, outer in zip(inner.invars, eqn.invars, strict=True):
            if not isinstance(outer, Literal):
                name = self.of(outer)
                if name not in taken:
                    taken.add(name)
                    self.names[own] = name
                    continue
            self.of(own)
        for own_out, outer_out in zip(inner.outvars, eqn.outvars, strict=True):
            if isinstance(own_out, Literal) or isinstance(outer_out, DropVar):
                continue
            name = self.of(own_out)
            if name not in taken:
                taken.add(name)
                self.names[outer_out] = name


class _Printer:
    def __init__(self, jaxpr: Jaxpr) -> None:
        self.names = VarNames()
        self.hoisted: dict[Jaxpr, str] = {}
        self.top = jaxpr

    def document(self) -> Doc:
        """The program, after the programs that it calls more than once."""
        parts: list[Doc] = []
        for shared in _used_twice(self.top):
            name = self._hoisted_name(shared)
            parts += [["let ", name, " = ", self.jaxpr(shared), " in"], Break()]
            self.hoisted[shared] = name
        return [*parts, self.jaxpr(self.top)]

    def _hoisted_name(self, jaxpr: Jaxpr) -> str:
        base = re.sub(r"\W", "", jaxpr.debug_name) or "jaxpr"
        taken = set(self.hoisted.values())
        name, count = base, 0
        while name in taken:
            count += 1
            name = f"{base}{count}"
        return name

    def binder(self, var: Var, read: set[Any]) -> Doc:
        """A variable where it is bound, with its type."""
        unread = isinstance(var, DropVar) or var not in read
        return f"{'_' if unread else self.names.of(var)}:{var.aval.str_short()}"

    def atom(self, atom: Any) -> str:
        """A variable or literal where it is read."""
        return repr(atom) if isinstance(atom, Literal) else self.names.of(atom)

    def jaxpr(self, jaxpr: Jaxpr) -> Doc:
        """`{ lambda consts ; inputs. let equations in (results,) }`."""
        read = _read(jaxpr)
        head = [*jaxpr.constvars, *jaxpr.invars]
        everything = set(head)
        consts = _fill(self.binder(v, everything) for v in jaxpr.constvars)
        inputs = _fill(self.binder(v, everything) for v in jaxpr.invars)
        eqns = _join(Break("; "), [self.eqn(eqn, read) for eqn in jaxpr.eqns])
        results = [self.atom(a) for a in jaxpr.outvars]
        outs = _fill(results, ",")
        return Group(
            Nest(
                2,
                [
                    "{ lambda ",
                    Nest(2, consts),
                    "; ",
                    Nest(2, inputs),
                    ". let",
                    Nest(2, [Break(), *eqns]),
                    Break(),
                    Nest(2, ["in (", *outs, ",)" if len(results) == 1 else ")"]),
                    " }",
                ],
            )
        )

    def eqn(self, eqn: Eqn, read: set[Any]) -> Doc:
        """`results = primitive[params] operands`."""
        params = dict(eqn.params)
        if eqn.primitive.name == "jit":
            inner = params["jaxpr"]
            if inner not in self.hoisted:
                read_outs = [v if v in read else DropVar(v.aval) for v in eqn.outvars]
                self.names.share_with_call(
                    Eqn(eqn.primitive, eqn.invars, read_outs, eqn.params), inner
                )
        results = _fill(self.binder(v, read) for v in eqn.outvars)
        doc: list[Doc] = [Nest(2, results), " = "] if results else []
        doc += [eqn.primitive.name, self.params(eqn, params)]
        for atom in eqn.invars:
            doc += [Nest(2, _FILL), self.atom(atom)]
        return doc

    def params(self, eqn: Eqn, params: dict[str, Any]) -> Doc:
        """`[key=value ...]` by name; a call's own name first, its defaults left out."""
        names = sorted(params)
        if eqn.primitive.name == "jit":
            names = ["name", *(n for n in names if n != "name" and params[n] not in (False, None))]
            params = {"name": params.get("name", "")} | params
        if not names:
            return ""
        items = [[f"{name}=", self.value(params[name])] for name in names]
        return Group(["[", Nest(2, [Break(""), *_join(Break(), items)]), Break(""), "]"])

    def value(self, value: Any) -> Doc:
        """A parameter's value."""
        if isinstance(value, ClosedJaxpr):
            value = value.jaxpr
        if isinstance(value, Jaxpr):
            return self.hoisted.get(value) or self.jaxpr(value)
        if isinstance(value, tuple) and any(isinstance(v, Jaxpr | ClosedJaxpr) for v in value):
            items = _join(Break(), [self.value(v) for v in value])
            return Group(["(", Nest(2, [Break(""), *items]), Break(""), ")"])
        return param_text(value)


def param_text(value: Any) -> str:
    """A parameter's value that holds no jaxpr, on one line."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        text = np.dtype(value).name
    elif isinstance(value, enum.Enum):
        text = str(value)
    elif callable(value) and hasattr(value, "__name__"):
        text = value.__name__
    else:
        text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return text.replace("\n", " ")


def _read(jaxpr: Jaxpr) -> set[Any]:
    read: set[Any] = {v for v in jaxpr.outvars if not isinstance(v, Literal)}
    for eqn in jaxpr.eqns:
        read.update(v for v in eqn.invars if not isinstance(v, Literal))
    return read


def _used_twice(jaxpr: Jaxpr) -> Sequence[Jaxpr]:
    """The inner jaxprs that stand in more than one equation, innermost first."""
    counts: Counter[Jaxpr] = Counter()
    order: list[Jaxpr] = []

    def visit(current: Jaxpr) -> None:
        for eqn in current.eqns:
            for inner in inner_jaxprs(eqn.params):
                counts[inner] += 1
                if counts[inner] == 1:
                    visit(inner)
                    order.append(inner)

    visit(jaxpr)
    return [inner for inner in order if counts[inner] > 1]


def print_jaxpr(jaxpr: Jaxpr, width: int = WIDTH) -> str:
    """The text of a jaxpr, laid out as JAX lays it out.

    Example:
        >>> print(jax.make_jaxpr(jnp.sin)(jnp.ones(3)))
        { lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }
    """
    return render(_Printer(jaxpr).document(), width)


def variable_names(jaxpr: Jaxpr) -> dict[Var, str]:
    """The names that `print_jaxpr` gives to the variables."""
    printer = _Printer(jaxpr)
    printer.document()
    return printer.names.names


printing.text = print_jaxpr
