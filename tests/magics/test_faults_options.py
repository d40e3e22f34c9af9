"""Lines of magics, and what is said of wrong ones."""

import pytest

from pullback_magics.faults import MagicError, from_syntax_error
from pullback_magics.grad import GradMagics
from pullback_magics.options import chunks, name_list, parse_line


def parse(line):
    return parse_line(GradMagics.grad, "%grad", line)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("f(x, y)  --wrt 0", ["f(x, y)", "--wrt", "0"]),
        ("f('a b', \"c ) d\") x", ["f('a b', \"c ) d\")", "x"]),
        ("f({'a': [1, 2]}) ", ["f({'a': [1, 2]})"]),
        (r"f('a\' b') c", [r"f('a\' b')", "c"]),
        ("", []),
    ],
)
def test_chunks_respect_brackets_and_quotes(line, parts):
    assert [chunk for _, chunk in chunks(line)] == parts


@pytest.mark.parametrize(
    ("line", "expression", "wrt"),
    [
        ("f(x, y) --wrt 0,1", "f(x, y)", "0,1"),
        ("--wrt w,b f(x, y)", "f(x, y)", "w,b"),
        ("f(x, y) --wrt=w", "f(x, y)", "w"),
        ("x - y  +  z", "x - y  +  z", None),
        ("x -y", "x -y", None),
        ("f(x, -1)", "f(x, -1)", None),
    ],
)
def test_options_and_expression_in_any_order(line, expression, wrt):
    found = parse(line)
    assert (found.expression, found.options.wrt) == (expression, wrt)
    assert found.full[found.start :].startswith(expression)


@pytest.mark.parametrize(
    ("line", "message", "under"),
    [
        ("f(x) --wat", "no option --wat; there are: --wrt, --value, --tape", "--wat"),
        ("f(x) --wrt", "--wrt needs a value", ""),
        ("f(x) --value=3", "", "--value"),
    ],
)
def test_wrong_options_get_a_caret(line, message, under):
    with pytest.raises(MagicError) as caught:
        parse(line)
    error = caught.value
    assert message in error.message
    _, source, caret = error.lines()
    assert source[len(caret) - 1 :].startswith(under)


def test_a_syntax_error_points_at_its_line():
    source = "%%jit\nx = 1\ny = = 2\n"
    with pytest.raises(SyntaxError) as caught:
        compile(source.replace("%%jit", ""), "c", "exec")
    assert from_syntax_error(caught.value, source).lines() == [
        "line 3: SyntaxError: invalid syntax",
        "    y = = 2",
        "        ^",
    ]


def test_a_magic_inside_a_cell_is_named():
    error = SyntaxError("invalid syntax", ("c", 2, 1, "%time x", 2, 2))
    assert "magics and shell commands" in from_syntax_error(error, "%%jit\n%time x").message


def test_caret_keeps_tabs():
    assert MagicError("m", "\tx", 1).lines()[2] == "    \t^"


def test_name_list():
    assert name_list("w, b,") == ["w", "b"] and name_list(None) == []
