"""Compare Pullback with the real jax: each engine in its own environment, in turn, ratios of medians.

    python bench/run.py --jax-python PATH [--rounds 3] [--only TEXT] [--markdown FILE]

`--jax-python` is a Python that has jax 0.10.2 installed (default: $PULLBACK_JAX_PYTHON).
"""

from __future__ import annotations

from pathlib import Path

from engines import arguments, medians

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


def main() -> None:
    """Run the engines in turn and print the table."""
    options = arguments(__doc__)
    lines = ["| case | pullback | jax | ratio | target |", "|---|---|---|---|---|"]
    for name, (mine, other) in medians(options, CASES).items():
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
