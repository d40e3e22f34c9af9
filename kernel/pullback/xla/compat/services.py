"""LAPACK's calls and the profiler, loaded when first asked for.

Builds on jaxlib only. Tested in tests/xla/test_services.py.
"""

from __future__ import annotations

import functools
from typing import Any

from jaxlib import xla_client as xc


@functools.cache
def register_lapack() -> frozenset[str]:
    """The names of jaxlib's LAPACK calls, registered at the first call (which imports scipy)."""
    from jaxlib.cpu import _lapack

    _lapack.initialize()
    names = []
    for name, capsule in _lapack.registrations().items():
        xc.register_custom_call_target(name, capsule, platform="cpu", api_version=1)
        names.append(name)
    return frozenset(names)


class ProfilerSession:
    """A running XLA profile of this process; `stop()` gives the events."""

    __slots__ = ("_session",)

    def __init__(self, host_level: int = 2, python_level: int = 0) -> None:
        from jaxlib import _profiler

        options = _profiler.ProfileOptions()
        options.host_tracer_level = host_level
        options.python_tracer_level = python_level
        self._session = _profiler.ProfilerSession(options)

    def stop(self) -> Any:
        """The recorded `ProfileData` (planes, lines, events with `duration_ns`)."""
        from jaxlib import _profile_data

        return _profile_data.ProfileData.from_serialized_xspace(self._session.stop())
