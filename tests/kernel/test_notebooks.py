"""The notebooks: saved outputs against a fresh run of the kernel, and the seed verbatim."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SEED = sorted((ROOT / "tests" / "data" / "seed").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_saved_outputs_are_what_a_fresh_kernel_gives(notebook, tmp_path):
    words = [
        *(sys.executable, "-m", "pytest", "-q", "--nbval", str(notebook)),
        *("--nbval-sanitize-with", str(ROOT / "notebooks" / "nbval_sanitize.cfg")),
        *("-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(ROOT)),
    ]
    environment = {**os.environ, "PULLBACK_DETERMINISTIC": "1"}
    environment.pop("PULLBACK_NUM_CPU_DEVICES", None)
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_valid_names_this_kernel_and_ran_from_top_to_bottom(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "pullback"
    assert notebook.metadata.kernelspec.language == "python"
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            assert output.output_type != "error"
            assert output.get("name") != "stderr"


def test_the_seed_notebook_holds_the_listings_verbatim():
    notebook = nbformat.read(ROOT / "notebooks" / "01_seed_document.ipynb", as_version=4)
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    assert sources == [listing.read_text(encoding="utf-8").rstrip("\n") for listing in SEED]
