"""What Binder does with binder/: install the requirements from the root, then run postBuild."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BINDER = ROOT / "binder"


def test_the_pinned_python_is_supported():
    pinned = re.fullmatch(r"python-3\.(\d+)", (BINDER / "runtime.txt").read_text().strip())
    assert pinned and int(pinned[1]) >= 11


def test_postbuild_is_executable():
    assert os.access(BINDER / "postBuild", os.X_OK)


@pytest.mark.slow
def test_the_steps_in_a_new_environment(tmp_path):
    tree = tmp_path / "tree"
    hidden = shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".*_cache", "dist", "build")
    shutil.copytree(ROOT, tree, ignore=hidden)
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True, timeout=300)
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment["PATH"] = f"{venv / 'bin'}{os.pathsep}{environment['PATH']}"
    environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"

    def step(*words):
        done = subprocess.run(
            words, cwd=tree, env=environment, capture_output=True, text=True, timeout=1200
        )
        assert done.returncode == 0, f"{words}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    step("python", "-m", "pip", "install", "--quiet", "-r", "binder/requirements.txt")
    out = step("binder/postBuild")
    assert str(venv / "share/jupyter/kernels/pullback") in out
    assert "Nothing is missing." in out
    assert "pullback" in step("jupyter", "kernelspec", "list")
