"""The option jax_numpy_rank_promotion: operands of different rank allowed, warned of, or refused.

Builds on promote.py. Tested in tests/numpy/test_ranks.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from pullback.core import errors
from pullback.core.config import config
from pullback.numpy import promote

Pair = Callable[[str, Any, Any], Any]

# Not empty once the option has been anything but "allow"; before, checks cost nothing.
watching: list[str] = []


def check_ranks(name: str, *operands: Any) -> None:
    """Warn or raise, as the option says, if operands that are not scalars differ in rank.

    Raises:
        ShapeError: they do, and the option is "raise".
    """
    mode = config.jax_numpy_rank_promotion
    if mode == "allow":
        return
    shapes = [promote.shape_of(x) for x in operands]
    if len({len(s) for s in shapes if s}) < 2:
        return
    what = (
        f"{name}: operands of shapes {' and '.join(map(str, shapes))} differ in rank, under "
        f"jax_numpy_rank_promotion={mode!r}."
    )
    instead = "add the axes where they belong, x[None, :] or x[:, None]."
    if mode == "raise":
        raise errors.shape_error(what, instead)
    warnings.warn(errors.compose(what, f"Instead: {instead}"), stacklevel=4)


def checked(pair: Pair) -> Pair:
    """A promotion of two operands that checks their ranks first."""

    def promote_checked(name: str, x: Any, y: Any) -> Any:
        check_ranks(name, x, y)
        return pair(name, x, y)

    return promote_checked


def promote_floating(name: str, x: Any, y: Any) -> Any:
    """Two operands in their common floating dtype, their ranks checked where that is asked for."""
    if watching:
        check_ranks(name, x, y)
    return promote.promote_inexact(name, x, y)
