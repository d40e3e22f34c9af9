"""Conditions that a program must fulfil: `check`, `debug_check`, `check_error`.

Called outside of a trace, a check that fails raises at once. A compiled program cannot raise: there a
check stands as an equation, which `checkify` turns into a value.

Builds on check_error.py. Tested in tests/api/test_checkify.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.api import check_error as check_errors
from pullback.api.check_error import Error, FailedCheckError, JaxRuntimeError, failed_at, site_of
from pullback.core import dtypes, errors, pytree
from pullback.core.aval import ShapedArray, typeof
from pullback.core.batching import AxisData, bdim_at_front, broadcast_dim
from pullback.core.config import config
from pullback.core.source import api_boundary, current_position
from pullback.core.tracer import Primitive, Tracer
from pullback.lax.callback import lower_call
from pullback.lax.compare_select import not_p, select_n_p
from pullback.lax.convert import stop_gradient_p
from pullback.lax.masked_effects import masks
from pullback.xla.array import Array
from pullback.xla.callbacks import HostCall

# The primitive `check`: its operands are the leaves of an Error, of structure `tree`.


def _impl(*leaves: Any, tree: Any, debug: bool) -> list[Any]:
    exception = None if debug else pytree.tree_unflatten(tree, leaves).get_exception()
    if exception is not None:
        raise JaxRuntimeError.of(exception) from exception
    return []


def _lower(ctx: Any, *values: Any, tree: Any, debug: bool) -> list[Any]:
    if debug:
        return []
    if config.jax_experimental_unsafe_xla_runtime_errors:
        raising = HostCall(
            lambda *leaves: _impl(*leaves, tree=tree, debug=False), (), False, "check"
        )
        return lower_call(ctx, values, raising, False, True)
    sites = pytree.tree_unflatten(tree, list(values))._sites.values()
    raise ValueError(
        errors.compose(
            "Cannot abstractly evaluate a checkify.check which was not functionalized: a compiled "
            "program (jit, scan, cond, pmap, ...) cannot raise.",
            next((errors.line_text(s.position) for s in sites), ""),
            "Instead: err, out = jax.jit(checkify.checkify(f))(x); err.throw()",
        )
    )


def _jvp(primals: Any, tangents: Any, **params: Any) -> tuple[list, list]:
    check_p.bind(*primals, **params)
    return [], []


def _transpose(cts: Any, *args: Any, **params: Any) -> list[Any]:
    raise ValueError("check: a tangent cannot be checked in reverse mode; check the primal value.")


def _batch(axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[list, list]:
    mapped = [
        broadcast_dim(x, axis.size, 0) if d is None else bdim_at_front(x, d, axis.size)
        for x, d in zip(args, dims, strict=True)
    ]
    check_p.bind(*mapped, **params)
    return [], []


def _abstract(*avals: ShapedArray, **params: Any) -> tuple:
    return ()


check_p = Primitive(
    name="check",
    doc="raises an error if it says that a check failed",
    multiple_results=True,
    abstract=_abstract,
    impl=_impl,
    lower=_lower,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    effectful=lambda params: True,
)


def _where(operands: Sequence[Any], taken: Any) -> list[Any]:
    """The operands of a check that counts only where its branch is taken."""
    code, *values = operands
    return [select_n_p.bind(taken, np.zeros((), np.int32), code), *values]


masks["check"] = _where


def _bind(error: Error, debug: bool = False) -> None:
    leaves, tree = pytree.tree_flatten(error)
    if error._sites:
        check_p.bind(*leaves, tree=tree, debug=debug)


check_errors.throw[0] = _bind


def _is_condition(x: Any) -> bool:
    if isinstance(x, bool | np.bool_):
        return True
    return isinstance(x, Array | Tracer) and x.shape == () and x.dtype == np.bool_


def _check(what: str, pred: Any, text: str, debug: bool, args: tuple, kwargs: dict) -> None:
    if not _is_condition(pred):
        shown = typeof(pred).str_short() if isinstance(pred, Array | Tracer) else repr(pred)
        raise TypeError(
            f"{what} takes a scalar pred as argument, got {shown:.60}\n"
            "Instead: one bool, such as jnp.all(x > 0)."
        )
    leaves, tree = pytree.tree_flatten((args, kwargs))
    for x in leaves:
        if not isinstance(x, Array | Tracer | np.ndarray):
            raise TypeError(
                f"Formatting arguments to checkify.{what} need to be PyTrees of arrays, but got "
                f"{x!r:.60} of type {type(x)}.\n"
                "Instead: write what is known into the message, f'...'; jnp.asarray(x) for numbers."
            )
    values = [_shown(x) for x in leaves]
    spec = tuple([typeof(x) for x in values])
    site = site_of(FailedCheckError, (text, tree), spec, current_position())
    _bind(failed_at(site, not_p.bind(pred), values), debug)


def _shown(x: Any) -> Any:
    """A value as messages get it: without tangents, of a strong type."""
    x = check_errors.strong(x)
    return stop_gradient_p.bind(x) if dtypes.is_inexact(typeof(x).dtype) else x


@api_boundary
def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """Raise an error, or under `checkify` note one, if a condition does not hold.

    Args:
        pred: bool scalar.
        msg: the message, with places for the arguments as for str.format.
        fmt_args, fmt_kwargs: pytrees of arrays, traced ones too, that the message shows.
        debug: only check under `checkify`, else do nothing.

    Raises:
        JaxRuntimeError: `pred` is False, outside of compiled programs and `checkify`.
        ValueError: in a compiled program that no `checkify` is around.
        TypeError: `pred` is no bool scalar, or an argument is no array.

    Example:
        >>> import pullback as jax
        >>> from pullback.experimental import checkify
        >>> def f(x):
        ...     checkify.check(x > 0, "{} is not positive", x)
        >>> err, _ = jax.jit(checkify.checkify(f))(-3.0)
        >>> err.get().splitlines()[0]
        '-3.0 is not positive (`check` failed)'
    """
    _check("debug_check" if debug else "check", pred, msg, debug, fmt_args, fmt_kwargs)


@api_boundary
def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """Note an error under `checkify` if a condition does not hold; do nothing elsewhere.

    Args:
        pred: bool scalar.
        msg: the message, with places for the arguments as for str.format.
        fmt_args, fmt_kwargs: pytrees of arrays that the message shows.
    """
    _check("debug_check", pred, msg, True, fmt_args, fmt_kwargs)


@api_boundary
def check_error(error: Error) -> None:
    """Raise an error, or under `checkify` note it, if `error` says that a check failed.

    It gives back to the program what `checkify` took out of it.

    Raises:
        JaxRuntimeError: a check failed, outside of compiled programs and `checkify`.
        ValueError: in a compiled program that no `checkify` is around.
    """
    if not isinstance(error, Error):
        raise TypeError(
            f"check_error takes an Error as argument, got type {type(error)} instead.\n"
            "Instead: give the first result of a function made by checkify."
        )
    _bind(error)
