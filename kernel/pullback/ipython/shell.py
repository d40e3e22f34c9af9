"""The kernel's shell: ipykernel's, set up for arrays from the start.

Builds on ipykernel's zmqshell; tested in tests/kernel.
"""

from __future__ import annotations

import asyncio
import sys
from importlib import metadata
from typing import Any

from ipykernel.zmqshell import ZMQInteractiveShell
from IPython.core.extensions import ExtensionManager
from traitlets import Type, default

from pullback.ipython.completion import ArrayInspector

BUILT_IN = "pullback"
BUILT_IN_EXTENSIONS = frozenset({BUILT_IN, "pullback_magics"})


class PullbackExtensionManager(ExtensionManager):
    """Lets `%load_ext pullback` pass in silence: this kernel has loaded it already."""

    def load_extension(self, module_str: str) -> str | None:
        """Load an extension, or do nothing for our own once it is there."""
        if module_str in BUILT_IN_EXTENSIONS and BUILT_IN in self.loaded:
            return None
        return super().load_extension(module_str)


class PullbackShell(ZMQInteractiveShell):
    """ipykernel's shell with folded engine frames, array display and completion."""

    inspector_class = Type(ArrayInspector)

    @default("banner1")
    def _default_banner1(self) -> str:
        return banner()

    async def run_code(self, code_obj: Any, result: Any = None, *, async_: bool = False) -> bool:
        """Run compiled code; an interrupt is a KeyboardInterrupt also where the code awaits."""
        failed = await super().run_code(code_obj, result, async_=async_)
        if result is not None and _was_interrupted(result.error_in_exec):
            result.error_in_exec = KeyboardInterrupt()
        return failed

    def showtraceback(self, exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
        """Show an error; an interrupt is a KeyboardInterrupt also where the cell awaits."""
        error = exc_tuple[1] if exc_tuple else sys.exc_info()[1]
        if error is not None and _was_interrupted(error):
            shown = KeyboardInterrupt().with_traceback(error.__traceback__)
            exc_tuple = (KeyboardInterrupt, shown, error.__traceback__)
        super().showtraceback(exc_tuple, *args, **kwargs)

    def init_extension_manager(self) -> None:
        """Use the manager that knows which extensions are built in."""
        self.extension_manager = PullbackExtensionManager(shell=self, parent=self)
        self.configurables.append(self.extension_manager)


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether an error is ipykernel's interrupt of a cell that awaits: it cancels the cell's task."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop: the user's own
        return False
    return task is not None and task.cancelling() > 0


def banner() -> str:
    """The lines that a console shows above its first prompt."""
    versions = {name: metadata.version(name) for name in ("pullback", "jaxlib", "ipython")}
    return (
        f"Pullback {versions['pullback']} on jaxlib {versions['jaxlib']}, "
        f"IPython {versions['ipython']}\n"
        "`import jax.numpy as jnp` gives this engine; `%lsmagic` lists the magics, "
        "`%grad?` explains one.\n"
    )
