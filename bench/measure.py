"""What the scripts that run inside one engine's environment share: the engine, and clocks."""

from __future__ import annotations

import importlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

engine = sys.argv[1]
only = sys.argv[2] if len(sys.argv) > 2 else ""
results: dict[str, float] = {}


def load() -> tuple[Any, Any]:
    """The engine's package and its `numpy`."""
    return importlib.import_module(engine), importlib.import_module(f"{engine}.numpy")


def wanted(name: str) -> bool:
    """Whether a case is among those asked for."""
    return only in name


def timed(name: str, call: Callable[[], Any], n: int = 300, repeats: int = 9) -> None:
    """Note the median microseconds of one call, each repeat being `n` calls and one wait."""
    if not wanted(name):
        return
    wait = load()[0].block_until_ready
    for _ in range(10):
        wait(call())
    samples = []
    for _ in range(repeats):
        begin = time.perf_counter()
        for _ in range(n):
            out = call()
        wait(out)
        samples.append((time.perf_counter() - begin) / n * 1e6)
    results[name] = statistics.median(samples)


def fresh(name: str, make: Callable[[], Any], repeats: int = 7) -> None:
    """Note the median milliseconds of an action done anew each time."""
    if not wanted(name):
        return
    make()
    samples = []
    for _ in range(repeats):
        begin = time.perf_counter()
        make()
        samples.append((time.perf_counter() - begin) * 1e3)
    results[name] = statistics.median(samples)
