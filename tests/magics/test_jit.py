"""`%%jit` in a stock shell."""

import inspect

import numpy as np
import pytest


def lines(ran):
    return ran.out.splitlines()


# --------------------------------------------------------------------------------- programs


def test_a_cell_is_one_program_with_inputs_and_results(session):
    ran = session.ok("%%jit\nh = jnp.tanh(w * x)\nn = 3\nh.sum()")
    report = lines(ran)
    assert report[0].startswith("%%jit: one program of 3 equations; inputs w:f32[3], x:f32[3]")
    assert report[0].endswith("results h, n, the last value")
    assert report[1] == "  cache miss: first run of this cell"
    assert "trace" in report[2] and "compile" in report[2] and "on cpu:0" in report[2]
    np.testing.assert_allclose(ran.value, np.tanh([0.1, 0.4, 0.9]).sum(), rtol=1e-6)
    np.testing.assert_allclose(session.names["h"], np.tanh([0.1, 0.4, 0.9]), rtol=1e-6)
    assert session.names["n"] == 3 and type(session.names["n"]) is int


def test_the_second_run_is_a_cache_hit(session):
    cell = "%%jit\ny = w * x"
    session.ok(cell)
    report = lines(session.ok(cell))
    assert report[1] == "  cache hit: same inputs as before"
    assert report[2].lstrip().startswith("run ")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("x = jnp.ones(4); w = jnp.ones(4)", "w was f32[3], now f32[4]"),
        ("x = x.astype(int)", "x was f32[3], now i32[3]"),
        ("x = 2.0", "x is no array any more"),
        ("w = {'a': w}; x = 1.0", None),
    ],
)
def test_retracing_is_explained(session, change, reason):
    cell = "%%jit\nimport pullback as jax\nz = jax.tree.map(lambda a: a * 2, (w, x))"
    session.ok(cell)
    session.ok(change)
    report = lines(session.ok(cell))
    assert report[1].startswith("  cache miss: ")
    if reason is not None:
        assert report[1] == f"  cache miss: {reason}"


def test_a_constant_that_changes_is_named(session):
    session.ok("lr = 0.1")
    cell = "%%jit\nv = w - lr * x"
    session.ok(cell)
    session.ok("lr = 0.5")
    ran = session.ok(cell)
    assert lines(ran)[1] == "  cache miss: lr was 0.1, now 0.5"
    np.testing.assert_allclose(session.names["v"], [-0.4, -0.8, -1.2], rtol=1e-5)
    session.ok("lr = 0.1")
    assert "hit" not in lines(session.ok("lr"))
    assert "cache hit" in session.ok(cell).out  # the older version is still there


def test_a_global_read_by_a_helper_is_a_constant_too(session):
    session.ok("scale = 2.0\ndef helper(x): return x * scale")
    cell = "%%jit\nv = helper(x)"
    session.ok(cell)
    session.ok("scale = 3.0")
    assert "scale was 2.0, now 3.0 (read by helper)" in session.ok(cell).out
    np.testing.assert_allclose(session.names["v"], [3, 6, 9])


@pytest.mark.parametrize(
    ("made", "cell", "change", "reason"),
    [
        (
            "class O: lr = 1.0\nopt = O()",
            "y = x * opt.lr",
            "opt.lr = 2.0",
            "opt.lr was 1.0, now 2.0",
        ),
        ("class O: lr = 1.0", "y = x * O.lr", "O.lr = 2.0", "O.lr was 1.0, now 2.0"),
        (
            "s = 1.0\nclass O:\n    def f(self, x): return x * s\nopt = O()",
            "y = opt.f(x)",
            "s = 2.0",
            "s was 1.0, now 2.0 (read by f)",
        ),
        ("opt = {'lr': 1.0}", "y = x * opt['lr']", "opt['lr'] = 2.0", "opt['lr'] was 1.0, now 2.0"),
        ("opt = [1.0, w]", "y = x * opt[0]", "opt[0] = 2.0", "opt[0] was 1.0, now 2.0"),
    ],
)
def test_constants_changed_in_place_are_seen(session, made, cell, change, reason):
    session.ok(made)
    session.ok(f"%%jit\n{cell}")
    session.ok(change)
    ran = session.ok(f"%%jit\n{cell}")
    assert f"cache miss: {reason}" in ran.out
    np.testing.assert_allclose(session.names["y"], [2.0, 4.0, 6.0])


def test_a_cell_with_several_versions_finds_each_again(session):
    cell = "%%jit\ny = w * x * n"
    for n in (1, 2):
        session.ok(f"n = {n}")
        session.ok(cell)
    for n in (2, 1, 2):
        session.ok(f"n = {n}; w = w + 0")
        assert "cache hit" in session.ok(cell).out
        np.testing.assert_allclose(session.names["y"], n * np.array([0.1, 0.4, 0.9]), rtol=1e-6)


def test_a_failed_run_keeps_the_compiled_versions(session):
    cell = "%%jit\ny = x @ w"
    session.ok(cell)
    session.ok("w = jnp.ones(5)")
    assert session.run(cell).error is not None
    session.ok("w = jnp.ones(3)")
    assert "cache hit" in session.ok(cell).out


def test_compiled_cells_keep_no_inputs_alive(session):
    session.ok("big = jnp.ones(3)\nimport weakref, gc\nseen = []")
    session.ok("%%jit\nbig.sum()")
    magics = session.shell.magics_manager.registry["JitMagics"]
    versions = [v for p in magics.programs.values() for v in p.versions]
    assert all(v.inputs.leaves == () for v in versions)


def test_containers_changed_in_place_are_results(session):
    session.ok("params = {'w': w}\nlog = []\ntwo = [x, {'b': x}]")
    cell = "%%jit\nparams['w'] = params['w'] * 2\nlog.append(x.sum())\ntwo[1]['b'] = w\nx[0]"
    assert "results params, log, two, the last value" in session.ok(cell).out
    np.testing.assert_allclose(session.names["params"]["w"], [0.2, 0.4, 0.6], rtol=1e-6)
    session.ok(cell)
    np.testing.assert_allclose(session.names["params"]["w"], [0.4, 0.8, 1.2], rtol=1e-6)
    np.testing.assert_allclose(session.names["log"], [6.0, 6.0])
    np.testing.assert_allclose(session.names["two"][1]["b"], session.names["w"])


def test_deleted_names_are_gone(session):
    session.ok("n = 3")
    ran = session.ok("%%jit\nt = w * 2\ny = t * n\ndel t, w\ndel n")
    assert "results y, t (deleted), w (deleted), n (deleted)" in ran.out
    assert not {"t", "w", "n"} & set(session.names)


def test_names_bound_by_global_inside_a_function_are_results(session):
    session.ok("%%jit\ndef keep(a):\n    global kept\n    kept = a * 2\nkeep(x)")
    np.testing.assert_allclose(session.names["kept"], [2.0, 4.0, 6.0])


def test_what_keeps_traced_values_is_pointed_out(session):
    session.ok("seen = []\ndef note(a): seen.append(a)")
    ran = session.ok("%%jit\nnote(x)\nclass K:\n    c = x * 2\nk = K.c.sum()")
    assert "note: seen, K.c holds values of the tracing" in ran.out


def test_pytrees_go_in_and_out(session):
    session.ok("params = {'w': w, 'b': jnp.zeros(3), 'name': 'layer'}")
    ran = session.ok("%%jit\nout = {'y': params['w'] * x + params['b'], 'name': params['name']}")
    assert "params['b']:f32[3], params['w']:f32[3], x:f32[3]" in ran.out
    assert session.names["out"]["name"] == "layer"
    np.testing.assert_allclose(session.names["out"]["y"], [0.1, 0.4, 0.9], rtol=1e-6)


def test_names_that_are_read_and_bound(session):
    session.ok("k = 1")
    session.ok("%%jit --quiet\nx = x * 2\nk = k + 1\nx += w")
    np.testing.assert_allclose(session.names["x"], [2.1, 4.2, 6.3], rtol=1e-6)
    assert session.names["k"] == 2


def test_numpy_arrays_are_inputs(session):
    session.ok("a = np.arange(3, dtype=np.float32)")
    ran = session.ok("%%jit\nb = jnp.sin(a)")
    assert "inputs a:f32[3]" in ran.out


def test_functions_defined_beside_statements_survive(session):
    session.ok("%%jit --quiet\ndef double(v): return v * 2\ny = double(x)")
    np.testing.assert_allclose(session.names["double"](2.0), 4.0)
    assert inspect.getsource(session.names["double"]) == "def double(v): return v * 2\n"


def test_functions_that_share_names_with_the_cell_see_its_arrays(session):
    cell = (
        "%%jit\nh = w * 2\ndef uses(a):\n    return a + h + x\n"
        "class K:\n    def m(self): return h\ny = uses(x)"
    )
    session.ok(cell)
    np.testing.assert_allclose(session.ok("uses(0.0)").value, [1.2, 2.4, 3.6], rtol=1e-6)
    np.testing.assert_allclose(session.ok("K().m()").value, [0.2, 0.4, 0.6], rtol=1e-6)
    session.ok("w = w + 1")
    assert "cache hit" in session.ok(cell).out
    np.testing.assert_allclose(session.ok("uses(0.0)").value, [3.2, 4.4, 5.6], rtol=1e-6)


def test_functions_made_by_functions_of_the_cell_see_arrays(session):
    cell = "%%jit\ndef outer(a):\n    def inner(b): return a + b\n    return inner\nf = outer(x * 2)\nf(w)"
    session.ok(cell)
    np.testing.assert_allclose(session.ok("f(0.0)").value, [2.0, 4.0, 6.0])
    session.ok("x = x + 1")
    assert "cache hit" in session.ok(cell).out
    np.testing.assert_allclose(session.ok("f(0.0)").value, [4.0, 6.0, 8.0])


def test_partials_that_keep_traced_values_are_pointed_out(session):
    ran = session.ok("%%jit\nimport functools\ng = functools.partial(jnp.dot, w)\ng(x)")
    assert "note: partial.args holds values of the tracing" in ran.out


def test_printing_is_said_to_happen_while_tracing(session):
    cell = "%%jit\nprint('hello')\nx * 2"
    first = session.ok(cell)
    assert lines(first)[0] == "hello"
    assert "printing happened while tracing" in first.out
    again = session.ok(cell)
    assert "hello" not in again.out
    assert "ran when it was traced, not now" in again.out


def test_quiet_and_semicolon(session):
    assert session.ok("%%jit --quiet\nx * 2;").out == ""


def test_static_names_are_constants(session):
    ran = session.ok("%%jit --static w\nx * w")
    assert "inputs x:f32[3]; results" in ran.out


def test_donated_inputs_are_given_up(session):
    session.ok("big = jnp.ones(8)\nkeep = big")
    session.ok("%%jit --donate big --quiet\nbig = big + 1")
    assert session.names["keep"].is_deleted()
    np.testing.assert_allclose(session.names["big"], np.full(8, 2.0))


def test_device(session):
    ran = session.ok("%%jit --device cpu:1\ny = x * 2")
    assert "on cpu:1" in ran.out
    assert session.names["y"].device.id == 1
    ran = session.run("%%jit --device cpu:99\nx")
    assert "no device 'cpu:99'; there are: cpu:0" in ran.traceback


def test_graph_is_shown(session):
    ran = session.ok("%%jit --graph\njnp.tanh(w * x).sum()")
    (shown,) = ran.shown
    assert "image/svg+xml" in shown and "tanh" in shown["text/plain"]


def test_deterministic_report_has_no_times(session, monkeypatch):
    monkeypatch.setenv("PULLBACK_DETERMINISTIC", "1")
    report = lines(session.ok("%%jit\ny = x * 3"))
    assert report == [
        "%%jit: one program of 1 equation; inputs x:f32[3]; results y",
        "  cache miss: first run of this cell",
    ]


# ------------------------------------------------------------------------------ definitions

DEFINE = """%%jit
import math
SHIFT = 1.0
def f(x):
    return jnp.sin(x) * scale + SHIFT

def g(x):
    # a comment
    return f(x) + math.pi
"""


def test_functions_are_jitted(session):
    session.ok("scale = 2.0")
    ran = session.ok(DEFINE)
    assert ran.out == ("%%jit: f and g are jitted: each is traced and compiled at its first call\n")
    names = session.names
    assert hasattr(names["f"], "lower") and names["SHIFT"] == 1.0
    np.testing.assert_allclose(
        session.ok("g(x)").value, 2 * np.sin([1, 2, 3]) + 1 + np.pi, rtol=1e-6
    )


def test_a_cell_of_classes_compiles_nothing(session):
    ran = session.ok("%%jit\nclass Model:\n    def __call__(self, x): return x * 2")
    assert "the cell defines no function; there is nothing to compile" in ran.out
    assert session.ok("Model.__qualname__").value == "Model"


def test_source_of_jitted_functions_is_found(session):
    session.ok("scale = 2.0")
    session.ok(DEFINE)
    assert inspect.getsource(session.names["g"]) == (
        "def g(x):\n    # a comment\n    return f(x) + math.pi\n"
    )
    assert inspect.getsourcelines(session.names["f"])[1] == 4


def test_a_captured_global_that_changed_is_pointed_out_once(session):
    session.ok("scale = 2.0")
    session.ok(DEFINE)
    session.ok("f(x)")
    ran = session.ok("scale = 5.0")
    assert ran.out.count("note: f still uses what it captured") == 1
    assert "scale was 2.0, now 5.0" in ran.out
    assert "note" not in session.ok("1").out
    session.ok(DEFINE)
    assert "note" not in session.ok("f(x)\nscale = 5.0").out


def test_static_arguments_of_functions(session):
    session.ok("%%jit --static n --quiet\ndef power(x, n):\n    return x ** n if n > 1 else x")
    np.testing.assert_allclose(session.ok("power(x, 2)").value, [1, 4, 9])
    ran = session.run("%%jit --static m\ndef power(x, n): return x")
    assert "'m' is no argument of power: there are x, n" in ran.traceback


# ---------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("cell", "message", "caret"),
    [
        ("%%jit\ny = = 2", "line 2: SyntaxError: invalid syntax", "        ^"),
        ("%%jit\nawait f()", "await cannot stand in this cell", "    ^"),
        ("%%jit --wat\nx", "no option --wat", "          ^"),
        ("%%jit --static q\nx", "the cell reads no name 'q'", "                   ^"),
        ("%%jit something\nx", "%%jit takes options only", "          ^"),
        ("%%jit\n%time x", "magics and shell commands", "    ^"),
        ("%%jit\n# nothing", "the cell is empty", "         ^"),
    ],
)
def test_errors_are_one_line_with_a_caret(session, cell, message, caret):
    ran = session.run(cell)
    printed = ran.traceback.rstrip("\n").splitlines()
    assert len(printed) == 3
    assert printed[0].startswith("MagicError: ") and message in printed[0]
    assert printed[2] == caret


def test_tracebacks_name_the_line_the_user_sees(session):
    ran = session.run("%%jit\ny = x * 2\n\nz = undefined_name + y\n")
    assert isinstance(ran.error, NameError)
    assert "----> 4 z = undefined_name + y" in ran.traceback
    number = session.shell.execution_count - 1
    assert f"Cell In[{number}], line 4" in ran.traceback
    assert "run_cell_magic" not in ran.traceback
    assert "__pullback" not in ran.traceback


def test_python_branch_on_a_traced_value_is_explained_at_its_line(session):
    ran = session.run("%%jit\nif x.sum() > 0:\n    y = 1")
    assert type(ran.error).__name__ == "TracerBoolConversionError"
    assert "----> 2 if x.sum() > 0:" in ran.traceback


def test_a_failed_cell_binds_nothing(session):
    session.run("%%jit\nhalf = x / 2\nraise ValueError('no')")
    assert "half" not in session.names


def test_running_a_cell_often_grows_nothing(session):
    cell = "%%jit --quiet\ny = x * 2"
    session.ok(cell)
    magics = session.shell.magics_manager.registry["JitMagics"]
    for _ in range(5):
        session.ok(cell)
    (program,) = magics.programs.values()
    assert len(program.versions) == 1


def test_a_cell_runs_where_its_inputs_have_been_put(session):
    cell = "%%jit\ny = x + w"
    session.ok(cell)
    session.ok("x = jax.device_put(x, jax.devices()[1])")
    ran = session.ok(cell)
    assert "cache miss: the inputs are on cpu:1 now" in ran.out
    assert session.names["y"].devices() == session.names["x"].devices()
    assert "cache hit" in session.ok(cell).out


def test_dicts_whose_keys_have_no_order_are_constants(session):
    session.ok("cfg = {1: w, 'a': 3.0}")
    cell = "%%jit\ny = x * cfg['a']"
    session.ok(cell)
    session.ok("cfg['a'] = 2.0")
    assert "cache miss: cfg['a'] was 3.0, now 2.0" in session.ok(cell).out
    np.testing.assert_allclose(session.names["y"], [2.0, 4.0, 6.0])
