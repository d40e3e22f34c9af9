"""The model of a traced graph: nodes, edges and boxes read off a jaxpr.

Inner programs become boxes, drawn out or folded. Builds on core/, views/adjoints.py (values) and
views/folding.py; drawn by views/layout.py and views/svg.py. Tested in tests/views/test_graph.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pullback.core.jaxpr import Eqn, Jaxpr, Var, inner_jaxprs, literal_text
from pullback.core.jaxpr import Literal as JaxprLiteral
from pullback.core.pretty import param_text, variable_names
from pullback.views.adjoints import CUSTOM_CALLS, Evaluation, inner_call
from pullback.views.bodies import BodyEvaluation, bodies_of, evaluate_body
from pullback.views.folding import MAX_NODES, fold_runs, operation_name, operations_of
from pullback.views.sources import SourceLine, source_line
from pullback.views.text import NOT_COMPUTED, clip, count_text, value_text

Kind = Literal["input", "constant", "operation", "folded", "output"]

DRAWN_IN_FULL = 60  # equations in all: every body is drawn out
MAX_DRAWN = 600  # more than these are never drawn out, whatever depth is asked for
MAX_ENDS = 60  # more inputs, captured arrays or results than these are folded


@dataclass(frozen=True, slots=True)
class Node:
    """A value's origin: an input, a constant, an equation, several folded ones, or a result.

    Attributes:
        name: the variable's name in the printed jaxpr.
        types: of the results.
        value, cotangent: one line each; None where the view has none.
        box: id of the box that the node stands in.
    """

    id: str
    kind: Kind
    label: str
    name: str = ""
    detail: str = ""
    types: tuple[str, ...] = ()
    source: SourceLine | None = None
    value: str | None = None
    cotangent: str | None = None
    box: str | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """A value's way from its origin to a reader; `contribution` is what comes back on it."""

    tail: str
    head: str
    label: str
    contribution: str | None = None
    to_body: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """An inner program: a call, a loop's body, a branch."""

    id: str
    label: str
    parent: str | None
    n_equations: int


@dataclass(frozen=True, slots=True)
class Graph:
    """A program as it is drawn.

    Attributes:
        bodies: the inner programs that are folded away.
        n_ends: how many inputs and results the program has.
    """

    title: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    boxes: tuple[Box, ...]
    n_equations: int
    bodies: tuple[tuple[str, Jaxpr], ...] = ()
    has_backward: bool = False
    n_ends: tuple[int, int] = (0, 0)

    @property
    def summary(self) -> str:
        """One sentence on what there is to see."""
        inputs, outputs = self.n_ends
        folded = sum(n.kind == "folded" for n in self.nodes)
        parts = [
            count_text(self.n_equations, "equation"),
            count_text(inputs, "input"),
            count_text(outputs, "result"),
        ]
        text = f"{self.title}: {', '.join(parts)}"
        if folded:
            text += f"; drawn in {count_text(folded, 'folded group')}"
        if self.has_backward:
            text += "; = value, ct cotangent, dashed arrows carry cotangents back"
        return text


def count_equations(jaxpr: Jaxpr, depth: int | None = None) -> int:
    """Equations of a program, those of its inner programs down to `depth` included."""
    total = len(jaxpr.eqns)
    if depth is None or depth > 0:
        below = None if depth is None else depth - 1
        for eqn in jaxpr.eqns:
            total += sum(count_equations(inner, below) for inner in inner_jaxprs(eqn.params))
    return total


def default_depth(jaxpr: Jaxpr) -> int:
    """How many levels of inner programs are drawn out if nobody says."""
    if count_equations(jaxpr) <= DRAWN_IN_FULL:
        return 9
    for depth in (3, 2, 1):
        if count_equations(jaxpr, depth) <= DRAWN_IN_FULL:
            return depth
    return 0


def describe_params(eqn: Eqn) -> str:
    """The parameters without inner programs and defaults, in one line."""
    parts = []
    for name in sorted(eqn.params):
        value = eqn.params[name]
        if value is None or value is False or value == () or any(inner_jaxprs({name: value})):
            continue
        parts.append(f"{name}={param_text(value)}")
    return " ".join(parts)


def equation_label(eqn: Eqn) -> str:
    """What stands on an equation's node: the operation, with its literal operands."""
    label = operation_name(eqn)
    if any(isinstance(a, JaxprLiteral) for a in eqn.invars):
        operands = [literal_text(a.val) if isinstance(a, JaxprLiteral) else "·" for a in eqn.invars]
        label += f"{' ' if ' ' in label else ''}({', '.join(operands)})"
    return label


class _Builder:
    def __init__(self, title: str, backward: bool) -> None:
        self.title = title
        self.backward = backward
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self.boxes: list[Box] = []
        self.bodies: list[tuple[str, Jaxpr]] = []
        self.names: dict[Var, str] = {}

    def add(self, kind: Kind, label: str, **fields: Any) -> str:
        """A new node; gives its id."""
        node = Node(f"n{len(self.nodes)}", kind, clip(label, 60), **fields)
        self.nodes.append(node)
        return node.id

    def inputs(
        self,
        variables: Sequence[Var],
        written: Sequence[str],
        values: Evaluation | None,
        origin: dict[Any, str],
    ) -> None:
        """A node for each input; for a great many, one for those of the same container."""
        names = [written[i] if i < len(written) else self.names[v] for i, v in enumerate(variables)]
        if len(variables) > MAX_ENDS:
            groups: dict[str, list[Var]] = {}
            for name, var in zip(names, variables, strict=True):
                groups.setdefault(re.split(r"[\[.]", name)[0], []).append(var)
            if len(groups) > MAX_ENDS:
                groups = {"inputs": list(variables)}
            for base, members in groups.items():
                node = self.add("folded", f"{base}: {count_text(len(members), 'array')}")
                origin.update(dict.fromkeys(members, node))
            return
        for name, var in zip(names, variables, strict=True):
            origin[var] = self.add(
                "input",
                name,
                name=self.names[var],
                types=(var.aval.str_short(),),
                **self.known(values, [var]),
            )

    def constants(
        self,
        variables: Sequence[Var],
        written: Sequence[str],
        values: Evaluation | None,
        origin: dict[Any, str],
    ) -> None:
        """A node for each captured array, or one for a great many."""
        if len(variables) > MAX_ENDS:
            node = self.add("folded", count_text(len(variables), "captured array"))
            origin.update(dict.fromkeys(variables, node))
            return
        for i, var in enumerate(variables):
            name = written[i] if i < len(written) else ""
            origin[var] = self.add(
                "constant",
                f"{name} (captured)" if name else f"constant {self.names[var]}",
                name=self.names[var],
                types=(var.aval.str_short(),),
                **{**self.known(values, [var]), "cotangent": None},
            )

    def results(self, atoms: Sequence[Any], origin: dict[Any, str]) -> None:
        """A node for each result, or one for a great many."""
        if len(atoms) > MAX_ENDS:
            node = self.add("output", count_text(len(atoms), "result"))
            read = dict.fromkeys(origin[a] for a in atoms if not isinstance(a, JaxprLiteral))
            self.edges += [Edge(tail, node, "") for tail in read]
            return
        for i, atom in enumerate(atoms):
            label = "result" if len(atoms) == 1 else f"result {i}"
            if isinstance(atom, JaxprLiteral):
                self.add("output", f"{label}: {literal_text(atom.val)}")
                continue
            out = self.add("output", label, types=(atom.aval.str_short(),))
            self.edges.append(Edge(origin[atom], out, atom.aval.str_short()))

    def known(self, values: Evaluation | None, variables: Sequence[Any]) -> dict[str, str | None]:
        """The value and cotangent lines of a node for its variables."""
        if values is None:
            return {"value": None, "cotangent": None}
        present = [v for v in variables if not isinstance(v, JaxprLiteral)]
        lines: dict[str, str | None] = {
            "value": _joined([value_text(values.values.get(v)) for v in present])
        }
        cts = [value_text(values.cotangents.get(v)) for v in present]
        shown = self.backward and not isinstance(values, BodyEvaluation)
        lines["cotangent"] = _joined(cts) if shown else None
        return lines

    def program(
        self,
        jaxpr: Jaxpr,
        origin: dict[Any, str],
        values: Evaluation | None,
        depth: int,
        box: str | None,
    ) -> None:
        """Nodes and edges of a program's equations; `origin` maps variables to nodes."""
        runs = fold_runs(jaxpr.eqns) if len(jaxpr.eqns) > MAX_NODES else None
        if runs is not None:
            start = 0
            for run in runs:
                self.folded_run(run, start, origin, values, box)
                start += len(run)
            return
        for index, eqn in enumerate(jaxpr.eqns):
            inner_values = values.inner.get(index) if values is not None else None
            call = inner_call(eqn)
            if self.backward and eqn.primitive.name in CUSTOM_CALLS:
                call = None  # the backward pass goes by the rule, not through the program
            if call is not None and depth > 0:
                self.call(eqn, index, call, origin, values, inner_values, depth, box)
                continue
            node = self.equation(eqn, origin, values, box)
            self.connect(eqn, index, node, origin, values)
            for var in eqn.outvars:
                origin[var] = node
            bodies = list(bodies_of(eqn))
            if depth > 0 and call is None:
                for number, (label, body) in enumerate(bodies):
                    ran = evaluate_body(eqn, number, body, values)
                    self.body(f"{label}{ran.note if ran else ''}", body, node, ran, depth, box)
            else:
                self.bodies.extend(bodies)

    def equation(
        self, eqn: Eqn, origin: dict[Any, str], values: Evaluation | None, box: str | None
    ) -> str:
        return self.add(
            "operation",
            equation_label(eqn),
            name=" ".join(self.names.get(v, "_") for v in eqn.outvars),
            detail=describe_params(eqn),
            types=tuple(v.aval.str_short() for v in eqn.outvars),
            source=source_line(eqn),
            box=box,
            **self.known(values, eqn.outvars),
        )

    def connect(
        self,
        eqn: Eqn,
        index: int,
        node: str,
        origin: dict[Any, str],
        values: Evaluation | None,
    ) -> None:
        """The edges into an equation's node."""
        for position, atom in enumerate(eqn.invars):
            tail = origin.get(atom) if not isinstance(atom, JaxprLiteral) else None
            if tail is None:
                continue
            back = None
            if self.backward and values is not None:
                ct = values.contributions.get((index, position))
                back = None if ct is None else value_text(ct)
            self.edges.append(Edge(tail, node, atom.aval.str_short(), back))

    def call(
        self,
        eqn: Eqn,
        index: int,
        inner: Jaxpr,
        origin: dict[Any, str],
        values: Evaluation | None,
        inner_values: Evaluation | None,
        depth: int,
        box: str | None,
    ) -> None:
        """A call drawn out: its equations stand in a box, joined to the values outside."""
        own: dict[Any, str] = {}
        for var, atom in zip(inner.invars, eqn.invars, strict=True):
            if isinstance(atom, JaxprLiteral):
                own[var] = self.add("constant", literal_text(atom.val), box=box)
            elif atom in origin:
                own[var] = origin[atom]
        frame = self.box(operation_name(eqn), inner, box)
        if inner_values is None and values is not None:
            values = None
        self.program(inner, own, inner_values, depth - 1, frame)
        for var, atom in zip(eqn.outvars, inner.outvars, strict=True):
            if isinstance(atom, JaxprLiteral):
                origin[var] = self.add("constant", literal_text(atom.val), box=frame)
            elif atom in own:
                origin[var] = own[atom]

    def box(self, label: str, inner: Jaxpr, parent: str | None) -> str:
        """A new box; gives its id."""
        text = f"{clip(label, 40)} ({count_text(count_equations(inner), 'equation')})"
        self.boxes.append(Box(f"b{len(self.boxes)}", text, parent, count_equations(inner)))
        return self.boxes[-1].id

    def body(
        self,
        label: str,
        body: Jaxpr,
        node: str,
        values: BodyEvaluation | None,
        depth: int,
        box: str | None,
    ) -> None:
        """A loop's body or a branch, in a box of its own beside its operation."""
        frame = self.box(label, body, box)
        own = {
            var: self.add(
                "input",
                f"{self.names.get(var, '')}:{var.aval.str_short()}",
                box=frame,
                **self.known(values, [var]),
            )
            for var in (*body.constvars, *body.invars)
        }
        first = next(iter(own.values()), None)
        self.program(body, own, values, depth - 1, frame)
        for atom in body.outvars:
            text = literal_text(atom.val) if isinstance(atom, JaxprLiteral) else "result"
            out = self.add("output", text, box=frame)
            if not isinstance(atom, JaxprLiteral):
                self.edges.append(Edge(own[atom], out, atom.aval.str_short()))
            first = first or out
        if first is not None:
            self.edges.append(Edge(node, first, "", to_body=True))

    def folded_run(
        self,
        run: Sequence[Eqn],
        start: int,
        origin: dict[Any, str],
        values: Evaluation | None,
        box: str | None,
    ) -> None:
        """One node for a run of equations; it shows what the last of them gives.

        Args:
            run: the equations.
            start: the number of the first one in its program.
            origin: the node of each variable.
            values: what the variables hold.
            box: the box to stand in.
        """
        first = source_line(run[0])
        node = self.add(
            "folded",
            count_text(len(run), "equation"),
            detail=operations_of(run),
            source=first,
            box=box,
            **self.known(values, run[-1].outvars),
        )
        incoming: dict[str, list[str]] = {}
        back: dict[str, list[str]] = {}
        inside: set[Any] = set()
        for index, eqn in enumerate(run, start):
            for position, atom in enumerate(eqn.invars):
                if isinstance(atom, JaxprLiteral) or atom in inside or atom not in origin:
                    continue
                types = incoming.setdefault(origin[atom], [])
                types.append(atom.aval.str_short())
                if self.backward and values is not None:
                    ct = values.contributions.get((index, position))
                    if ct is not None:
                        back.setdefault(origin[atom], []).append(value_text(ct))
            inside.update(eqn.outvars)
        for tail, types in incoming.items():
            if tail != node:
                label = types[0] if len(types) == 1 else f"{len(types)} reads"
                cts = back.get(tail, [])
                text = f"{len(cts)} cotangents" if len(cts) > 1 else next(iter(cts), None)
                self.edges.append(Edge(tail, node, label, text))
        for eqn in run:
            for var in eqn.outvars:
                origin[var] = node


def _joined(lines: list[str]) -> str:
    return lines[0] if len(lines) == 1 else "; ".join(lines)


def build_graph(
    jaxpr: Jaxpr,
    title: str,
    *,
    arg_names: Sequence[str] = (),
    const_names: Sequence[str] = (),
    values: Evaluation | None = None,
    backward: bool = False,
    depth: int | None = None,
) -> Graph:
    """The graph of a program.

    Args:
        jaxpr: the program; constants may be constvars.
        title: what it is called.
        arg_names: names of the inputs as the user wrote them; the jaxpr's otherwise.
        const_names: names of the captured arrays, empty where nobody knows.
        values: forward values and cotangents (views/adjoints.py), or None.
        backward: show cotangents and the edges that carry them back.
        depth: levels of inner programs drawn out; None decides by size.
    """
    builder = _Builder(title, backward)
    builder.names = variable_names(jaxpr)
    origin: dict[Any, str] = {}
    builder.inputs(jaxpr.invars, arg_names, values, origin)
    builder.constants(jaxpr.constvars, const_names, values, origin)
    levels = default_depth(jaxpr) if depth is None else depth
    while levels > 0 and count_equations(jaxpr, levels) > MAX_DRAWN:
        levels -= 1
    builder.program(jaxpr, origin, values, levels, None)
    builder.results(jaxpr.outvars, origin)
    return Graph(
        title,
        tuple(_without_unread_inputs(builder)),
        tuple(builder.edges),
        tuple(builder.boxes),
        count_equations(jaxpr),
        tuple(builder.bodies),
        backward,
        (len(jaxpr.invars), len(jaxpr.outvars)),
    )


def _without_unread_inputs(builder: _Builder) -> Iterator[Node]:
    """The nodes, constants that nobody reads left out, unread inputs said to be so."""
    read = {edge.tail for edge in builder.edges}
    for node in builder.nodes:
        if node.kind == "input" and node.id not in read:
            yield replace(node, detail="not read")
        elif node.kind != "constant" or node.id in read:
            yield node


__all__ = ["NOT_COMPUTED", "Box", "Edge", "Graph", "Node", "build_graph"]
