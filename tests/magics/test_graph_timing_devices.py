"""`%graph`, `%timing`, `%devices` in a stock shell."""

import xml.etree.ElementTree as ET

import pytest


def test_graph_is_a_bundle(session):
    view = session.ok("%graph loss(w, x)").value
    bundle = view._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", "image/svg+xml"}
    assert "h = jnp.tanh(w * x)" in bundle["text/plain"]
    ET.fromstring(bundle["image/svg+xml"])


def test_graph_of_a_jitted_function_shows_its_program(session):
    session.ok("fast = jax.jit(loss)")
    view = session.ok("%graph fast(w, x)").value
    assert [n.label for n in view.graph.nodes if n.kind == "input"] == ["w", "x"]
    assert any(n.label == "tanh" for n in view.graph.nodes)


def test_graph_follows_the_path_really_taken(session):
    session.ok("def f(x):\n    return jnp.sin(x) if x.sum() > 0 else jnp.cos(x)")
    view = session.ok("%graph f(-x)").value
    assert "cos" in view.text and "sin b" not in view.text


def test_graph_with_the_backward_pass(session):
    view = session.ok("%graph loss(w, x) --grad").value
    assert view.graph.has_backward and "cotangent" in view.text
    session.ok("def unread(a, b): return (a * 0.0).sum()")
    view = session.ok("%graph unread(w, x) --grad").value
    found = {n.label: n for n in view.graph.nodes}
    assert found["x"].cotangent == "not computed"
    assert found["w"].cotangent == "[0.0 0.0 0.0]"


@pytest.mark.parametrize(
    ("stage", "word"),
    [("linear", "{ lambda "), ("stablehlo", "stablehlo.tanh"), ("hlo", "HloModule")],
)
def test_other_stages(session, stage, word):
    assert word in str(session.ok(f"%graph loss(w, x) --stage {stage}").value)


def test_hlo_names_cells_and_no_machine_paths(session, monkeypatch):
    shown = repr(session.ok("%graph loss(w, x) --stage hlo").value)
    assert '"Cell In[1]"' in shown
    monkeypatch.setenv("PULLBACK_DETERMINISTIC", "1")
    shown = repr(session.ok("%graph loss(w, x) --stage hlo").value)
    assert '1 "cell"' in shown and "/" not in shown.split("FileLocations")[0]


def test_hlo_that_another_kernel_compiled_names_a_cell():
    from pullback_magics.graph import with_file_labels

    hlo = 'HloModule a\n\nFileNames\n1 "/tmp/ipykernel_12345/678.py"\n2 "/x/y/model.py"\n\nrest'
    assert with_file_labels(hlo) == 'HloModule a\n\nFileNames\n1 "cell"\n2 "model.py"\n\nrest'


def test_backward_from_the_first_of_several_results_is_said(session):
    shown = repr(session.ok("%graph (w.sum(), x.sum()) --grad").value)
    assert "backward from its first result" in shown


def test_errors_of_the_engine_point_at_the_cell(session):
    session.ok(
        "def f(x): return jax.lax.while_loop(lambda c: c[0] < 3, "
        "lambda c: (c[0] + 1, c[1] * 2), (0, x))[1].sum()"
    )
    ran = session.run("%graph f(x) --grad")
    assert "was processed, of Cell In[3], line 1" in ran.traceback
    assert "interactiveshell" not in str(ran.error)


def test_graph_saves(session, tmp_path):
    target = tmp_path / "loss.svg"
    ran = session.ok(f"v = %graph loss(w, x) --save {target}")
    assert f"written to {target}" in ran.out
    assert target.read_text(encoding="utf-8").startswith("<svg")
    assert ".svg, .dot or .html" in session.run("%graph loss(w, x) --save x.pdf").traceback


def test_graph_depth(session):
    session.ok("fast = jax.jit(jnp.sin)\ndef f(x): return fast(x) + 1")
    assert session.ok("%graph f(x)").value.graph.boxes
    assert not session.ok("%graph f(x) --depth 0").value.graph.boxes


def test_markup_in_user_names_shows_as_text(session):
    session.ok(
        "evil = {'<img src=x onerror=alert(1)>': x}\n"
        "def f(d): return sum(v.sum() for v in d.values())\n"
        "f.__name__ = '<b>f</b>'"
    )
    bundle = session.ok("%graph f(evil) --grad").value._repr_mimebundle_()
    for mime in ("text/html", "image/svg+xml"):
        assert "<img src=x" not in bundle[mime] and "<b>f" not in bundle[mime]
    assert "&lt;img" in bundle["image/svg+xml"]


def test_graphs_are_reproducible(session):
    first = session.ok("%graph loss(w, x) --grad").value._repr_mimebundle_()
    again = session.ok("%graph loss(w, x) --grad").value._repr_mimebundle_()
    assert first == again


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%graph nobody(x)", "no name 'nobody' here"),
        ("%graph loss(w, x) --stage nothing", "invalid choice: 'nothing'"),
        ("%graph loss(w, x) --depth x", "invalid int value"),
        ("%graph loss(w, x) --depth -1", "--depth must be at least 0"),
        ("%graph loss(w, x) --grad --stage hlo", "--grad draws the jaxpr, not hlo"),
        ("%graph w * x --grad", "w * x is f32[3], but only a float scalar has a gradient"),
        ("%graph loss(w,", "SyntaxError"),
        ("%timing loss(w, x) --repeats 0", "--repeats must be at least 1"),
        ("%devices nothing", "nothing"),
        ("%devices --all", "no option --all; there are: none"),
    ],
)
def test_errors_are_one_line_with_a_caret(session, line, message):
    printed = session.run(line).traceback.rstrip("\n").splitlines()
    assert printed[0].startswith("MagicError: ") and message in printed[0]
    assert len(printed) == 3 and printed[2].endswith("^")


def test_timing(session):
    view = session.ok("%timing loss(w, x) --repeats 3").value
    assert "jit: compile" in view.text and "eager / jit" in view.text
    assert view.png.startswith(b"\x89PNG")
    assert len(view.data.jitted) == 3


def test_timing_is_deterministic_on_request(session, monkeypatch):
    monkeypatch.setenv("PULLBACK_DETERMINISTIC", "1")
    first = session.ok("%timing loss(w, x) --repeats 2").value._repr_mimebundle_()
    again = session.ok("%timing loss(w, x) --repeats 2").value._repr_mimebundle_()
    assert first == again and "image/png" not in first


def test_devices(session):
    view = session.ok("%devices").value
    assert view.text.startswith("8 devices on platform cpu")
    assert "cpu:7" in view.text and "default" in view.text
    assert "<table" in view.html


def test_devices_on_request_without_machine_facts(session, monkeypatch):
    monkeypatch.setenv("PULLBACK_DETERMINISTIC", "1")
    assert "MiB" not in session.ok("%devices cpu").value.text
