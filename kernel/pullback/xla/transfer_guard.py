"""The options jax_transfer_guard...: which transfers between host and devices are allowed.

Builds on core/config and xla/compat. Tested in tests/xla/test_transfer_guard.py.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from pullback.core import errors
from pullback.core.config import Config, config
from pullback.xla.compat import guards
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
        _watch(everywhere, here if own else {})


_log = logging.getLogger("pullback.transfer_guard")
# Threads in which a guard says "log"; 0 stands for the process.
_logging: set[int] = set()


def _note(direction: str, aval: Any, explicit: bool) -> None:
    level = _levels(lambda name: getattr(config, name))[direction]
    if level == "log_explicit" or (level == "log" and not explicit):
        where = errors.where_text()
        what = f"{direction.replace('_', '-')} transfer of {errors.aval_text(aval)}"
        _log.warning("%s", errors.compose(f"{what}.", where))


def _watch(everywhere: dict[str, str | None], here: dict[str, str | None]) -> None:
    for key, levels in ((0, everywhere), (threading.get_ident(), here)):
        logs = any(level in ("log", "log_explicit") for level in levels.values())
        (_logging.add if logs else _logging.discard)(key)
    if _logging and _note not in guards.watchers:
        guards.watchers.append(_note)
    elif not _logging and _note in guards.watchers:
        guards.watchers.remove(_note)


if any(_levels(lambda name: getattr(Config, name)).values()):
    _follow(_PREFIX)
Config.observers.append(_follow)
