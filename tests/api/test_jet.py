"""Taylor mode: against nested forward mode, and against the real jax where its rules are right."""

import math

import numpy as np
import pytest
from oracle import ask, needs_jax

import pullback as jax
from pullback import lax
from pullback import numpy as jnp
from pullback.experimental.jet import jet, zero_series, zero_term

X = np.array([0.3, 0.7, 0.5], np.float32)
Y = np.array([0.6, 0.2, 0.9], np.float32)
A = np.array([[2.4, 0.7, 0.1], [0.3, 2.1, 0.5], [0.2, 0.9, 2.8]], np.float32)
ORDER = 3


def _series(xs):
    rng = np.random.RandomState(0)
    return [[0.3 * rng.randn(*np.shape(x)).astype(np.float32) for _ in range(ORDER)] for x in xs]


def _nested(fun, xs, series):
    """Each derivative along the curve by forward mode, nested."""

    def curve(t):
        return fun(
            *[
                x + sum(c * t**k / math.factorial(k) for k, c in enumerate(terms, 1))
                for x, terms in zip(xs, series, strict=True)
            ]
        )

    outs, derived = [], curve
    for _ in range(ORDER):
        derived = (lambda g: lambda t: jax.jvp(g, (t,), (1.0,))[1])(derived)
        outs.append(derived)
    return jax.jit(lambda t: [d(t) for d in outs])(0.0)


def _check(fun, *xs, tolerance=2e-4):
    series = _series(xs)
    value, terms = jax.jit(lambda xs, ts: jet(fun, xs, ts))(list(xs), series)
    for got, want in zip(jax.tree.leaves(value), jax.tree.leaves(jax.jit(fun)(*xs)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)
    leaves = [[] for _ in range(ORDER)]
    for own in jax.tree.leaves(
        terms, is_leaf=lambda t: isinstance(t, list) and t and not isinstance(t[0], list)
    ):
        for k, term in enumerate(own):
            leaves[k].append(term)
    for k, want in enumerate(_nested(fun, xs, series)):
        for i, (a, b) in enumerate(zip(leaves[k], jax.tree.leaves(want), strict=True)):
            scale = tolerance * max(1.0, float(np.abs(b).max()))
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=scale, err_msg=f"{k + 1}, {i}")


UNARY = (
    "exp exp2 expm1 log log1p sin cos tan sinh cosh tanh sqrt cbrt abs negative arcsin arccos "
    "arctan arcsinh arctanh square reciprocal floor sign sinc"
).split()
LAX_UNARY = "logistic rsqrt erf erfc erf_inv lgamma digamma".split()
BINARY = "mul div add sub pow max min atan2 rem".split()


@pytest.mark.parametrize("names", [UNARY[:8], UNARY[8:16], UNARY[16:]])
def test_elementwise_functions(names):
    _check(lambda x: tuple(getattr(jnp, n)(x) for n in names), X)


def test_special_functions():
    _check(lambda x: tuple(getattr(lax, n)(x) for n in LAX_UNARY), X)
    _check(lambda x: (jnp.arccosh(x + 1.5), x**5, x**-2, x**2.5, 2.0**x), X)


def test_functions_of_two_operands_that_both_vary():
    _check(lambda x, y: tuple(getattr(lax, n)(x, y) for n in BINARY), X, Y)


def test_operands_that_broadcast():
    _check(lambda x, y: (x[:, None] / y, y * x[:, None], y ** x[:, None], y / 2 - x[:, None]), X, Y)


def test_shapes_and_indices():
    def fun(x, y):
        at = jnp.array([0, 2])
        return (
            jnp.stack([x, y * y]).T.reshape(-1)[::-1],
            jnp.pad(x * x, 1),
            (x * y)[at],
            x.at[at].set(y[:2] * y[1:]),
            x.at[1].mul(y[0]),
            lax.dynamic_slice(x * x, (1,), (2,)),
            lax.dynamic_update_slice(x, y[:2] * x[:2], (1,)),
            lax.clamp(0.2, x * x, 0.4),
            jnp.where(x > y, x * y, jnp.sin(x)),
            jnp.sort(jnp.cos(3 * x)),
        )

    _check(fun, X, Y)


def test_reductions_and_windows():
    def fun(x):
        return (
            jnp.cumsum(x * x),
            jnp.cumprod(x),
            jnp.prod(x),
            jnp.max(x * x),
            lax.reduce_window(x * x, -jnp.inf, lax.max, (2,), (1,), "VALID"),
            jnp.linalg.norm(x),
            jax.nn.logsumexp(x),
            jnp.abs(jnp.fft.fft(x)) ** 2,
        )

    _check(fun, X)


def test_products_and_linear_algebra():
    def fun(a, x):
        b = a @ a.T
        return a @ x, jnp.linalg.solve(a, x), jnp.linalg.cholesky(b), jnp.linalg.det(a)

    _check(fun, A, X)
    _check(lambda x, y: jnp.convolve(x, y), X, Y)
    _check(lambda a: jnp.linalg.eigh(a + a.T)[0], A, tolerance=3e-3)


def test_activations_go_by_their_custom_rules():
    names = "relu gelu silu softplus celu softmax sigmoid".split()
    _check(lambda x: tuple(getattr(jax.nn, n)(x) for n in names), X - 0.4)


def test_complex_values_on_the_way():
    _check(lambda x: jnp.real(jnp.exp(1j * x) * lax.complex(x, x * x)), X)
    _check(lambda x: jnp.abs(lax.complex(x, x * x)), X)


def test_loops_and_branches():
    def fun(x, y):
        step = lambda c, v: (jnp.sin(c) * v + y.sum(), c * v)  # noqa: E731
        carry, ys = lax.scan(step, x[0], y)
        return (
            carry,
            ys,
            lax.fori_loop(0, 3, lambda i, c: c * jnp.sin(c) + i, x),
            lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.tanh(c[1]) * x), (0, x))[1],
            lax.cond(x[0] > 0, lambda v: jnp.sin(v) * x, lambda v: v, x * y),
            lax.switch(1, [lambda v: v, lambda v: jnp.ones_like(v)], x),
        )

    _check(fun, X, Y)


def test_calls():
    def fun(x):
        return (
            jax.jit(lambda v: jnp.exp(v) * x)(x) + jax.jit(lambda v: v * 2)(x),
            jax.checkpoint(lambda v: jnp.sin(jnp.sin(v)))(x),
            jax.vmap(lambda v: jnp.sin(v) * v)(x),
            jax.grad(lambda v: jnp.sin(v).sum())(x),
            lax.custom_linear_solve(
                lambda v: 2 * v, x * x, lambda _, b: b / 2, transpose_solve=lambda _, b: b / 2
            ),
        )

    _check(fun, X)


def test_a_custom_jvp_rule_is_obeyed():
    @jax.custom_jvp
    def f(x):
        return jnp.sin(x)

    f.defjvps(lambda t, out, x: 2 * t * jnp.cos(x))
    _check(lambda x: f(x * x), X)


def test_a_custom_jvp_function_may_close_over_what_varies():
    def fun(x):
        f = jax.custom_jvp(lambda y: jnp.sin(x) * y)
        f.defjvps(lambda t, out, y: t)
        return f(1.0)

    for of in (fun, jax.jit(fun)):
        _, (first,) = jet(of, (0.3,), ([1.0],))
        np.testing.assert_allclose(first, math.cos(0.3), rtol=1e-6)


def test_custom_vjp_functions_are_gone_through():
    f = jax.custom_vjp(jnp.sin)
    f.defvjp(lambda x: (x, x), lambda r, ct: (ct,))
    _, (first, second) = jet(f, (0.3,), ([1.0, 0.0],))
    np.testing.assert_allclose([first, second], [math.cos(0.3), -math.sin(0.3)], rtol=1e-6)


def test_under_jit_vmap_and_grad():
    def second(x):
        return jet(jnp.sin, (x,), ([1.0, 0.0],))[1][1]

    np.testing.assert_allclose(jax.jit(second)(0.3), -math.sin(0.3), rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(second)(X), -np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(second)(0.3), -math.cos(0.3), rtol=1e-6)
    np.testing.assert_allclose(jax.jvp(second, (0.3,), (1.0,))[1], -math.cos(0.3), rtol=1e-6)


def test_python_control_flow_on_concrete_values():
    def fun(x):
        while x < 10:
            x = x * x
        return x

    _, (first, second) = jet(fun, (2.0,), ([1.0, 0.0],))
    assert (float(first), float(second)) == (32.0, 48.0)


def test_jet_of_jet():
    def inner(x):
        return jet(lambda v: v**4, (x,), ([1.0],))[1][0]

    _, (first, second) = jet(inner, (2.0,), ([1.0, 0.0],))
    assert (float(first), float(second)) == (48.0, 48.0)


def test_cost_grows_as_a_power_of_the_order():
    def count(fun, order):
        series = [1.0] + [0.0] * (order - 1)
        jaxpr = jax.make_jaxpr(lambda x: jet(fun, (x,), (series,)))(0.5)
        return len(jaxpr.eqns)

    for fun in (jnp.exp, jnp.tanh, jnp.tan, lax.erf_inv, lambda x: jnp.sin(x) / x):
        assert count(fun, 8) < 10 * count(fun, 4)


def test_zeros_stay_symbolic():
    def count(series):
        jaxpr = jax.make_jaxpr(lambda x: jet(lambda a, b: a * b, (x, x), (series, zero_series)))
        return sum(e.primitive.name == "mul" for e in jaxpr(0.5).eqns)

    assert count([1.0, zero_term, zero_term]) == 2
    assert count([1.0, 1.0, 1.0]) == 4


def test_pytrees_in_and_out():
    point = {"a": 1.0, "b": 2.0}
    value, terms = jet(
        lambda p: {"c": p["a"] * p["b"], "n": jnp.arange(2)},
        (point,),
        ({"a": [1.0, 0.0], "b": zero_series},),
    )
    assert float(value["c"]) == 2.0
    assert [float(t) for t in terms["c"]] == [2.0, 0.0]
    assert [t.shape for t in terms["n"]] == [(2,), (2,)]
    assert all(isinstance(t, jax.Array) for t in jax.tree.leaves(terms))


def test_taylor_coefficients():
    _, terms = jet(jnp.exp, (0.0,), ([1.0, 0.0, 0.0],), factorial_scaled=False)
    np.testing.assert_allclose(terms, [1, 1 / 2, 1 / 6], rtol=1e-6)
    _, terms = jet(lambda x: x, (0.0,), ([1.0, 2.0, 3.0],), factorial_scaled=False)
    np.testing.assert_allclose(terms, [1, 2, 3], rtol=1e-6)


@pytest.mark.parametrize(
    ("primals", "series", "error", "text"),
    [
        ((1.0, 2.0), ([1.0, 0.0], [1.0]), ValueError, "inconsistent lengths"),
        ((1.0, 2.0), ([1.0],), ValueError, "2 primals but 1 series"),
        ((1.0,), (2.0,), TypeError, "zero_series"),
        ((X,), ([X[:2]],), ValueError, "shape"),
        ((3,), ([1.0],), TypeError, "cannot vary"),
        (("a",), ([1.0],), TypeError, "not an array"),
    ],
)
def test_errors(primals, series, error, text):
    with pytest.raises(error, match=text):
        jet(lambda *xs: xs[0] * 2, primals, series)


@needs_jax
def test_like_jax():
    code = """
from jax.experimental.jet import jet
x = jnp.array([0.3, 0.7, 0.5])
y = jnp.array([0.6, 0.2, 0.9])
def net(x, y):
    h = jnp.tanh(x * y) @ jnp.outer(y, x)
    return jnp.exp(jax.nn.sigmoid(h)).sum(), jnp.log(1 + h ** 2) / (2 + jnp.cos(h))
for scaled in (True, False):
    v, t = jet(net, (x, y), ([y, x, x], [x, x, y]), factorial_scaled=scaled)
    for i in range(2):
        answer[f"v{i}{scaled}"] = v[i]
        for k in range(3):
            answer[f"t{i}{k}{scaled}"] = t[i][k]
"""
    want = ask(code)

    def net(x, y):
        h = jnp.tanh(x * y) @ jnp.outer(y, x)
        return jnp.exp(jax.nn.sigmoid(h)).sum(), jnp.log(1 + h**2) / (2 + jnp.cos(h))

    for scaled in (True, False):
        run = jax.jit(lambda x, y, s=scaled: jet(net, (x, y), ([y, x, x], [x, x, y]), s))
        value, terms = run(X, Y)
        for i in range(2):
            np.testing.assert_allclose(value[i], want[f"v{i}{scaled}"], rtol=1e-5)
            for k in range(3):
                np.testing.assert_allclose(
                    terms[i][k], want[f"t{i}{k}{scaled}"], rtol=2e-4, atol=1e-5
                )


def test_mapped_programs_and_side_effects(capfd):
    def fun(x):
        jax.debug.print("x {}", x)
        mesh = jax.make_mesh((1,), ("i",))
        by_mesh = jax.shard_map(
            lambda v: lax.psum(jnp.sin(v), "i"), mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P()
        )
        square = jax.custom_batching.custom_vmap(lambda v: v * v)
        square.def_vmap(lambda n, batched, v: (v * v, True))
        return by_mesh(x), jax.pmap(jnp.cos)(x[None])[0], square(x)

    x = jnp.asarray(X)
    _, terms = jet(fun, (x,), ([x, jnp.zeros(3)],))
    jax.effects_barrier()
    assert capfd.readouterr().out.count("x [") == 1
    np.testing.assert_allclose(terms[0][1], -np.sin(X) * X**2, rtol=1e-5)
    np.testing.assert_allclose(terms[1][1], -np.cos(X) * X**2, rtol=1e-5)
    np.testing.assert_allclose(terms[2][1], 2 * X**2, rtol=1e-5)


def test_implicit_functions():
    def root(a):
        return lax.custom_root(
            lambda v: v**2 - a, 1.0, lambda f, x: jnp.sqrt(a), lambda g, y: y / g(1.0)
        )

    _, terms = jet(root, (4.0,), ([1.0, 0.0, 0.0],))
    np.testing.assert_allclose(terms, [1 / 4, -1 / 32, 3 / 256], rtol=1e-5)


def test_derivatives_of_primitives_are_kept_until_caches_are_cleared():
    from pullback.lax.jet import _cached_derivative

    jet(lax.erf, (0.5,), ([1.0, 0.0],))
    assert _cached_derivative.cache_info().currsize > 0
    jax.clear_caches()
    assert _cached_derivative.cache_info().currsize == 0
