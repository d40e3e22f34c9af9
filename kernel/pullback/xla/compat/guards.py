"""The C++ guards against implicit transfers. Tested in tests/xla/test_transfer_guard.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jaxlib import _jax

_lib = _jax.guard_lib
# Told of each copy between host and devices, as (direction, type, whether it was asked for), while a
# guard says "log": C++ writes that into its own log, which is not shown.
watchers: list[Callable[[str, Any, bool], None]] = []
DIRECTIONS = ("host_to_device", "device_to_device", "device_to_host")


def tell_watchers(direction: str, aval: Any) -> None:
    """Tell of a copy that is about to be made."""
    explicit = bool(_lib.thread_local_state().explicit_device_put)
    for watcher in tuple(watchers):
        watcher(direction, aval, explicit)


def set_transfer_guards(everywhere: dict[str, str | None], here: dict[str, str | None]) -> None:
    """Set the guards of the process and of the calling thread.

    Args:
        everywhere, here: level by direction ("allow", "log", "disallow", "log_explicit",
            "disallow_explicit"); None leaves it to the process, and there to C++'s default.
    """
    for state, levels in ((_lib.global_state(), everywhere), (_lib.thread_local_state(), here)):
        for direction in DIRECTIONS:
            level = levels.get(direction)
            value = None if level is None else getattr(_lib.TransferGuardLevel, level.upper())
            setattr(state, direction, value)


@contextmanager
def explicit_device_put() -> Iterator[None]:
    """A block whose transfers to devices were asked for, so that "disallow" lets them pass."""
    state = _lib.thread_local_state()
    before = state.explicit_device_put
    state.explicit_device_put = True
    try:
        yield
    finally:
        state.explicit_device_put = before
