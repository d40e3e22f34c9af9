"""Along which mesh axes the values of a `shard_map` body may differ between devices.

Builds on core/jaxpr.py. Tested in tests/api/test_shard_map.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.core.jaxpr import Eqn, Jaxpr, Literal, axis_names, inner_jaxprs
from pullback.lax.collective import all_gather_p, axis_index_p, pmax_p, pmin_p, psum_p
from pullback.lax.loop_parts import split_at
from pullback.lax.scan import scan_p

Axes = frozenset[Any]
NONE: Axes = frozenset()


def varying_axes(jaxpr: Jaxpr, in_axes: Sequence[Axes]) -> list[Axes]:
    """Per result the mesh axes along which it may vary, given those of the inputs."""
    env: dict[Any, Axes] = dict(zip(jaxpr.invars, in_axes, strict=True))
    for eqn in jaxpr.eqns:
        given = [NONE if type(v) is Literal else env.get(v, NONE) for v in eqn.invars]
        env.update(zip(eqn.outvars, _equation(eqn, given), strict=True))
    return [NONE if type(v) is Literal else env.get(v, NONE) for v in jaxpr.outvars]


def _equation(eqn: Eqn, given: list[Axes]) -> list[Axes]:
    params, prim = eqn.params, eqn.primitive
    union: Axes = NONE.union(*given)
    if prim in (psum_p, pmax_p, pmin_p) and params["axis_index_groups"] is None:
        return [axes - set(params["axes"]) for axes in given]
    if prim is all_gather_p and params["axis_index_groups"] is None:
        return [union - set(params["axis_name"])]
    if prim is axis_index_p:
        return [union | set(params["axis_name"])]
    if prim is scan_p:
        return _scan(params, given)
    inner = params.get("jaxpr") or params.get("call")
    if isinstance(inner, Jaxpr) and len(inner.invars) == len(given):
        return varying_axes(inner, given)
    for jaxpr in inner_jaxprs(params):
        union |= axis_names(jaxpr)
    if prim.axis_param is not None:
        union |= set(params[prim.axis_param])
    return [union] * len(eqn.outvars)


def _scan(params: dict, given: list[Axes]) -> list[Axes]:
    consts, carry, xs = split_at(given, params["num_consts"], params["num_carry"])
    while True:
        outs = varying_axes(params["jaxpr"], [*consts, *carry, *xs])
        grown = [a | b for a, b in zip(carry, outs, strict=False)]
        if grown == carry:
            return outs
        carry = grown
