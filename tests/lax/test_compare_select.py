"""Comparison, selection, clamping and operations on bits."""

from __future__ import annotations

import harness
import ml_dtypes
import numpy as np
import pytest
from harness import Case

import pullback as pb
from pullback import lax

X = np.array([0.3, -1.7, 2.4], np.float32)
Y = np.array([0.3, 0.6, -0.8], np.float32)
W = np.array([1.1, 1.2, 1.3], np.float32)
Z = np.array([0.3 + 1j, 2, -1j], np.complex64)
I = np.array([3, -7, 100], np.int32)
J = np.array([2, 5, 1], np.int32)
U8 = np.array([3, 200, 255], np.uint8)
B = np.array([True, False, True])
WHICH = np.array([2, 0, 1], np.int32)

COMPARISONS = [
    ("eq", np.equal),
    ("ne", np.not_equal),
    ("lt", np.less),
    ("le", np.less_equal),
    ("gt", np.greater),
    ("ge", np.greater_equal),
]
BITWISE = [
    ("bitwise_and", np.bitwise_and),
    ("bitwise_or", np.bitwise_or),
    ("bitwise_xor", np.bitwise_xor),
]

CASES = [
    *[Case(name, getattr(lax, name), (X, Y), ref) for name, ref in COMPARISONS],
    *[
        Case(f"{name}-int", getattr(lax, name), (I, J), ref, vmap=False)
        for name, ref in COMPARISONS
    ],
    *[
        Case(f"{name}-uint8", getattr(lax, name), (U8, U8[::-1].copy()), ref, vmap=False)
        for name, ref in COMPARISONS
    ],
    *[
        Case(f"{name}-bool", getattr(lax, name), (B, ~B), ref, vmap=False)
        for name, ref in COMPARISONS
    ],
    Case("eq-complex", lax.eq, (Z, Z), np.equal, vmap=False),
    Case("ne-complex", lax.ne, (Z, Z[::-1].copy()), np.not_equal, vmap=False),
    *[Case(name, getattr(lax, name), (I, J), ref) for name, ref in BITWISE],
    *[Case(f"{name}-bool", getattr(lax, name), (B, ~B), ref, vmap=False) for name, ref in BITWISE],
    Case("bitwise_not", lax.bitwise_not, (I,), np.bitwise_not),
    Case("bitwise_not-bool", lax.bitwise_not, (B,), np.logical_not, vmap=False),
    Case("shift_left", lax.shift_left, (I, J), np.left_shift),
    Case("shift_right_arithmetic", lax.shift_right_arithmetic, (I, J), np.right_shift),
    Case(
        "shift_right_logical",
        lax.shift_right_logical,
        (I, J),
        lambda x, y: (x.view(np.uint32) >> y.view(np.uint32)).view(np.int32),
    ),
    Case("population_count", lax.population_count, (U8,), np.bitwise_count),
    Case("clz", lax.clz, (U8,), lambda x: np.array([6, 0, 0], np.uint8)),
    Case("mulhi", lax.mulhi, (U8, U8), lambda x, y: ((x.astype(int) * y) >> 8).astype(np.uint8)),
    Case("nextafter", lax.nextafter, (X, Y), np.nextafter, order=0),
    Case("is_finite", lax.is_finite, (np.array([1, np.inf, np.nan], np.float32),), np.isfinite),
    Case("select_n", lambda x, y: lax.select_n(B, x, y), (X, Y), lambda x, y: np.where(B, y, x)),
    Case("select_n-which", lax.select_n, (B, X, Y), lambda b, x, y: np.where(b, y, x)),
    Case("select_n-scalar", lambda x, y: lax.select_n(True, x, y), (X, Y), lambda x, y: y),
    Case("select_n-3", lax.select_n, (WHICH, X, Y, W), lambda w, *c: np.choose(w, c)),
    Case("select_n-int", lax.select_n, (B, I, J), lambda b, x, y: np.where(b, y, x), vmap=False),
    Case("select_n-complex", lax.select_n, (B, Z, Z), lambda b, x, y: x, vmap=False),
    Case("select_n-1", lambda x: lax.select_n(B, x), (X,), lambda x: x),
    Case("select", lax.select, (B, X, Y), np.where),
    Case(
        "select_n-broadcast",
        lax.select_n_p.bind,
        (B, X, np.stack([Y, X])),
        lambda b, x, y: np.where(b, y, x),
    ),
    Case("clamp", lax.clamp, (-W, X, W), lambda a, x, b: np.clip(x, a, b)),
    Case(
        "clamp-scalars",
        lax.clamp,
        (np.float32(-1), X, np.float32(2)),
        lambda a, x, b: np.clip(x, a, b),
    ),
    Case(
        "clamp-int",
        lax.clamp,
        (np.int32(0), I, np.int32(5)),
        lambda a, x, b: np.clip(x, a, b),
        vmap=False,
    ),
]


@pytest.mark.parametrize("case", harness.params(CASES))
def test_operation(case: Case) -> None:
    harness.check_case(case)


def test_nan_compares_unordered() -> None:
    x = np.array([np.nan, 1], np.float32)
    np.testing.assert_array_equal(lax.eq(x, x), [False, True])
    np.testing.assert_array_equal(lax.ne(x, x), [True, False])
    np.testing.assert_array_equal(lax.ge(x, x), [False, True])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_total_order(dtype: type) -> None:
    order = np.array([-np.nan, -np.inf, -1, -0.0, 0.0, 1, np.inf, np.nan], dtype)
    order[0] = np.copysign(order[0], np.asarray(-1, dtype))
    x, y = order[:, None], order[None, :]
    rank = np.arange(len(order))
    np.testing.assert_array_equal(lax.lt_to_p.bind(x, y), rank[:, None] < rank[None, :])
    np.testing.assert_array_equal(lax.le_to_p.bind(x, y), rank[:, None] <= rank[None, :])
    np.testing.assert_array_equal(lax.eq_to_p.bind(x, y), rank[:, None] == rank[None, :])


def test_select_n_takes_the_nearest_case_out_of_range() -> None:
    which = np.array([-1, 0, 1, 2, 5], np.int32)
    cases = [np.full(5, k, np.float32) for k in range(3)]
    np.testing.assert_array_equal(lax.select_n(which, *cases), [0, 0, 1, 2, 2])
    np.testing.assert_array_equal(lax.select_n(which, *cases[:2]), [0, 0, 1, 1, 1])


def test_select_passes_derivatives_to_the_chosen_case_only() -> None:
    grad = pb.grad(lambda x: lax.reduce_sum(lax.select(B, x, Y), (0,)))(X)
    np.testing.assert_array_equal(grad, [1, 0, 1])


def test_select_transposes_in_its_cases() -> None:
    harness.check_transpose(lambda x, y: lax.select(B, x, y), [X, Y])
    harness.check_transpose(lambda x: lax.select_n(WHICH, x, x, x), [X])


def test_clamp_has_the_derivative_of_what_it_returns() -> None:
    low, x, high = (np.array(v, np.float32) for v in ([0, 0, 0], [-1, 1, 5], [2, 2, 2]))
    grads = pb.grad(lambda *a: lax.reduce_sum(lax.clamp(*a), (0,)), argnums=(0, 1, 2))(low, x, high)
    np.testing.assert_array_equal(np.stack([np.asarray(g) for g in grads]), np.eye(3)[[0, 1, 2]])


def test_shifts_beyond_the_width() -> None:
    eight = np.full(3, -8, np.int32)
    by = np.array([1, 32, -1], np.int32)
    np.testing.assert_array_equal(lax.shift_left(np.full(3, 1, np.int32), by), [2, 0, 0])
    np.testing.assert_array_equal(lax.shift_right_arithmetic(eight, by), [-4, -1, -1])
    np.testing.assert_array_equal(lax.shift_right_logical(eight, by), [2**31 - 4, 0, 0])


def test_comparison_has_no_derivative_and_stops_none() -> None:
    grad = pb.grad(lambda x: lax.select(lax.gt(x, 0.0), x, lax.neg(x)))
    assert float(grad(-2.0)) == -1.0


def test_nextafter_refuses_derivatives() -> None:
    harness.check_error(
        NotImplementedError,
        ["nextafter", "neighbouring", "stop_gradient"],
        pb.grad(lambda x: lax.nextafter(x, 2.0)),
        1.0,
    )


ERRORS = [
    (lax.lt, (Z, Z), TypeError, ["lt does not accept dtype complex64"]),
    (lax.eq, (X, I), TypeError, ["same dtypes", "float32[3]", "int32[3]"]),
    (lax.bitwise_and, (X, X), TypeError, ["and does not accept dtype float32"]),
    (lax.shift_left, (B, B), TypeError, ["shift_left does not accept dtype bool"]),
    (lax.population_count, (B,), TypeError, ["population_count", "bool"]),
    (lax.is_finite, (I,), TypeError, ["is_finite does not accept dtype int32"]),
    (lax.select, (B, X, 1.0), TypeError, ["same shapes", "float32[3]", "float32[]", "jnp.where"]),
    (lax.select, (B, X, I), TypeError, ["same dtypes", "jnp.where"]),
    (lax.select, (B[:2], X, X), TypeError, ["(2,)", "(3,)"]),
    (lax.select_n, (B, X, X, X), TypeError, ["boolean `which`", "3 cases", "integers 0 to 2"]),
    (lax.select_n, (X, X, X), TypeError, ["`which`", "float32[3]", "which > 0"]),
    (lax.select_n, (B,), ValueError, ["at least one case"]),
    (lax.clamp, (X[:2], X, X), TypeError, ["min.shape", "(2,)", "(3,)", "jnp.clip"]),
    (lax.clamp, (0, X, 1), TypeError, ["clamp", "same dtypes"]),
]


@pytest.mark.parametrize("fun,args,error,parts", ERRORS)
def test_errors_name_the_operands(fun: object, args: tuple, error: type, parts: list) -> None:
    harness.check_error(error, parts, fun, *args)
