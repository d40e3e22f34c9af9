"""Callbacks: values, order, transformations, errors."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import lax
from pullback import numpy as jnp
from pullback.experimental import io_callback

SPEC = pb.ShapeDtypeStruct((), np.float32)


def test_pure_callback_eager_and_jitted():
    f = lambda x: pb.pure_callback(np.sort, x, x)
    x = jnp.array([3.0, 1.0, 2.0])
    np.testing.assert_array_equal(f(x), [1, 2, 3])
    np.testing.assert_array_equal(pb.jit(f)(x), [1, 2, 3])
    out = pb.jit(lambda x: pb.pure_callback(lambda p: {"y": p["x"] + 1}, {"y": SPEC}, {"x": x}))(
        2.0
    )
    assert float(out["y"]) == 3.0


def test_operands_arrive_row_major():
    x = jnp.arange(6.0).reshape(2, 3)
    f = pb.jit(
        lambda x: pb.pure_callback(lambda t: t.copy(), pb.ShapeDtypeStruct((3, 2), np.float32), x.T)
    )
    np.testing.assert_array_equal(f(x), np.asarray(x).T)


@pytest.mark.parametrize(
    ("method", "shapes"),
    [
        ("sequential", [((), ())] * 3),
        ("expand_dims", [((3,), (1,))]),
        ("broadcast_all", [((3,), (3,))]),
    ],
)
def test_vmap_methods(method, shapes):
    seen = []

    def host(x, y):
        seen.append((x.shape, y.shape))
        return np.asarray(x + y)

    f = lambda x, y: pb.pure_callback(host, SPEC, x, y, vmap_method=method)
    out = pb.vmap(f, (0, None))(jnp.arange(3.0), 2.0)
    np.testing.assert_array_equal(out, [2, 3, 4])
    assert seen == shapes


def test_pure_callback_refusals():
    f = lambda x: pb.pure_callback(np.sin, x, x)
    with pytest.raises(NotImplementedError, match="vmap_method"):
        pb.vmap(f)(jnp.ones(2))
    with pytest.raises(ValueError, match="custom_jvp"):
        pb.grad(f)(1.0)
    with pytest.raises(TypeError, match=r"result 0 has shape \(3,\)"):
        pb.pure_callback(lambda: np.ones(3), SPEC)
    with pytest.raises(TypeError, match="ShapeDtypeStruct"):
        pb.pure_callback(np.sin, 3.0, 1.0)


def test_with_a_derivative_of_its_own():
    @pb.custom_jvp
    def sine(x):
        return pb.pure_callback(lambda x: np.sin(x), SPEC, x, vmap_method="expand_dims")

    sine.defjvp(lambda p, t: (sine(p[0]), jnp.cos(p[0]) * t[0]))
    np.testing.assert_allclose(pb.jit(pb.grad(sine))(0.3), np.cos(0.3), rtol=1e-6)
    np.testing.assert_allclose(pb.vmap(pb.grad(sine))(jnp.ones(2)), np.cos([1, 1]), rtol=1e-6)


def test_exceptions_come_through():
    f = pb.jit(lambda x: pb.pure_callback(lambda x: 1 / 0, x, x))
    with pytest.raises(ZeroDivisionError):
        f(1.0)
    assert float(pb.jit(lambda x: x + 1)(1.0)) == 2.0


def test_io_callback_is_never_dropped():
    log = []

    def host(x):
        log.append(float(x))
        return np.float32(len(log))

    @pb.jit
    def f(x):
        io_callback(host, SPEC, x)
        return x + 1

    f(1.0)
    f(1.0)
    assert log == [1.0, 1.0]
    with pytest.raises(ValueError, match="ordered IO callback"):
        pb.vmap(lambda x: io_callback(host, SPEC, x, ordered=True))(jnp.ones(2))
    log.clear()
    np.testing.assert_array_equal(
        pb.vmap(lambda x: io_callback(host, SPEC, x))(jnp.ones(2)), [1, 2]
    )


def test_debug_print(capsys):
    pb.debug.print("a {} {x:.2f} {y}", 1, x=jnp.float32(2), y=jnp.ones(2))
    pb.jit(lambda x: pb.debug.print("b {}", x))(1.5)
    pb.vmap(lambda x: pb.debug.print("v {}", x))(jnp.arange(2))
    pb.jit(pb.grad(lambda x: (pb.debug.print("g {}", x), x * x)[1]))(3.0)
    assert capsys.readouterr().out.splitlines() == [
        "a 1 2.00 [1. 1.]",
        "b 1.5",
        "v 0",
        "v 1",
        "g 3.0",
    ]
    with pytest.raises(ValueError, match="Unused positional"):
        pb.debug.print("a", 1)
    with pytest.raises(ValueError, match="Unused keyword"):
        pb.debug.print("a", x=1)
    with pytest.raises(IndexError):
        pb.debug.print("a {}")


def test_order_through_loops_and_branches(capsys):
    def say(text, *args):
        pb.debug.print(text, *args, ordered=True)

    @pb.jit
    def f(x):
        say("start")

        def body(c, i):
            say("step {}", i)
            c = pb.jit(lambda c: (say("inner {}", c), c + 1)[1])(c)
            lax.cond(i % 2 == 0, lambda: say("even"), lambda: say("odd"))
            return c, None

        c, _ = lax.scan(body, x, jnp.arange(3))
        c = lax.while_loop(lambda c: c < 5, lambda c: (say("while {}", c), c + 1)[1], c)
        say("end")
        return c

    assert int(f(0)) == 5
    assert capsys.readouterr().out.splitlines() == [
        "start",
        *("step 0", "inner 0", "even"),
        *("step 1", "inner 1", "odd"),
        *("step 2", "inner 2", "even"),
        *("while 3", "while 4"),
        "end",
    ]


def test_debug_callback_keeps_values_valid_and_static_arguments():
    seen = []
    f = pb.jit(lambda x: pb.debug.callback(lambda tag, v: seen.append((tag, v)), "name", x))
    f(jnp.arange(3))
    f(jnp.arange(3) * 2)
    assert [tag for tag, _ in seen] == ["name", "name"]
    np.testing.assert_array_equal(seen[0][1], [0, 1, 2])


def test_callbacks_get_arrays():
    seen = []
    f = lambda x: pb.debug.callback(lambda v: seen.append(v.at[0].set(7.0)), x)
    for call in (f, pb.jit(f)):
        call(jnp.ones(2))
        np.testing.assert_array_equal(seen.pop(), [7, 1])
    spec = pb.ShapeDtypeStruct((2,), np.float32)
    g = pb.jit(lambda x: pb.pure_callback(lambda v: jnp.sin(v), spec, x))
    np.testing.assert_allclose(g(jnp.ones(2)), np.sin([1, 1]), rtol=1e-6)


def test_functions_without_results_on_several_devices():
    assert pb.pmap(lambda x: None)(jnp.arange(2)) is None


def test_on_several_devices():
    seen = []
    f = pb.pmap(lambda x: (pb.debug.callback(lambda v: seen.append(int(v)), x), x)[1])
    f(jnp.arange(2))
    assert sorted(seen) == [0, 1]


def test_reverse_mode_of_a_scan_keeps_its_effects_in_the_loop(capsys):
    def f(xs):
        def body(c, x):
            pb.debug.print("{}", x > 1)
            return c * jnp.sin(x), c

        return lax.scan(body, jnp.float32(1), xs)[0]

    want = np.cos(1.0) * np.sin(2.0), np.sin(1.0) * np.cos(2.0)
    np.testing.assert_allclose(pb.grad(f)(jnp.array([1.0, 2.0])), want, rtol=1e-5)
    assert capsys.readouterr().out.split() == ["False", "True"]


def test_prints_in_branches_that_vmap_runs_for_all_elements(capsys):
    def f(x, ordered):
        def say(name):
            pb.debug.print(name + " {}", x, ordered=ordered)
            return x

        return lax.cond(x > 0, lambda: say("pos"), lambda: say("neg"))

    for ordered in (False, True):
        pb.vmap(lambda x, ordered=ordered: f(x, ordered))(jnp.array([1.0, -2.0]))
        out = capsys.readouterr().out.splitlines()
        assert out == ["neg 1.0", "neg -2.0", "pos 1.0", "pos -2.0"]
    g = lambda x: lax.cond(x > 0, lambda: io_callback(lambda v: v, SPEC, x), lambda: x)
    with pytest.raises(NotImplementedError, match="side effects"):
        pb.vmap(g)(jnp.array([1.0, -2.0]))


def test_print_in_two_calls_and_without_places(capsys):
    pb.jit(lambda x: pb.debug.print(ordered=True)("x is {}", x))(2)
    pb.debug.print("values", 1, jnp.ones(2), skip_format_check=True)
    pb.debug.print("{{}}")
    assert capsys.readouterr().out.splitlines() == ["x is 2", "values 1 [1. 1.]", "{}"]
    with pytest.raises(TypeError, match="without a format string"):
        pb.debug.print(x=1)


def test_print_options_are_those_of_the_trace(capsys):
    with np.printoptions(precision=2):
        f = pb.jit(lambda x: pb.debug.print("{}", x)).lower(jnp.ones(2) / 3).compile()
    f(jnp.ones(2) / 3)
    assert capsys.readouterr().out == "[0.33 0.33]\n"


def test_log_names_the_line(caplog):
    with caplog.at_level("INFO", logger="pullback.debug"):
        pb.jit(lambda x: pb.debug.log("x is {}", x))(2)
    (record,) = caplog.records
    assert record.getMessage() == "x is 2"
    assert record.filename == "test_effects.py"


@pytest.mark.parametrize("mapped", [False, True])
def test_ordered_effects_in_the_condition_of_a_loop(mapped, capsys):
    def holds(c):
        pb.debug.print("test {}", c, ordered=True)
        return c < 2

    def step(c):
        pb.debug.print("step {}", c, ordered=True)
        return c + 1

    f = lambda x: lax.while_loop(holds, step, x)
    if mapped:
        np.testing.assert_array_equal(pb.vmap(f)(jnp.array([2, 1])), [2, 2])
        assert capsys.readouterr().out.splitlines()[:2] == ["test 2", "test 1"]
        return
    assert int(pb.jit(f)(0)) == 2
    want = ["test 0", "step 0", "test 1", "step 1", "test 2"]
    assert capsys.readouterr().out.splitlines() == want


def test_declared_results_are_checked_at_once():
    with pytest.raises(ValueError, match="vmap_method must be one of"):
        pb.pure_callback(np.sin, SPEC, 1.0, vmap_method="all")
    with pytest.raises(ValueError, match="jax_enable_x64"):
        pb.pure_callback(np.sin, np.float64(1), 1.0)
