"""Products of groups of rows with a matrix each, and of scaled operands.

Builds on dot.py. Tested in tests/lax/test_ragged_dot.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pullback.core import dtypes, errors
from pullback.core.aval import typeof
from pullback.lax.compare_select import and_p, ge_p, lt_p, select_n_p
from pullback.lax.convert import convert_element_type
from pullback.lax.cumulative import cumsum_p
from pullback.lax.dot import dot_general
from pullback.lax.elementwise import mul_p, sub_p
from pullback.lax.families import const_like
from pullback.lax.fill import iota_p
from pullback.lax.operands import canonical_axis, ints, refuse_sharding, shape_of, without
from pullback.lax.reduce import reduce_or_p
from pullback.lax.shape import broadcast_in_dim_p, expand_dims, moved, reshaped, transpose


@dataclass(frozen=True, slots=True, init=False)
class RaggedDotDimensionNumbers:
    """Which axes of a ragged product are what.

    Attributes:
        dot_dimension_numbers: ((lhs contracting, rhs contracting), (lhs batch, rhs batch)).
        lhs_ragged_dimensions: the one axis of lhs that groups divide.
        rhs_group_dimensions: the axis of rhs that runs over groups, if there is one.
    """

    dot_dimension_numbers: Any
    lhs_ragged_dimensions: tuple[int, ...]
    rhs_group_dimensions: tuple[int, ...]

    def __init__(
        self, dot_dimension_numbers: Any, lhs_ragged_dimensions: Any, rhs_group_dimensions: Any
    ) -> None:
        (lc, rc), (lb, rb) = dot_dimension_numbers
        dims = ((ints(lc), ints(rc)), (ints(lb), ints(rb)))
        object.__setattr__(self, "dot_dimension_numbers", dims)
        object.__setattr__(self, "lhs_ragged_dimensions", ints(lhs_ragged_dimensions))
        object.__setattr__(self, "rhs_group_dimensions", ints(rhs_group_dimensions))


def ragged_dot(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    group_offset: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The products of consecutive groups of rows with a matrix each.

    Args:
        lhs: [m, k].
        rhs: [g, k, n], a matrix per group.
        group_sizes: integers [g]: how many rows belong to each group; further rows give zero.
        precision, preferred_element_type: as in `dot_general`.
        group_offset: not supported.

    Returns:
        [m, n].
    """
    numbers = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))
    return ragged_dot_general(
        lhs,
        rhs,
        group_sizes,
        numbers,
        precision,
        preferred_element_type,
        group_offset,
        out_sharding,
    )


def _check(lhs: Any, rhs: Any, numbers: RaggedDotDimensionNumbers) -> tuple[int, tuple[int, ...]]:
    """The ragged axis and the axes of lhs that group sizes may also vary along."""
    (lc, _), (lb, _) = numbers.dot_dimension_numbers
    if len(numbers.lhs_ragged_dimensions) != 1 or len(numbers.rhs_group_dimensions) > 1:
        raise errors.shape_error(
            "ragged_dot_general: one ragged axis of lhs and at most one group axis of rhs are "
            f"needed, got {numbers}."
        )
    ndim = typeof(lhs).ndim
    ragged = canonical_axis("ragged_dot_general", numbers.lhs_ragged_dimensions[0], ndim)
    free = without(range(ndim), (*lc, *lb))
    outer = lb if ragged in lb else (*lb, *(free if ragged in free else lc))
    in_free = ragged in free
    if bool(numbers.rhs_group_dimensions) != in_free:
        raise errors.shape_error(
            "ragged_dot_general: rhs has a group axis if and only if the ragged axis is neither "
            f"contracted nor a batch axis; got {numbers} for {typeof(lhs).str_short()} and "
            f"{typeof(rhs).str_short()}."
        )
    return ragged, outer[: outer.index(ragged)]


def _group_mask(lhs: Any, group_sizes: Any, ragged: int, outer: tuple[int, ...]) -> Any:
    """True where an entry of lhs belongs to a group: [g, *lhs.shape]."""
    shape, sizes_shape = shape_of(lhs), shape_of(group_sizes)
    want = tuple([shape[i] for i in outer])
    if sizes_shape[:-1] not in ((), want) or not sizes_shape:
        raise errors.shape_error(
            f"ragged_dot_general: group_sizes must be [g] or {[*want, 'g']}, got shape "
            f"{sizes_shape} for lhs {typeof(lhs).str_short()}."
        )
    last = len(sizes_shape) - 1
    ends = cumsum_p.bind(group_sizes, axis=last, reverse=False)
    starts = sub_p.bind(ends, group_sizes)
    axes = tuple([1 + i for i in (outer if last else ())])
    full = (sizes_shape[-1], *shape)

    order = sorted(range(len(axes)), key=axes.__getitem__)
    kept = (0, *[axes[i] for i in order])

    def spread(x: Any) -> Any:
        x = transpose(x, (last, *order))
        return broadcast_in_dim_p.bind(x, shape=full, broadcast_dimensions=kept)

    place = iota_p.bind(dtype=typeof(group_sizes).dtype, shape=full, dimension=ragged + 1)
    return and_p.bind(ge_p.bind(place, spread(starts)), lt_p.bind(place, spread(ends)))


def ragged_dot_general(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: Any = None,
    preferred_element_type: Any = None,
    group_offset: Any = None,
    out_sharding: Any = None,
) -> Any:
    """`dot_general` in which consecutive groups along one axis of lhs are treated apart.

    Args:
        lhs, rhs: arrays.
        group_sizes: integers [g], or one row of sizes for each index of the batch axes (and of the
            axes of the ragged one's kind that come before it).
        ragged_dot_dimension_numbers: which axes are what. A free ragged axis pairs each group with
            its entry of rhs's group axis; a contracted one gives a result per group, first axis; a
            batch one leaves entries outside all groups zero.
        precision, preferred_element_type: as in `dot_general`.
        group_offset: not supported.

    Returns:
        The result of `dot_general`, with an axis of groups in front if the ragged axis is
        contracted.

    Raises:
        TypeError: axes or sizes do not fit.
        NotImplementedError: a group offset.
    """
    refuse_sharding("ragged_dot_general", out_sharding)
    if group_offset is not None:
        raise NotImplementedError(
            "ragged_dot: group_offset is not supported.\nInstead: slice group_sizes, rhs and lhs."
        )
    numbers = ragged_dot_dimension_numbers
    ragged, outer = _check(lhs, rhs, numbers)
    (lc, rc), (lb, rb) = numbers.dot_dimension_numbers
    mask = _group_mask(lhs, group_sizes, ragged, outer)
    zero = const_like(lhs, 0)
    options = (precision, preferred_element_type)
    if ragged in lb:
        inside = reduce_or_p.bind(mask, axes=(0,))
        kept = select_n_p.bind(inside, zero, lhs)
        return dot_general(kept, rhs, ((lc, rc), (lb, rb)), *options)
    parts = select_n_p.bind(mask, zero, expand_dims(lhs, (0,)))
    lc, lb = (tuple([i + 1 for i in axes]) for axes in (lc, lb))
    if numbers.rhs_group_dimensions:
        (group,) = numbers.rhs_group_dimensions
        return dot_general(parts, rhs, (((0, *lc), (group, *rc)), (lb, rb)), *options)
    out = dot_general(parts, rhs, ((lc, rc), (lb, rb)), *options)
    return moved(out, len(lb), 0) if lb else out


_MATRICES = {2: (((1,), (0,)), ((), ())), 3: (((2,), (1,)), ((0,), (0,)))}


def scaled_dot(
    lhs: Any,
    rhs: Any,
    *,
    lhs_scale: Any = None,
    rhs_scale: Any = None,
    dimension_numbers: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """The product of operands that are each multiplied by coarser scales first.

    Args:
        lhs, rhs: arrays, often of 8-bit floats.
        lhs_scale, rhs_scale: like their operands, but with fewer entries along the contracting
            axis, each for equally many neighbours; None is 1.
        dimension_numbers: as in `dot_general`; None is (batched) matrix multiplication.
        preferred_element_type: dtype of the arithmetic and the result; None is bfloat16.

    Returns:
        The result of `dot_general`.
    """
    dtype = dtypes.canonicalize_dtype(preferred_element_type or dtypes.dtype("bfloat16"))
    if dimension_numbers is None:
        dimension_numbers = _MATRICES.get(typeof(lhs).ndim)
        if dimension_numbers is None:
            raise errors.shape_error(
                f"scaled_dot: give dimension_numbers for operands of shapes {shape_of(lhs)} and "
                f"{shape_of(rhs)}."
            )
    left, right = _scaled(lhs, lhs_scale, dtype), _scaled(rhs, rhs_scale, dtype)
    return dot_general(left, right, dimension_numbers, preferred_element_type=dtype)


def _scaled(x: Any, scale: Any, dtype: Any) -> Any:
    x = convert_element_type(x, dtype)
    if scale is None:
        return x
    scale = convert_element_type(scale, dtype)
    shape, small = shape_of(x), shape_of(scale)
    if len(shape) != len(small) or any(s < 1 or n % s for n, s in zip(shape, small, strict=True)):
        raise errors.shape_error(
            f"scaled_dot: each size of a scale must divide its operand's; got {small} for {shape}."
        )
    pairs = [p for n, s in zip(shape, small, strict=True) for p in (s, n // s)]
    dims = tuple(range(0, len(pairs), 2))
    wide = broadcast_in_dim_p.bind(scale, shape=tuple(pairs), broadcast_dimensions=dims)
    return mul_p.bind(x, reshaped(wide, shape))
