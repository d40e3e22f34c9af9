"""Transposing linear programs: from tangents forward to cotangents backward.

Builds on jaxpr.py and jvp.py. Source: Radul et al., You Only Linearize Once, POPL 2023.
Tested in tests/core/test_transpose.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.core.aval import ShapedArray, typeof
from pullback.core.jaxpr import Eqn, Jaxpr, Literal, Var
from pullback.core.jvp import Zero, add_tangents
from pullback.core.source import note_position
from pullback.core.tracer import state


class UndefinedPrimal:
    """Stands for a linear argument of a primitive that is being transposed."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"UndefinedPrimal({self.aval.str_short()})"


def is_undefined(x: Any) -> bool:
    """Whether an argument of a transpose rule is a linear one."""
    return type(x) is UndefinedPrimal


OnCotangent = Callable[[Eqn, list[Any]], None]


def backward_pass(
    jaxpr: Jaxpr,
    consts: Sequence[Any],
    args: Sequence[Any],
    cotangents: Sequence[Any],
    on_cotangent: OnCotangent | None = None,
) -> list[Any]:
    """Cotangents of the linear inputs of a jaxpr.

    Args:
        jaxpr: a program, linear in the inputs that `args` leaves undefined. Equations that do not
            depend on those are evaluated on the way.
        consts: values of the constvars.
        args: per invar its value, or an `UndefinedPrimal`.
        cotangents: per outvar an array or `Zero`.
        on_cotangent: called with each linear equation and the cotangents of its results.

    Returns:
        Per invar a cotangent (array or `Zero`); None for the defined ones.
    """
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    linear: set[Var] = set()
    for var, arg in zip(jaxpr.invars, args, strict=True):
        if type(arg) is UndefinedPrimal:
            linear.add(var)
        else:
            values[var] = arg
    linear_eqns = _run_nonlinear(jaxpr, values, linear)
    cts: dict[Var, Any] = {}

    def accumulate(var: Any, ct: Any) -> None:
        if ct is not None and type(ct) is not Zero and type(var) is not Literal:
            cts[var] = add_tangents(cts[var], ct) if var in cts else ct

    for out, ct in zip(jaxpr.outvars, cotangents, strict=True):
        if out in linear:
            accumulate(out, ct)
    outer_source = state.source
    try:
        for eqn in reversed(linear_eqns):
            out_cts = [cts.pop(v, None) for v in eqn.outvars]
            if all(ct is None for ct in out_cts):
                continue
            out_cts = [
                Zero(v.aval) if ct is None else ct
                for v, ct in zip(eqn.outvars, out_cts, strict=True)
            ]
            if on_cotangent is not None:
                on_cotangent(eqn, out_cts)
            state.source = eqn.source
            in_cts = _transpose(eqn, values, linear, out_cts)
            for atom, ct in zip(eqn.invars, in_cts, strict=True):
                if atom in linear:
                    accumulate(atom, ct)
    except Exception as error:
        note_position(error, state.source, f"the transpose of {eqn.primitive.name}")
        raise
    finally:
        state.source = outer_source
    return [
        cts.get(var, Zero(var.aval)) if type(arg) is UndefinedPrimal else None
        for var, arg in zip(jaxpr.invars, args, strict=True)
    ]


def _run_nonlinear(jaxpr: Jaxpr, values: dict[Any, Any], linear: set[Var]) -> list[Eqn]:
    """Evaluate the equations without linear inputs; give the others."""
    linear_eqns = []
    for eqn in jaxpr.eqns:
        if any(v in linear for v in eqn.invars):
            linear.update(eqn.outvars)
            linear_eqns.append(eqn)
            continue
        operands = [v.val if type(v) is Literal else values[v] for v in eqn.invars]
        state.source, outer = eqn.source, state.source
        try:
            result = eqn.primitive.bind(*operands, **eqn.params)
        finally:
            state.source = outer
        results = result if eqn.primitive.multiple_results else (result,)
        values.update(zip(eqn.outvars, results, strict=True))
    return linear_eqns


def _transpose(
    eqn: Eqn, values: dict[Any, Any], linear: set[Var], out_cts: list[Any]
) -> Sequence[Any]:
    prim = eqn.primitive
    if prim.transpose is None:
        raise NotImplementedError(
            f"{prim.name} cannot be transposed: it has no transpose rule, so reverse mode "
            f"cannot go through it.\n"
            f"Instead: use forward mode (jvp, jacfwd), or a custom_vjp around this operation."
        )
    operands = [
        v.val if type(v) is Literal else UndefinedPrimal(v.aval) if v in linear else values[v]
        for v in eqn.invars
    ]
    ct = out_cts if prim.multiple_results else out_cts[0]
    return prim.transpose(ct, *operands, **eqn.params)


def unbroadcast_axes(from_shape: tuple[int, ...], to_shape: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of `from_shape` that were added or stretched to get it from `to_shape`."""
    extra = len(from_shape) - len(to_shape)
    return tuple(
        axis
        for axis in range(len(from_shape))
        if axis < extra or (to_shape[axis - extra] == 1 and from_shape[axis] != 1)
    )


def cotangent_aval(x: Any) -> ShapedArray:
    """The type of the cotangent of an operand, defined or not."""
    return x.aval if type(x) is UndefinedPrimal else typeof(x)
