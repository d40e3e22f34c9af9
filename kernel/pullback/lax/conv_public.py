"""Shorter and derived forms of convolution.

Builds on conv.py. Tested in tests/lax/test_conv.py.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from pullback.core.aval import typeof
from pullback.lax.conv import conv_general_dilated
from pullback.lax.conv_shapes import (
    ConvDimensionNumbers,
    conv_dimension_numbers,
    conv_transpose_padding,
    dilated,
    positive,
)
from pullback.lax.dot import dot_general
from pullback.lax.operands import shape_of
from pullback.lax.precision import Precision
from pullback.lax.shape import inverse_permutation, rev, transpose


def conv(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """The convolution of NC+space with OI+space; see `conv_general_dilated`."""
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_with_general_padding(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """The dilated convolution of NC+space with OI+space; see `conv_general_dilated`."""
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


_CHANNELS_LAST = {
    3: ("NHC", "HIO", "NHC"),
    4: ("NHWC", "HWIO", "NHWC"),
    5: ("NHWDC", "HWDIO", "NHWDC"),
}


def conv_transpose(
    lhs: Any,
    rhs: Any,
    strides: Sequence[int],
    padding: Any,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Any:
    """The transposed convolution: a convolution with fractional strides.

    Args:
        lhs, rhs: input and kernel.
        strides: how far apart the input's elements are set.
        padding: 'SAME', 'VALID', or (low, high) pairs.
        rhs_dilation: spacing of the kernel's elements.
        dimension_numbers: layouts; None is channels last, kernel space+IO.
        transpose_kernel: reverse the kernel in space and exchange its features, so that the result
            is the gradient of the convolution with that kernel.
        precision, preferred_element_type: as in `conv_general_dilated`.
        use_consistent_padding: read pairs as the padding of the convolution that is transposed.

    Returns:
        An array of size n * stride ('SAME') in space.
    """
    shape, r_shape = shape_of(lhs), shape_of(rhs)
    if dimension_numbers is None:
        if len(shape) not in _CHANNELS_LAST:
            raise ValueError(
                f"conv_transpose: give dimension_numbers for an input of rank {len(shape)}."
            )
        dimension_numbers = _CHANNELS_LAST[len(shape)]
    numbers = conv_dimension_numbers(shape, r_shape, dimension_numbers)
    n = len(shape) - 2
    steps = positive("conv_transpose", "strides", strides, n)
    dilation = positive("conv_transpose", "rhs_dilation", rhs_dilation, n)
    sizes = [dilated(r_shape[i], d) for i, d in zip(numbers.rhs_spec[2:], dilation, strict=True)]
    pads = [
        conv_transpose_padding(size, step, padding, axis, use_consistent_padding)
        for axis, (size, step) in enumerate(zip(sizes, steps, strict=True))
    ]
    if transpose_kernel:
        o, i, *space = numbers.rhs_spec
        rhs = rev(rhs, space)
        numbers = ConvDimensionNumbers(numbers.lhs_spec, (i, o, *space), numbers.out_spec)
    return conv_general_dilated(
        lhs,
        rhs,
        (1,) * n,
        pads,
        steps,
        dilation,
        numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_general_dilated_patches(
    lhs: Any,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """The windows that a convolution sees, each flattened into the feature axis.

    Args:
        lhs: input.
        filter_shape: spatial size of the windows.
        window_strides, padding, lhs_dilation, rhs_dilation: as in `conv_general_dilated`.
        dimension_numbers: layouts, as there.
        precision: None is the highest, since values are only copied.

    Returns:
        An array whose features are (input feature, then window position), the first slowest.
    """
    shape = shape_of(lhs)
    window = tuple(map(operator.index, filter_shape))
    numbers = conv_dimension_numbers(shape, shape, dimension_numbers)
    channels, size = shape[numbers.lhs_spec[1]], prod(window)
    kernel = np.eye(size, dtype=typeof(lhs).dtype).reshape(size, 1, *window)
    kernel = np.tile(kernel, (channels, *[1] * (len(window) + 1)))
    rhs = transpose(kernel, inverse_permutation(numbers.rhs_spec))
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        numbers,
        feature_group_count=channels,
        precision=Precision.HIGHEST if precision is None else precision,
        preferred_element_type=preferred_element_type,
    )


def conv_general_dilated_local(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
) -> Any:
    """A convolution with its own kernel at each place of the result.

    Args:
        lhs: input.
        rhs: kernels: axes output features, (input feature, window position) flattened, and the
            result's space.
        window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers: as in
            `conv_general_dilated`.
        filter_shape: spatial size of the windows.

    Returns:
        An array with axes as the third layout says.
    """
    shape = shape_of(lhs)
    numbers = conv_dimension_numbers(shape, shape_of(rhs), dimension_numbers)
    patches = conv_general_dilated_patches(
        lhs,
        filter_shape,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        numbers._replace(out_spec=tuple(range(len(shape)))),
        precision,
    )
    kernel = transpose(rhs, numbers.rhs_spec)  # [out, in, *space]
    n = len(shape) - 2
    axes = tuple(range(2, n + 2))
    out = dot_general(kernel, patches, (((1,), (1,)), (axes, axes)), precision)
    # [*space, out, batch] -> batch, out, *space, then the layout asked for.
    out = transpose(out, (n + 1, n, *range(n)))
    return transpose(out, inverse_permutation(numbers.out_spec))
