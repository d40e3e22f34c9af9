"""Source positions and filtered tracebacks."""

import functools
import os
import traceback

import pytest

from pullback.core import errors, source
from pullback.core.config import Scope

ENGINE_FILE = os.path.join(os.path.dirname(os.path.abspath(source.__file__)), "made_up.py")


def engine(text, **names):
    """Functions as if they stood in the engine."""
    exec(compile(text, ENGINE_FILE, "exec"), names)
    return names


GO = engine("def go(function, n):\n    return function() if n == 0 else go(function, n - 1)\n")[
    "go"
]


def test_the_innermost_user_frame_is_found():
    def user_line():
        return GO(source.user_source, 3)

    info = user_line()
    assert info.file == __file__ and info.function == "user_line"
    assert info.line == user_line.__code__.co_firstlineno + 1
    assert source.source_line(info) == "return GO(source.user_source, 3)"
    assert str(info) == f"test_source.py, line {info.line}"
    assert source.describe(info).endswith(": return GO(source.user_source, 3)")


def test_functools_and_contextlib_are_passed_over():
    @functools.singledispatch
    def dispatched(x):
        return engine("def go(f):\n    return f()\n")["go"](x)

    def user_line():
        return engine("def go(f, g):\n    return f(g)\n")["go"](dispatched, source.user_source)

    assert user_line().file == __file__


def test_one_position_is_one_object():
    found = [GO(source.user_source, 2) for _ in range(3)]
    assert found[0] is found[1] is found[2]


def test_equality_is_by_line():
    a = source.SourceInfo(test_equality_is_by_line.__code__, -1)
    b = source.SourceInfo(test_equality_is_by_line.__code__, -1)
    assert a == b and hash(a) == hash(b) and a != source.SourceInfo(engine.__code__, -1)


def test_user_frame_and_function_source():
    file, line, function = source.user_frame()
    assert (file, function) == (__file__, "test_user_frame_and_function_source")
    assert line > 0
    wrapped = functools.wraps(engine)(lambda: None)
    assert source.function_source(functools.partial(wrapped)).function == "engine"
    assert source.function_source(print) is None


def test_cells_have_labels():
    source.register_cell("<cell-5>", "Cell In[5]")
    names = {"source": source}
    exec(compile("x = 1\ninfo = source.user_source()", "<cell-5>", "exec"), names)
    assert str(names["info"]) == "Cell In[5], line 2"
    assert source.file_label("/a/b/model.py") == "model.py"


def test_a_resolver_labels_cells():
    resolver = {"<cell-9>": "Cell In[9]"}.get
    source.label_resolvers.append(resolver)
    try:
        assert source.file_label("<cell-9>") == "Cell In[9]"
        assert source.file_label("/a/model.py") == "model.py"
    finally:
        source.label_resolvers.remove(resolver)


def frames(excinfo):
    return [frame.name for frame in traceback.extract_tb(excinfo.value.__traceback__)]


FAILING = """
def entry(user):
    return middle(user)

def middle(user):
    return user(inner)

def inner(fail):
    return fail()

def raising():
    raise ValueError("said on purpose")

def broken():
    return {}["missing"]
"""


def run(fail_name):
    names = engine(FAILING)

    def user(inner):
        return inner(names[fail_name])

    return source.api_boundary(names["entry"])(user)


@pytest.mark.parametrize("mode", ["auto", "remove_frames"])
def test_engine_frames_are_removed(mode):
    with Scope({"jax_traceback_filtering": mode}), pytest.raises(ValueError) as caught:
        run("raising")
    inside = [n for n in frames(caught) if n not in ("run", "boundary")]
    assert inside == ["test_engine_frames_are_removed", "user"]


def test_off_shows_all():
    with Scope({"jax_traceback_filtering": "off"}), pytest.raises(ValueError) as caught:
        run("raising")
    assert {"entry", "middle", "user", "inner", "raising"} <= set(frames(caught))


def test_a_failure_inside_the_engine_shows_all():
    with pytest.raises(KeyError) as caught:
        run("broken")
    assert {"entry", "middle", "user", "inner", "broken"} <= set(frames(caught))


def test_frames_are_marked_for_ipython():
    with Scope({"jax_traceback_filtering": "tracebackhide"}), pytest.raises(ValueError) as caught:
        run("raising")
    marked, tb = [], caught.value.__traceback__
    while tb is not None:
        if "__tracebackhide__" in tb.tb_frame.f_locals:
            marked.append(tb.tb_frame.f_code.co_name)
        tb = tb.tb_next
    assert marked == ["boundary", "entry", "middle", "inner", "raising"]


def test_a_client_that_folds_keeps_the_frames():
    source.client_folds_frames[0] = True
    try:
        with pytest.raises(ValueError) as caught:
            run("raising")
        assert "middle" in frames(caught)
    finally:
        source.client_folds_frames[0] = False


def test_the_boundary_keeps_the_function():
    @source.api_boundary
    def named(x, y=2):
        """Doc."""
        return x + y

    assert named(1) == 3 and named.__name__ == "named" and named.__doc__ == "Doc."


def test_messages_name_the_user_line():
    text = errors.where_text()
    assert text.startswith("At test_source.py, line ") and text.endswith("errors.where_text()")
