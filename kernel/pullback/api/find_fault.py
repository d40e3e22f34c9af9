"""Running loops and branches step by step, to find the operation that made a NaN or an infinity.

For debug_nans and debug_infs, after a loop as a whole was seen to give one.
Builds on xla/debug_values.py and lax/. Tested in tests/xla/test_debug_values.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core.jaxpr import eval_jaxpr
from pullback.lax.loop_parts import split_at
from pullback.xla import debug_values


def _scan(args: Sequence[Any], params: dict[str, Any]) -> None:
    consts, carry, xs = split_at(args, params["num_consts"], params["num_carry"])
    rows = [np.asarray(x) for x in xs]
    steps = range(params["length"])
    for t in reversed(steps) if params["reverse"] else steps:
        outs = eval_jaxpr(params["jaxpr"], (), *consts, *carry, *[row[t] for row in rows])
        carry = outs[: len(carry)]


def _while(args: Sequence[Any], params: dict[str, Any]) -> None:
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    if cond.out_avals[0].shape:
        return  # under vmap the body also runs for elements whose loop has ended
    for_cond, for_body, carry = split_at(args, params["cond_nconsts"], params["body_nconsts"])
    while bool(eval_jaxpr(cond, (), *for_cond, *carry)[0]):
        carry = eval_jaxpr(body, (), *for_body, *carry)


def _cond(args: Sequence[Any], params: dict[str, Any]) -> None:
    branches = params["branches"]
    index = min(max(int(args[0]), 0), len(branches) - 1)
    eval_jaxpr(branches[index], (), *args[1:])


debug_values.searches.update({"scan": _scan, "while": _while, "cond": _cond})
