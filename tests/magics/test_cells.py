"""Names that cells read and bind, and cells as functions."""

import linecache

import pytest

from pullback_magics.cells import LAST, cell_function, parse_cell
from pullback_magics.faults import MagicError


def taken(body):
    return parse_cell(f"%%jit\n{body}", body)


@pytest.mark.parametrize(
    ("body", "reads", "binds"),
    [
        ("y = x + 1", "x", "y"),
        ("y = x\ny + z", "x z", "y"),
        ("x = x * 2", "x", "x"),
        ("x += y", "x y", "x"),
        ("y = 1\ndel y", "", "y"),
        ("a, (b, *c) = t", "t", "a b c"),
        ("d['k'] = v", "v d", ""),
        ("o.attribute = v", "v o", ""),
        ("y: int = x", "int x", "y"),
        ("y: int", "int", ""),
        ("for i in r:\n    y = i\ny", "r y", "i y"),
        ("while c:\n    c = f(c)", "c f", "c"),
        ("if c:\n    y = 1\nelse:\n    y = 2\ny", "c", "y"),
        ("if c:\n    y = 1\ny", "c y", "y"),
        ("with m as n:\n    y = n\ny", "m", "n y"),
        ("try:\n    y = f()\nexcept E as e:\n    z = e\ny", "f E y", "y z"),
        ("import a.b\nfrom c import d as e\ne", "", "a e"),
        ("def f(p, q=r):\n    t = p + s\n    return t\nf(u)", "r s u", "f"),
        ("g = lambda p, q=r: p + s", "r s", "g"),
        ("class C(B):\n    k = v\n    def m(self):\n        return self.k + w", "B v w", "C"),
        ("[i * k for i in r if i]", "i k r".replace("i ", ""), ""),
        ("{k: v for k, v in d.items()}", "d", ""),
        ("y = (n := x) + n", "x n", "y n"),
        ("(y := x)\ny", "x", "y"),
        ("@dec\ndef f(): return f()", "dec", "f"),
        ("def f():\n    def g():\n        return h\n    return g", "h", "f"),
        ("def f():\n    import os\n    return os", "", "f"),
        ("match p:\n    case [a, *b]:\n        c = a", "p", "a b c"),
        ("f'{x!r:>{n}}'", "x n", ""),
        ("x.sum()", "x", ""),
    ],
)
def test_reads_and_binds(body, reads, binds):
    cell = taken(body)
    assert set(cell.reads) == set(reads.split())
    assert list(cell.binds) == binds.split() or set(cell.binds) == set(binds.split())


@pytest.mark.parametrize(
    ("body", "definitions"),
    [
        ("def f(): pass", ("f",)),
        (
            "'''doc'''\nimport os\nN = 3\nP = (1, -2)\ndef f(): pass\nclass C: pass\ndef g(): pass",
            ("f", "g"),
        ),
        ("def f(): pass\nf()", None),
        ("x = y\ndef f(): pass", None),
        ("N = 3", None),
        ("import os", None),
    ],
)
def test_cells_that_only_define_things(body, definitions):
    assert taken(body).definitions == definitions


@pytest.mark.parametrize(
    ("body", "message", "line"),
    [
        ("x = 1\ny = (", "'(' was never closed", "line 3"),
        ("return 3", "'return' outside function", "line 2"),
        ("y = 1\nz = await y", "await cannot stand", "line 3"),
        ("async for i in x:\n    pass", "await cannot stand", "line 2"),
        ("async def f(): pass", "an async function", "line 2"),
        ("global y\ny = 1", "global is not needed", "line 2"),
        ("from os import *", "import *", "line 2"),
        ("yield 3", "'yield' outside function", "line 2"),
    ],
)
def test_what_cannot_stand_in_a_cell(body, message, line):
    with pytest.raises(MagicError) as caught:
        taken(body)
    assert message in caught.value.message and caught.value.place == line
    assert "\n" not in caught.value.message


def test_await_inside_a_functions_body_is_the_functions_affair():
    with pytest.raises(MagicError, match="async function"):
        taken("async def f():\n    await g()")


def test_function_of_a_cell():
    cell = taken("y = x + k\nx = y * 2\ny - 1")
    namespace = {"k": 10}
    function = cell_function(cell, ["x"], "<test cell>", namespace)
    assert function(x=1) == {
        "x": 22,
        "y": 11,
        LAST: 10,
        "__pullback_locals__": function(x=1)["__pullback_locals__"],
    }
    assert "y" not in namespace
    assert function.__globals__ is namespace


def test_line_numbers_are_those_of_the_cell():
    source = "\n\n%%jit --quiet\na = 1\n1 / 0\n"
    cell = parse_cell(source, "a = 1\n1 / 0\n")
    function = cell_function(cell, [], "<test cell>", {})
    with pytest.raises(ZeroDivisionError) as caught:
        function()
    assert caught.traceback[-1].lineno + 1 == 5
    linecache.checkcache()
