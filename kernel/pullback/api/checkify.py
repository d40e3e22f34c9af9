"""`checkify`: a function that gives its failed checks as a value beside its result.

The function is traced, and its jaxpr interpreted: each equation is applied as it stands, and what it
may have done wrong is noted. Equations that hold jaxprs (calls, loops, branches, custom rules) get
ones whose first results are their error; loops carry it along. A jaxpr in which nothing can fail
stays the same object.

Builds on check.py and check_values.py. Tested in tests/api/test_checkify.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.api.check import check_p
from pullback.api.check_error import (
    DivisionByZeroError,
    Error,
    ErrorCategory,
    FailedCheckError,
    NaNError,
    OOBError,
    Site,
    Spec,
    any_of,
    first_of,
    init_error,
    no_error,
    only,
    strong,
)
from pullback.api.check_rules import BwdWithError, FwdWithError, JVPWithError, VmapWithError
from pullback.api.check_values import Kinds, check_values
from pullback.core import errors, pytree
from pullback.core.aval import ShapedArray, typeof
from pullback.core.call import cached, closed_jaxpr, jit_p
from pullback.core.jaxpr import Eqn, Jaxpr, eval_jaxpr, inner_jaxprs
from pullback.core.source import api_boundary
from pullback.core.stage import trace_to_jaxpr
from pullback.lax.control_flow import cond_p, share_consts
from pullback.lax.custom_rules import custom_jvp_call_p, custom_vjp_call_p
from pullback.lax.custom_vmap import custom_vmap_call_p
from pullback.lax.inner import function_name
from pullback.lax.loop_parts import split_at
from pullback.lax.remat import checkpoint_p
from pullback.lax.scan import scan_p
from pullback.lax.shape import expand_dims
from pullback.lax.spmd import mesh_axes, shard_map_p
from pullback.lax.while_loop import while_p
from pullback.xla.mesh import P

user_checks: Kinds = frozenset({FailedCheckError})
nan_checks: Kinds = frozenset({NaNError})
index_checks: Kinds = frozenset({OOBError})
div_checks: Kinds = frozenset({DivisionByZeroError})
float_checks: Kinds = nan_checks | div_checks
automatic_checks: Kinds = float_checks | index_checks
all_checks: Kinds = automatic_checks | user_checks


# ---------------------------------------------------------------------------- the interpreter


def _interpret(
    jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any], kinds: Kinds
) -> tuple[Error, list[Any]]:
    """Apply a jaxpr's equations and note which check fails first."""
    error = init_error

    def apply(eqn: Eqn, operands: list[Any]) -> Sequence[Any]:
        nonlocal error
        rule = _RULES.get(eqn.primitive, _operation)
        found, results = rule(eqn, operands, kinds)
        error = first_of(error, found)
        return results

    outs = eval_jaxpr(jaxpr, consts, *args, apply=apply)
    return error, outs


def _apply(eqn: Eqn, operands: Sequence[Any], **changes: Any) -> Sequence[Any]:
    """The results of an equation, with other operands and parameters."""
    result = eqn.primitive.bind(*operands, **{**eqn.params, **changes})
    return result if eqn.primitive.multiple_results else (result,)


def _operation(eqn: Eqn, operands: list[Any], kinds: Kinds) -> tuple[Error, Sequence[Any]]:
    for inner in inner_jaxprs(eqn.params):
        if _has_checks(inner):
            raise NotImplementedError(
                errors.compose(
                    f"checkify: a check inside of {eqn.primitive.name} cannot be given as a value.",
                    errors.where_text(),
                    "Instead: check the values before or after it.",
                )
            )
    results = _apply(eqn, operands)
    return check_values(eqn, operands, results, kinds), results


def _has_checks(jaxpr: Jaxpr) -> bool:
    def find() -> bool:
        return any(
            e.primitive is check_p or any(map(_has_checks, inner_jaxprs(e.params)))
            for e in jaxpr.eqns
        )

    return cached(jaxpr, ("has_checks",), find)


def _check(eqn: Eqn, operands: list[Any], kinds: Kinds) -> tuple[Error, Sequence[Any]]:
    error = pytree.tree_unflatten(eqn.params["tree"], operands)
    return any_of(only(error, kinds)), ()


@dataclass(frozen=True, slots=True, eq=False)
class _Checked:
    """A jaxpr whose first results are its error.

    Attributes:
        jaxpr: (consts, inputs) -> (leaves of the error, results).
        consts: constants of the checks.
        tree: the structure of the error.
        avals: the types of its leaves.
    """

    jaxpr: Jaxpr
    consts: list[Any]
    tree: Any
    avals: list[ShapedArray]

    @property
    def n(self) -> int:
        """How many leaves the error has."""
        return len(self.avals)

    @property
    def can_fail(self) -> bool:
        """Whether there is any check."""
        return bool(self.error(self.avals)._sites)

    def error(self, leaves: Sequence[Any]) -> Error:
        """The error of these leaves."""
        return pytree.tree_unflatten(self.tree, leaves)

    def nothing(self) -> Error:
        """The error when nothing has failed."""
        found = self.error(self.avals)
        return no_error(found._payload, found._sites)

    def run(self, *operands: Any) -> tuple[Error, list[Any]]:
        """The error and the results for (consts, inputs)."""
        leaves, outs = split_at(eval_jaxpr(self.jaxpr, (), *operands), self.n)
        return self.error(leaves), outs


def _checked(jaxpr: Jaxpr, kinds: Kinds, single: bool = True) -> _Checked:
    """The checked form of a jaxpr; with `single`, its error has no axis of devices."""

    def make() -> _Checked:
        trees: list[Any] = []

        def fun(*args: Any) -> list[Any]:
            error, outs = _interpret(jaxpr, (), args, kinds)
            leaves, tree = pytree.tree_flatten(any_of(error) if single else error)
            trees.append(tree)
            return [*leaves, *outs]

        small, consts = closed_jaxpr(fun, jaxpr.in_avals, jaxpr.debug_name)
        n = trees[0].num_leaves
        return _Checked(small, consts, trees[0], small.out_avals[:n])

    return cached(jaxpr, ("checkify", kinds, single), make)


@dataclass(frozen=True, slots=True)
class _Room:
    """The form of an error with room for what may fail in any of several jaxprs."""

    specs: frozenset[Spec]
    sites: frozenset[Site]

    @classmethod
    def of(cls, parts: Sequence[_Checked]) -> _Room:
        """Room for all of them."""
        found = [part.error(part.avals) for part in parts]
        specs = frozenset(spec for e in found for spec in e._payload)
        return cls(specs, frozenset(site for e in found for site in e._sites.values()))

    def nothing(self) -> Error:
        """An error of this form that says that nothing failed."""
        return no_error(self.specs, {site.code: site for site in self.sites})

    def leaves(self, error: Error) -> list[Any]:
        """The leaves of an error brought to this form."""
        return pytree.tree_leaves(first_of(error, self.nothing()))


# ------------------------------------------------------------------- equations that hold jaxprs


def _call(eqn: Eqn, operands: list[Any], kinds: Kinds) -> tuple[Error, Sequence[Any]]:
    checked = _checked(eqn.params["jaxpr"], kinds, single=False)
    if not checked.can_fail:
        return init_error, _apply(eqn, operands)
    outs = _apply(eqn, [*checked.consts, *operands], jaxpr=checked.jaxpr)
    leaves, outs = split_at(outs, checked.n)
    return checked.error(leaves), outs


def _cond(eqn: Eqn, operands: list[Any], kinds: Kinds) -> tuple[Error, Sequence[Any]]:
    branches = [_checked(b, kinds) for b in eqn.params["branches"]]
    if not any(b.can_fail for b in branches):
        return init_error, _apply(eqn, operands)
    index, *ops = operands
    room = _Room.of(branches)
    nothing, tree = pytree.tree_flatten(room.nothing())

    def full(branch: _Checked) -> tuple[Jaxpr, list[Any]]:
        """The branch with room for the checks of all branches."""

        def fun(*args: Any) -> list[Any]:
            error, outs = branch.run(*args)
            return [*room.leaves(error), *outs]

        def make() -> tuple[Jaxpr, list[Any]]:
            return closed_jaxpr(fun, branch.jaxpr.in_avals, branch.jaxpr.debug_name)

        jaxpr, consts = cached(branch.jaxpr, ("checkify_cond", room), make)
        return jaxpr, [*consts, *branch.consts]

    joined, consts = share_consts([full(b) for b in branches])
    outs = _apply(eqn, [index, *consts, *ops], branches=joined)
    leaves, outs = split_at(outs, len(nothing))
    return pytree.tree_unflatten(tree, leaves), outs


def _scan(eqn: Eqn, operands: list[Any], kinds: Kinds) -> tuple[Error, Sequence[Any]]:
    body = _checked(eqn.params["jaxpr"], kinds)
    if not body.can_fail:
        return init_error, _apply(eqn, operands)
    num_consts, num_carry = eqn.params["num_consts"], eqn.params["num_carry"]
    n_lead = len(body.consts) + num_consts

    def fun(*args: Any) -> list[Any]:
        consts, old, rest = split_at(args, n_lead, body.n)
        new, outs = body.run(*consts, *rest)
        return [*pytree.tree_leaves(first_of(body.error(old), new)), *outs]

    def make() -> tuple[Jaxpr, list[Any]]:
        consts, rest = split_at(body.jaxpr.in_avals, n_lead)
        return closed_jaxpr(fun, [*consts, *body.avals, *rest], body.jaxpr.debug_name)

    jaxpr, more = cached(body.jaxpr, ("checkify_scan", num_consts), make)
    consts, rest = split_at(operands, num_consts)
    start = pytree.tree_leaves(body.nothing())
    outs = _apply(
        eqn,
        [*more, *body.consts, *consts, *start, *rest],
        jaxpr=jaxpr,
        num_consts=len(more) + n_lead,
        num_carry=body.n + num_carry,
    )
    leaves, outs = split_at(outs, body.n)
    return body.error(leaves), outs


def _while(eqn: Eqn, operands: list[Any], kinds: Kinds) -> tuple[Error, Sequence[Any]]:
    """The loop with its error and its next condition carried along, so that both are checked.

    A loop under vmap also runs for elements that have ended: only its results can be looked at.
    """
    cond = _checked(eqn.params["cond_jaxpr"], kinds)
    body = _checked(eqn.params["body_jaxpr"], kinds)
    if not (cond.can_fail or body.can_fail):
        return init_error, _apply(eqn, operands)
    if eqn.params["cond_jaxpr"].out_avals[0].shape:
        if not any(map(_has_checks, inner_jaxprs(eqn.params))):
            results = _apply(eqn, operands)
            return check_values(eqn, operands, results, kinds), results
        raise ValueError(
            errors.compose(
                "Checkify does not support batched while-loops (checkify-of-vmap-of-while): a "
                "check in the body also runs for elements whose loop has ended.",
                errors.where_text(),
                "Instead: vmap(checkify(f)), with the vmap outside.",
            )
        )
    n_cond, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    test_consts, consts, init = split_at(operands, n_cond, n_body)
    fixed = [*cond.consts, *test_consts, *body.consts, *consts]
    groups = (len(cond.consts) + n_cond, len(body.consts) + n_body)
    room = _Room.of([cond, body])
    nothing, tree = pytree.tree_flatten(room.nothing())
    n_fixed, n_err = len(fixed), len(nothing)

    def test(consts: Sequence[Any], error: Error, carry: Sequence[Any]) -> list[Any]:
        found, (holds,) = cond.run(*consts, *carry)
        return [*room.leaves(first_of(error, found)), strong(holds), *carry]

    def step(*args: Any) -> list[Any]:
        for_cond, for_body, old, _, carry = split_at(args, *groups, n_err, 1)
        found, carry = body.run(*for_body, *carry)
        return test(for_cond, first_of(pytree.tree_unflatten(tree, old), found), carry)

    def make() -> tuple[Jaxpr, list[Any], Jaxpr]:
        avals = [typeof(x) for x in [*fixed, *nothing]]
        carry = [typeof(np.bool_(True)), *eqn.params["body_jaxpr"].out_avals]
        jaxpr, more = closed_jaxpr(step, [*avals, *carry], body.jaxpr.debug_name)
        holds, _ = closed_jaxpr(lambda *state: [state[n_err]], jaxpr.out_avals, "cond")
        return jaxpr, more, holds

    key = ("checkify_while", cond.jaxpr, n_cond, n_body)
    jaxpr, more, holds = cached(body.jaxpr, key, make)
    outs = while_p.bind(
        *more,
        *fixed,
        *test(fixed[: groups[0]], room.nothing(), init),
        cond_jaxpr=holds,
        cond_nconsts=0,
        body_jaxpr=jaxpr,
        body_nconsts=len(more) + n_fixed,
    )
    return pytree.tree_unflatten(tree, outs[:n_err]), outs[n_err + 1 :]


def _shard_map(eqn: Eqn, operands: list[Any], kinds: Kinds) -> tuple[Error, Sequence[Any]]:
    """Each device has its own error: they come out side by side."""
    manual, in_specs = eqn.params["manual"], eqn.params["in_specs"]
    mesh = eqn.params["mesh"]
    with mesh_axes(mesh, manual):
        checked = _checked(eqn.params["jaxpr"], kinds)
        if not checked.can_fail:
            return init_error, _apply(eqn, operands)

        def fun(*args: Any) -> list[Any]:
            error, outs = checked.run(*args)
            rows = [expand_dims(x, (0,)) for x in pytree.tree_leaves(error)]
            return [*rows, *outs]

        jaxpr, more = closed_jaxpr(fun, checked.jaxpr.in_avals, checked.jaxpr.debug_name)
    consts = [*more, *checked.consts]
    everywhere = P(manual)
    outs = _apply(
        eqn,
        [*consts, *operands],
        jaxpr=jaxpr,
        in_specs=(P(),) * len(consts) + in_specs,
        out_specs=(everywhere,) * checked.n + eqn.params["out_specs"],
    )
    leaves, outs = split_at(outs, checked.n)
    return checked.error(leaves), outs


def _custom(eqn: Eqn, operands: list[Any], kinds: Kinds) -> tuple[Error, Sequence[Any]]:
    params = eqn.params
    checked = _checked(params["call"], kinds)
    if not checked.can_fail:
        return init_error, _apply(eqn, operands)
    rules: dict[str, Any] = {}
    if eqn.primitive is custom_jvp_call_p:
        rules["jvp"] = JVPWithError(params["jvp"], checked.nothing)
    elif eqn.primitive is custom_vjp_call_p:
        rules["fwd"] = FwdWithError(params["fwd"], checked.nothing)
        rules["bwd"] = BwdWithError(params["bwd"], checked.n)
    else:
        rules["rule"] = VmapWithError(params["rule"], checked.nothing)
    outs = _apply(
        eqn,
        [*checked.consts, *operands],
        call=checked.jaxpr,
        num_consts=len(checked.consts) + params["num_consts"],
        **rules,
    )
    leaves, outs = split_at(outs, checked.n)
    return checked.error(leaves), outs


_RULES: dict[Any, Callable[[Eqn, list[Any], Kinds], tuple[Error, Sequence[Any]]]] = {
    check_p: _check,
    jit_p: _call,
    checkpoint_p: _call,
    cond_p: _cond,
    scan_p: _scan,
    while_p: _while,
    shard_map_p: _shard_map,
    custom_jvp_call_p: _custom,
    custom_vjp_call_p: _custom,
    custom_vmap_call_p: _custom,
}


# ------------------------------------------------------------------------------ what users call


@api_boundary
def checkify(
    f: Callable[..., Any], errors: frozenset[ErrorCategory] = user_checks
) -> Callable[..., tuple[Error, Any]]:
    """A function that returns an Error, which says whether a check failed, and what `f` returns.

    Args:
        f: a function of anything; `check` may stand in it.
        errors: what to look for, sets that may be joined by `|`: `user_checks` (calls of `check`),
            `nan_checks` (an operation gives NaN), `div_checks` (a divisor is zero), `index_checks`
            (an index is out of bounds), `float_checks` (NaN or division), `automatic_checks` (all
            but `check`), `all_checks`.

    Loops with a number of steps of their own for each element (a while loop under vmap) are looked at
    from outside: at NaNs in their results.

    Returns:
        A function with the arguments of `f` giving (error, result). `error.get()` is None or the
        message of what failed first, with the line it stands on; `error.throw()` raises it.

    Example:
        >>> from pullback import jit, numpy as jnp
        >>> from pullback.experimental import checkify
        >>> f = jit(checkify.checkify(lambda x, i: x[i], errors=checkify.index_checks))
        >>> err, _ = f(jnp.arange(3.0), 5)
        >>> err.get().splitlines()[0]
        'out-of-bounds indexing for array of shape (3,): index 5 is out of bounds for axis 0 with size 3.'
    """
    kinds = _as_kinds(f, errors)
    name = function_name(f)

    @functools.wraps(f)
    @api_boundary
    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        trees: list[Any] = []

        def flat() -> list[Any]:
            outs, tree = pytree.tree_flatten(f(*args, **kwargs))
            trees.append(tree)
            return outs

        jaxpr, consts = trace_to_jaxpr(flat, [], name=name)
        error, outs = _interpret(jaxpr, consts, (), kinds)
        return error, pytree.tree_unflatten(trees[0], outs)

    return checked


def _as_kinds(f: Any, given: Any) -> Kinds:
    if not callable(f):
        raise errors.not_a_function("checkify", f)
    kinds = frozenset(given)
    for kind in kinds - all_checks:
        raise TypeError(
            f"checkify: errors must be a set of checks, but it holds {kind!r:.60}.\n"
            "Instead: checkify.user_checks | checkify.float_checks, and so on."
        )
    return kinds
