"""Where equations come from."""

from view_programs import straight_program

from pullback.core.jaxpr import Eqn
from pullback.views.sources import SourceLine, source_line


def test_the_users_line():
    found = source_line(straight_program(1).eqns[0])
    assert found.text == "x = sin(x)"
    assert found.place == f"view_programs.py, line {found.line}"


def test_unknown_source():
    eqn = straight_program(1).eqns[0]
    bare = Eqn(eqn.primitive, eqn.invars, eqn.outvars, eqn.params)
    assert source_line(bare) is None


def test_place_of_a_plain_file():
    assert SourceLine("/somewhere/model.py", 3, "x").place == "model.py, line 3"
