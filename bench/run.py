"""Compare Pullback with the real jax: each engine in its own environment, in turn, ratios of medians.

    python bench/run.py --jax-python PATH [--rounds 3] [--only TEXT] [--markdown FILE]

`--jax-python` is a Python that has jax 0.10.2 installed (default: $PULLBACK_JAX_PYTHON).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

CASES = Path(__file__).with_name("cases.py")

# What the project asks of itself: ours divided by jax's, at most.
TARGETS = {
    "import and first array (ms)": 0.5,
    "jitted scalar function": 1.15,
    "eager x + 1": 0.6,
    "eager jnp.sin(v)": 0.6,
    "eager v[3:7]": 0.4,
    "eager v.at[3].set(1.)": 0.4,
    "eager grad of a scalar function": 0.1,
    "eager grad of a 4-layer perceptron": 0.06,
    "eager vmap of a small function": 0.3,
    "eager jacrev of a small function": 0.3,
    "eager hessian of a small function": 0.3,
    "trace+lower value_and_grad of a 20-layer perceptron (ms)": 0.5,
    "trace+lower a 500-step unrolled loop (ms)": 0.5,
    "compiled perceptron step, 256x512x512": 1.05,
}


def run(python: str, engine: str, only: str) -> dict[str, float]:
    """One run of all cases in an engine's environment."""
    done = subprocess.run(
        [python, str(CASES), engine, only], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{engine} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Run the engines in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax-python", default=os.environ.get("PULLBACK_JAX_PYTHON"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    if not options.jax_python:
        parser.error("give --jax-python, a Python with jax installed")
    ours: dict[str, list[float]] = {}
    theirs: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for python, engine, table in (
            (sys.executable, "pullback", ours),
            (options.jax_python, "jax", theirs),
        ):
            for name, value in run(python, engine, options.only).items():
                table.setdefault(name, []).append(value)
    lines = ["| case | pullback | jax | ratio | target |", "|---|---|---|---|---|"]
    for name, values in ours.items():
        mine, other = statistics.median(values), statistics.median(theirs[name])
        target = TARGETS[name]
        mark = "" if mine / other <= target else " (missed)"
        lines.append(f"| {name} | {mine:.1f} | {other:.1f} | {mine / other:.2f} | {target}{mark} |")
    text = "\n".join(lines)
    print(text)
    print("Microseconds a call unless the case says ms; medians over runs in turn.")
    if options.markdown:
        options.markdown.write_text(text + "\n")


if __name__ == "__main__":
    main()
