"""`pullback doctor`: what it finds, and its advice where something is missing."""

from __future__ import annotations

import os
import subprocess
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


def test_a_cache_that_cannot_be_used_is_reported_and_not_warned_of(tmp_path):
    (tmp_path / "file").write_text("")
    done = run_doctor(PULLBACK_CACHE_DIR=str(tmp_path / "file"))
    assert done.returncode == 0 and done.stderr == ""
    assert "file/xla cannot be used" in done.stdout and "set PULLBACK_CACHE_DIR" in done.stdout


def test_a_platform_that_is_not_there_comes_with_the_variable_that_chose_it():
    done = run_doctor(JAX_PLATFORMS="nonesuch")
    assert done.returncode == 1 and done.stderr == ""
    assert "-> unset JAX_PLATFORMS to use the CPU" in done.stdout
    assert all(line == "" or line[:4].strip() or "->" in line for line in done.stdout.split("\n"))


def run_doctor(**variables):
    command = [sys.executable, "-m", "pullback", "doctor"]
    environment = {**os.environ, **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
