"""Branches with side effects under a mapped predicate, where all branches run for all elements.

Debugging calls are made for all elements, as in JAX. Checks count only for the elements whose branch
it is: their operands are masked by that.

Builds on core/call.py and callback.py. Tested in tests/api/test_checkify.py and test_effects.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core.aval import make_aval
from pullback.core.call import cached, closed_jaxpr
from pullback.core.jaxpr import Eqn, Jaxpr, eval_jaxpr, inner_jaxprs
from pullback.lax.callback import debug_callback_p
from pullback.lax.inner import intern_jaxpr

# Name of a primitive with a side effect -> (operands, bool scalar) -> operands with which it has its
# effect only where the scalar holds. api/check.py gives that of `check`.
masks: dict[str, Callable[[Sequence[Any], Any], list[Any]]] = {}


# Those whose inner jaxprs can be given one more input.
_THROUGH = frozenset({"jit", "checkpoint", "scan", "cond", "while"})


def can_run_for_all(jaxpr: Jaxpr) -> bool:
    """Whether the side effects of a branch are debugging calls or can be masked."""
    return all(map(_can_run_for_all, jaxpr.eqns))


def _can_run_for_all(eqn: Eqn) -> bool:
    if not eqn.effectful or eqn.primitive is debug_callback_p or eqn.primitive.name in masks:
        return True
    inner = list(inner_jaxprs(eqn.params))
    if not inner or not all(map(can_run_for_all, inner)):
        return False
    if not any(map(needs_mask, inner)):
        return True
    in_condition = "cond_jaxpr" in eqn.params and needs_mask(eqn.params["cond_jaxpr"])
    return eqn.primitive.name in _THROUGH and not in_condition


def needs_mask(jaxpr: Jaxpr) -> bool:
    """Whether a branch has side effects that are masked."""

    def find() -> bool:
        return any(
            e.primitive.name in masks or any(map(needs_mask, inner_jaxprs(e.params)))
            for e in jaxpr.eqns
        )

    return cached(jaxpr, ("needs_mask",), find)


def masked(jaxpr: Jaxpr) -> Jaxpr:
    """The branch with one more input in front: whether it is taken."""

    def fun(taken: Any, *args: Any) -> list[Any]:
        def apply(eqn: Eqn, operands: list[Any]) -> Sequence[Any]:
            params = eqn.params
            if eqn.primitive.name in masks:
                operands = masks[eqn.primitive.name](operands, taken)
            elif any(map(needs_mask, inner_jaxprs(params))):
                operands, params = _through(eqn, operands, taken)
            out = eqn.primitive.bind(*operands, **params)
            return out if eqn.primitive.multiple_results else (out,)

        return eval_jaxpr(jaxpr, (), *args, apply=apply)

    def make() -> Jaxpr:
        avals = [make_aval((), np.dtype(np.bool_)), *jaxpr.in_avals]
        return intern_jaxpr(closed_jaxpr(fun, avals, jaxpr.debug_name)[0])

    return cached(jaxpr, ("masked",), make)


def _through(eqn: Eqn, operands: list[Any], taken: Any) -> tuple[list[Any], dict[str, Any]]:
    """The operands and parameters of a call, loop or cond whose inner jaxprs are masked."""
    params = dict(eqn.params)
    match eqn.primitive.name:
        case "cond":
            params["branches"] = tuple(map(masked, params["branches"]))
            return [operands[0], taken, *operands[1:]], params
        case "while":
            params["body_jaxpr"] = masked(params["body_jaxpr"])
            params["body_nconsts"] += 1
            at = params["cond_nconsts"]
            return [*operands[:at], taken, *operands[at:]], params
        case "scan":
            params["num_consts"] += 1
    params["jaxpr"] = masked(params["jaxpr"])
    return [taken, *operands], params
