"""Indices of every kind against NumPy, drawn by hypothesis; the same under jit, vmap and grad; errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pullback as pb
from pullback import numpy as jnp

SHAPE = (3, 4, 2)
X = np.arange(24, dtype=np.float32).reshape(SHAPE)


@st.composite
def _slices(draw: Any, size: int) -> slice:
    bound = st.one_of(st.none(), st.integers(-size - 2, size + 2))
    step = draw(st.sampled_from([None, 1, 2, -1, -2]))
    return slice(draw(bound), draw(bound), step)


@st.composite
def indices(draw: Any) -> tuple:
    """An index of X: integers, slices, arrays, masks, None and an ellipsis, in bounds."""
    index_shape = draw(st.sampled_from([(), (2,), (2, 1), (1, 2)]))
    items: list[Any] = []
    for size in SHAPE[: draw(st.integers(0, 3))]:
        kind = draw(st.sampled_from(["int", "slice", "slice", "array", "mask"]))
        if kind == "int":
            items.append(draw(st.integers(-size, size - 1)))
        elif kind == "slice":
            items.append(draw(_slices(size)))
        elif kind == "mask":
            mask = np.zeros(size, bool)
            mask[draw(st.integers(0, size - 1))] = True
            items.append(mask)
        else:
            flat = st.lists(
                st.integers(-size, size - 1),
                min_size=int(np.prod(index_shape)),
                max_size=int(np.prod(index_shape)),
            )
            items.append(np.array(draw(flat), np.int32).reshape(index_shape))
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), None)
    if sum(i is not None for i in items) < 3 and draw(st.booleans()):
        items.append(Ellipsis)
    return tuple(items)


_RELAXED = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


@_RELAXED
@given(indices())
def test_read_as_numpy(index: tuple) -> None:
    np.testing.assert_array_equal(np.asarray(jnp.asarray(X)[index]), X[index])


@_RELAXED
@given(indices())
def test_write_as_numpy(index: tuple) -> None:
    want = X.copy()
    part = want[index]
    values = -np.arange(part.size, dtype=np.float32).reshape(part.shape)
    flat = np.arange(X.size).reshape(X.shape)[index].reshape(-1)
    if len(set(flat.tolist())) == flat.size:  # repeats: any of the values may win
        want[index] = values
        np.testing.assert_array_equal(np.asarray(jnp.asarray(X).at[index].set(values)), want)
    total = X.copy()
    np.add.at(total, index, values)
    np.testing.assert_array_equal(np.asarray(jnp.asarray(X).at[index].add(values)), total)


INDICES = [
    1,
    slice(1, 3),
    (0, slice(None), 1),
    (slice(None, None, -1), 2),
    (np.array([2, 0]), slice(None), np.array([1, 1])),
    (slice(None), np.array([[0, 3]])),
    (Ellipsis, None, np.array([0, 1])),
    (slice(0, 2), np.array([True, False, True, False])),
    (np.array([0, 1]), slice(1, 4, 2), 0),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_jit_vmap_and_grad_of_reads(index: Any) -> None:
    x = jnp.asarray(X)
    np.testing.assert_array_equal(pb.jit(lambda a: a[index])(x), X[index])
    batch = jnp.stack([x, 2 * x])
    mapped = pb.vmap(lambda a: a[index])(batch)
    np.testing.assert_array_equal(mapped, np.stack([X[index], 2 * X[index]]))
    weights = np.arange(1, X[index].size + 1, dtype=np.float32).reshape(X[index].shape)
    want = np.zeros_like(X)
    np.add.at(want, index, weights)
    loss = lambda a: (a[index] * weights).sum()
    np.testing.assert_array_equal(pb.grad(loss)(x), want)
    np.testing.assert_array_equal(pb.jit(pb.grad(loss))(x), want)


@pytest.mark.parametrize("index", INDICES, ids=str)
@pytest.mark.parametrize("method", ["set", "add", "multiply", "max"])
def test_grad_of_writes_by_differences(index: Any, method: str) -> None:
    x = jnp.asarray(X[::-1].copy() / 7)
    part = X[index]  # no ties with x, which holds multiples of 1/7
    values = jnp.asarray((2 * np.arange(part.size, dtype=np.float32) + 0.5).reshape(part.shape) / 7)
    weights = jnp.asarray(np.cos(X))

    def loss(a: Any, v: Any) -> Any:
        return (getattr(a.at[index], method)(v, **options) * weights).sum()

    options = {"unique_indices": True} if method == "multiply" else {}
    grads = pb.grad(loss, (0, 1))(x, values)
    step_x = jnp.asarray(np.sin(X) * 1e-2)
    step_v = jnp.asarray(np.full(values.shape, 1e-2, np.float32))
    ahead, behind = loss(x + step_x, values + step_v), loss(x - step_x, values - step_v)
    slope = float((grads[0] * step_x).sum() + (grads[1] * step_v).sum())
    assert slope == pytest.approx(float(ahead - behind) / 2, rel=2e-2, abs=2e-3)
    np.testing.assert_allclose(pb.jit(loss)(x, values), loss(x, values), rtol=1e-5)


def test_traced_positions() -> None:
    x = jnp.asarray(X)
    for i in (0, 2, -1):
        np.testing.assert_array_equal(pb.jit(lambda a, k: a[k])(x, i), X[i])
        np.testing.assert_array_equal(pb.jit(lambda a, k: a[k, :, k - 1])(x, i), X[i, :, i - 1])
    rows = jnp.array([2, 0, 1])
    np.testing.assert_array_equal(pb.vmap(lambda k: x[k])(rows), X[[2, 0, 1]])
    np.testing.assert_array_equal(pb.vmap(lambda a, k: a[k])(x, rows), X[[0, 1, 2], [2, 0, 1]])
    wrote = pb.vmap(lambda a, k: a.at[k].set(0.0))(x, rows)
    want = X.copy()
    want[[0, 1, 2], [2, 0, 1]] = 0
    np.testing.assert_array_equal(wrote, want)


def test_positions_before_the_start_are_moved_to_it_not_wrapped_again() -> None:
    x = jnp.arange(4.0)
    rows = jnp.arange(12.0).reshape(3, 4)
    for i in (-5, -6):
        assert float(x[i]) == 0.0
        assert float(x[jnp.int32(i)]) == 0.0
        assert float(pb.jit(lambda x, i: x[i])(x, i)) == 0.0
        np.testing.assert_array_equal(pb.jit(lambda m, i: m[i, 1:3])(rows, i), [1.0, 2.0])


def test_a_write_leaves_the_array_alone() -> None:
    x = jnp.zeros(3)
    y = x.at[1].set(5.0)
    assert x.tolist() == [0, 0, 0] and y.tolist() == [0, 5, 0]


def test_repeated_reads_compile_once() -> None:
    x = jnp.arange(50.0)
    assert [float(x[i]) for i in range(5)] == [0, 1, 2, 3, 4]
    assert [x[i : i + 3].tolist() for i in range(2)] == [[0, 1, 2], [1, 2, 3]]


ERRORS = [
    (lambda x: x[0, 0, 0, 0], IndexError, "Too many indices"),
    (lambda x: x[..., ...], IndexError, "single ellipsis"),
    (lambda x: x[[0, 1]], TypeError, "non-tuple sequence"),
    (lambda x: x[1.0], TypeError, "integer or boolean"),
    (lambda x: x["a"], TypeError, "string indexing"),
    (lambda x: x[{}], IndexError, "valid indices"),
    (lambda x: x[np.zeros(2, bool)], IndexError, "boolean index did not match"),
    (lambda x: x[np.zeros(2, int), np.zeros(3, int)], IndexError, "shape mismatch"),
    (lambda x: x[::"a"], TypeError, "Slice entries"),
    (lambda x: pb.jit(lambda i: x[i : i + 1])(1), IndexError, "dynamic_slice"),
    (lambda x: pb.jit(lambda m: x[m])(x > 3), pb.errors.NonConcreteBooleanIndexError, "where"),
    (lambda x: x.at[0].set(jnp.ones(5)), ValueError, "do not broadcast"),
    (lambda x: x.at[0].get(mode="wrong"), ValueError, "Unknown gather mode"),
    (lambda x: x.__setitem__(0, 1.0), TypeError, "at"),
]


@pytest.mark.parametrize("call, kind, text", ERRORS, ids=[e[2] for e in ERRORS])
def test_errors(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call(jnp.asarray(X))


def test_a_cast_that_loses_warns() -> None:
    with pytest.warns(FutureWarning, match="incompatible types"):
        assert jnp.arange(3).at[0].set(1.5).tolist() == [1, 1, 2]
