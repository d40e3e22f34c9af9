"""Operators and methods of arrays and tracers: mixing with NumPy, reflected forms, type checks."""

from __future__ import annotations

import functools
import operator
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import numpy as jnp

V = np.array([0.5, -1.25, 2.0], np.float32)
BINARY = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    operator.eq,
    operator.ne,
]


@pytest.mark.parametrize("op", BINARY, ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "other", [2, 2.5, np.float32(2), np.array([1.0, 2.0, 3.0], np.float32)], ids=str
)
def test_operators_mix_with_numpy_from_both_sides(op: Any, other: Any) -> None:
    for x, y in ((jnp.asarray(V), other), (other, jnp.abs(jnp.asarray(V)))):
        got = op(x, y)
        assert isinstance(got, jnp.ndarray)
        assert got.dtype in (np.float32, np.bool_)
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(got, op(np.asarray(x), np.asarray(y)), rtol=1e-6)
        np.testing.assert_allclose(pb.jit(op)(x, y), got, rtol=1e-6)


@pytest.mark.parametrize(
    "op", [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]
)
def test_integer_operators(op: Any) -> None:
    a, b = np.array([5, 2, 7], np.int32), np.array([1, 3, 0], np.int32)
    np.testing.assert_array_equal(op(jnp.asarray(a), b), op(a, b))
    np.testing.assert_array_equal(op(a, jnp.asarray(b)), op(a, b))


def test_matmul_and_divmod_from_both_sides() -> None:
    m = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert isinstance(m @ jnp.asarray(m.T), jnp.ndarray)
    np.testing.assert_array_equal(jnp.asarray(m) @ m.T, m @ m.T)
    quotient, rest = divmod(7, jnp.array([2, 4]))
    assert quotient.tolist() == [3, 1] and rest.tolist() == [1, 3]


@pytest.mark.parametrize("other", [None, "a", object()], ids=["None", "str", "object"])
def test_foreign_operands(other: Any) -> None:
    x = jnp.asarray(V)
    assert (x == other) is False and (x != other) is True
    with pytest.raises(TypeError, match="unsupported operand"):
        x + other
    with pytest.raises(TypeError):
        other - x


def test_augmented_assignment_makes_a_new_array() -> None:
    x = y = jnp.asarray(V)
    x += 1
    assert x is not y
    np.testing.assert_array_equal(y, V)


def test_arrays_and_tracers_are_ndarrays() -> None:
    seen = []

    def f(x: Any) -> Any:
        seen.append(isinstance(x, jnp.ndarray))
        return x * 2

    pb.jit(f)(jnp.ones(2))
    pb.grad(f)(1.0)
    assert seen == [True, True]
    assert isinstance(jnp.ones(2), jnp.ndarray) and not isinstance(V, jnp.ndarray)
    assert issubclass(type(jnp.ones(2)), jnp.ndarray)


def test_methods_are_those_of_the_functions() -> None:
    x = jnp.asarray(V)
    m = jnp.arange(6.0).reshape(2, 3)
    assert x.sum() == jnp.sum(x) and x.max() == 2
    assert m.T.shape == (3, 2) and m.mT.shape == (3, 2) and m.reshape(3, -1).shape == (3, 2)
    assert m.transpose(1, 0).shape == m.transpose((1, 0)).shape == (3, 2)
    assert x.astype(int).dtype == np.int32 and x.real is not None and x.imag.tolist() == [0, 0, 0]
    assert m.flatten().shape == (6,) and [float(e) for e in m.flat] == [0, 1, 2, 3, 4, 5]
    assert round(x, 1).shape == (3,) and abs(x).min() == 0.5 and (~jnp.array(True)) == False  # noqa: E712


def test_membership_and_namespace() -> None:
    x = jnp.asarray(V)
    assert 2.0 in x and 7 not in x
    assert x.__array_namespace__() is jnp


def test_iteration_of_tracers() -> None:
    total = pb.jit(lambda x: sum(row.sum() for row in x))(jnp.ones((3, 2)))
    assert float(total) == 6
    with pytest.raises(TypeError, match="0-d"):
        pb.jit(lambda x: list(x))(1.0)


def test_item_assignment_is_refused_while_tracing() -> None:
    def f(x: Any) -> Any:
        x[0] = 1.0
        return x

    with pytest.raises(TypeError, match=r"\.at\["):
        pb.jit(f)(jnp.ones(2))
    with pytest.raises(TypeError, match=r"\.at\["):
        f(jnp.ones(2))


def test_derivative_through_operators() -> None:
    f = lambda x: ((2 - x) * x / (1 + x**2) - -x) ** 3 // 1 + abs(x) % 2
    g = lambda x: ((2 - x) * x / (1 + x**2) - -x) ** 3
    assert float(pb.grad(f)(0.5)) == 1.0
    step = 1e-3
    assert float(pb.grad(g)(0.5)) == pytest.approx(
        (g(0.5 + step) - g(0.5 - step)) / (2 * step), rel=1e-4
    )


class Boxed:
    """Something with __jax_array__."""

    def __jax_array__(self) -> Any:
        return jnp.asarray(V)


def test_objects_that_give_arrays() -> None:
    np.testing.assert_array_equal(jnp.asarray(V) + Boxed(), 2 * V)
    np.testing.assert_array_equal(jnp.sin(Boxed()), jnp.sin(V))
    np.testing.assert_array_equal(jnp.sum(Boxed()), V.sum())


@pytest.mark.parametrize("made", ["jnp.arange(3.0)", "jnp.ones(2, jnp.bfloat16)"])
def test_an_array_unpickled_in_a_new_process_has_its_operators(made):
    make = f"import pickle, pullback.numpy as jnp; print(pickle.dumps({made}).hex())"
    use = "import pickle, sys; a = pickle.loads(bytes.fromhex(sys.argv[1])); print(abs(a)[1] + 1)"
    words = [sys.executable, "-c"]
    run = functools.partial(subprocess.run, capture_output=True, text=True, timeout=120)
    pickled = run([*words, make]).stdout.strip()
    done = run([*words, use, pickled])
    assert done.stdout.strip() in ("2.0", "2"), done.stderr
