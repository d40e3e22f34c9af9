"""What to do about errors that C++ raises in its own words, where no Python frame can say it.

A call that stays in the C++ dispatcher raises from there. The text gets its advice when it is shown.
Builds on nothing. Tested in tests/kernel/test_tracebacks.py.
"""

from __future__ import annotations

# A part of the message -> what it means and what to do.
_ADVICE = (
    (
        "Buffer has been deleted or donated",
        "An array that the function was given has no memory any more: it was deleted by .delete(), "
        "or an earlier call was given it to overwrite (donate_argnums).\n"
        "Instead: use that call's result, or do not donate the array.",
    ),
    (
        "Non-hashable static arguments",
        "A static argument is compared with those of earlier calls, so it must have a hash.\n"
        "Instead: pass a tuple for a list, or a frozen dataclass for a dict; or leave it out of "
        "static_argnums and static_argnames.",
    ),
)


def add_advice(error: BaseException | None) -> None:
    """Add to an error of the runtime what its text means, once."""
    if not isinstance(error, RuntimeError | ValueError):
        return
    text = str(error)
    for part, advice in _ADVICE:
        if part in text and advice not in getattr(error, "__notes__", ()):
            error.add_note(advice)
