"""Compare what transformations save, hold and cost with the real jax, as Markdown tables.

    python bench/compare_transforms.py --jax-python PATH [--rounds 3] [--only TEXT] [--markdown FILE]

Each engine runs in its own environment, in turn; medians over the rounds. See transform_cases.py for what is
counted and transform_programs.py for the programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engines import arguments, medians

CASES = Path(__file__).with_name("transform_cases.py")


@dataclass(frozen=True, slots=True)
class Kind:
    """A table.

    Attributes:
        title: what it shows.
        says: how it was counted.
        number: the format of a number.
        at_most: ours divided by jax's at most, or None.
        limit: ours at most, or None.
    """

    title: str
    says: str
    number: str
    at_most: float | None = None
    limit: float | None = None


KINDS = {
    "bytes": Kind(
        "Residual bytes of the reverse pass",
        "What the pullback of `vjp` keeps besides the arguments, each array once.",
        "{:,.0f}",
        at_most=1.0,
    ),
    "equations": Kind(
        "Equations",
        "Of the transformed jaxpr, those of inner jaxprs included.",
        "{:,.0f}",
        at_most=1.0,
    ),
    "trace+lower ms": Kind(
        "Trace and lower",
        "Milliseconds of `jit(...).lower(...)` of a function not seen before.",
        "{:.1f}",
        at_most=0.5,
    ),
    "temporary bytes": Kind(
        "Temporary memory of the compiled gradient",
        "By XLA's memory analysis on the CPU, whose compiler merges what checkpointing outside of a "
        "loop repeats, in both engines.",
        "{:,.0f}",
    ),
    "MB grown": Kind(
        "Memory of cells run again",
        "Resident megabytes gained by 900 runs of a cell that defines and traces its functions anew.",
        "{:.1f}",
        limit=20.0,
    ),
}


def row(name: str, kind: Kind, ours: float, theirs: float) -> str:
    """One line of a table."""
    ratio = ours / theirs
    target, missed = "", False
    if kind.at_most is not None:
        target, missed = f"ratio {kind.at_most:g}", ratio > kind.at_most
    if kind.limit is not None:
        target, missed = f"{kind.limit:g}", ours > kind.limit
    numbers = f"{kind.number.format(ours)} | {kind.number.format(theirs)} | {ratio:.2f}"
    numbers = numbers.replace("nan", "-")
    return f"| {name} | {numbers} | {target}{' (missed)' if missed else ''} |"


def tables(results: dict[str, tuple[float, float]]) -> str:
    """The tables as Markdown."""
    lines: list[str] = []
    for key, kind in KINDS.items():
        found = {n.split(": ", 1)[1]: v for n, v in results.items() if n.startswith(f"{key}: ")}
        if not found:
            continue
        lines += [f"## {kind.title}", "", kind.says, ""]
        lines += ["| program | pullback | jax | ratio | at most |", "|---|---|---|---|---|"]
        lines += [row(name, kind, *values) for name, values in found.items()]
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Run the engines in turn and print the tables."""
    options = arguments(__doc__)
    text = tables(medians(options, CASES))
    print(text)
    if options.markdown:
        options.markdown.write_text(text)


if __name__ == "__main__":
    main()
