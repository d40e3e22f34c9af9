"""The files beside the packages: commands in the README, the licence, the CI script, paths."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def section(heading):
    text = (ROOT / "README.md").read_text()
    return text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]


# The suite may itself run under make, which hands its variables and flags down.
OUTSIDE_MAKE = {
    k: v
    for k, v in os.environ.items()
    if not k.startswith("MAKE")
    and k
    not in ("MFLAGS", "ARGS", "PYTHON", "LAB_VENV", "LAB_PACKAGE", "TEST_VENV", "TEST_PACKAGE")
}


def test_the_readme_has_exactly_two_set_up_commands():
    block = re.search(r"```sh\n(.*?)```", section("Set up"), re.S)[1]
    commands = [line.split("#")[0].strip() for line in block.splitlines()]
    assert commands == ["make lab", "make test"]


@pytest.mark.parametrize("target", ["lab", "test"])
def test_the_plain_lines_of_the_readme_are_what_make_runs(target):
    fresh = {"lab": "LAB_VENV=.venv", "test": "TEST_VENV=.venv-test"}[target]
    done = subprocess.run(
        ["make", "--always-make", "--dry-run", target, fresh],
        cwd=ROOT, env=OUTSIDE_MAKE, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    printed = done.stdout.replace("--quiet ", "").replace('"-e" ', "-e ")
    for line in section("Set up").splitlines():
        venv = {"lab": ".venv/", "test": ".venv-test/"}[target]
        if line.startswith(venv):
            assert line in printed


def test_make_passes_arguments_on():
    for target, tool in (("lab", "jupyter lab"), ("test", "pytest")):
        done = subprocess.run(
            ["make", "--dry-run", target, "ARGS=--some-option"],
            cwd=ROOT, env=OUTSIDE_MAKE, capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        last = done.stdout.strip().splitlines()[-1]
        assert tool in last and last.endswith("--some-option")


@pytest.mark.parametrize(("user", "expected"), [("0", True), ("1000", False)])
def test_make_lab_starts_for_root_too(tmp_path, user, expected):
    (tmp_path / "id").write_text(f"#!/bin/sh\necho {user}\n")
    (tmp_path / "id").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{OUTSIDE_MAKE['PATH']}"
    done = subprocess.run(
        ["make", "--dry-run", "lab"], cwd=ROOT, env={**OUTSIDE_MAKE, "PATH": path},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert ("--allow-root" in done.stdout.splitlines()[-1]) is expected


def test_an_old_python_is_refused_in_words(tmp_path):
    old = tmp_path / "python-old"
    old.write_text("#!/bin/sh\nexec python3 -c 'import sys; sys.version_info = (3, 9); "
                   "sys.argv.pop(0); exec(sys.argv[0])' \"$2\"\n")  # fmt: skip
    old.chmod(0o755)
    done = subprocess.run(
        ["make", "test-env", f"PYTHON={old}", f"TEST_VENV={tmp_path / 'venv'}"],
        cwd=ROOT, env=OUTSIDE_MAKE, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode != 0
    assert "needs Python 3.11 or later" in done.stderr


def test_the_licence_is_the_one_that_the_metadata_names():
    assert PROJECT["project"]["license"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text and "END OF TERMS AND CONDITIONS" in text


def test_every_dependency_has_its_reason():
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    start = lines.index("dependencies = [")
    body = lines[start + 1 : lines.index("]", start)]
    entries = [i for i, line in enumerate(body) if line.strip().startswith('"')]
    assert entries
    for i in entries:
        assert body[i - 1].strip().startswith("#")


def test_jax_is_no_dependency():
    names = [re.split(r"[<>=\[; ]", text)[0] for text in PROJECT["project"]["dependencies"]]
    assert "jaxlib" in names and "jax" not in names


def test_the_ci_script_is_valid_and_fails_with_its_steps():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", script], check=True, timeout=30)
    text = script.read_text()
    assert "set -euo pipefail" in text
    assert "make test" in text
    assert "|| true" not in text
