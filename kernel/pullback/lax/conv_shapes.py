"""Arithmetic of windows and convolutions: layouts, paddings, shapes of results.

Builds on nothing but numbers. Tested in tests/lax/test_conv.py.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

from pullback.core import errors


class ConvDimensionNumbers(NamedTuple):
    """Which axes of a convolution's arrays are what.

    Attributes:
        lhs_spec: axes of the input: batch, features, then space.
        rhs_spec: axes of the kernel: output features, input features, then space.
        out_spec: axes of the result: batch, features, then space.
    """

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


ConvGeneralDilatedDimensionNumbers = tuple[str, str, str] | ConvDimensionNumbers | None


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """The layout that names such as `('NHWC', 'HWIO', 'NHWC')` stand for.

    Args:
        lhs_shape, rhs_shape: shapes of input and kernel.
        dimension_numbers: None (batch or output features first, then features, then space), three
            strings, or the answer of an earlier call.

    Raises:
        TypeError: not three strings, or ranks that differ.
        ValueError: strings that do not name each axis once.
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    n = len(lhs_shape)
    if n != len(rhs_shape):
        raise errors.shape_error(
            f"convolution requires lhs and rhs ndim to be equal, got {n} and {len(rhs_shape)} "
            f"(shapes {tuple(lhs_shape)} and {tuple(rhs_shape)}).",
            "input and kernel have one axis of batch (outputs), one of features, then space.",
        )
    if dimension_numbers is None:
        axes = tuple(range(n))
        return ConvDimensionNumbers(axes, axes, axes)
    if not isinstance(dimension_numbers, (tuple, list)) or len(dimension_numbers) != 3:
        raise TypeError(
            f"convolution dimension_numbers must be None, three strings such as "
            f"('NHWC', 'HWIO', 'NHWC') or a ConvDimensionNumbers; got {dimension_numbers!r}."
        )
    if not all(isinstance(s, str) for s in dimension_numbers):
        raise TypeError(
            f"convolution dimension_numbers must be strings, got {dimension_numbers!r}."
        )
    for spec in dimension_numbers:
        if len(spec) != n:
            raise errors.shape_error(
                f"convolution dimension_numbers must have one letter per axis ({n}), got {spec!r}."
            )
    return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))


def conv_general_permutations(dimension_numbers: Sequence[str]) -> list[tuple[int, ...]]:
    """For three layout strings, where batch, features and each spatial axis stand.

    Raises:
        ValueError: letters missing or repeated.
    """
    lhs, rhs, out = dimension_numbers
    pairs = (("N", "C"), ("O", "I"), ("N", "C"))
    for spec, (a, b) in zip((lhs, rhs, out), pairs, strict=True):
        if spec.count(a) != 1 or spec.count(b) != 1 or len(set(spec)) != len(spec):
            raise errors.shape_error(
                f"convolution dimension_numbers {tuple(dimension_numbers)}: {spec!r} must name "
                f"{a} and {b} once, and each spatial axis once."
            )
    space = [c for c in rhs if c not in "OI"]
    for spec, (a, b) in zip((lhs, out), (pairs[0], pairs[2]), strict=True):
        if set(spec) - {a, b} != set(space):
            raise errors.shape_error(
                f"convolution dimension_numbers {tuple(dimension_numbers)}: {spec!r} and {rhs!r} "
                "must name the same spatial axes."
            )
    return [
        (spec.index(a), spec.index(b), *[spec.index(c) for c in space])
        for spec, (a, b) in zip((lhs, rhs, out), pairs, strict=True)
    ]


def dilated(size: int, dilation: int) -> int:
    """The size of an axis after holes are put between its elements."""
    return 0 if size == 0 else 1 + dilation * (size - 1)


def n_windows(size: int, window: int, stride: int) -> int:
    """How many windows fit into an axis."""
    return max(0, (size - window) // stride + 1)


def padtype_to_pads(
    in_shape: Any, window_shape: Any, window_strides: Any, padding: Any
) -> list[tuple[int, int]]:
    """The (low, high) padding per axis that a name stands for.

    Args:
        in_shape, window_shape, window_strides: per axis (dilated sizes).
        padding: 'VALID' (none), 'SAME' (as many windows as strides; more at the end) or
            'SAME_LOWER' (more at the start).

    Raises:
        ValueError: another name.
    """
    name = getattr(padding, "name", padding)
    name = name.upper() if isinstance(name, str) else name
    sizes = [tuple(map(operator.index, s)) for s in (in_shape, window_shape, window_strides)]
    if name == "VALID":
        return [(0, 0)] * len(sizes[0])
    if name not in ("SAME", "SAME_LOWER"):
        raise ValueError(
            f"Unrecognized padding {padding!r}: expected 'VALID', 'SAME', 'SAME_LOWER' or (low, "
            "high) pairs."
        )
    pads = []
    for n, window, stride in zip(*sizes, strict=True):
        total = max((-(-n // stride) - 1) * stride + window - n, 0)
        low = total // 2 if name == "SAME" else total - total // 2
        pads.append((low, total - low))
    return pads


def canonical_padding(
    name: str, padding: Any, shape: Sequence[int], window: Sequence[int], strides: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """Padding names or pairs as pairs; `shape` and `window` with their dilations.

    Raises:
        ValueError: not one pair per axis.
    """
    if isinstance(padding, str) or hasattr(padding, "name"):
        return tuple(padtype_to_pads(shape, window, strides, padding))
    try:
        pads = tuple([(operator.index(lo), operator.index(hi)) for lo, hi in padding])
    except TypeError as error:
        raise TypeError(
            f"{name}: padding must be a name or (low, high) pairs, got {padding!r}."
        ) from error
    if len(pads) != len(shape):
        raise errors.shape_error(
            f"{name}: padding must have one (low, high) pair per spatial axis ({len(shape)}), "
            f"got {pads}."
        )
    return pads


def positive(name: str, what: str, values: Any, n: int) -> tuple[int, ...]:
    """Positive integers, one per axis; None is all ones.

    Raises:
        TypeError: another number of them, or one below 1.
    """
    result = (1,) * n if values is None else tuple([operator.index(v) for v in values])
    if len(result) != n or any(v < 1 for v in result):
        raise errors.shape_error(
            f"{name}: {what} must be {n} positive integers (one per axis), got {values!r}."
        )
    return result


def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: Any,
    batch_group_count: int = 1,
) -> tuple[int, ...]:
    """The shape of a convolution in the layout NC+space, OI+space, NC+space.

    Raises:
        TypeError: a padding that takes away more than there is.
    """
    space = tuple(lhs_shape[2:])
    pads = canonical_padding("convolution", pads, space, rhs_shape[2:], strides)
    padded = [n + lo + hi for n, (lo, hi) in zip(space, pads, strict=True)]
    if any(n < 0 for n in padded):
        raise errors.shape_error(
            f"convolution: padding {pads} makes a spatial size of {tuple(lhs_shape)} negative."
        )
    out = [n_windows(n, w, s) for n, w, s in zip(padded, rhs_shape[2:], strides, strict=True)]
    return (lhs_shape[0] // batch_group_count, rhs_shape[0], *out)


def conv_general_shape_tuple(
    lhs_shape: Any, rhs_shape: Any, window_strides: Any, padding: Any, dimension_numbers: Any
) -> tuple[int, ...]:
    """The shape of `conv_general_dilated` without dilations."""
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    lhs = [lhs_shape[i] for i in numbers.lhs_spec]
    rhs = [rhs_shape[i] for i in numbers.rhs_spec]
    return placed(conv_shape_tuple(lhs, rhs, window_strides, padding), numbers.out_spec)


def placed(sizes: Sequence[int], spec: Sequence[int]) -> tuple[int, ...]:
    """Sizes given as batch, features, space put at their axes."""
    out = [0] * len(sizes)
    for size, axis in zip(sizes, spec, strict=True):
        out[axis] = size
    return tuple(out)


def conv_transpose_shape_tuple(
    lhs_shape: Any, rhs_shape: Any, window_strides: Any, padding: Any, dimension_numbers: Any
) -> tuple[int, ...]:
    """The shape of `conv_transpose`."""
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    lhs = [lhs_shape[i] for i in numbers.lhs_spec]
    rhs = [rhs_shape[i] for i in numbers.rhs_spec]
    space = []
    for axis, (n, window, stride) in enumerate(zip(lhs[2:], rhs[2:], window_strides, strict=True)):
        pads = conv_transpose_padding(window, stride, padding, axis)
        space.append(n_windows(dilated(n, stride) + sum(pads), window, 1))
    return placed((lhs[0], rhs[0], *space), numbers.out_spec)


def conv_transpose_padding(
    window: int, stride: int, padding: Any, axis: int = 0, consistent: bool = False
) -> tuple[int, int]:
    """The padding of the dilated input that gives a transposed convolution its size.

    Args:
        window: dilated size of the kernel.
        stride: of the convolution that is transposed.
        padding: 'SAME' (n * stride), 'VALID' (n * stride + max(window - stride, 0)), or pairs.
        axis: which pair.
        consistent: take pairs as the padding of the convolution that is transposed.
    """
    if not isinstance(padding, str):
        low, high = (operator.index(p) for p in padding[axis])
        return (window - 1 - low, window - 1 - high) if consistent else (low, high)
    name = padding.upper()
    if name == "SAME":
        total = window + stride - 2
        low = window - 1 if stride > window - 1 else -(-total // 2)
    elif name == "VALID":
        total = window + stride - 2 + max(window - stride, 0)
        low = window - 1
    else:
        raise errors.shape_error(
            f"conv_transpose: padding must be 'SAME', 'VALID' or pairs: {padding!r}"
        )
    return low, total - low
