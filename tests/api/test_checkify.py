"""checkify: what is found, in every composition; messages, also against the real jax's."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from tests.support.oracle import ask, needs_jax

import pullback as pb
from pullback import lax
from pullback import numpy as jnp
from pullback.core.source import register_cell
from pullback.experimental import checkify
from pullback.xla import compile as xla_compile

ALL = checkify.all_checks
F = jnp.float32


def positive(x):
    checkify.check(jnp.all(x > 0), "must be positive: {}", x)
    return x + 1


def message(error):
    """The message without its last line, which says where."""
    text = error.get()
    return text if text is None else text.partition("\nAt ")[0]


def found(f, *args, errors=ALL):
    """The message under checkify, the same with and without jit."""
    checked = checkify.checkify(f, errors=errors)
    args = [jnp.asarray(x) for x in args]
    eager, jitted = message(checked(*args)[0]), message(pb.jit(checked)(*args)[0])
    assert eager == jitted
    return eager


# Programs of both engines, as text: the real jax gives the same messages.
PROGRAMS = {
    "holds": "positive, 1.0",
    "fails": "positive, -1.0",
    "vector": "positive, -jnp.arange(3.0)",
    "nan": "jnp.log, -1.0",
    "nan of inf": "lambda x: jnp.sin(x) + x, jnp.inf",
    "inf times zero": "lambda x: jnp.inf * x, 0.0",
    "division": "lambda x, y: x / y, 1.0, 0.0",
    "integer division": "lambda x, y: x // y, jnp.int32(1), jnp.int32(0)",
    "softmax": "jax.nn.softmax, jnp.arange(3.0)",
    "index": "lambda x, i: x[i], jnp.arange(4.0), 5",
    "negative index": "lambda x, i: x[i], jnp.arange(4.0), -5",
    "last index": "lambda x, i: x[i], jnp.arange(4.0), -4",
    "known index": "lambda x: x[7], jnp.arange(4.0)",
    "known negative index": "lambda x: x[-7], jnp.arange(4.0)",
    "slice": "lambda x: x[3:9], jnp.arange(4.0)",
    "index array": "lambda x, i: x[i], jnp.arange(4.0), jnp.array([0, 1, 7, 9])",
    "two indices": "lambda x, i: x[i, i], jnp.ones((3, 7)), jnp.array([0, 5])",
    "small index": "lambda x, i: x[i], jnp.ones(300), jnp.array([5, 255], jnp.uint8)",
    "take": "lambda x, i: jnp.take(x, i), jnp.arange(4.0), 5",
    "along axis": "lambda x, i: jnp.take_along_axis(x, i, 0), jnp.arange(4.0), jnp.array([1, 4])",
    "write": "lambda x, i: x.at[i].set(1.0), jnp.arange(4.0), 5",
    "add": "lambda x, i: x.at[i].add(1.0), jnp.arange(4.0), jnp.array([1, 4])",
    "window": "lambda x, i: lax.dynamic_slice(x, (i,), (2,)), jnp.arange(4.0), 3",
    "update": "lambda x, i: lax.dynamic_update_slice(x, x[:2], (i,)), jnp.arange(4.0), 3",
    "search": "lambda x: jnp.searchsorted(x, 9.0), jnp.arange(4.0)",
    "interp": "lambda x: jnp.interp(9.0, x, x), jnp.arange(4.0)",
    "jit": "jax.jit(lambda x: positive(x) * 2), -1.0",
    "grad": "jax.grad(lambda x: positive(x) * x), -1.0",
    "nan of grad": "jax.grad(jnp.sqrt), 0.0",
    "vmap": "jax.vmap(positive), jnp.array([1.0, -2.0, -3.0])",
    "scan": "lambda x: lax.scan(lambda c, v: (c + 1, positive(v)), 0, x), jnp.array([1.0, -2, -3])",
    "scan index": "lambda x: lax.scan(lambda c, v: (c + 1, x[c + 1]), 0, x), jnp.arange(4.0)",
    "scan nan": "lambda x: lax.scan(lambda c, v: (c, jnp.log(v)), 0, x), jnp.array([1.0, -1.0])",
    "fori": "lambda x: lax.fori_loop(0, 3, lambda i, c: positive(c) - 2, x), 2.0",
    "fori unknown": "lambda x, n: lax.fori_loop(0, n, lambda i, c: positive(c) - 2, x), 2.0, 3",
    "while": "lambda x: lax.while_loop(lambda c: c > -3, lambda c: positive(c) - 2, x), 2.0",
    "condition": "lambda x: lax.while_loop(lambda c: jnp.log(c) > -1, lambda c: c - 1, x), 2.0",
    "first test": "lambda x: lax.while_loop(lambda c: jnp.log(c) > -1, lambda c: c - 1, x), -2.0",
    "branch": "lambda p, x: lax.cond(p, positive, jnp.log, x), True, -2.0",
    "other branch": "lambda p, x: lax.cond(p, positive, jnp.log, x), False, -2.0",
    "branch not taken": "lambda p, x: lax.cond(p, lambda x: x, jnp.log, x), True, -2.0",
    "switch": "lambda i, x: lax.switch(i, [lambda x: x, positive, jnp.log], x), 1, -2.0",
    "remat": "jax.grad(jax.checkpoint(lambda x: jnp.sin(positive(x)))), -2.0",
    "custom_jvp": "own_jvp, -2.0",
    "custom_jvp rule": "jax.grad(own_jvp), -1.0",
    "custom_vjp": "own_vjp, -2.0",
    "custom_vjp rule": "jax.grad(own_vjp), -1.0",
    "pmap": "jax.pmap(positive), jnp.array([1.0, -2.0])",
    "inside checkify": "lambda x: checkify.checkify(positive)(x)[1], -2.0",
    "put back": "lambda x: checkify.check_error(jax.jit(checkify.checkify(positive))(x)[0]), -2.0",
    "debug": "lambda x: checkify.debug_check(x > 0, 'debug {}', x), jnp.float32(-2.0)",
}

DEFINITIONS = """
def positive(x):
    checkify.check(jnp.all(x > 0), "must be positive: {}", x)
    return x + 1

@jax.custom_jvp
def own_jvp(x):
    return positive(x) * x

own_jvp.defjvp(lambda p, t: (p[0], t[0] * jnp.log(p[0])))

@jax.custom_vjp
def own_vjp(x):
    return positive(x) * x

own_vjp.defvjp(lambda x: (x, x), lambda r, g: (jnp.log(r) * g,))
"""


@functools.cache
def names():
    out = {"jax": pb, "jnp": jnp, "lax": lax, "checkify": checkify}
    exec(DEFINITIONS, out)
    return out


@functools.cache
def answers():
    lines = ["from jax import lax", "from jax.experimental import checkify", DEFINITIONS]
    lines += ["def found(f, *args):", "    args = [jnp.asarray(x) for x in args]"]
    lines += ["    e, _ = checkify.checkify(f, checkify.all_checks)(*args)"]
    lines += ["    return str(e.get()).rstrip()"]
    lines += [f"answer[{name!r}] = found({code})" for name, code in PROGRAMS.items()]
    return ask("\n".join(lines), JAX_NUM_CPU_DEVICES="2")


@needs_jax
@pytest.mark.parametrize("name", PROGRAMS)
def test_messages_are_those_of_jax(name):
    call = eval(f"lambda found: found({PROGRAMS[name]})", names())
    assert str(call(found)) == str(answers()[name])


def test_messages():
    assert found(positive, F(1)) is None
    assert found(positive, F(-1)) == "must be positive: -1.0 (`check` failed)"
    assert found(jnp.log, -1.0) == "nan generated by primitive: log."
    assert found(lambda x, y: x / y, 1.0, 0.0) == "division by zero"
    want = "shape (4, 3): index 3 is out of bounds for axis 1 with size 3."
    assert found(lambda x, i: x[i, i], jnp.ones((4, 3)), 3).endswith(want)


def test_the_kinds_that_were_asked_for():
    both = lambda x: (positive(x), jnp.log(x), x / 0)[0]
    assert found(both, F(-1), errors=checkify.user_checks).startswith("must be")
    assert found(both, F(-1), errors=checkify.nan_checks).startswith("nan")
    assert found(both, F(-1), errors=checkify.div_checks).startswith("division")
    assert found(both, F(-1), errors=checkify.index_checks) is None
    assert checkify.float_checks == checkify.nan_checks | checkify.div_checks
    assert checkify.automatic_checks | checkify.user_checks == ALL
    assert message(checkify.checkify(positive)(F(-1))[0]) == found(positive, F(-1))
    with pytest.raises(TypeError, match="set of checks"):
        checkify.checkify(positive, errors={ValueError})


def test_what_happens_first_is_reported():
    assert found(lambda x: (jnp.log(x), positive(x)), F(-1)).startswith("nan")
    assert found(lambda x: (positive(x), jnp.log(x)), F(-1)).startswith("must be")


def test_messages_name_the_line():
    register_cell("<cell-7>", "Cell In[7]")
    code = "def f(x):\n    y = x + 1\n    return jnp.log(y)\n"
    out = {"jnp": jnp}
    exec(compile(code, "<cell-7>", "exec"), out)
    error, _ = pb.jit(checkify.checkify(out["f"], errors=ALL))(-3.0)
    assert error.get() == "nan generated by primitive: log.\nAt Cell In[7], line 3"
    with pytest.raises(checkify.JaxRuntimeError, match=r"line 3") as caught:
        error.throw()
    assert isinstance(caught.value, ValueError)
    assert "Instead: keep the operand" in str(caught.value)
    assert type(caught.value.__cause__).__name__ == "NaNError"


def test_arguments_of_messages():
    def f(x):
        checkify.check(x > 0, "{:.1f} {y[0]} {z}", x, y=[x * 2], z={"a": x})

    assert found(f, F(-1)).startswith("-1.0 -2.0 {'a': ")
    wrong = lambda x: checkify.check(x > 0, "{a}", x)
    assert "does not fit its arguments" in found(wrong, F(-1))


def test_under_vmap_the_message_names_the_indices():
    error, out = pb.vmap(checkify.checkify(positive))(jnp.array([1.0, -2.0, -3.0]))
    np.testing.assert_array_equal(out, [2, -1, -2])
    assert message(error).splitlines() == [
        "at mapped index 1: must be positive: -2.0 (`check` failed)",
        "at mapped index 2: must be positive: -3.0 (`check` failed)",
    ]
    nested = pb.jit(pb.vmap(pb.vmap(checkify.checkify(jnp.log, errors=ALL))))
    assert message(nested(jnp.array([[1.0, -2.0]]))[0]).startswith("at mapped index 0, 1: nan")
    many, _ = pb.vmap(checkify.checkify(positive))(-jnp.arange(20.0))
    assert message(many).splitlines()[-1] == "and at 13 more mapped indices"
    with pytest.raises(checkify.JaxRuntimeError, match="at mapped index 1"):
        pb.vmap(positive)(jnp.array([1.0, -2.0]))
    loop = lambda x: lax.while_loop(lambda c: c > -3, lambda c: positive(c) - 2, x)
    error, _ = pb.vmap(checkify.checkify(loop))(jnp.array([1.0, -4.0]))
    assert message(error) == "at mapped index 0: must be positive: 0.0 (`check` failed)"
    branch = lambda x: lax.cond(x > 0, lambda: x, lambda: positive(x))
    error, _ = pb.vmap(checkify.checkify(branch))(jnp.array([1.0, -4.0]))
    assert message(error) == "at mapped index 1: must be positive: -4.0 (`check` failed)"


def test_vmap_of_branches_and_loops_inside():
    inners = (
        positive,
        pb.jit(positive),
        pb.checkpoint(positive),
        lambda x: lax.cond(x < 9, positive, jnp.log, x),
        lambda x: lax.fori_loop(0, 2, lambda i, c: positive(c), x),
        lambda x: lax.while_loop(lambda c: c[0] < 1, lambda c: (1, positive(c[1])), (0, x))[1],
    )
    for inner in inners:
        branch = lambda x, inner=inner: lax.cond(x > -2, lambda: x, lambda: inner(x))
        every = lambda x, inner=inner: lax.switch(x.astype(int), [jnp.sin, inner, jnp.log], x)
        checks = checkify.user_checks
        assert found(pb.vmap(branch), jnp.array([1.0, -1.0]), errors=checks) is None
        text = found(pb.vmap(branch), jnp.array([1.0, -4.0]), errors=checks)
        assert text.startswith("must be positive: -4.0")
        assert found(pb.vmap(every), jnp.array([2.0, 1.0]), errors=checks) is None
    branch = lambda x: lax.cond(x > -2, lambda: x, lambda: positive(x))
    with pytest.raises(checkify.JaxRuntimeError, match="at mapped index 1: must be"):
        pb.vmap(branch)(jnp.array([-1.0, -4.0]))
    last = lambda x: lax.while_loop(lambda c: positive(c) < 3, lambda c: c + 1, x)
    with pytest.raises(NotImplementedError, match=r"vmap\(checkify\(f\)\)"):
        checkify.checkify(pb.vmap(lambda x: lax.cond(x > 0, lambda: x, lambda: last(x))))(
            -jnp.ones(2)
        )
    loop = lambda x: lax.while_loop(lambda c: c > -3, lambda c: positive(c) - 2, x)
    with pytest.raises(ValueError, match="batched while-loops"):
        checkify.checkify(pb.vmap(loop))(jnp.array([1.0, -4.0]))
    loop = lambda x: lax.while_loop(lambda c: c > -3, lambda c: jnp.log(c), x)
    error, _ = checkify.checkify(pb.vmap(loop), errors=ALL)(jnp.array([0.5, -4.0]))
    assert message(error) == "nan generated by primitive: while."
    draw = lambda key: pb.random.gamma(key, 2.0, (2,))
    assert checkify.checkify(draw, errors=ALL)(pb.random.key(0))[0].get() is None


def test_derivatives_through_checks():
    def step(c, x):
        return c * jnp.sin(positive(x)), c

    f = lambda xs: lax.scan(step, F(1), xs)[0]
    plain = lambda xs: lax.scan(lambda c, x: (c * jnp.sin(x + 1), c), F(1), xs)[0]
    value = lambda xs: checkify.checkify(f, errors=ALL)(xs)[1]
    xs, bad = jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 2.0, -3.0])
    np.testing.assert_allclose(pb.grad(value)(xs), pb.grad(plain)(xs), rtol=1e-5)
    np.testing.assert_allclose(pb.jit(pb.hessian(value))(xs), pb.hessian(plain)(xs), rtol=1e-4)
    for wrapped in (pb.grad(f), pb.hessian(f), pb.jacfwd(f)):
        assert found(wrapped, xs) is None
        assert found(wrapped, bad) == "must be positive: -3.0 (`check` failed)"
    pair = lambda xs: checkify.checkify(f)(xs)[::-1]
    _, error = pb.grad(pair, has_aux=True)(bad)
    assert message(error) == "must be positive: -3.0 (`check` failed)"


@pytest.mark.parametrize("kind", ["own_jvp", "own_vjp"])
def test_custom_rules_keep_ruling(kind):
    f = names()[kind]
    value = lambda x: checkify.checkify(f, errors=ALL)(x)[1]
    np.testing.assert_allclose(pb.grad(value)(F(4)), np.log(4.0), rtol=1e-6)
    xs = jnp.array([1.0, 9.0])
    np.testing.assert_allclose(pb.vmap(pb.grad(value))(xs), np.log([1.0, 9.0]), rtol=1e-6)
    total = lambda xs: pb.vmap(checkify.checkify(f, errors=ALL))(xs)[1].sum()
    np.testing.assert_allclose(pb.grad(total)(xs), np.log([1.0, 9.0]), rtol=1e-6)
    assert found(lambda xs: lax.scan(lambda c, x: (c, f(x)), 0, xs), -xs).startswith("must be")


def test_custom_vmap_keeps_ruling():
    @pb.custom_batching.custom_vmap
    def f(x):
        return positive(x)

    f.def_vmap(lambda size, mapped, x: (x * 10, True))
    assert found(f, F(-1)).startswith("must be")
    error, out = pb.vmap(checkify.checkify(f))(jnp.array([1.0, 2.0]))
    np.testing.assert_array_equal(out, [10, 20])
    assert error.get() is None


def test_on_several_devices():
    xs = jnp.array([1.0, -2.0])
    assert message(pb.pmap(checkify.checkify(positive))(xs)[0]).startswith("at mapped index 1:")
    mesh = pb.make_mesh((2,), ("d",))
    f = pb.shard_map(positive, mesh=mesh, in_specs=pb.P("d"), out_specs=pb.P("d"))
    assert found(f, xs) == "at mapped index 1: must be positive: [-2.] (`check` failed)"
    assert found(pb.jit(lambda x: positive(f(x)[0])), xs).startswith("at mapped index 1: must")
    assert found(lambda x: lax.scan(lambda c, _: (c, f(x)), 0, None, length=2), xs).startswith(
        "must"
    )


def test_without_checkify():
    with pytest.raises(checkify.JaxRuntimeError, match="must be positive: -1.0"):
        positive(F(-1))
    with pytest.raises(checkify.JaxRuntimeError, match="must be positive: -1.0"):
        pb.grad(positive)(-1.0)
    for staged in (pb.jit(positive), lambda x: lax.scan(lambda c, _: (positive(c), 0), x, None, 2)):
        with pytest.raises(ValueError, match="not functionalized") as caught:
            staged(F(1))
        assert "test_checkify.py" in str(caught.value)
    checkify.debug_check(F(-1) > 0, "not looked at")
    pb.jit(lambda x: checkify.debug_check(x > 0, "not looked at"))(F(-1))


def test_compiled_programs_raise_where_that_is_asked_for():
    f = pb.jit(lambda x: lax.scan(lambda c, v: (c + positive(v), None), 0.0, x)[0])
    pb.config.update("jax_experimental_unsafe_xla_runtime_errors", True)
    try:
        assert float(f(jnp.ones(3))) == 6.0
        with pytest.raises(checkify.JaxRuntimeError, match="must be positive: -1.0"):
            f(jnp.array([1.0, -1.0, -2.0]))
        with pytest.raises(checkify.JaxRuntimeError, match="at mapped index 1: must be"):
            pb.jit(pb.vmap(positive))(jnp.array([1.0, -1.0]))
    finally:
        pb.config.update("jax_experimental_unsafe_xla_runtime_errors", False)
    with pytest.raises(ValueError, match="not functionalized"):
        f(jnp.ones(3))


def test_refusals():
    with pytest.raises(TypeError, match="scalar pred"):
        checkify.check(jnp.arange(3) > 0, "which?")
    with pytest.raises(TypeError, match="PyTrees of arrays"):
        checkify.check(True, "{}", 1)
    with pytest.raises(TypeError, match="check_error takes an Error"):
        checkify.check_error("no")
    with pytest.raises(pb.errors.ConcretizationTypeError, match="return the error"):
        pb.jit(lambda x: checkify.checkify(positive)(x)[0].get())(F(1))
    with pytest.raises(NotImplementedError, match="check inside of"):
        checkify.checkify(lambda x: lax.reduce(x, F(0), lambda a, b: positive(a), (0,)))(
            jnp.ones(2)
        )


def test_errors_are_values():
    error, _ = checkify.checkify(positive)(F(-1))
    assert pb.jit(lambda e: e)(error).get() == error.get()
    assert str(error).startswith("Error(must be")
    assert repr(checkify.init_error) == "Error(None)"
    assert checkify.init_error.get() is None
    again = lambda x: checkify.checkify(jnp.log, errors=ALL)(x)[0].throw()
    assert found(again, F(-1)) == "nan generated by primitive: log."
    assert found(again, F(-1), errors=checkify.user_checks) is None


def test_the_same_program_is_compiled_once():
    def f(x):
        y = lax.while_loop(lambda c: c < 5, lambda c: positive(c) + 1, x)
        return lax.scan(lambda c, v: (c + positive(v), jnp.log(v)), y, jnp.arange(1.0, 4.0))

    checked = checkify.checkify(f, errors=ALL)
    checked(F(2))
    events = []
    xla_compile.on_compile.append(events.append)
    try:
        checked(F(2))
    finally:
        xla_compile.on_compile.remove(events.append)
    assert not events


def test_functions_that_cannot_fail_stay_as_they_are():
    inner = pb.jit(lambda x: x + 1)
    plain = pb.make_jaxpr(inner)(1.0)
    checked = pb.make_jaxpr(lambda x: checkify.checkify(inner)(x)[1])(1.0)
    assert len(plain.eqns) == len(checked.eqns) == 1
    assert plain.eqns[0].params["jaxpr"] is checked.eqns[0].params["jaxpr"]
