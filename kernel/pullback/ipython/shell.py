"""The kernel's shell: ipykernel's, set up for arrays from the start.

Builds on ipykernel's zmqshell; tested in tests/kernel.
"""

from __future__ import annotations

from importlib import metadata

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

    def init_extension_manager(self) -> None:
        """Use the manager that knows which extensions are built in."""
        self.extension_manager = PullbackExtensionManager(shell=self, parent=self)
        self.configurables.append(self.extension_manager)


def banner() -> str:
    """The lines that a console shows above its first prompt."""
    versions = {name: metadata.version(name) for name in ("pullback", "jaxlib", "ipython")}
    return (
        f"Pullback {versions['pullback']} on jaxlib {versions['jaxlib']}, "
        f"IPython {versions['ipython']}\n"
        "`import jax.numpy as jnp` gives this engine; `%lsmagic` lists the magics, "
        "`%grad?` explains one.\n"
    )
