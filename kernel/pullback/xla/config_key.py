"""The settings in the C++ dispatcher's key: a changed option makes jitted functions miss once.

Builds on core/config and xla/compat. Tested in tests/xla/test_config_key.py.
"""

from __future__ import annotations

from typing import Any

from pullback.core.config import OPTIONS, Config, config
from pullback.xla import compat

# Two parts, so that a thread's own values and the process's changes are both seen by every thread.
_process_values = compat.make_config("pullback_process_options", None, in_jit_key=True)
_thread_values = compat.make_config("pullback_thread_options", None, in_jit_key=True)
_KEY_NAMES = tuple(name for name, option in OPTIONS.items() if option.in_key)


def _follow(name: str) -> None:
    """Copy the options that change programs to C++, after `name` has changed."""
    if not OPTIONS[name].in_key:
        return
    own: dict[str, Any] = config.__dict__
    local = tuple((n, own[n]) for n in _KEY_NAMES if n in own)
    _thread_values.set_local(local or None)
    _process_values.set_global(tuple(getattr(Config, n) for n in _KEY_NAMES))


_process_values.set_global(tuple(getattr(Config, n) for n in _KEY_NAMES))
Config.observers.append(_follow)
