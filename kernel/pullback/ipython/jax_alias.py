"""What `import jax` gives: this engine, under JAX's names.

Every `jax.X` is the module `pullback.X` itself. The top-level `jax` is a view of `pullback` that
also says which API level it serves. Builds on importlib; tested in tests/kernel/test_jax_alias.py.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

JAX_API_VERSION = "0.10.2"


class JaxView(ModuleType):
    """The module `jax`: attributes are looked up in `pullback` each time."""

    __version__ = JAX_API_VERSION
    __version_info__ = tuple(int(part) for part in JAX_API_VERSION.split("."))

    def __getattr__(self, name: str) -> object:
        engine = importlib.import_module("pullback")
        try:
            return getattr(engine, name)
        except AttributeError:
            raise AttributeError(
                f"module 'jax' has no attribute {name!r} (Pullback serves JAX's public API "
                f"{JAX_API_VERSION})",
                name=name,
                obj=self,
            ) from None

    def __repr__(self) -> str:
        return f"<module 'jax' {JAX_API_VERSION}, served by Pullback>"

    def __dir__(self) -> list[str]:
        names = {*super().__dir__(), *dir(importlib.import_module("pullback"))}
        return sorted(names - _NOT_JAX)


class _ViewLoader(Loader):
    """Makes the top-level view."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        view = JaxView("jax", "JAX's public API, served by Pullback.")
        view.__path__ = []
        return view

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run: the view looks everything up when asked."""


class _SameModuleLoader(Loader):
    """Hands out an engine module under its JAX name, leaving the module as it was."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.own_spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.target)
        self.own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Put back the module's own spec, which the import system has just replaced."""
        module.__spec__ = self.own_spec


class _VersionLoader(Loader):
    """Makes `jax.version`."""

    def create_module(self, spec: ModuleSpec) -> None:
        """The default kind of module."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill in the API level."""
        module.__dict__["__version__"] = JAX_API_VERSION
        module.__dict__["__version_info__"] = JaxView.__version_info__


class JaxAliasFinder(MetaPathFinder):
    """Resolves `jax` and `jax.*` to the engine."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a JAX name; None for other names and for a real jax's submodules."""
        if fullname == "jax":
            return ModuleSpec("jax", _ViewLoader(), is_package=True)
        if not fullname.startswith("jax.") or not is_served():
            return None
        if fullname == "jax.version":
            return ModuleSpec(fullname, _VersionLoader())
        engine_name = f"pullback{fullname[3:]}"
        if _is_private(fullname) or not _exists(engine_name):
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: `jax` is served by Pullback here (public API "
                f"{JAX_API_VERSION}), which has no such module",
                name=fullname,
            )
        return ModuleSpec(fullname, _SameModuleLoader(engine_name), is_package=True)


def _is_private(fullname: str) -> bool:
    return any(part.startswith("_") for part in fullname.split("."))


# Our own parts, which JAX has no modules of that name for.
_INTERNAL = frozenset({"api", "views", "xla", "ipython", "magics"})
# What `dir(jax)` leaves out: those, and how IPython loads an extension.
_NOT_JAX = _INTERNAL | {"load_ipython_extension", "unload_ipython_extension"}


def _exists(engine_name: str) -> bool:
    if engine_name.split(".")[1] in _INTERNAL:
        return False
    return engine_name in sys.modules or importlib.util.find_spec(engine_name) is not None


def is_served() -> bool:
    """True if `jax` in `sys.modules` is this engine's view."""
    return isinstance(sys.modules.get("jax"), JaxView)


def _installed() -> JaxAliasFinder | None:
    return next((f for f in sys.meta_path if isinstance(f, JaxAliasFinder)), None)


def install(*, replace_real: bool = False) -> None:
    """Serve `import jax`; doing it twice changes nothing.

    Args:
        replace_real: serve it even where the real jax is installed; otherwise that one wins.
    Raises:
        RuntimeError: `replace_real` is set, but the real jax is loaded in this process already.
    """
    if replace_real and "jax" in sys.modules and not is_served():
        raise RuntimeError(
            "the real jax is imported already and other modules hold parts of it; "
            "set provide_jax before the first `import jax` (restart the kernel)"
        )
    finder = _installed()
    if finder is not None:
        sys.meta_path.remove(finder)
    finder = finder or JaxAliasFinder()
    if replace_real:
        sys.meta_path.insert(0, finder)
    else:
        sys.meta_path.append(finder)


def uninstall() -> None:
    """Stop serving `import jax` and forget the names already handed out."""
    finder = _installed()
    if finder is not None:
        sys.meta_path.remove(finder)
    if is_served():
        for name in [n for n in sys.modules if n == "jax" or n.startswith("jax.")]:
            del sys.modules[name]
