"""`%grad` and `%%grad` in a stock shell."""

import numpy as np
import pytest


def test_gradient_is_printed_with_a_label_and_returned(session):
    ran = session.ok("%grad loss(w, x)")
    t = np.tanh([0.1, 0.4, 0.9])
    expected = 2 * t * (1 - t**2) * [1, 2, 3]
    np.testing.assert_allclose(ran.value, expected, rtol=1e-5)
    assert ran.out.startswith("d loss(w, x) / d w: f32[3] = [")


def test_several_arguments_by_number_and_by_name(session):
    by_number = session.ok("g = %grad loss(w, x) --wrt 0,1")
    assert by_number.out.count("d loss(w, x) / d ") == 2
    first = session.names["g"]
    assert isinstance(first, tuple) and len(first) == 2
    session.ok("g = %grad loss(w, x) --wrt w,x")
    for a, b in zip(first, session.names["g"], strict=True):
        np.testing.assert_allclose(a, b)


def test_scalar_expressions_of_arrays(session):
    np.testing.assert_allclose(session.ok("%grad (w * x).sum() --wrt x").value, [0.1, 0.2, 0.3])
    np.testing.assert_allclose(session.ok("%grad (x ** 2).sum()").value, [2, 4, 6])
    np.testing.assert_allclose(session.ok("%grad loss(w * w, x) --wrt w").value.shape, (3,))


@pytest.mark.parametrize(
    ("line", "label"),
    [
        ("%grad (lambda t: t * t)(3.0)", "d (lambda t: t * t)(3.0) / d 3.0: f32[] = 6.0"),
        ("%grad loss.__call__(w, x) --wrt 0", "d loss.__call__(w, x) / d w: f32[3]"),
        ("%grad loss(w * 2, x)", "d loss(w * 2, x) / d (w * 2): f32[3]"),
        ("%grad w[0] * w[1]", "d (w[0] * w[1]) / d w: f32[3] = [0.2 0.1 0.0]"),
    ],
)
def test_calls_of_anything_and_labels_without_doubt(session, line, label):
    assert session.ok(line).out.startswith(label)


def test_value(session):
    ran = session.ok("%grad loss(w, x) --value")
    value, gradient = ran.value
    assert "loss(w, x) = " in ran.out
    np.testing.assert_allclose(value, session.ok("loss(w, x)").value)
    assert gradient.shape == (3,)


def test_pytrees_have_a_line_a_leaf(session):
    session.ok("p = {'a': w, 'b': 2.0}\ndef f(p): return (p['a'] * p['b']).sum()")
    ran = session.ok("%grad f(p)")
    assert "d f(p) / d p['a']: f32[3] = [2.0 2.0 2.0]" in ran.out
    assert "d f(p) / d p['b']: f32[] = 0.6" in ran.out
    assert set(ran.value) == {"a", "b"}


def test_containers_without_keys_have_numbered_leaves(session):
    session.ok(
        "@jax.tree_util.register_pytree_node_class\n"
        "class P:\n"
        "    def __init__(self, w): self.w = w\n"
        "    def tree_flatten(self): return (self.w,), None\n"
        "    @classmethod\n"
        "    def tree_unflatten(cls, aux, children): return cls(*children)\n"
        "p = P(w)"
    )
    assert "d (p.w * x).sum() / d p[0]: f32[3]" in session.ok("%grad (p.w * x).sum() --wrt p").out


def test_a_semicolon_silences_the_result(session):
    assert (
        session.ok("%grad (x * x).sum();").out == "d (x * x).sum() / d x: f32[3] = [2.0 4.0 6.0]\n"
    )


def test_the_functions_parameter_names_work_too(session):
    session.ok("a = w; b = x")
    np.testing.assert_allclose(
        session.ok("%grad loss(a, b) --wrt x").value, session.ok("%grad loss(a, b) --wrt b").value
    )


def test_a_scalar_gradient_is_no_bare_float(session):
    session.ok("s = 3.0")
    ran = session.ok("%grad jnp.sin(s)")
    assert not isinstance(ran.value, float)
    text = session.shell.display_formatter.format(ran.value)[0]["text/plain"]
    with pytest.raises(ValueError):
        float(text)


def test_tape(session):
    ran = session.ok("g = %grad loss(w, x) --tape")
    (shown,) = ran.shown
    text = shown["text/plain"]
    assert "value" in text and "cotangent" in text and "not computed" in text
    assert "h = jnp.tanh(w * x)" in text
    assert "<table" in shown["text/html"]


def test_within_a_function(session):
    session.ok("def inner(q):\n    g = %grad (q * q).sum()\n    return g")
    np.testing.assert_allclose(session.ok("inner(x)").value, [2, 4, 6])


@pytest.mark.parametrize(
    ("line", "message", "under"),
    [
        ("%grad loss(w, y)", "no name 'y' here", "y)"),
        ("%grad loss(w, x) --wrt q", "'q' is no name in loss(w, x)", "q"),
        ("%grad loss(w, x) --wrt 2", "the call has arguments 0 to 1", "2"),
        ("%grad loss(w, x", "SyntaxError", "(w, x"),
        ("%grad x * w", "with respect to what?", "x * w"),
        ("%grad x", "x is f32[3], but only a float scalar has a gradient", "x"),
        ("%grad", "an expression is missing", ""),
        ("%grad k * k", "k is i32[], which has no derivative", "k * k"),
        ("%grad loss", "no array is named in it", "loss"),
        ("%grad 3.0", "no array is named in it", "3.0"),
        ("%grad (lambda t: t * t)(3)", "for example 3.0", "3)"),
        ("%grad jnp.sum(c * c)", "is c64[], but only a real number has a gradient", "jnp"),
        ("%grad loss.__call__(w, x)", "Say --wrt NAMES or argument numbers", "loss"),
        ("%grad (w * x).sum() --wrt 0", "--wrt with numbers needs a call", "0"),
    ],
)
def test_errors_are_one_line_with_a_caret(session, line, message, under):
    session.ok("k = jnp.array(3); c = jnp.array([1 + 2j])")
    ran = session.run(line)
    printed = ran.traceback.rstrip("\n").splitlines()
    assert printed[0].startswith("MagicError: ") and message in printed[0]
    assert len(printed) == 3
    assert printed[1][len(printed[2]) - 1 :].startswith(under)


def test_an_error_inside_the_function_shows_its_line(session):
    session.ok("def bad(w):\n    y = w * 2\n    return y.nothing")
    ran = session.run("a = 1\n%grad bad(w)")
    assert isinstance(ran.error, AttributeError)
    assert "----> 3     return y.nothing" in ran.traceback
    assert "line 2" in ran.traceback and "%grad bad(w)" in ran.traceback


# -------------------------------------------------------------------------------------- cell


def test_cell(session):
    ran = session.ok("%%grad --wrt w -o g\nerror = w * x - 1.0\nn = 2\n(error ** n).sum()")
    np.testing.assert_allclose(session.names["error"], [-0.9, -0.6, -0.1], rtol=1e-5)
    assert session.names["n"] == 2
    np.testing.assert_allclose(session.names["g"], 2 * np.float32([-0.9, -1.2, -0.3]), rtol=1e-5)
    assert ran.value is None
    assert ran.out.startswith("d (error ** n).sum() / d w: f32[3] = [")


def test_cell_returns_the_gradient_without_o(session):
    ran = session.ok("%%grad --wrt w,x --value\n(w * x).sum()")
    value, (gw, gx) = ran.value
    np.testing.assert_allclose(value, 1.4, rtol=1e-6)
    np.testing.assert_allclose(gw, [1, 2, 3])
    np.testing.assert_allclose(gx, [0.1, 0.2, 0.3])


def test_cell_tape_and_python_control_flow(session):
    ran = session.ok(
        "%%grad --wrt w --tape\ny = w\nfor i in range(2):\n    if y.sum() > 0:\n        y = y * x\ny.sum()"
    )
    np.testing.assert_allclose(ran.value, [1, 4, 9])
    assert "mul" in ran.shown[0]["text/plain"]


def test_cell_may_change_the_name_it_differentiates_by(session):
    ran = session.ok("%%grad --wrt w\nw = w * 2\nw.sum()")
    np.testing.assert_allclose(ran.value, [2, 2, 2])
    np.testing.assert_allclose(session.names["w"], [0.2, 0.4, 0.6], rtol=1e-6)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%%grad --wrt q\nw.sum()", "the cell reads no name 'q'; it reads w"),
        ("%%grad --wrt w\nw * 2", "line 2: the last expression is f32[3]"),
        ("%%grad --wrt w\ny = w", "line 2: the cell must end with an expression"),
        ("%%grad\nw.sum()", "--wrt"),
        ("%%grad --wrt w\nawait w", "await cannot stand"),
        ("%%grad --wrt w -o 3\nw.sum()", "'3' is no name to bind"),
    ],
)
def test_cell_errors(session, cell, message):
    printed = session.run(cell).traceback.rstrip("\n").splitlines()
    assert printed[0].startswith("MagicError: ") and message in printed[0]
    assert len(printed) == 3


def test_functions_and_deleted_names_of_a_cell(session):
    session.ok("%%grad --wrt w\nh = w * 2\ndef uses(a): return a + h\ndel x\nuses(w).sum()")
    np.testing.assert_allclose(session.ok("uses(0.0)").value, [0.2, 0.4, 0.6], rtol=1e-6)
    assert "x" not in session.names


def test_what_keeps_traced_values_is_pointed_out(session):
    session.ok("log = []")
    ran = session.ok("%%grad --wrt w\nlog.append(w.sum())\n(w ** 2).sum()")
    assert "note: log holds values of the tracing" in ran.out


def test_functions_made_by_functions_of_a_cell_see_arrays(session):
    session.ok(
        "%%grad --wrt w\ndef outer(a):\n    def inner(b): return a + b\n    return inner\n"
        "f = outer(w * 2)\nf(w).sum()"
    )
    np.testing.assert_allclose(session.ok("f(0.0)").value, [0.2, 0.4, 0.6], rtol=1e-6)
