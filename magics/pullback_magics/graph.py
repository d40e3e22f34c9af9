"""`%graph`: the traced program of an expression, drawn, and its other forms.

Builds on targets.py and views/. Tested in tests/magics/test_graph.py.
"""

from __future__ import annotations

import os
import re
from typing import Any

from IPython.core.magic import (
    Magics,
    line_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
    output_can_be_silenced,
)
from IPython.core.magic_arguments import argument, magic_arguments

from pullback.api.jit import jit
from pullback.core import pytree
from pullback.core.jaxpr import ClosedJaxpr, Jaxpr
from pullback.core.reverse import linearize_flat
from pullback.core.stage import record
from pullback.views.adjoints import inner_call
from pullback.views.html import Bundle
from pullback.views.program_view import GraphView, view_program, view_text
from pullback.views.sources import label_of_file
from pullback_magics.choices import with_checked_result
from pullback_magics.gradients import evaluate_backward
from pullback_magics.options import parse_line
from pullback_magics.output import say
from pullback_magics.targets import Target, leaf_names, names_of_values, target_of

STAGES = ("jaxpr", "linear", "stablehlo", "hlo")


def graph_view(
    target: Target, *, backward: bool = False, stage: str = "jaxpr", depth: int | None = None
) -> GraphView | Bundle:
    """The view of a target.

    Args:
        target: the function and its inputs.
        backward: show values, cotangents and the backward pass.
        stage: the recorded program, its linear part, StableHLO, or XLA's optimized HLO.
        depth: levels of inner programs drawn out.
    """
    names = leaf_names(target.names, target.values)
    if stage in ("stablehlo", "hlo"):
        lowered = jit(target.fun).trace(*target.values).lower()
        if stage == "stablehlo":
            text = lowered.as_text()
        else:
            text = with_file_labels(lowered.compile().as_text())
        return view_text(f"{stage} of {target.text}", text)
    if stage == "linear":
        linear = linear_jaxpr(target)
        tangents = [f"d {name}" for name in names] if len(names) == len(linear.invars) else []
        return view_program(
            linear,
            f"linear part of {target.text}",
            arg_names=tangents,
            depth=depth,
            as_jaxpr=True,
        )
    if backward:
        evaluation = evaluate_backward(target)
        several = len(evaluation.jaxpr.outvars) > 1
        return view_program(
            evaluation.jaxpr,
            f"{target.text}, backward from its first result" if several else target.text,
            arg_names=names,
            const_names=names_of_values(evaluation.consts, target.namespace),
            values=evaluation,
            backward=True,
            depth=depth,
        )
    jaxpr, consts = traced_jaxpr(target)
    captured = names_of_values(consts, target.namespace)
    return view_program(jaxpr, target.text, arg_names=names, const_names=captured, depth=depth)


_KERNEL_FOLDER = re.compile(r"\bipykernel_\d+\b")
_FILE = re.compile(r'^(\d+ )"([^"\n]*)"$', re.MULTILINE)


def with_file_labels(hlo: str) -> str:
    """HLO whose table of files calls cells and files as the user knows them."""
    start = hlo.find("\nFileNames\n")
    end = hlo.find("\n\n", start + 1)
    if start < 0 or end < 0:
        return hlo
    named = _FILE.sub(lambda found: f'{found[1]}"{_file_in_hlo(found[2])}"', hlo[start:end])
    return hlo[:start] + named + hlo[end:]


def _file_in_hlo(path: str) -> str:
    """The label of a file; a program kept on disk may name a cell as another kernel did."""
    here, n = _KERNEL_FOLDER.subn(f"ipykernel_{os.getpid()}", path)
    label = label_of_file(here)
    return "cell" if n and not label.startswith("Cell In[") else label


def traced_jaxpr(target: Target) -> tuple[Jaxpr, list[Any]]:
    """The program that a target runs through and the arrays that it captures.

    Of a single jitted call, the program within.
    """
    leaves, tree = pytree.tree_flatten(target.values)

    def flat(*new: Any) -> list[Any]:
        return pytree.tree_leaves(target.fun(*pytree.tree_unflatten(tree, new)))

    jaxpr, consts, _ = record(flat, leaves, name=target.name)
    if len(jaxpr.eqns) == 1:
        eqn = jaxpr.eqns[0]
        inner = inner_call(eqn)
        read = [*jaxpr.constvars, *jaxpr.invars]
        if inner is not None and [list(eqn.invars), list(eqn.outvars)] == [
            read,
            list(jaxpr.outvars),
        ]:
            n = len(consts)
            return inner.replace(constvars=inner.invars[:n], invars=inner.invars[n:]), consts
    return jaxpr, consts


def linear_jaxpr(target: Target) -> Jaxpr:
    """The linear program in the tangents of a target's floating-point inputs."""
    leaves, tree = pytree.tree_flatten(target.values)

    def flat(*new: Any) -> list[Any]:
        return pytree.tree_leaves(target.fun(*pytree.tree_unflatten(tree, new)))

    _, linear = linearize_flat(flat, leaves)
    jaxpr = linear.jaxpr
    n = len(linear.residuals)
    return ClosedJaxpr(
        jaxpr.replace(constvars=jaxpr.invars[:n], invars=jaxpr.invars[n:]), linear.residuals
    ).jaxpr


def first_leaf(result: Any) -> Any:
    """The first of a function's results; what it gave if there is none."""
    return next(iter(pytree.tree_leaves(result)), result)


@magics_class
class GraphMagics(Magics):
    """`%graph`."""

    shell: Any

    @magic_arguments()
    @argument("expression", nargs="*", help="a call or expression of named arrays")
    @argument("--grad", action="store_true", help="draw values, cotangents, the backward pass")
    @argument("--stage", choices=STAGES, default="jaxpr", help="which form of the program")
    @argument("--depth", type=int, metavar="N", help="levels of inner programs drawn out")
    @argument("--save", metavar="FILE", help="also write it to FILE: .svg, .dot or .html")
    @no_var_expand
    @needs_local_scope
    @output_can_be_silenced
    @line_magic
    def graph(self, line: str, local_ns: dict[str, Any] | None = None) -> Any:
        """Draw the traced program of an expression.

        Shapes and dtypes stand on the edges, the source line in each node's tooltip. Calls and
        loop bodies are boxes; ``--depth 0`` folds them, the picture offers to open folded ones.

        Example::

            %graph f(x)
            %graph loss(w, x) --grad
            %graph f(x) --stage stablehlo

        The same from Python: ``pullback.magics.graph(f, x)``.
        """
        parsed = parse_line(GraphMagics.graph, "%graph", line)
        options = parsed.options
        namespace = {**self.shell.user_ns, **(local_ns or {})}
        if options.grad and options.stage != "jaxpr":
            raise parsed.fault(f"--grad draws the jaxpr, not {options.stage}", "--grad")
        if options.depth is not None and options.depth < 0:
            raise parsed.fault("--depth must be at least 0", "--depth")
        target = target_of(parsed, namespace, self.shell)
        if options.grad:
            target = with_checked_result(target, parsed, first_leaf)
        view = graph_view(target, backward=options.grad, stage=options.stage, depth=options.depth)
        if options.save:
            if not isinstance(view, GraphView):
                raise parsed.fault(f"--save writes pictures; {options.stage} is text", "--save")
            try:
                view.save(options.save)
            except (ValueError, OSError) as e:
                raise parsed.fault(str(e), options.save) from None
            say(f"%graph: written to {options.save}")
        return view
