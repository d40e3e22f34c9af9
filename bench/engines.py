"""Run one script in each engine's own environment, in turn, and give the medians.

A script is started as `python SCRIPT ENGINE [MORE ...]`, where ENGINE is `pullback` or `jax`, and prints
one JSON object of numbers as its last line. Used by run.py and compare_transforms.py.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path


def arguments(description: str | None) -> argparse.Namespace:
    """The options that every comparison takes, read from the command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--jax-python", default=os.environ.get("PULLBACK_JAX_PYTHON"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    if not options.jax_python:
        parser.error("give --jax-python, a Python with jax installed")
    return options


def run(python: str, script: Path, engine: str, *more: str) -> dict[str, float]:
    """What one run of a script in an engine's environment prints."""
    words = [python, str(script), engine, *more]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{engine} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def medians(options: argparse.Namespace, script: Path) -> dict[str, tuple[float, float]]:
    """Per case ours and jax's median over rounds, the engines taking turns; NaN where jax has none."""
    ours: dict[str, list[float]] = {}
    theirs: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for python, engine, table in (
            (sys.executable, "pullback", ours),
            (options.jax_python, "jax", theirs),
        ):
            for name, value in run(python, script, engine, options.only).items():
                table.setdefault(name, []).append(value)
    return {
        name: (statistics.median(values), statistics.median(theirs.get(name, [math.nan])))
        for name, values in ours.items()
    }
