"""The parts of a loop: constants, carried values, slices; and which of them something spreads to.

Builds on core/jaxpr.py. Tested in tests/lax/test_scan.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.core.aval import ShapedArray, make_aval
from pullback.core.jaxpr import Jaxpr


def split_at(xs: Sequence[Any], *counts: int) -> list[list[Any]]:
    """The sequence cut after each of the counts; the rest comes last."""
    out, start = [], 0
    for n in counts:
        out.append(list(xs[start : start + n]))
        start += n
    out.append(list(xs[start:]))
    return out


def stacked_aval(aval: ShapedArray, length: int) -> ShapedArray:
    """The type of `length` values of a type, stacked."""
    return make_aval((length, *aval.shape), aval.dtype, aval.weak_type)


def reorder(jaxpr: Jaxpr, inputs: Sequence[int], outputs: Sequence[int]) -> Jaxpr:
    """The jaxpr with its inputs and outputs in another order."""
    moved = Jaxpr(
        (),
        [jaxpr.invars[i] for i in inputs],
        [jaxpr.outvars[o] for o in outputs],
        jaxpr.eqns,
        jaxpr.debug_name,
    )
    return moved


def pick(xs: Sequence[Any], chosen: Sequence[bool]) -> list[Any]:
    """The items that are chosen."""
    return [x for x, c in zip(xs, chosen, strict=True) if c]


def carry_fixpoint(carry: list[bool], step: Callable[[list[bool]], Sequence[bool]]) -> list[bool]:
    """The smallest set of carried values that contains `carry` and that `step` keeps."""
    while True:
        grown = [a or b for a, b in zip(carry, step(carry), strict=True)]
        if grown == carry:
            return carry
        carry = grown
