"""Installing the kernelspec: what is written, where, and that it is removed again."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from jupyter_client.kernelspec import KernelSpecManager

from pullback.__main__ import main
from pullback.ipython import kernelspec


@pytest.fixture
def jupyter_home(tmp_path, monkeypatch):
    """Jupyter's user folder in a temporary place."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "0")
    return tmp_path / "data"


SOURCE = Path(__file__).parents[2] / "kernel" / "kernelspec" / "kernel.json"


def test_the_specification_names_no_interpreter_until_it_is_installed():
    assert json.loads(SOURCE.read_text())["argv"][0] == "python"


def test_the_packaged_specification_follows_the_checklist():
    folder = kernelspec.resources()
    spec = json.loads((folder / "kernel.json").read_text())
    # `pullback install --sys-prefix` writes over the file that the wheel put under the prefix.
    assert spec["argv"][0] in ("python", sys.executable)
    assert "{connection_file}" in spec["argv"]
    assert spec["language"] == "python"
    assert spec["interrupt_mode"] == "signal"
    assert spec["metadata"]["debugger"] is True
    assert spec["metadata"]["supported_encryption"] == ["curve"]
    assert all(isinstance(value, str) for value in spec["env"].values())
    # XLA's lines about errors that Python raises as well would stand in the cells.
    assert spec["env"]["TF_CPP_MIN_LOG_LEVEL"] == "3"
    assert "-P" in spec["argv"]


@pytest.mark.parametrize("side", [32, 64])
def test_the_logos_have_the_sizes_of_their_names(side):
    data = (kernelspec.resources() / f"logo-{side}x{side}.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (side, side)


def test_the_svg_logo_has_a_title_and_no_outside_reference():
    text = (kernelspec.resources() / "logo-svg.svg").read_text()
    root = ElementTree.fromstring(text)
    assert root.find("{http://www.w3.org/2000/svg}title").text == "Pullback"
    assert "href" not in text


def test_install_for_the_user_writes_all_files_and_says_where(jupyter_home, capsys):
    assert main(["install", "--user"]) == 0
    folder = jupyter_home / "kernels" / "pullback"
    assert str(folder) in capsys.readouterr().out
    assert {file.name for file in folder.iterdir()} == {
        "kernel.json",
        "logo-32x32.png",
        "logo-64x64.png",
        "logo-svg.svg",
    }
    assert json.loads((folder / "kernel.json").read_text())["argv"][0] == sys.executable
    assert "pullback" in KernelSpecManager().find_kernel_specs()


def test_install_into_a_prefix_with_a_name_and_variables(tmp_path, capsys):
    words = ["install", "--prefix", str(tmp_path), "--name", "mine", "--display-name", "Mine é"]
    assert main([*words, "--env", "A", "1", "--env", "B", "2"]) == 0
    spec = json.loads((tmp_path / "share/jupyter/kernels/mine/kernel.json").read_text())
    assert spec["display_name"] == "Mine é"
    assert spec["env"]["A"] == "1" and spec["env"]["B"] == "2"
    assert "TF_CPP_MIN_LOG_LEVEL" in spec["env"]


def test_uninstall_removes_it_and_a_second_time_fails(jupyter_home, capsys):
    main(["install", "--user", "--name", "pullback-test-only"])
    assert main(["uninstall", "--name", "pullback-test-only"]) == 0
    assert not (jupyter_home / "kernels" / "pullback-test-only").exists()
    assert main(["uninstall", "--name", "pullback-test-only"]) == 1
    assert "no kernelspec named" in capsys.readouterr().err


def test_a_place_that_is_not_writable_is_one_line(tmp_path, capsys, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied", "/somewhere")

    monkeypatch.setattr(kernelspec, "install", refuse)
    assert main(["install"]) == 1
    assert "--sys-prefix" in capsys.readouterr().err


def test_a_prefix_that_cannot_be_a_folder_is_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["install", "--prefix", str(tmp_path / "file")]) == 1
    error = capsys.readouterr().err
    assert "cannot be used (Not a directory)" in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--prefix", ""], "argument --prefix: names no folder"),
        (["--name", "not a name"], "argument --name: Invalid kernel name"),
    ],
)
def test_words_that_cannot_be_meant_are_refused(words, text, capsys, jupyter_home):
    with pytest.raises(SystemExit) as exit:
        main(["install", *words])
    assert exit.value.code == 2 and text in capsys.readouterr().err


def test_help_and_unknown_words(capsys):
    assert main([]) == 0
    assert "pullback doctor" not in capsys.readouterr().err
    assert main(["frobnicate"]) == 2
    assert "no command 'frobnicate'" in capsys.readouterr().err
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("pullback ")


def test_the_installed_command_and_the_module_agree():
    words = [sys.executable, "-m", "pullback", "--version"]
    out = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    assert out.stdout.startswith("pullback ")
