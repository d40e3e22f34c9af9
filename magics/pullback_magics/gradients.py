"""Gradients of targets: values with labels, the tape, and what `--wrt` chooses.

Builds on targets.py and views/adjoints.py. Tested in tests/magics/test_grad.py.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pullback.api.autodiff import value_and_grad
from pullback.core import pytree
from pullback.core.aval import typeof
from pullback.views.adjoints import Evaluation, one_like, pull_back, record_forward
from pullback.views.html import Bundle
from pullback.views.listing import build_listing
from pullback.views.text import value_text
from pullback_magics.targets import (
    Target,
    leaf_names,
    names_of_values,
)


@dataclass(frozen=True, slots=True)
class Gradient:
    """A gradient with what it is called.

    Attributes:
        of: the expression.
        wrt: what it is differentiated with respect to, in words.
        value: of the expression.
        grads: one per entry of `wrt`.
    """

    of: str
    wrt: tuple[str, ...]
    value: Any
    grads: tuple[Any, ...]

    def lines(self, with_value: bool) -> list[str]:
        """`d loss(w, b) / d w: f32[3] = [...]`, a line for each array."""
        out = [f"{self.of} = {value_text(self.value)}"] if with_value else []
        of = in_brackets(self.of)
        for name, leaf in zip(
            leaf_names(self.wrt, self.grads), pytree.tree_leaves(list(self.grads)), strict=True
        ):
            by = in_brackets(name)
            out.append(f"d {of} / d {by}: {typeof(leaf).str_short()} = {value_text(leaf)}")
        return out

    def result(self, with_value: bool) -> Any:
        """The gradient (a tuple for several), with the value before it if that is asked for."""
        grads = self.grads[0] if len(self.grads) == 1 else self.grads
        return (self.value, grads) if with_value else grads


def in_brackets(text: str) -> str:
    """An expression in brackets where it needs them to stand after `d`."""
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:  # a leaf of a container whose path is no Python
        return text
    simple = ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Constant | ast.List
    return text if isinstance(node, simple) else f"({text})"


def gradient(target: Target, wrt: Sequence[int]) -> Gradient:
    """The gradient of a target with respect to some of its inputs."""
    value, grads = value_and_grad(target.fun, argnums=tuple(wrt))(*target.values)
    return Gradient(target.text, tuple(target.names[i] for i in wrt), value, tuple(grads))


def evaluate_backward(target: Target, wrt: Sequence[int] | None = None) -> Evaluation:
    """Forward values and cotangents of a target, one per variable.

    Args:
        target: the function and its inputs.
        wrt: numbers of the inputs that are varied; all floating-point ones if None.
    """
    leaves, tree = pytree.tree_flatten(target.values)
    varied: list[bool] = []
    for i, value in enumerate(target.values):
        chosen = wrt is None or i in wrt
        varied += [chosen] * len(pytree.tree_leaves(value))

    def flat(*new: Any) -> list[Any]:
        return pytree.tree_leaves(target.fun(*pytree.tree_unflatten(tree, new)))

    evaluation = record_forward(flat, leaves, target.name)
    outs = [evaluation.read(a) for a in evaluation.jaxpr.outvars]
    pull_back(evaluation, varied, [one_like(outs[0]), *[None] * (len(outs) - 1)])
    return evaluation


def tape(target: Target, wrt: Sequence[int]) -> Bundle:
    """The table of every equation's value and cotangent."""
    evaluation = evaluate_backward(target, wrt)
    names = leaf_names(target.names, target.values)
    captured = names_of_values(evaluation.consts, target.namespace)
    listing = build_listing(evaluation.jaxpr, names, evaluation, True, captured)
    title = f"tape of {target.text}: values forward, cotangents backward"
    return Bundle(f"{title}\n\n{listing.text()}", listing.html(title), data=listing)
