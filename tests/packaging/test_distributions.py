"""The wheel and the sdist: what is in them, and that the wheel alone installs and works."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def run(*words, cwd=None, **variables):
    """What a command prints; the test fails with its output if it fails."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        timeout=900,
        cwd=cwd,
        env={**environment, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **variables},
    )
    assert done.returncode == 0, f"{words}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """The built wheel and sdist of this tree."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


@pytest.fixture(scope="module")
def fresh_environment(tmp_path_factory):
    """An empty environment with this interpreter's version."""
    folder = tmp_path_factory.mktemp("fresh") / "venv"
    run(sys.executable, "-m", "venv", folder)
    return folder


def test_the_wheel_holds_both_packages_and_the_kernelspec(distributions):
    names = zipfile.ZipFile(distributions[0]).namelist()
    tops = {name.split("/")[0] for name in names}
    version = distributions[0].name.split("-")[1]
    data = f"pullback-{version}.data"
    assert tops == {"pullback", "pullback_magics", f"pullback-{version}.dist-info", data}
    spec = f"{data}/data/share/jupyter/kernels/pullback"
    for file in ("kernel.json", "logo-32x32.png", "logo-64x64.png", "logo-svg.svg"):
        assert f"{spec}/{file}" in names
    assert "pullback/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if "test" in name.split("/")[0]]


def test_the_sdist_holds_what_a_build_and_the_tests_need(distributions):
    names = {name.split("/", 1)[-1] for name in tarfile.open(distributions[1]).getnames()}
    assert {
        "pyproject.toml",
        "LICENSE",
        "README.md",
        "Makefile",
        ".ci/run",
        "kernel/kernelspec/kernel.json",
        "kernel/pullback/__init__.py",
        "tests/packaging/test_distributions.py",
        "binder/postBuild",
    } <= names


def test_the_wheel_does_not_need_jax(distributions):
    wheel = zipfile.ZipFile(distributions[0])
    metadata = next(name for name in wheel.namelist() if name.endswith("METADATA"))
    required = [
        line.split(":", 1)[1].split(";")[0].strip()
        for line in wheel.read(metadata).decode().splitlines()
        if line.startswith("Requires-Dist:")
    ]
    assert "jaxlib<0.13,>=0.10.2" in required
    assert not [text for text in required if text.split("<")[0].split(">")[0] == "jax"]


def test_the_wheel_alone_installs_and_its_kernel_answers(
    distributions, fresh_environment, tmp_path
):
    python = fresh_environment / "bin" / "python"
    installed = run(sys.executable, "-c", "import jaxlib; print(jaxlib.__version__)").strip()
    run(python, "-m", "pip", "install", "--quiet", distributions[0], f"jaxlib=={installed}")
    doctor = run(fresh_environment / "bin" / "pullback", "doctor", cwd=tmp_path)
    assert str(fresh_environment / "share/jupyter/kernels/pullback") in doctor
    assert "Nothing is missing." in doctor
    code = (
        "from jupyter_client.manager import start_new_kernel\n"
        "manager, client = start_new_kernel(kernel_name='pullback')\n"
        "cell = 'import jax\\nprint(jax.grad(lambda x: x ** 2)(3.0))'\n"
        "client.execute_interactive(cell, timeout=120)\n"
        "client.stop_channels(); manager.shutdown_kernel()\n"
    )
    assert run(python, "-c", code, cwd=tmp_path) == "6.0\n"
    absent = "import importlib.util; print(importlib.util.find_spec('jax'))"
    assert run(python, "-c", absent, cwd=tmp_path) == "None\n"
