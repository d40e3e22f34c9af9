"""Convolutions against a NumPy loop: layouts, strides, dilations, groups, derivatives, vmap."""

from __future__ import annotations

import itertools

import harness
import ml_dtypes
import numpy as np
import pytest
from harness import Case

import pullback as pb
from pullback import lax

R = harness.rng(0)
X = R.normal(size=(2, 4, 5, 4)).astype(np.float32)
K = R.normal(size=(4, 4, 3, 2)).astype(np.float32)
X1 = R.normal(size=(2, 2, 5)).astype(np.float32)
K1 = R.normal(size=(2, 2, 3)).astype(np.float32)
C1 = (X1 + 1j * X1[::-1]).astype(np.complex64)
D1 = (K1 + 1j * K1[::-1]).astype(np.complex64)


def reference(
    x: np.ndarray,
    k: np.ndarray,
    strides: tuple,
    pads: tuple,
    lhs_dilation: tuple | None = None,
    rhs_dilation: tuple | None = None,
    features: int = 1,
    batches: int = 1,
) -> np.ndarray:
    """Convolution in the layout NC+space, OI+space by loops over output places and groups."""
    n = x.ndim - 2
    lhs_dilation, rhs_dilation = (d or (1,) * n for d in (lhs_dilation, rhs_dilation))

    def spread(a: np.ndarray, dilation: tuple) -> np.ndarray:
        shape = [1 + d * (s - 1) if s else 0 for s, d in zip(a.shape[2:], dilation, strict=True)]
        out = np.zeros((*a.shape[:2], *shape), a.dtype)
        out[(..., *[slice(None, None, d) for d in dilation])] = a
        return out

    x, k = spread(x, lhs_dilation), spread(k, rhs_dilation)
    x = np.pad(x, [(0, 0), (0, 0), *[(max(lo, 0), max(hi, 0)) for lo, hi in pads]])
    cuts = [
        slice(max(-lo, 0), s - max(-hi, 0)) for (lo, hi), s in zip(pads, x.shape[2:], strict=True)
    ]
    x = x[(..., *cuts)]
    window, groups = k.shape[2:], features * batches
    space = [max((s - w) // t + 1, 0) for s, w, t in zip(x.shape[2:], window, strides, strict=True)]
    out = np.zeros((x.shape[0] // batches, k.shape[0], *space), x.dtype)
    for g, place in itertools.product(range(groups), np.ndindex(*space)):
        o = slice(g * k.shape[0] // groups, (g + 1) * k.shape[0] // groups)
        nb = slice(g * out.shape[0], (g + 1) * out.shape[0]) if batches > 1 else slice(None)
        c = slice(g * k.shape[1], (g + 1) * k.shape[1]) if features > 1 else slice(None)
        at = [slice(p * t, p * t + w) for p, t, w in zip(place, strides, window, strict=True)]
        out[(slice(None), o, *place)] = np.tensordot(
            x[(nb, c, *at)], k[o], (list(range(1, n + 2)), list(range(1, n + 2)))
        )
    return out


SAME = ((1, 1), (0, 1))
ROWS: list[tuple[str, tuple, tuple, dict]] = [
    ("valid", (1, 1), ((0, 0), (0, 0)), {}),
    ("strides", (2, 3), SAME, {}),
    ("uneven", (1, 2), ((2, 0), (1, 3)), {}),
    ("negative", (1, 1), ((-1, 2), (1, -1)), {}),
    ("dilated", (1, 1), SAME, {"rhs_dilation": (2, 1)}),
    ("transposed", (1, 1), ((2, 2), (1, 0)), {"lhs_dilation": (1, 2)}),
    ("everything", (2, 1), ((3, 1), (2, -1)), {"lhs_dilation": (2, 3), "rhs_dilation": (1, 2)}),
]
CASES = [
    *[
        Case(
            name,
            lambda x, k, s=strides, p=pads, o=options: lax.conv_general_dilated(x, k, s, p, **o),
            (X[:1, :2], K[:2, :2]),
            lambda x, k, s=strides, p=pads, o=options: reference(x, k, s, p, **o),
            ulps=64,
            vmap=name == "everything",
        )
        for name, strides, pads, options in ROWS
    ],
    Case(
        "features",
        lambda x, k: lax.conv_general_dilated(x, k, (2, 1), SAME, feature_group_count=2),
        (X, K[:, :2]),
        lambda x, k: reference(x, k, (2, 1), SAME, features=2),
        ulps=64,
    ),
    Case(
        "depthwise",
        lambda x, k: lax.conv_general_dilated(x, k, (1, 1), SAME, feature_group_count=4),
        (X, K[:, :1]),
        lambda x, k: reference(x, k, (1, 1), SAME, features=4),
        ulps=64,
        vmap=False,
    ),
    Case(
        "batches",
        lambda x, k: lax.conv_general_dilated(x, k, (1, 2), SAME, batch_group_count=2),
        (X[:, :2], K[:, :2]),
        lambda x, k: reference(x, k, (1, 2), SAME, batches=2),
        ulps=64,
    ),
    Case(
        "one-dimension",
        lambda x, k: lax.conv(x, k, (1,), "SAME"),
        (X1, K1),
        lambda x, k: reference(x, k, (1,), ((1, 1),)),
        ulps=64,
    ),
    Case(
        "complex",
        lambda x, k: lax.conv(x, k, (2,), "VALID"),
        (C1, D1),
        lambda x, k: reference(x, k, (2,), ((0, 0),)),
        ulps=64,
    ),
    Case(
        "int",
        lambda x, k: lax.conv(x, k, (1,), "SAME"),
        ((X1 * 9).astype("i4"), (K1 * 9).astype("i4")),
        lambda x, k: reference(x, k, (1,), ((1, 1),)),
        vmap=False,
    ),
    Case(
        "bf16",
        lambda x, k: lax.conv(x, k, (1,), "SAME", preferred_element_type=np.float32),
        (X1.astype(ml_dtypes.bfloat16), K1.astype(ml_dtypes.bfloat16)),
        lambda x, k: reference(x, k, (1,), ((1, 1),)),
        ulps=64,
        order=0,
        vmap=False,
    ),
    Case(
        "no-space",
        lambda x, k: lax.conv(x, k, (), "VALID"),
        (X1[..., 0], K1[..., 0]),
        lambda x, k: x @ k.T,
        ulps=32,
    ),
    Case(
        "empty",
        lambda x, k: lax.conv(x, k, (1,), "VALID"),
        (X1[:0], K1),
        lambda x, k: np.zeros((0, 2, 3)),
    ),
    Case(
        "too-small",
        lambda x, k: lax.conv(x, k, (1,), "VALID"),
        (X1[..., :2], K1),
        lambda x, k: np.zeros((2, 2, 0)),
        vmap=False,
    ),
]


@pytest.mark.parametrize("case", harness.params(CASES))
def test_case(case: Case) -> None:
    harness.check_case(case)


def test_layouts() -> None:
    want = reference(X, K, (1, 2), SAME)
    for lhs, rhs, out in (
        ("NHWC", "HWIO", "NHWC"),
        ("HCNW", "IHOW", "WNHC"),
        ("NWHC", "OWHI", "CHWN"),
    ):
        x = X.transpose(["NCHW".index(c) for c in lhs])
        k = K.transpose(["OIHW".index(c) for c in rhs])
        swapped = rhs.index("W") < rhs.index("H")
        strides, pads = ((2, 1), SAME[::-1]) if swapped else ((1, 2), SAME)
        got = lax.conv_general_dilated(x, k, strides, pads, dimension_numbers=(lhs, rhs, out))
        back = np.asarray(got).transpose([out.index(c) for c in "NCHW"])
        np.testing.assert_allclose(back, want, rtol=1e-4, atol=1e-5)


def test_gradient_in_another_layout() -> None:
    dims = ("NHWC", "HWIO", "NHWC")
    x, k = X.transpose(0, 2, 3, 1), K.transpose(2, 3, 1, 0)
    fun = lambda x, k: lax.conv_general_dilated(x, k, (2, 1), "SAME", dimension_numbers=dims)  # noqa: E731
    harness.check_derivatives(Case("nhwc", fun, (x[:1], k), order=1))


def test_conv_transpose_is_the_transpose() -> None:
    x, k = X1[..., :3], K1
    forward = lambda y: lax.conv_general_dilated(y, k, (2,), ((1, 1),))  # noqa: E731
    y = np.zeros((2, 2, 5), np.float32)
    (want,) = pb.vjp(forward, y)[1](x)
    got = lax.conv_transpose(
        x,
        k,
        (2,),
        ((1, 1),),
        dimension_numbers=("NCH", "OIH", "NCH"),
        transpose_kernel=True,
        use_consistent_padding=True,
    )
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("padding", "size"), [("SAME", 10), ("VALID", 11), (((1, 2),), 10)])
def test_conv_transpose_sizes(padding: object, size: int) -> None:
    x, k = X1.transpose(0, 2, 1), K1.transpose(2, 1, 0)
    assert lax.conv_transpose(x, k, (2,), padding).shape == (2, size, 2)
    dims = ("NHC", "HIO", "NHC")
    assert lax.conv_transpose_shape_tuple(x.shape, k.shape, (2,), padding, dims) == (2, size, 2)


def test_patches_and_local_convolution() -> None:
    patches = np.asarray(lax.conv_general_dilated_patches(X, (3, 2), (2, 1), SAME))
    want = np.einsum("npxy,op->noxy", patches, K.reshape(4, -1))
    np.testing.assert_allclose(want, reference(X, K, (2, 1), SAME), rtol=1e-4, atol=1e-5)
    shared = np.broadcast_to(K.reshape(4, -1, 1, 1), (4, 24, *patches.shape[2:])).copy()
    local = lax.conv_general_dilated_local(X, shared, (2, 1), SAME, (3, 2))
    np.testing.assert_allclose(local, want, rtol=1e-4, atol=1e-5)


def test_padding_names() -> None:
    assert lax.padtype_to_pads((5, 4), (3, 2), (2, 1), "SAME") == [(1, 1), (0, 1)]
    assert lax.padtype_to_pads((5, 4), (3, 2), (2, 1), "SAME_LOWER") == [(1, 1), (1, 0)]
    assert lax.padtype_to_pads((5, 4), (3, 2), (2, 1), "VALID") == [(0, 0), (0, 0)]


def test_shape_tuples() -> None:
    assert lax.conv_shape_tuple(X.shape, K.shape, (1, 1), "VALID") == (2, 4, 3, 3)
    dims = ("NHWC", "OIHW", "NHWC")
    assert lax.conv_general_shape_tuple((2, 5, 4, 4), K.shape, (2, 1), SAME, dims) == (2, 3, 4, 4)


ERRORS = [
    (lambda: lax.conv(X, K[:, :3], (1, 1), "SAME"), ["4 features", "3", "f32[2,4,5,4]"]),
    (lambda: lax.conv(X, K1, (1, 1), "SAME"), ["4 and 3"]),
    (lambda: lax.conv(X, K, (1,), "SAME"), ["window_strides", "2 positive"]),
    (lambda: lax.conv(X, K, (1, 1), "MOST"), ["'MOST'", "'SAME'"]),
    (lambda: lax.conv(X, K, (1, 1), ((1, 1),)), ["one (low, high) pair"]),
    (lambda: lax.conv(X, K.astype("f2"), (1, 1), "SAME"), ["f32[2,4,5,4]", "f16[4,4,3,2]"]),
    (
        lambda: lax.conv_general_dilated(X, K[:3, :2], (1, 1), "SAME", feature_group_count=2),
        ["3 output features", "feature_group_count 2"],
    ),
    (
        lambda: lax.conv_general_dilated(
            X, K, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCH")
        ),
        ["'NCH'", "4"],
    ),
    (
        lambda: lax.conv_general_dilated(
            X, K, (1, 1), "SAME", dimension_numbers=("NCHH", "OIHW", "NCHW")
        ),
        ["'NCHH'"],
    ),
    (
        lambda: lax.conv_general_dilated(X, K, (1, 1), "SAME", lhs_dilation=(2, 1)),
        ["lhs_dilation", "conv_transpose"],
    ),
]


@pytest.mark.parametrize("index", range(len(ERRORS)))
def test_error_texts(index: int) -> None:
    fun, parts = ERRORS[index]
    harness.check_error((TypeError, ValueError), parts, fun)  # type: ignore[arg-type]
