"""The option jax_explain_cache_misses: why a jitted function was traced again, in the log.

Builds on program.py. Tested in tests/api/test_cache_misses.py.
"""

from __future__ import annotations

import logging
import threading

from pullback.api.program import TraceEvent, on_trace
from pullback.core import source
from pullback.core.config import Config, config

_OPTION = "jax_explain_cache_misses"
_log = logging.getLogger("pullback.cache_misses")
# Threads in which the option is on; 0 stands for the process.
_explaining: set[int] = set()


def _explain(event: TraceEvent) -> None:
    if getattr(config, _OPTION):
        where = source.describe(source.user_source())
        _log.warning("%s was traced: %s. At %s", event.name, event.reason, where)


def _follow(option: str) -> None:
    if option != _OPTION:
        return
    here = threading.get_ident()
    for key, on in ((0, getattr(Config, _OPTION)), (here, getattr(config, _OPTION))):
        (_explaining.add if on else _explaining.discard)(key)
    if _explaining and _explain not in on_trace:
        on_trace.append(_explain)
    elif not _explaining and _explain in on_trace:
        on_trace.remove(_explain)


_follow(_OPTION)
Config.observers.append(_follow)
