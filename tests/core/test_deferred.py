"""Functions under an eager grad wait for a value to be asked for: nobody can tell but by the clock."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as jnp
from pullback.core import reverse
from pullback.core.tracer import backend
from pullback.xla import dispatch


def thrice(call):
    """The results of three calls: run one by one, compiled, and compiled before."""
    return [np.asarray(call()) for _ in range(3)]


def programs_run(call):
    """How many operations and programs a call runs."""
    names = []
    run_primitive, run_jaxpr = dispatch.eval_trace.run, backend.run

    def count_primitive(prim, args, params):
        names.append(prim.name)
        return run_primitive(prim, args, params)

    def count_jaxpr(jaxpr, args, params):
        names.append(params.get("name"))
        return run_jaxpr(jaxpr, args, params)

    dispatch.eval_trace.run, backend.run = count_primitive, count_jaxpr
    try:
        call()
    finally:
        dispatch.eval_trace.run, backend.run = run_primitive, run_jaxpr
    return names


def loss(w, x):
    h = jnp.tanh(jnp.dot(x, w) * 2.0)
    return jnp.sum(h * h) / 3


W = jnp.asarray(np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2))
X = jnp.asarray(np.linspace(0, 2, 12, dtype=np.float32).reshape(4, 3))


def test_gradients_agree_before_and_after_the_program_is_known():
    pb.clear_caches()
    want = np.asarray(pb.jit(pb.grad(loss))(W, X))
    for got in thrice(lambda: pb.grad(loss)(W, X)):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_from_the_third_call_on_one_program_runs():
    g = pb.grad(loss)
    g(W, X), g(W, X)
    assert programs_run(lambda: g(W, X)) == ["gradient"]
    # A function made anew with the same operations has the same structure.
    assert programs_run(lambda: pb.grad(lambda w, x: loss(w, x))(W, X)) == ["gradient"]


def test_new_values_of_numbers_and_arrays_are_used():
    def f(x, scale, power):
        return jnp.sum(x * scale) + x[0] * power

    x = jnp.arange(3.0)
    for scale, power in ((2.0, 3), (4.0, 5), (7.0, np.float32(6)), (8.0, np.float32(9)), (2.5, 1)):
        got = np.asarray(pb.grad(f)(x, scale, power))
        np.testing.assert_allclose(got, [scale + float(power), scale, scale])


def test_an_operand_used_twice_is_not_two():
    def f(x, a, b):
        return jnp.sum(x * a * b)

    x, a, b = jnp.ones(2), jnp.array([2.0, 3.0]), jnp.array([5.0, 7.0])
    for _ in range(3):
        np.testing.assert_allclose(np.asarray(pb.grad(f)(x, a, a)), [4.0, 9.0])
        np.testing.assert_allclose(np.asarray(pb.grad(f)(x, a, b)), [10.0, 21.0])


def test_branching_on_values_takes_the_right_branch_each_time():
    def f(x):
        y = jnp.sin(x) * x
        if y > 0:
            return y * 2
        return y * 3

    for value in (1.0, 4.0, 1.5, 4.5, 1.0, 4.0):
        y, slope = np.sin(value) * value, np.sin(value) + value * np.cos(value)
        got = float(pb.grad(f)(value))
        assert got == pytest.approx((2 if y > 0 else 3) * slope, rel=1e-5)


def test_values_asked_for_are_there_and_the_rest_goes_on():
    seen = []

    def f(x):
        y = x * x
        seen.append(float(f"{y:.8f}"))
        z = jnp.exp(y)
        seen.append(z.item())
        return z * y

    for value in (0.5, 0.6, 0.7):
        seen.clear()
        v2 = value * value
        assert float(pb.grad(f)(value)) == pytest.approx(
            2 * value * np.exp(v2) * (v2 + 1), rel=1e-5
        )
        assert seen == pytest.approx([v2, np.exp(v2)], rel=1e-5)


def test_values_without_tangents_are_arrays_that_may_be_kept():
    history = []

    def f(x):
        y = jnp.sum(x * x)
        history.append(pb.lax.stop_gradient(y))
        return y

    for _ in range(3):
        pb.grad(f)(jnp.arange(3.0))
    assert [float(h) for h in history] == [5.0, 5.0, 5.0]


def test_effects_happen_in_their_place(capsys):
    def f(x):
        y = x * 2.0
        pb.debug.print("y={}", y)
        print("after")
        return y * y

    for _ in range(3):
        assert float(pb.grad(f)(3.0)) == 24.0
        pb.effects_barrier()
        assert capsys.readouterr().out.split() == ["y=6.0", "after"]


def test_calls_loops_and_custom_rules_in_between():
    @pb.custom_jvp
    def cube(x):
        return x**3

    cube.defjvp(lambda p, t: (p[0] ** 3, 3 * p[0] ** 2 * t[0]))
    inner = pb.jit(lambda x: x * 2.0)

    def f(x):
        y = jnp.sin(x)
        y = inner(y) + cube(y)
        y, _ = pb.lax.scan(lambda c, _: (c * 1.5, None), y, None, length=2)
        return jnp.cos(y) * y

    for value in (0.3, 0.3, 0.3, 0.9):
        want = float(pb.jit(pb.grad(f))(value))
        assert float(pb.grad(f)(value)) == pytest.approx(want, rel=1e-5)


def test_nested_transformations():
    f = lambda x: jnp.sin(x) * x * x  # noqa: E731
    second = [float(pb.grad(pb.grad(f))(0.7)) for _ in range(3)]
    want = (2 - 0.7**2) * np.sin(0.7) + 4 * 0.7 * np.cos(0.7)
    np.testing.assert_allclose(second, want, rtol=1e-5)
    xs = jnp.linspace(0.1, 1, 4)
    for got in thrice(lambda: pb.vmap(pb.grad(f))(xs)):
        want_v = [float(pb.grad(f)(x)) for x in xs]
        np.testing.assert_allclose(got, want_v, rtol=1e-5)
    total = lambda x: jnp.sum(pb.vmap(lambda y: y * jnp.sum(x))(x))  # noqa: E731
    for got in thrice(lambda: pb.grad(total)(xs)):
        np.testing.assert_allclose(got, 2 * float(jnp.sum(xs)), rtol=1e-5)


def test_an_unused_argument_and_the_identity():
    for _ in range(3):
        got = pb.grad(lambda p: jnp.sum(p["a"]) * 2)({"a": jnp.ones(2), "b": jnp.ones(3)})
        np.testing.assert_array_equal(np.asarray(got["b"]), np.zeros(3))
        np.testing.assert_array_equal(np.asarray(got["a"]), [2, 2])
        assert float(pb.grad(lambda x: x)(3.0)) == 1.0
        assert float(pb.grad(lambda x: 2.0)(3.0)) == 0.0


def test_complex_and_integer_arguments():
    for _ in range(3):
        z = pb.grad(lambda z: z * z * 1j, holomorphic=True)(1.0 + 2.0j)
        assert complex(z) == pytest.approx(2j * (1 + 2j))
        whole = pb.grad(lambda n: n * 2.0, allow_int=True)(3)
        assert whole.dtype == pb.dtypes.float0


def test_an_error_of_a_waiting_operation_names_its_line():
    gone = jnp.arange(3.0)
    gone.delete()

    def f(x):
        y = x * 2.0
        return jnp.sum(y * gone)  # the line that is named

    for _ in range(3):
        with pytest.raises(RuntimeError, match="deleted") as caught:
            pb.grad(f)(jnp.arange(3.0))
        assert "the line that is named" in "".join(caught.value.__notes__)


def test_deleted_when_the_program_is_known():
    factor = [jnp.arange(3.0)]
    f = lambda x: jnp.sum(x * factor[0])  # noqa: E731
    thrice(lambda: pb.grad(f)(jnp.ones(3)))
    factor[0] = jnp.arange(3.0)
    factor[0].delete()
    with pytest.raises(RuntimeError, match="deleted"):
        pb.grad(f)(jnp.ones(3))
    factor[0] = jnp.arange(3.0) + 1
    np.testing.assert_array_equal(np.asarray(pb.grad(f)(jnp.ones(3))), [1, 2, 3])


def test_debug_nans_still_finds_the_operation():
    f = lambda x: jnp.log(x) * 0.0  # noqa: E731
    thrice(lambda: pb.grad(f)(-1.0))
    with pb.debug_nans(True), pytest.raises(FloatingPointError):
        pb.grad(f)(-1.0)


def test_a_leaked_tracer_says_so():
    leaked = []

    def f(x):
        leaked.append(x * 2.0)
        return leaked[-1] * x

    for _ in range(3):
        pb.grad(f)(3.0)
        with pytest.raises(pb.errors.UnexpectedTracerError):
            leaked[-1] + 1
        with pytest.raises(pb.errors.UnexpectedTracerError):
            float(leaked[-1])
        assert repr(leaked[-1])


def test_committed_and_spread_arguments():
    device = pb.devices()[0]
    w = pb.device_put(W, device)
    for _ in range(3):
        got = pb.grad(loss)(w, X)
        assert got.committed
        np.testing.assert_allclose(np.asarray(got), np.asarray(pb.jit(pb.grad(loss))(W, X)), 1e-6)


def test_long_programs_are_compiled_only_when_they_come_back_often():
    def f(x):
        for _ in range(400):
            x = x * 1.001
        return x

    want = 1.001**400
    made = reverse.cache_sizes()["structures"]
    for _ in range(2):
        assert float(pb.grad(f)(1.0)) == pytest.approx(want, rel=1e-4)
    assert "gradient" not in programs_run(lambda: pb.grad(f)(1.0))
    assert reverse.cache_sizes()["structures"] >= made


@pytest.mark.parametrize("transform", [pb.grad, lambda f: lambda x: pb.vjp(f, x)[1](1.0)[0]])
def test_a_numpy_array_counts_as_it_was_when_it_was_used(transform):
    def f(x):
        factor = np.array([1.0, 2.0], np.float32)
        y = x * factor
        factor[:] = 10
        return jnp.sum(y * factor)

    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(transform(f)(jnp.ones(2))), [10, 20])


def test_values_and_gradients_have_the_same_bits_at_each_call():
    key = pb.random.PRNGKey(0)
    x, w = pb.random.normal(key, (50, 7)), pb.random.normal(key, (7, 5))

    def f(w, scale):
        h = jnp.tanh(x @ w * scale + 0.3)
        mean = jnp.mean(h * h + h / 3, axis=0)
        return jnp.sum(mean * jnp.exp(-mean)), (mean, {"h": h})

    pb.clear_caches()
    runs = [pb.value_and_grad(f, argnums=(0, 1), has_aux=True)(w, 1.7) for _ in range(4)]
    plain = f(w, 1.7)[1][1]["h"]
    first = [np.asarray(leaf).tobytes() for leaf in pb.tree.leaves(runs[0])]
    for run in runs[1:]:
        assert [np.asarray(leaf).tobytes() for leaf in pb.tree.leaves(run)] == first
    assert np.asarray(plain).tobytes() == np.asarray(runs[3][0][1][1]["h"]).tobytes()


def test_auxiliary_results_of_every_kind():
    def f(x):
        y = x * 2.0
        return jnp.sum(y), {"y": y, "text": "kept", "x": x, "number": 3, "array": jnp.ones(2)}

    for _ in range(3):
        got, aux = pb.grad(f, has_aux=True)(jnp.arange(3.0))
        np.testing.assert_array_equal(np.asarray(got), [2, 2, 2])
        np.testing.assert_array_equal(np.asarray(aux["y"]), [0, 2, 4])
        np.testing.assert_array_equal(np.asarray(aux["x"]), [0, 1, 2])
        assert aux["text"] == "kept" and int(aux["number"]) == 3 and aux["array"].shape == (2,)
    both = pb.value_and_grad(f, has_aux=True)
    both(jnp.arange(3.0)), both(jnp.arange(3.0))
    assert programs_run(lambda: both(jnp.arange(3.0))).count("gradient") == 1


def test_the_identity_at_each_type():
    for x in (1.0, np.float32(1), 1.0, jnp.float32(1), jnp.bfloat16(1), 1.0):
        got = pb.grad(lambda x: x)(x)
        assert got.dtype == jnp.asarray(x).dtype
        assert got.weak_type == jnp.asarray(x).weak_type
