"""Compiled programs kept on disk between restarts, safe with several kernels at once.

Builds on the standard library only. Tested in tests/xla/test_disk_cache.py.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import platform
import shutil
import stat
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_MAGIC = b"PBX1"
_DIGEST_SIZE = 32
_DEFAULT_MAX_BYTES = 512 * 2**20
_EVICT_EVERY = 64  # writes between two looks at the directory's size
_ABANDONED_S = 3600  # an unfinished file this old belongs to no running kernel


class CompilationCacheWarning(UserWarning):
    """The directory for compiled programs cannot be used; each start compiles anew."""


@dataclass(slots=True)
class CacheStatistics:
    """What this process did with the cache, in programs."""

    hits: int = 0
    misses: int = 0
    writes: int = 0
    corrupt: int = 0
    evicted: int = 0


@dataclass(slots=True)
class DiskCache:
    """A directory of checked entries, one file a program.

    Args:
        directory: made with mode 0700; must belong to this user.
        max_bytes: the least recently used entries go when it is exceeded.
    """

    directory: Path
    max_bytes: int = _DEFAULT_MAX_BYTES
    statistics: CacheStatistics = field(default_factory=CacheStatistics)
    _writes_until_look: int = 0

    def _path(self, key: str) -> Path:
        return self.directory / f"{key}.pbx"

    def get(self, key: str) -> bytes | None:
        """The bytes kept under the key, or None; a damaged entry is removed."""
        path = self._path(key)
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            self.statistics.misses += 1
            return None
        except OSError:  # a folder in its place, links in a circle, a bad sector
            self.statistics.misses += 1
            self.remove(key)
            return None
        head = len(_MAGIC) + _DIGEST_SIZE
        payload = raw[head:]
        if raw[: len(_MAGIC)] != _MAGIC or raw[len(_MAGIC) : head] != _digest(payload):
            self.statistics.misses += 1
            self.remove(key)
            return None
        try:
            os.utime(path)  # the time of last use, for eviction
        except OSError:
            pass  # another kernel has just evicted it, or the disk is read-only; the bytes are good
        self.statistics.hits += 1
        return payload

    def put(self, key: str, payload: bytes) -> None:
        """Keep the bytes: written beside and renamed, so a reader sees a whole entry or none."""
        try:
            try:
                self._write(key, payload)
            except FileNotFoundError:  # the user has cleared the cache by removing its directory
                if reason := open_directory(self.directory):
                    _warn(reason)
                    return
                self._write(key, payload)
        except OSError as e:
            _warn(f"cannot write to {self.directory} ({e.strerror})")
            return
        self.statistics.writes += 1
        if self._writes_until_look <= 0:
            self._writes_until_look = _EVICT_EVERY
            self.evict()
        self._writes_until_look -= 1

    def _write(self, key: str, payload: bytes) -> None:
        temporary = self.directory / f".{key[:16]}.{os.getpid()}.{next(_counter)}.tmp"
        try:
            with open(temporary, "xb", opener=_private) as f:
                f.write(_MAGIC + _digest(payload) + payload)
            os.replace(temporary, self._path(key))
        except OSError:
            _removed(temporary)
            raise

    def remove(self, key: str) -> None:
        """Forget one entry as damaged."""
        self.statistics.corrupt += 1
        _removed(self._path(key))

    def evict(self) -> None:
        """Remove the least recently used entries until nine tenths of `max_bytes` remain."""
        entries = self._entries()
        total = sum(size for _, size, _ in entries)
        if total <= self.max_bytes:
            return
        for _, size, path in sorted(entries):
            if total <= self.max_bytes * 0.9:
                break
            if _removed(path):
                self.statistics.evicted += 1
                total -= size

    def clear(self) -> None:
        """Remove every entry."""
        for _, _, path in self._entries():
            _removed(path)

    def size(self) -> tuple[int, int]:
        """(entries, bytes) on disk."""
        entries = self._entries()
        return len(entries), sum(size for _, size, _ in entries)

    def _entries(self) -> list[tuple[float, int, Path]]:
        """(time of last use, bytes, path) of each entry, and of files that a killed kernel left."""
        found = []
        abandoned = time.time() - _ABANDONED_S
        try:
            listed = list(os.scandir(self.directory))
        except FileNotFoundError:
            return []  # the user has removed the directory
        for entry in listed:
            try:
                info = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # another kernel has just removed it
            is_left_over = entry.name.endswith(".tmp") and info.st_mtime < abandoned
            if entry.name.endswith(".pbx") or is_left_over:
                found.append((info.st_mtime, info.st_size, Path(entry.path)))
        return found


_counter = itertools.count()
_lock = threading.Lock()


def _removed(path: Path) -> bool:
    """Remove an entry, or a folder in an entry's place; False where that is not allowed."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError:
        return False  # on a read-only disk it stays, and is passed over again
    return True


def _digest(payload: bytes) -> bytes:
    return hashlib.sha256(payload).digest()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


# Who hears of trouble, instead of Python's warnings: the kernel, whose cells must stay clean.
listeners: list[Callable[[str], None]] = []


def _warn(reason: str) -> None:
    text = (
        f"compiled programs are not kept on disk: {reason}. Set PULLBACK_CACHE_DIR to a directory "
        "of your own, or PULLBACK_COMPILATION_CACHE=0 to be silent."
    )
    if not listeners:
        warnings.warn(text, CompilationCacheWarning, stacklevel=3)
    for tell in listeners:
        tell(text)


# --------------------------------------------------------------------------- which directory


def default_directory() -> Path:
    """Where compiled programs go: PULLBACK_CACHE_DIR, else the platform's cache directory."""
    chosen = os.environ.get("PULLBACK_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser() / "xla"
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(xdg):
        return Path(xdg) / "pullback" / "xla"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "pullback" / "xla"
    return Path.home() / ".cache" / "pullback" / "xla"


def open_directory(directory: Path) -> str | None:
    """Make the directory private to this user; None, or the reason why it cannot be trusted.

    What lies in it is run as machine code, so a directory of another user, one that others may
    write to, or a symbolic link is refused.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = directory.lstat()
        if not stat.S_ISDIR(info.st_mode):
            return f"{directory} is not a directory of its own"
        if info.st_uid != os.geteuid():
            return f"{directory} belongs to another user (uid {info.st_uid})"
        if stat.S_IMODE(info.st_mode) != 0o700:
            if info.st_mode & 0o022:
                return (
                    f"{directory} can be written to by others (mode {stat.S_IMODE(info.st_mode):o})"
                )
            directory.chmod(0o700)
    except OSError as e:
        return f"{directory} cannot be used ({e.strerror})"
    return None


_opened: dict[tuple[Any, ...], DiskCache | None] = {}
_VARIABLES = (
    *("PULLBACK_COMPILATION_CACHE", "PULLBACK_CACHE_MAX_BYTES"),
    *("PULLBACK_CACHE_DIR", "XDG_CACHE_HOME", "HOME"),
)


def current(directory: str | None = None, max_bytes: int = -1) -> DiskCache | None:
    """The process's cache as settings and environment now say; None when off or not to be trusted.

    Args:
        directory: instead of the default one.
        max_bytes: instead of PULLBACK_CACHE_MAX_BYTES or 512 MiB, where not negative.
    """
    settings = (directory, max_bytes, *map(os.environ.get, _VARIABLES))
    with _lock:
        if settings not in _opened:
            _opened[settings] = _open(directory, max_bytes)
        return _opened[settings]


def is_switched_off() -> bool:
    """True if PULLBACK_COMPILATION_CACHE says so."""
    return os.environ.get("PULLBACK_COMPILATION_CACHE", "").lower() in ("0", "false", "off", "no")


def _open(chosen: str | None, max_bytes: int) -> DiskCache | None:
    if is_switched_off():
        return None
    limit = os.environ.get("PULLBACK_CACHE_MAX_BYTES", "")
    if limit and not limit.isdecimal():
        raise ValueError(f"PULLBACK_CACHE_MAX_BYTES must be a whole number, not {limit!r}")
    directory = (Path(chosen).expanduser() if chosen else default_directory()).absolute()
    reason = open_directory(directory)
    if reason is not None:
        _warn(reason)
        return None
    if max_bytes < 0:
        max_bytes = int(limit or _DEFAULT_MAX_BYTES)
    return DiskCache(directory, max_bytes)


@functools.cache
def machine_key() -> str:
    """What of the CPU decides the machine code: architecture, model and instruction sets."""
    parts = [platform.machine(), platform.system()]
    if sys.platform == "darwin":
        names = ["machdep.cpu.brand_string", "machdep.cpu.features", "machdep.cpu.leaf7_features"]
        for name in names:
            command = ["/usr/sbin/sysctl", "-n", name]
            parts.append(
                subprocess.run(command, capture_output=True, text=True, check=False).stdout
            )
    elif os.path.exists("/proc/cpuinfo"):
        wanted = ("model name", "flags", "Features", "CPU part", "CPU implementer")
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
            block = itertools.takewhile(lambda line: line.strip(), f)
            parts += [line for line in block if line.startswith(wanted)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
