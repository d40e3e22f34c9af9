"""`pullback.scipy`: an index of the SciPy functions that this engine has."""

import importlib
from typing import Any

from pullback.scipy import special

__all__ = ["linalg", "special", "stats"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"pullback.scipy.{name}")
    raise AttributeError(f"module 'pullback.scipy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
