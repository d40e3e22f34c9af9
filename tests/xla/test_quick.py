"""The short way of operators: the same results as the long one, whatever has been learnt."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as jnp
from pullback.xla import dispatch, quick


def warm(call):
    """The result of the third call, when the table is filled."""
    call()
    call()
    return call()


def test_known_types_go_straight_and_give_the_same():
    v = jnp.asarray(np.linspace(-2, 3, 7, dtype=np.float32))
    w = v * 3
    n = np.asarray(v)
    for got, want in (
        (lambda: v + 1, n + np.float32(1)),
        (lambda: 1 - v, np.float32(1) - n),
        (lambda: v / w, n / np.asarray(w)),
        (lambda: 2.5 * v, np.float32(2.5) * n),
        (lambda: v < w, n < np.asarray(w)),
        (lambda: v >= 0, n >= 0),
        (lambda: jnp.negative(v), -n),
    ):
        np.testing.assert_array_equal(np.asarray(warm(got)), want)
    before = sum(map(len, quick._tables))
    assert before >= 7
    v + 1
    assert sum(map(len, quick._tables)) == before


def test_each_type_has_its_own_entry():
    ints, floats = jnp.arange(4), jnp.arange(4.0)
    for x in (ints, floats, ints, floats):
        out = x / 2
        assert out.dtype == jnp.float32
        np.testing.assert_array_equal(np.asarray(out), [0, 0.5, 1, 1.5])
    assert (warm(lambda: ints + 1)).dtype == jnp.int32
    assert (warm(lambda: ints + 1.0)).dtype == jnp.float32
    assert not warm(lambda: ints + 1).weak_type


def test_integer_division_is_not_the_primitive_s():
    x = jnp.arange(1, 4)
    pb.lax.div(x, x)
    assert warm(lambda: x / x).dtype == jnp.float32


def test_booleans_add_as_or():
    t = jnp.array([True, False])
    np.testing.assert_array_equal(np.asarray(warm(lambda: t + t)), [True, False])
    assert warm(lambda: t + t).dtype == bool


def test_the_sign_of_a_zero_is_kept():
    v = jnp.array([-0.0, 0.0])
    for _ in range(3):
        assert np.signbit(np.asarray(v + -0.0)).tolist() == [True, False]
        assert np.signbit(np.asarray(v + 0.0)).tolist() == [False, False]
    one = jnp.float32(1)
    assert np.isnan(float(warm(lambda: one * float("nan"))))


def test_weak_types_follow():
    weak = jnp.asarray(2.0)
    strong = jnp.float32(2)
    assert warm(lambda: weak + 1).weak_type
    assert not warm(lambda: strong + 1).weak_type
    assert not warm(lambda: weak * strong).weak_type


def test_true_is_not_one():
    x = jnp.arange(3)
    assert warm(lambda: x + 1).dtype == jnp.int32
    np.testing.assert_array_equal(np.asarray(x + True), [1, 2, 3])
    np.testing.assert_array_equal(np.asarray(warm(lambda: x * 1)), [0, 1, 2])


def test_a_deleted_operand_is_named_and_the_next_call_works():
    v = jnp.arange(3.0)
    w = v + 5
    warm(lambda: v * w)
    warm(lambda: jnp.sin(w))
    w.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        v * w
    with pytest.raises(RuntimeError, match="deleted"):
        jnp.sin(w)
    np.testing.assert_array_equal(np.asarray(v * v), [0, 1, 4])


def test_options_of_a_block_hold_in_it_and_not_after():
    x = jnp.arange(3.0)
    warm(lambda: x + 1)
    with pb.enable_x64(True):
        assert (jnp.arange(3.0) + 1).dtype == jnp.float64
        assert (x + 1).dtype == jnp.float32
    assert warm(lambda: x + 1).dtype == jnp.float32
    zero = jnp.zeros(2)
    warm(lambda: zero / zero)
    with pb.debug_nans(True), pytest.raises(FloatingPointError):
        zero / zero
    assert np.isnan(np.asarray(zero / zero)).all()
    a, b = jnp.ones((2, 3)), jnp.ones(3)
    warm(lambda: a + b)
    with pb.numpy_rank_promotion("raise"), pytest.raises(ValueError, match="rank"):
        a + b
    assert warm(lambda: a + b).shape == (2, 3)


def test_a_thread_with_options_of_its_own_does_not_see_what_others_learnt():
    zero = jnp.zeros(2)
    warm(lambda: zero / zero)
    failed = []
    inside, done = threading.Event(), threading.Event()

    def other():
        with pb.enable_x64(True):
            failed.append((jnp.arange(2.0) + 1).dtype != jnp.float64)
            inside.set()
            done.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(10)
    warm(lambda: zero + 1)
    assert not any(quick._tables), "nothing is learnt while another thread has its own options"
    done.set()
    thread.join()
    assert failed == [False]
    warm(lambda: zero + 1)
    assert any(quick._tables)


def test_cleared_caches_are_filled_again():
    v = jnp.arange(3.0)
    warm(lambda: v + 1)
    pb.clear_caches()
    assert not any(quick._tables)
    np.testing.assert_array_equal(np.asarray(warm(lambda: v + 1)), [1, 2, 3])
    assert dispatch.cache_sizes()["eager"] > 0


def test_results_of_committed_arrays_are_committed():
    v = jnp.arange(3.0)
    c = pb.device_put(v, pb.devices()[0])
    for _ in range(3):
        assert (c + 1).committed and jnp.sin(c).committed and (v + c).committed
        assert not (v + 1).committed and not jnp.sin(v).committed
        assert pb.grad(lambda x: jnp.sum(jnp.sin(x) * x))(c).committed
        assert not pb.grad(lambda x: jnp.sum(jnp.sin(x) * x))(v).committed
        assert pb.jit(lambda x, y: x + y)(c, 1.0).committed
        assert not pb.jit(lambda x, y: x + y)(v, 1.0).committed
