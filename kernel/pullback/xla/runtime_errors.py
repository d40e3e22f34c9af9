"""What to do about errors that others raise in their own words, where no frame of ours can say it.

A call that stays in the C++ dispatcher raises from there, and the real jax, where it is installed
beside the engine, from its own code. The text gets its advice when it is shown. Builds on nothing.
Tested in tests/kernel/test_tracebacks.py.
"""

from __future__ import annotations

import re

# A pattern in the message -> what it means and what to do.
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
    (
        r"<class 'pullback\.[\w.]+'> is not a valid JAX type",
        "The function is the real jax's, and the value is Pullback's.\n"
        "Instead: `import pullback.numpy as jnp`, or start the kernel with "
        "c.PullbackKernel.provide_jax = True, and `import jax` gives Pullback.",
    ),
)


def add_advice(error: BaseException | None) -> None:
    """Add to an error in others' words what its text means, once."""
    if not isinstance(error, RuntimeError | ValueError | TypeError):
        return
    text = str(error)
    for pattern, advice in _ADVICE:
        if re.search(pattern, text) and advice not in getattr(error, "__notes__", ()):
            error.add_note(advice)
