"""What one call of a function with custom derivatives is made of: arguments and rules, flattened.

Builds on lax/custom_rules.py. Tested in tests/api/test_custom.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core import dtypes, pytree
from pullback.core.aval import ShapedArray, tangent_aval, typeof
from pullback.core.jvp import Zero, materialise
from pullback.lax.convert import convert
from pullback.lax.inner import function_name, type_difference
from pullback.xla.arguments import scalar_array


class SymbolicZero:
    """A tangent or cotangent known to be zero, as rules with `symbolic_zeros=True` see it."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)

    @staticmethod
    def from_primal_value(value: Any) -> SymbolicZero:
        """The zero tangent of a value."""
        return SymbolicZero(tangent_aval(typeof(value)))

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval.str_short()})"


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangent of a value: an array of zeros (float0 for integers), or a `SymbolicZero`."""
    zero = SymbolicZero.from_primal_value(val)
    return zero if symbolic_zeros else materialise(Zero(zero.aval))


class CustomVJPPrimal:
    """An argument of a forward rule with `symbolic_zeros`: its value, and whether it varies."""

    __slots__ = ("perturbed", "value")

    def __init__(self, value: Any, perturbed: bool) -> None:
        self.value = value
        self.perturbed = perturbed

    def __repr__(self) -> str:
        return f"CustomVJPPrimal(value={self.value!r}, perturbed={self.perturbed})"


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """The arguments of a forward rule with `symbolic_zeros`, as their values alone.

    Args:
        tree: pytree whose leaves are `CustomVJPPrimal`s.

    Returns:
        The same pytree of values.
    """
    leaves, treedef = pytree.tree_flatten(tree)
    for leaf in leaves:
        if type(leaf) is not CustomVJPPrimal:
            raise TypeError(
                f"unexpected leaf of type {type(leaf).__name__} that is not a CustomVJPPrimal.\n"
                "Instead: give the arguments of a fwd rule set with "
                "defvjp(fwd, bwd, symbolic_zeros=True)."
            )
    return pytree.tree_unflatten(treedef, [leaf.value for leaf in leaves])


def _is_symbolic(x: Any) -> bool:
    return isinstance(x, SymbolicZero)


class CallArguments:
    """The arguments of one call: which are differentiable, and how to put them together again."""

    __slots__ = ("fixed", "in_tree", "leaves", "positions")

    def __init__(
        self, fun: Any, signature: Any, args: tuple, kwargs: dict, nondiff: tuple[int, ...]
    ) -> None:
        args = _positional(fun, signature, args, kwargs)
        self.fixed = {i: args[i] for i in nondiff if i < len(args)}
        self.positions = [i for i in range(len(args)) if i not in self.fixed]
        self.leaves, self.in_tree = pytree.tree_flatten(tuple(args[i] for i in self.positions))

    def take_leaves(self) -> list[Any]:
        """The leaves, once: rules outlive the call, and must not keep its arrays alive."""
        leaves, self.leaves = self.leaves, []
        return leaves

    def __hash__(self) -> int:
        return hash(self.in_tree)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, CallArguments)
            and self.in_tree == other.in_tree
            and self.positions == other.positions
            and self.fixed.keys() == other.fixed.keys()
            and all(x is other.fixed[i] for i, x in self.fixed.items())
        )

    def complete(self, leaves: Sequence[Any]) -> list[Any]:
        """All positional arguments, with new leaves."""
        given = pytree.tree_unflatten(self.in_tree, leaves)
        full: dict[int, Any] = dict(zip(self.positions, given, strict=True))
        full.update(self.fixed)
        return [full[i] for i in range(len(full))]

    def static(self) -> list[Any]:
        """The arguments that are not differentiated, in order."""
        return [self.fixed[i] for i in sorted(self.fixed)]


def signature_of(fun: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(fun)
    except (TypeError, ValueError):
        return None


def _positional(fun: Any, signature: Any, args: tuple, kwargs: dict) -> tuple:
    """Arguments by position, with keywords and defaults put in their places."""
    if signature is None or (not kwargs and len(args) >= len(signature.parameters)):
        if kwargs:
            raise TypeError(f"{function_name(fun)} has no signature: pass arguments by position.")
        return args
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(
            f"The following keyword arguments could not be resolved to positions: "
            f"{', '.join(bound.kwargs)}, in a call of {function_name(fun)}, which has custom "
            "derivatives.\nInstead: make them positional parameters of the function."
        )
    return bound.args


class Rule:
    """A user's rule on flat leaves. Rules of one function at calls of one structure are equal."""

    def __init__(self, owner: Any, arguments: CallArguments, cells: Any) -> None:
        self.owner = owner
        self.arguments = arguments
        self.cells = cells

    def __hash__(self) -> int:
        return hash((type(self), id(self.owner), self.arguments))

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is type(self)
            and other.owner is self.owner
            and other.arguments == self.arguments
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {function_name(self.owner.fun)}>"


def nondiff_numbers(argnums: Any, argnames: Any, fun: Any) -> tuple[int, ...]:
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    names = (argnames,) if isinstance(argnames, str) else tuple(argnames)
    if names:
        parameters = list(inspect.signature(fun).parameters)
        missing = [n for n in names if n not in parameters]
        if missing:
            raise ValueError(
                f"nondiff_argnames {missing} are not parameters of {function_name(fun)}: "
                f"{parameters}"
            )
        numbers += tuple(parameters.index(n) for n in names)
    if any(n < 0 for n in numbers):
        n_parameters = len(inspect.signature(fun).parameters)
        numbers = tuple(n % n_parameters for n in numbers)
    return tuple(sorted(set(numbers)))


class Structures:
    """What the parts of one call tell each other: structures found on the way."""

    __slots__ = ("out_tree", "res_tree")

    def __init__(self) -> None:
        self.out_tree: Any = None
        self.res_tree: Any = None

    def differs(self, out_tree: Any) -> bool:
        """Whether a result's structure contradicts the one found before."""
        return self.out_tree is not None and self.out_tree != out_tree

    def copy(self) -> Structures:
        """The structures as they are now."""
        new = Structures()
        new.out_tree, new.res_tree = self.out_tree, self.res_tree
        return new


class FlatCall(Rule):
    """The user's function on flat leaves; remembers the structure of its result."""

    def __call__(self, *leaves: Any) -> list[Any]:
        out, tree = pytree.tree_flatten(self.owner.fun(*self.arguments.complete(leaves)))
        self.cells.out_tree = tree
        return out


def _as_array(x: Any) -> Any:
    """A tangent or cotangent as rules of users see it: with the methods of arrays."""
    return scalar_array(x) if isinstance(x, bool | int | float | complex | np.generic) else x


def _pair(result: Any, what: str) -> tuple[Any, Any]:
    if not isinstance(result, list | tuple) or len(result) != 2:
        found = f"{type(result).__name__}" + (
            f" of length {len(result)}" if isinstance(result, list | tuple) else ""
        )
        raise TypeError(
            f"{what} must produce a pair (list or tuple of length two), got {found}.\n"
            "Instead: return (value, tangent) from a JVP rule, (value, residuals) from a fwd rule."
        )
    return result[0], result[1]


class JVPRule(Rule):
    """A defjvp rule on flat leaves."""

    def __call__(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list, list]:
        tree = self.arguments.in_tree
        name = function_name(self.owner.fun)
        ts = [SymbolicZero(t.aval) if type(t) is Zero else _as_array(t) for t in tangents]
        result = self.owner.jvp(
            *self.arguments.static(),
            tuple(pytree.tree_unflatten(tree, primals)),
            tuple(pytree.tree_unflatten(tree, ts)),
        )
        what = f"Custom JVP rule {function_name(self.owner.jvp)} for function {name}"
        out, t_out = _pair(result, what)
        outs, out_tree = pytree.tree_flatten(out)
        t_outs, t_tree = pytree.tree_flatten(t_out, is_leaf=lambda x: x is None)
        if out_tree != t_tree and any(t is None for t in t_outs):
            t_outs, t_tree = pytree.tree_flatten(t_out)
        if out_tree != t_tree:
            raise TypeError(
                f"{what} must produce primal and tangent outputs with equal container (pytree) "
                f"structures, but got {out_tree} and {t_tree} respectively."
            )
        if self.cells.differs(out_tree):
            raise TypeError(
                f"{what} must produce a primal output with the structure of the function's result "
                f"{self.cells.out_tree}, but got {out_tree}."
            )
        self.cells.out_tree = out_tree
        t_outs = [_checked_tangent(t, o, what) for t, o in zip(t_outs, outs, strict=True)]
        return outs, t_outs


def _checked_tangent(t: Any, out: Any, what: str) -> Any:
    want = tangent_aval(typeof(out))
    if _is_symbolic(t):
        return Zero(want)
    if want.dtype == dtypes.float0:
        return Zero(want)
    have = typeof(t)
    if (have.shape, have.dtype) != (want.shape, want.dtype):
        if have.weak_type and have.shape == want.shape:
            return convert(t, want.dtype, False)
        raise TypeError(
            f"{what} must produce primal and tangent outputs with corresponding shapes and dtypes. "
            f"Expected {want.str_short()} (tangent type of {typeof(out).str_short()}) but got "
            f"{have.str_short()}: {type_difference(want, have)}."
        )
    return t


class FwdRule(Rule):
    """A forward rule on flat leaves: results and residuals."""

    def __call__(self, primals: Sequence[Any], perturbed: Sequence[bool]) -> tuple[list, list]:
        owner = self.owner
        what = f"Custom VJP fwd rule {function_name(owner.fwd)} for {function_name(owner.fun)}"
        if owner.symbolic_zeros:
            primals = [CustomVJPPrimal(x, p) for x, p in zip(primals, perturbed, strict=True)]
        out, residuals = _pair(owner.fwd(*self.arguments.complete(primals)), what)
        outs, tree = pytree.tree_flatten(out)
        if self.cells.differs(tree):
            raise TypeError(
                f"{what} must produce a pair whose first element has the structure of the "
                f"function's result {self.cells.out_tree}, but got {tree}."
            )
        self.cells.out_tree = tree
        leaves, self.cells.res_tree = pytree.tree_flatten(residuals)
        return outs, leaves


class BwdRule(Rule):
    """A backward rule on flat leaves: residuals and cotangents to the arguments' cotangents."""

    def __init__(
        self, owner: Any, arguments: CallArguments, cells: Structures, in_avals: list[ShapedArray]
    ) -> None:
        super().__init__(owner, arguments, cells)
        self.in_avals = in_avals

    def bound(self) -> BwdRule:
        """The rule with the structures that the forward rule has just found."""
        return BwdRule(self.owner, self.arguments, self.cells.copy(), self.in_avals)

    def __call__(self, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        owner = self.owner
        cts = [SymbolicZero(ct.aval) if type(ct) is Zero else _as_array(ct) for ct in cts]
        result = owner.bwd(
            *self.arguments.static(),
            pytree.tree_unflatten(self.cells.res_tree, residuals),
            pytree.tree_unflatten(self.cells.out_tree, cts),
        )
        what = f"Custom VJP bwd rule {function_name(owner.bwd)} for {function_name(owner.fun)}"
        return self._cotangents(result, what)

    def _cotangents(self, result: Any, what: str) -> list[Any]:
        """The result per argument leaf, None (a whole argument, or a part of it) as zero."""
        if isinstance(result, list):
            result = tuple(result)
        children = pytree.treedef_children(self.arguments.in_tree)
        if not isinstance(result, tuple) or len(result) != len(children):
            found = (
                f"a tuple of length {len(result)}"
                if isinstance(result, tuple)
                else type(result).__name__
            )
            raise TypeError(
                f"{what} must produce a tuple with one cotangent per differentiable argument "
                f"({len(children)}), but got {found}.\nInstead: return a tuple, e.g. (ct_x,)."
            )
        leaves: list[Any] = []
        for tree, ct in zip(children, result, strict=True):
            leaves += _spread_cotangent(tree, ct, what)
        return [
            _checked_cotangent(ct, a, what) for ct, a in zip(leaves, self.in_avals, strict=True)
        ]


def _spread_cotangent(tree: Any, ct: Any, what: str) -> list[Any]:
    """The leaves of one argument's cotangent; None stands for zeros of a whole subtree."""
    if ct is None:
        return [None] * tree.num_leaves
    dummy = pytree.tree_unflatten(tree, [0] * tree.num_leaves)
    leaves, found = pytree.tree_flatten(ct, is_leaf=lambda x: x is None)
    if found == tree:
        return leaves
    parts: list[Any] = []
    try:
        pytree.tree_map(
            lambda part, sub: parts.extend(
                [part]
                if not pytree.is_tree_node(type(sub))
                else [part] * len(pytree.tree_leaves(sub))
            ),
            ct,
            dummy,
            is_leaf=lambda x: x is None,
        )
    except (ValueError, TypeError) as error:
        raise TypeError(
            f"{what} must produce cotangents with the structure of the arguments: expected {tree}, "
            f"got {found}."
        ) from error
    if len(parts) != tree.num_leaves:
        raise TypeError(
            f"{what} must produce cotangents with the structure of the arguments: expected {tree}, "
            f"got {found}."
        )
    return parts


def _checked_cotangent(ct: Any, aval: ShapedArray, what: str) -> Any:
    want = tangent_aval(aval)
    if ct is None or _is_symbolic(ct) or want.dtype == dtypes.float0:
        return Zero(want)
    have = typeof(ct)
    if have.shape != want.shape:
        raise ValueError(
            f"{what} must produce cotangents of the shapes of the arguments: expected "
            f"{want.str_short()}, got {have.str_short()}.\n"
            "Instead: sum or reshape it to the argument's shape; None stands for zero."
        )
    if have.dtype != want.dtype and not have.weak_type:
        raise ValueError(
            f"{what} must produce cotangents of the dtypes of the arguments: expected "
            f"{want.str_short()}, got {have.str_short()}."
        )
    return ct if have.dtype == want.dtype else convert(ct, want.dtype, False)
