"""`scan`, `fori_loop` and `map` as users call them.

Builds on scan.py, while_loop.py and inner.py. Tested in tests/lax/test_loops.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from pullback.core import dtypes, pytree
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import AxisData, batch_flat, to_dim
from pullback.core.config import config
from pullback.core.source import api_boundary
from pullback.core.tracer import Tracer, concrete_or_none
from pullback.lax.compare_select import lt_p
from pullback.lax.convert import convert
from pullback.lax.elementwise import add_p
from pullback.lax.inner import TracedFunction, function_name, leaf_paths, trace_function
from pullback.lax.loop_parts import split_at
from pullback.lax.loop_types import FoldedBody, check_carry, promote_carry
from pullback.lax.scan import scan_p
from pullback.lax.shape import reshape
from pullback.lax.slice import concatenate, index_in_dim, slice_in_dim
from pullback.lax.stack import stack
from pullback.lax.while_loop import while_loop


@api_boundary
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Any, Any]:
    """The last carry, and the stacked results, of `f` applied along the leading axis of `xs`.

    Args:
        f: (carry, x) -> (carry, y).
        init: the first carry, a pytree of arrays; `f` gives back the same types.
        xs: pytree of arrays whose leading axes have one size, or None.
        length: number of steps; needed if `xs` holds no array.
        reverse: go from the last x to the first; ys stand where their xs do.
        unroll: how many steps to write out per turn of the loop; True for all.

    Returns:
        The last carry, and ys with a leading axis of size `length`.

    Raises:
        TypeError: the carry changes its type; the message names the leaf.
        ValueError: sizes of leading axes differ, or there is no length.

    Example:
        >>> from pullback import lax, numpy as jnp
        >>> lax.scan(lambda c, x: (c + x, c * x), 0, jnp.arange(4))
        (Array(6, dtype=int32), Array([0, 0, 2, 9], dtype=int32))
    """
    if not callable(f):
        raise TypeError("lax.scan: f argument should be a callable.")
    xs_leaves, xs_tree = pytree.tree_flatten(xs)
    length = _scan_length(xs_leaves, xs_tree, length)
    steps = _unroll_steps(unroll, length)
    leaves, tree = pytree.tree_flatten(init)
    if config.jax_disable_jit and not _any_abstract([*leaves, *xs_leaves]):
        return _python_scan(f, init, xs_leaves, xs_tree, length, reverse)
    x_avals = [make_aval(a.shape[1:], a.dtype, a.weak_type) for a in [typeof(x) for x in xs_leaves]]
    n_carry = len(leaves)
    in_tree = pytree.treedef_tuple([tree, xs_tree])
    leaves, traced = promote_carry(
        leaves,
        lambda avals: trace_function(f, in_tree, [*avals, *x_avals]),
        lambda traced: _carry_out(f, traced),
    )
    carry_tree, ys_tree = pytree.treedef_children(traced.out_tree)
    avals = [typeof(x) for x in leaves]
    check_carry("scan", f, tree, avals, carry_tree, traced.out_avals[: carry_tree.num_leaves])
    outs = scan_p.bind(
        *traced.consts,
        *leaves,
        *xs_leaves,
        jaxpr=traced.jaxpr,
        length=length,
        reverse=bool(reverse),
        unroll=steps,
        num_consts=len(traced.consts),
        num_carry=n_carry,
    )
    carry, ys = split_at(outs, n_carry)
    return pytree.tree_unflatten(carry_tree, carry), pytree.tree_unflatten(ys_tree, ys)


def _any_abstract(leaves: Sequence[Any]) -> bool:
    return any(concrete_or_none(x) is None for x in leaves)


def _carry_out(f: Any, traced: TracedFunction) -> Sequence[ShapedArray]:
    """The types of the carry that a scan body gives back."""
    children = pytree.treedef_children(traced.out_tree)
    is_pair = traced.out_tree.node_data() is not None and traced.out_tree.node_data()[0] is tuple
    if not is_pair or len(children) != 2:
        raise TypeError(
            f"scan body output must be a pair, got {traced.out_tree} from {function_name(f)}.\n"
            "Instead: return (carry, y); y may be None."
        )
    return traced.out_avals[: children[0].num_leaves]


def _scan_length(leaves: Sequence[Any], tree: Any, length: Any) -> int:
    sizes = []
    for path, x in zip(leaf_paths(tree, "xs"), leaves, strict=True):
        aval = typeof(x)
        if not aval.shape:
            raise ValueError(
                f"scan got value with no leading axis to scan over: {path} is {aval.str_short()}.\n"
                "Instead: put it in the carry, or let the body close over it."
            )
        sizes.append((path, aval.shape[0]))
    distinct = {n for _, n in sizes}
    if length is not None:
        length = operator.index(length)
        if any(n != length for n in distinct):
            found = ", ".join(f"{path} has {n}" for path, n in sizes)
            raise ValueError(
                f"scan got `length` argument of {length} which disagrees with leading axis sizes: "
                f"{found}."
            )
        if length < 0:
            raise ValueError(f"scan: length must not be negative, got {length}.")
        return length
    if not sizes:
        raise ValueError(
            "scan got no values to scan over and `length` not provided.\n"
            "Instead: pass length=, the number of steps."
        )
    if len(distinct) > 1:
        found = ", ".join(f"{path} has {n}" for path, n in sizes)
        raise ValueError(
            f"scan got values with different leading axis sizes: {found}.\n"
            "Instead: the first axis is the steps; all arrays of xs must have as many."
        )
    return sizes[0][1]


def _unroll_steps(unroll: int | bool, length: int) -> int:
    if isinstance(unroll, bool):
        return max(length, 1) if unroll else 1
    if unroll < 0:
        raise ValueError("`unroll` must be a `bool` or a non-negative `int`.")
    return max(unroll, 1)


def _python_scan(
    f: Any, init: Any, leaves: Sequence[Any], tree: Any, length: int, reverse: bool
) -> tuple[Any, Any]:
    """The loop in Python, under disable_jit."""
    if not length:
        raise ValueError("zero-length scan is not supported in disable_jit() mode: no y is known.")
    carry, ys = init, []
    for t in reversed(range(length)) if reverse else range(length):
        x = pytree.tree_unflatten(tree, [index_in_dim(leaf, t, keepdims=False) for leaf in leaves])
        carry, y = f(carry, x)
        ys.append(y)
    if reverse:
        ys.reverse()
    return carry, pytree.tree_map(lambda *parts: stack(parts), *ys)


@api_boundary
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """The value after `val = body_fun(i, val)` for i from `lower` to `upper` - 1.

    With known bounds this is a scan, so reverse mode works; with traced ones a while loop.

    Args:
        lower: integer, the first index.
        upper: integer, the index after the last.
        body_fun: (i, val) -> val, of the same types.
        init_val: pytree of arrays.
        unroll: as for `scan`; only with known bounds.

    Returns:
        A pytree like `init_val`.

    Example:
        >>> from pullback import lax
        >>> int(lax.fori_loop(0, 5, lambda i, total: total + i, 0))
        10
    """
    if not callable(body_fun):
        raise TypeError("lax.fori_loop: body_fun argument should be callable.")
    bounds: list[Any] = [_static_bound(lower), _static_bound(upper)]
    static = None not in bounds
    if static and config.jax_disable_jit:
        val = init_val
        for i in range(*bounds):
            val = body_fun(i, val)
        return val

    def step(carry: tuple[Any, Any]) -> tuple[Any, Any]:
        i, val = carry
        aval = typeof(i)
        return add_p.bind(i, 1 if aval.weak_type else aval.dtype.type(1)), body_fun(i, val)

    step.__name__ = function_name(body_fun)
    if static:
        trips = max(0, bounds[1] - bounds[0])
        # The index has the weak type of Python integers, and so leaves the dtypes of the values.
        (_, out), _ = scan(
            FoldedBody(lambda carry, _: (step(carry), None), body_fun, "fori_loop", 1),
            (bounds[0], init_val),
            None,
            length=trips,
            unroll=1 if unroll is None else unroll,
        )
        return out
    if unroll is not None and unroll is not False and unroll != 1:
        raise ValueError(
            "Can only use `unroll` in `fori_loop` if the loop bounds are statically known."
        )
    dtype = _index_dtype(lower, upper)
    start, stop = convert(lower, dtype, typeof(lower).weak_type), convert(upper, dtype, False)
    _, _, out = while_loop(
        lambda carry: lt_p.bind(carry[0], carry[1]),
        FoldedBody(lambda carry: _fori_step(step, carry), body_fun, "fori_loop", 2),
        (start, stop, init_val),
    )
    return out


def _fori_step(step: Any, carry: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    i, stop, val = carry
    i, val = step((i, val))
    return i, stop, val


def _named(fun: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    fun.__name__ = function_name(original)
    return fun


def _static_bound(x: Any) -> int | None:
    """The bound as a Python integer where it is known while tracing."""
    if isinstance(x, Tracer):
        x = x.concrete()
        if x is None:
            return None
    aval = typeof(x)
    if aval.shape or aval.dtype.kind not in "iu":
        raise TypeError(
            f"lax.fori_loop: lower and upper must be integer scalars, got {aval.str_short()}."
        )
    return int(x)


def _index_dtype(lower: Any, upper: Any) -> Any:
    a, b = typeof(lower), typeof(upper)
    if a.weak_type and not b.weak_type:
        return b.dtype
    if b.weak_type and not a.weak_type:
        return a.dtype
    return dtypes.promote_types(a.dtype, b.dtype)


@api_boundary
def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """The results of `f` on each slice of `xs` along its leading axis, one after another.

    Args:
        f: function of one slice.
        xs: pytree of arrays whose leading axes have one size.
        batch_size: how many slices to compute at once (vectorised); None or 0 is one at a time.

    Returns:
        The results, stacked.
    """
    if not batch_size:
        return scan(_named(lambda _, x: (None, f(x)), f), None, xs)[1]
    leaves, tree = pytree.tree_flatten(xs)
    n = _scan_length(leaves, tree, None)
    blocks, rest = divmod(n, batch_size)
    mapped = _vectorised(f)
    parts = []
    if blocks:
        head = [slice_in_dim(x, 0, blocks * batch_size) for x in leaves]
        head = [reshape(x, (blocks, batch_size, *typeof(x).shape[1:])) for x in head]
        ys = scan(
            _named(lambda _, x: (None, mapped(x)), f), None, pytree.tree_unflatten(tree, head)
        )[1]
        parts.append(
            pytree.tree_map(lambda y: reshape(y, (blocks * batch_size, *typeof(y).shape[2:])), ys)
        )
    if rest or not blocks:
        tail = [slice_in_dim(x, blocks * batch_size, n) for x in leaves]
        parts.append(mapped(pytree.tree_unflatten(tree, tail)))
    if len(parts) == 1:
        return parts[0]
    return pytree.tree_map(lambda a, b: concatenate([a, b], 0), *parts)


def _vectorised(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`f` over the leading axis of its argument (the api's vmap is above this package)."""

    def mapped(xs: Any) -> Any:
        leaves, tree = pytree.tree_flatten(xs)
        trees: list[Any] = []

        def flat(*args: Any) -> list[Any]:
            out, out_tree = pytree.tree_flatten(f(pytree.tree_unflatten(tree, args)))
            trees.append(out_tree)
            return out

        size = typeof(leaves[0]).shape[0]
        outs, dims = batch_flat(flat, AxisData(None, size), leaves, [0] * len(leaves))
        outs = [to_dim(o, d, size, 0) for o, d in zip(outs, dims, strict=True)]
        return pytree.tree_unflatten(trees[0], outs)

    return mapped
