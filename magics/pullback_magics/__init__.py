"""The magics of Pullback: %%jit, %grad, %%grad, %graph, %timing, %devices.

Builds on pullback. `%load_ext pullback` loads them; the kernel has them from the start.
"""

from __future__ import annotations

from typing import Any

from pullback_magics.devices import DeviceMagics
from pullback_magics.grad import GradMagics
from pullback_magics.graph import GraphMagics
from pullback_magics.jit import JitMagics
from pullback_magics.timing import TimingMagics

# Magic names that Tab completes and `%lsmagic` lists.
MAGIC_NAMES = ("%%jit", "%grad", "%%grad", "%graph", "%timing", "%devices")
_CLASSES = (JitMagics, GradMagics, GraphMagics, TimingMagics, DeviceMagics)
_LOADED = "pullback_magics"


def load_ipython_extension(shell: Any) -> None:
    """Add the magics to a shell; doing it twice changes nothing."""
    if _LOADED in shell.magics_manager.registry:
        return
    for cls in _CLASSES:
        shell.register_magics(cls)
    magics = shell.magics_manager.registry["JitMagics"]
    shell.events.register("post_run_cell", magics.watch.after_cell)
    shell.magics_manager.registry[_LOADED] = magics


def unload_ipython_extension(shell: Any) -> None:
    """Take the magics out of a shell again."""
    registry = shell.magics_manager.registry
    magics = registry.pop(_LOADED, None)
    if magics is None:
        return
    shell.events.unregister("post_run_cell", magics.watch.after_cell)
    for cls in _CLASSES:
        found = registry.pop(cls.__name__)
        for kind, names in found.magics.items():
            for name in names:
                shell.magics_manager.magics[kind].pop(name, None)


__all__ = ["MAGIC_NAMES", "load_ipython_extension", "unload_ipython_extension"]
