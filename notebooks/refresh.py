"""Run the notebooks again and save what they print: `make notebooks`, or `python notebooks/refresh.py [FILE ...]`.

Outputs are those of the deterministic mode, so that the tests can compare them with a fresh run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

KERNELSPEC = {"name": "pullback", "display_name": "Pullback (Python)", "language": "python"}
LANGUAGE = {
    "name": "python",
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "pygments_lexer": "ipython3",
}


def refresh(path: Path) -> None:
    """Run one notebook from top to bottom on the installed kernel and save it in place."""
    notebook = nbformat.read(path, as_version=4)
    options = {"timeout": 600, "record_timing": False, "coalesce_streams": True}
    NotebookClient(notebook, kernel_name="pullback", **options).execute()
    notebook.metadata.kernelspec = KERNELSPEC
    notebook.metadata.language_info = LANGUAGE
    nbformat.validate(notebook)
    nbformat.write(notebook, path)
    print(path.name)


def main(names: list[str]) -> None:
    """Refresh the named notebooks, or all beside this file."""
    os.environ["PULLBACK_DETERMINISTIC"] = "1"
    os.environ.pop("PULLBACK_NUM_CPU_DEVICES", None)
    for path in map(Path, names) if names else sorted(Path(__file__).parent.glob("*.ipynb")):
        refresh(path)


if __name__ == "__main__":
    main(sys.argv[1:])
