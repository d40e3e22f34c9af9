"""The options jax_transfer_guard...: which transfers between host and devices are allowed.

Builds on core/config and xla/compat. Tested in tests/xla/test_transfer_guard.py.
"""

from __future__ import annotations

from typing import Any

from pullback.core.config import Config, config
from pullback.xla.compat.guards import DIRECTIONS, explicit_device_put, set_transfer_guards

__all__ = ["explicit_device_put"]

_PREFIX = "jax_transfer_guard"


def _levels(get: Any) -> dict[str, str | None]:
    general = get(_PREFIX)
    return {d: get(f"{_PREFIX}_{d}") or general for d in DIRECTIONS}


def _follow(option: str) -> None:
    """Hand the guards to C++ after an option has changed."""
    if option.startswith(_PREFIX):
        everywhere = _levels(lambda name: getattr(Config, name))
        here = _levels(lambda name: getattr(config, name))
        own = any(name.startswith(_PREFIX) for name in config.__dict__)
        set_transfer_guards(everywhere, here if own else {})


if any(_levels(lambda name: getattr(Config, name)).values()):
    _follow(_PREFIX)
Config.observers.append(_follow)
