"""The command line: `pullback install`, `pullback doctor`, and `python -m pullback -f FILE`.

Builds on pullback.ipython; tested in tests/kernel/test_cli.py and tests/packaging.
"""

import importlib
import os
import sys
from collections.abc import Callable, Sequence

# XLA reads this when jaxlib is loaded; its log lines would land in the user's cells.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

_COMMANDS = {
    "install": ("pullback.ipython.kernelspec", "install_main", "write the kernelspec for Jupyter"),
    "uninstall": ("pullback.ipython.kernelspec", "uninstall_main", "remove the kernelspec"),
    "doctor": ("pullback.ipython.doctor", "main", "say what is installed and what is missing"),
    "kernel": ("pullback.ipython.kernelapp", "main", "start the kernel (-f CONNECTION_FILE)"),
}


def usage() -> str:
    """The text of `pullback --help`."""
    rows = "\n".join(f"  {name:<10} {entry[2]}" for name, entry in _COMMANDS.items())
    return (
        "usage: pullback COMMAND [options]\n\ncommands:\n"
        f"{rows}\n\n`pullback COMMAND --help` lists a command's options; "
        "`pullback --version` prints the version.\n"
        "`python -m pullback -f FILE` starts the kernel, as Jupyter does."
    )


def _load(command: str) -> Callable[[Sequence[str]], int]:
    module, attribute, _ = _COMMANDS[command]
    return getattr(importlib.import_module(module), attribute)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the words after the program's name; `sys.argv[1:]` when None.
    Returns:
        the exit status: 0 done, 1 failed, 2 not understood.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        print(usage())
        return 0
    if words[0] in ("-V", "--version"):
        return _load("doctor")(["--version"])
    if words[0] in _COMMANDS:
        return _load(words[0])(words[1:])
    if words[0].startswith("-"):
        return _load("kernel")(words)
    print(f"pullback: no command {words[0]!r}\n\n{usage()}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
