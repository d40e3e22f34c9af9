"""`pullback doctor`: what it finds, and its advice where something is missing."""

from __future__ import annotations

import sys

from packaging.requirements import Requirement

from pullback.__main__ import main
from pullback.ipython import doctor


def test_the_report_of_this_environment(capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for word in ("Python", "jaxlib", "devices", "cpu:0", "plugins", "dot", "kernelspec"):
        assert word in out
    assert "Nothing is missing." in out


def test_a_missing_package_comes_with_its_command():
    finding = doctor._package(Requirement("surely-not-installed>=2"))
    assert finding.status == "missing"
    assert finding.advice == 'pip install "surely-not-installed>=2"'


def test_a_version_outside_the_range_is_named():
    finding = doctor._package(Requirement("numpy<1"))
    assert finding.status == "missing" and "<1 is supported" in finding.found


def test_no_layout_library_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    finding = doctor.graphs()[0]
    assert finding.status == "missing" and "pip install" in finding.advice


def test_dot_is_not_needed(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert [finding.status for finding in doctor.graphs()] == ["ok", "ok"]


def test_a_missing_kernelspec_comes_with_its_command(monkeypatch):
    monkeypatch.setattr(doctor, "KERNEL_NAME", "surely-not-installed")
    assert "pullback install" in doctor.jupyter()[0].advice


def test_a_kernelspec_of_another_interpreter_is_noted():
    assert doctor._kernelspec("/share", "/other/bin/python").status == "note"
    assert doctor._kernelspec("/share", sys.executable).status == "ok"


def test_the_report_counts_what_is_missing():
    text = doctor.report([doctor.Finding("missing", "a", "no", "do this")])
    assert text == "MISS  a  no\n         -> do this\n\n1 thing(s) missing."
