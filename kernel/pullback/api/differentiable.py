"""What differentiation takes and gives: arguments, results, tangents and cotangents, checked.

Builds on core/. Tested in tests/api/test_autodiff.py and tests/errors/.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core import dtypes, errors, pytree
from pullback.core.aval import ShapedArray, is_arraylike, tangent_aval, typeof
from pullback.core.jvp import Zero

Argnums = int | Sequence[int]


def name_of(fun: Any) -> str:
    """The name of a function, or of its class."""
    return getattr(fun, "__name__", type(fun).__name__)


def select_arguments(args: tuple, argnums: Argnums, name: str) -> tuple[tuple, Any]:
    """The varied arguments, and a function that puts new ones in their place."""
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for n in numbers:
        if not isinstance(n, int | np.integer):
            raise TypeError(f"argnums must be an int or a sequence of ints, got {argnums!r}")
        if not -len(args) <= n < len(args):
            raise TypeError(
                f"differentiating with respect to argnums={argnums!r} requires at least "
                f"{max(numbers) + 1} positional arguments to {name}, got {len(args)}.\n"
                "Instead: count from 0, and pass what is differentiated by position, not by name."
            )
    numbers = tuple(n % len(args) for n in numbers)
    if numbers == (0,) and len(args) == 1:
        return args, None

    def put(new: Sequence[Any]) -> list[Any]:
        full = list(args)
        for n, x in zip(numbers, new, strict=True):
            full[n] = x
        return full

    return tuple(args[n] for n in numbers), put


def check_input(x: Any, what: str, holomorphic: bool, allow_int: bool) -> None:
    """Check that `what` can differentiate by `x`.

    Raises:
        TypeError: it is no array, or of a dtype without derivatives.
    """
    if not is_arraylike(x):
        raise TypeError(
            f"{what}: a value of type {type(x).__name__} is not a valid array type: {x!r:.60}\n"
            "Instead: differentiate with respect to arrays, or pass it outside of argnums."
        )
    dtype = typeof(x).dtype
    if holomorphic:
        if not dtypes.issubdtype(dtype, np.complexfloating):
            raise errors.grad_input_error(what, dtype, "holomorphic")
    elif dtypes.issubdtype(dtype, np.floating):
        return
    elif dtypes.issubdtype(dtype, np.complexfloating):
        if what.startswith("jacfwd"):
            raise errors.grad_input_error(what, dtype, "complex")
    elif not allow_int or not (dtypes.issubdtype(dtype, np.integer) or dtype == np.bool_):
        raise errors.grad_input_error(what, dtype, "integer")


def check_scalar(x: Any, what: str, holomorphic: bool) -> None:
    """Check that a function to differentiate returned one real scalar.

    Raises:
        TypeError: it returned something else.
    """
    if not is_arraylike(x):
        raise errors.grad_output_error(what, x, None, "structure")
    aval = typeof(x)
    if aval.shape != ():
        raise errors.grad_output_error(what, x, aval, "shape")
    if holomorphic:
        if not dtypes.issubdtype(aval.dtype, np.complexfloating):
            raise errors.grad_output_error(what, x, aval, "holomorphic")
    elif dtypes.issubdtype(aval.dtype, np.complexfloating):
        raise errors.grad_output_error(what, x, aval, "complex")
    elif not dtypes.issubdtype(aval.dtype, np.floating):
        raise errors.grad_output_error(what, x, aval, "integer")


def split_aux(result: Any, name: str) -> tuple[Any, Any]:
    """The (value, aux) pair that a function with has_aux returned.

    Raises:
        TypeError: it returned something else.
    """
    if not (isinstance(result, tuple | list) and len(result) == 2):
        raise TypeError(
            f"{name} was differentiated with has_aux=True, so it must return a pair "
            f"(value, aux), got {_kind(result)}.\n"
            "Instead: return (value, aux), or leave has_aux out."
        )
    return result[0], result[1]


def _kind(x: Any) -> str:
    """What a user's function returned, in words."""
    if is_arraylike(x):
        return f"one array, {errors.aval_text(typeof(x))}"
    size = f" of {len(x)}" if isinstance(x, tuple | list) else ""
    return f"a {type(x).__name__}{size}"


class Aux:
    """The auxiliary result: its arrays take part in the trace, the rest is carried along."""

    __slots__ = ("arrays", "leaves", "tree")

    def __init__(self, aux: Any) -> None:
        self.leaves, self.tree = pytree.tree_flatten(aux)
        self.arrays = [x for x in self.leaves if is_arraylike(x)]
        self.leaves = [None if is_arraylike(x) else (x,) for x in self.leaves]

    def rebuilt(self, arrays: Sequence[Any]) -> Any:
        """The auxiliary result with its arrays as they left the trace."""
        given = iter(arrays)
        return self.tree.unflatten([next(given) if x is None else x[0] for x in self.leaves])


def check_tangents(
    primal_avals: Sequence[ShapedArray], primal_tree: Any, tangents: Any, what: str
) -> list[Any]:
    """The tangents' leaves, checked against the primals' types; float0 as symbolic zero."""
    leaves, tree = pytree.tree_flatten(tuple(tangents))
    if tree != primal_tree:
        found = pytree.mismatch(primal_tree.unflatten(primal_avals), tuple(tangents))
        raise TypeError(
            f"{what}: primals and tangents must have the same structure: {found or ''}\n"
            f"  primals  {primal_tree}\n  tangents {tree}\n"
            "Instead: build the tangents from the primals, jax.tree.map(jnp.ones_like, primals)."
        )
    checked = []
    for i, (p, t) in enumerate(zip(primal_avals, leaves, strict=True)):
        want = tangent_aval(p)
        if getattr(t, "dtype", None) == dtypes.float0:
            given_shape, given_dtype = t.shape, dtypes.float0
        else:
            given = typeof(t)
            given_shape, given_dtype = given.shape, given.dtype
        if given_dtype != want.dtype:
            raise TypeError(
                f"{what}: the tangent of {p.str_short()} at "
                f"{pytree.leaf_path(primal_tree, i)} must have dtype "
                f"{dtypes.name(want.dtype)}, got {dtypes.name(given_dtype)}\n"
                "Instead: cast the tangent, or use a float primal value."
            )
        if given_shape != want.shape:
            raise ValueError(
                f"{what}: the tangent of {p.str_short()} at "
                f"{pytree.leaf_path(primal_tree, i)} must have shape {want.shape}, "
                f"got {given_shape}.\n"
                "Instead: a tangent has the shape of its primal, as jnp.ones_like(x) has."
            )
        checked.append(Zero(want) if given_dtype == dtypes.float0 else t)
    return checked


def check_cotangent(ct: Any, aval: ShapedArray, name: str) -> None:
    """Check that a cotangent has the type of the result's tangent.

    Raises:
        ValueError: it has another shape or dtype.
    """
    if getattr(ct, "dtype", None) == dtypes.float0:
        return
    given = typeof(ct)
    if given.shape != aval.shape or (given.dtype != aval.dtype and not given.weak_type):
        want = "float0" if aval.dtype == dtypes.float0 else aval.str_short()
        raise ValueError(
            f"the pullback of {name} expects a cotangent of type {want}, got {given.str_short()}\n"
            "Instead: pass an array of the result's shape and dtype, such as jnp.ones_like(result)."
        )
