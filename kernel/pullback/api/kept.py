"""What reverse mode has kept of a function, as a pytree: so that it passes through jit.

Builds on core/reverse.py. Tested in tests/api/test_fwd_and_bwd.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pullback.core.aval import ShapedArray
from pullback.core.call import jit_p, transpose_jaxpr
from pullback.core.jaxpr import Jaxpr
from pullback.core.jvp import Zero, instantiate
from pullback.core.reverse import Linearized
from pullback.lax.inner import intern_jaxpr


@dataclass(frozen=True, slots=True)
class Form:
    """A linear program without its residuals; those of equal programs are equal.

    Attributes:
        jaxpr: residuals then tangents to the nonzero tangents of the results.
        varied, in_avals, out_indices, out_avals: as in `Linearized`.
    """

    jaxpr: Jaxpr
    varied: tuple[bool, ...]
    in_avals: tuple[ShapedArray, ...]
    out_indices: tuple[int | None, ...]
    out_avals: tuple[ShapedArray, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A linear program with residuals that came through a pytree; runs as `Linearized` does."""

    form: Form
    residuals: list[Any]

    varied = property(lambda self: self.form.varied)
    out_avals = property(lambda self: self.form.out_avals)

    def jvp(self, tangents: Sequence[Any]) -> list[Any]:
        """Push tangents (arrays) through the linear program."""
        form = self.form
        outs = iter(jit_p.bind(*self.residuals, *tangents, jaxpr=form.jaxpr, name="forward"))
        return [
            Zero(a) if i is None else next(outs)
            for i, a in zip(form.out_indices, form.out_avals, strict=True)
        ]

    def vjp(self, cotangents: Sequence[Any]) -> list[Any]:
        """Pull cotangents (arrays or `Zero`) back to the inputs."""
        form = self.form
        cts = [ct for ct, i in zip(cotangents, form.out_indices, strict=True) if i is not None]
        if all(type(ct) is Zero for ct in cts):
            return [Zero(a) for a in form.in_avals]
        n_res = len(self.residuals)
        linear = (False,) * n_res + (True,) * len(form.in_avals)
        zeros = tuple([type(ct) is Zero for ct in cts])
        jaxpr, consts, present = transpose_jaxpr(form.jaxpr, linear, zeros)
        given = [instantiate(ct) for ct in cts if type(ct) is not Zero]
        outs = iter(jit_p.bind(*consts, *self.residuals, *given, jaxpr=jaxpr, name="backward"))
        return [
            next(outs) if there else Zero(a)
            for there, a in zip(present, form.in_avals, strict=True)
        ]


def form_of(linear: Linearized | Kept) -> Form:
    """The linear program without its residuals."""
    if isinstance(linear, Kept):
        return linear.form
    return Form(
        intern_jaxpr(linear.jaxpr),
        tuple(map(bool, linear.varied)),
        tuple(linear.in_avals),
        tuple(linear.out_indices),
        tuple(linear.out_avals),
    )
