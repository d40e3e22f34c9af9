"""The directory of compiled programs: private, checked, bounded."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys

import pytest

from pullback.xla import disk_cache
from pullback.xla.disk_cache import CompilationCacheWarning, DiskCache


@pytest.fixture
def cache(cache_dir):
    return disk_cache.current()


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_entries_come_back(cache):
    assert cache.get("k") is None
    cache.put("k", b"program")
    assert cache.get("k") == b"program"
    cache.put("k", b"newer")
    assert cache.get("k") == b"newer" and cache.size()[0] == 1
    assert (cache.statistics.hits, cache.statistics.misses, cache.statistics.writes) == (2, 1, 2)
    cache.clear()
    assert cache.size() == (0, 0)


def test_files_are_private(cache, cache_dir):
    old = os.umask(0)
    try:
        cache.put("k", b"program")
    finally:
        os.umask(old)
    assert mode(cache_dir) == 0o700
    assert [mode(p) for p in cache_dir.iterdir()] == [0o600]


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw[:-1],
        lambda raw: raw[:10],
        lambda raw: b"",
        lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]),
        lambda raw: b"????" + raw[4:],
    ],
)
def test_damaged_entries_are_removed(cache, cache_dir, damage):
    cache.put("k", b"program")
    path = cache_dir / "k.pbx"
    path.write_bytes(damage(path.read_bytes()))
    assert cache.get("k") is None and not path.exists() and cache.statistics.corrupt == 1


def a_folder(path):
    path.unlink()
    (path / "inner").mkdir(parents=True)


def a_circle(path):
    path.unlink()
    path.symlink_to(path.name)


@pytest.mark.parametrize("put_there", [a_folder, a_circle])
def test_what_is_no_file_is_a_damaged_entry(cache, cache_dir, put_there):
    cache.put("k", b"program")
    path = cache_dir / "k.pbx"
    put_there(path)
    assert cache.get("k") is None and cache.statistics.corrupt == 1
    assert list(cache_dir.iterdir()) == []
    cache.put("k", b"program")
    assert cache.get("k") == b"program"


def test_a_disk_that_became_read_only_is_still_read(cache, cache_dir, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError(errno.EROFS, "Read-only file system")

    cache.put("k", b"program")
    cache.put("damaged", b"program")
    (cache_dir / "damaged.pbx").write_bytes(b"")
    for name in ("utime", "unlink", "replace"):
        monkeypatch.setattr(os, name, refuse)
    assert cache.get("k") == b"program"
    assert cache.get("damaged") is None
    cache.max_bytes = 1
    cache.evict()
    assert cache.statistics.evicted == 0
    with pytest.warns(CompilationCacheWarning, match="Read-only"):
        cache.put("k2", b"program")


def test_a_directory_that_the_user_removes_is_made_again(cache, cache_dir):
    cache.put("k", b"program")
    shutil.rmtree(cache_dir)
    assert cache.get("k") is None and cache.size() == (0, 0)
    cache.evict()
    cache.put("k", b"program")
    assert cache.get("k") == b"program" and mode(cache_dir) == 0o700


def test_a_relative_directory_stays_when_the_user_goes_elsewhere(cache_dir, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PULLBACK_CACHE_DIR", "here")
    cache = disk_cache.current()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    cache.put("k", b"program")
    assert (tmp_path / "here" / "xla" / "k.pbx").is_file()


def test_a_listener_hears_instead_of_a_warning(cache_dir, monkeypatch):
    heard = []
    monkeypatch.setattr(disk_cache, "listeners", [heard.append])
    cache_dir.write_text("")
    assert disk_cache.current() is None
    assert len(heard) == 1 and "PULLBACK_CACHE_DIR" in heard[0]


def test_least_recently_used_entries_go(cache_dir):
    disk_cache.open_directory(cache_dir)
    cache = DiskCache(cache_dir, max_bytes=4000)
    for i, name in enumerate("abcd"):
        cache.put(name, bytes(800))
        os.utime(cache_dir / f"{name}.pbx", (i, i))
    assert cache.get("a") is not None  # used now: b is the oldest
    cache.put("e", bytes(800))
    cache.evict()
    left = {p.stem for p in cache_dir.iterdir()}
    assert "a" in left and "e" in left and "b" not in left
    assert cache.size()[1] <= 3600 and cache.statistics.evicted == 1


def test_only_old_unfinished_files_go(cache_dir):
    disk_cache.open_directory(cache_dir)
    cache = DiskCache(cache_dir, max_bytes=10)
    for name, age in ((".old.tmp", 7200), (".new.tmp", 0)):
        (cache_dir / name).write_bytes(bytes(100))
        now = (cache_dir / name).stat().st_mtime
        os.utime(cache_dir / name, (now - age, now - age))
    cache.evict()
    assert [p.name for p in cache_dir.iterdir()] == [".new.tmp"]


def test_eviction_happens_by_itself(cache_dir, monkeypatch):
    monkeypatch.setattr(disk_cache, "_EVICT_EVERY", 4)
    disk_cache.open_directory(cache_dir)
    cache = DiskCache(cache_dir, max_bytes=2000)
    for i in range(20):
        cache.put(str(i), bytes(500))
    assert cache.size()[0] <= 8


def test_an_entry_that_vanishes_is_no_error(cache, cache_dir, monkeypatch):
    cache.put("k", b"program")
    monkeypatch.setattr(os, "utime", lambda path: (_ for _ in ()).throw(FileNotFoundError()))
    assert cache.get("k") == b"program"
    cache.remove("never there")


def test_several_kernels_at_once(cache_dir):
    disk_cache.open_directory(cache_dir)
    code = (
        "import sys; from pathlib import Path\n"
        "from pullback.xla.disk_cache import DiskCache\n"
        "c = DiskCache(Path(sys.argv[1]), 6_000)\n"
        "for i in range(200):\n"
        "    k = str(i % 20); got = c.get(k)\n"
        "    assert got in (None, k.encode() * 500), got\n"
        "    c.put(k, k.encode() * 500)\n"
        "    c.evict()\n"
        "assert c.statistics.corrupt == 0\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    args = [sys.executable, "-c", code, str(cache_dir)]
    running = [subprocess.Popen(args, env=env, stderr=subprocess.PIPE) for _ in range(3)]
    errors = [process.communicate()[1].decode() for process in running]
    assert errors == ["", "", ""]
    assert not list(cache_dir.glob(".*.tmp"))


# ------------------------------------------------------------------ which directory


def test_directory_rule(monkeypatch, tmp_path):
    for name in ("PULLBACK_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert disk_cache.default_directory() == tmp_path / ".cache" / "pullback" / "xla"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert disk_cache.default_directory() == tmp_path / "Library/Caches/pullback/xla"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert disk_cache.default_directory() == tmp_path / "Library/Caches/pullback/xla"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert disk_cache.default_directory() == tmp_path / "x" / "pullback" / "xla"
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path / "p"))
    assert disk_cache.default_directory() == tmp_path / "p" / "xla"


def test_switched_off(monkeypatch, cache_dir):
    monkeypatch.setenv("PULLBACK_COMPILATION_CACHE", "0")
    assert disk_cache.current() is None and not cache_dir.exists()


def test_settings_are_read_each_time(cache_dir, tmp_path, monkeypatch):
    assert disk_cache.current().directory == cache_dir
    assert disk_cache.current() is disk_cache.current()
    monkeypatch.setenv("PULLBACK_CACHE_MAX_BYTES", "1000")
    assert disk_cache.current().max_bytes == 1000
    chosen = disk_cache.current(str(tmp_path / "chosen"), 5)
    assert (chosen.directory, chosen.max_bytes) == (tmp_path / "chosen", 5)
    monkeypatch.setenv("PULLBACK_CACHE_MAX_BYTES", "1 GB")
    with pytest.raises(ValueError, match="whole number"):
        disk_cache.current()


def test_lax_mode_of_an_own_directory_is_tightened(cache_dir):
    cache_dir.mkdir(mode=0o755)
    assert disk_cache.open_directory(cache_dir) is None and mode(cache_dir) == 0o700


def refuse(cache_dir, text):
    with pytest.warns(CompilationCacheWarning, match=text):
        assert disk_cache.current() is None
    assert disk_cache.current() is None  # said once


def test_a_directory_that_others_can_write_is_refused(cache_dir):
    cache_dir.mkdir()
    cache_dir.chmod(0o777)
    refuse(cache_dir, "written to by others")


def test_a_link_is_refused(cache_dir, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    cache_dir.symlink_to(tmp_path / "elsewhere")
    refuse(cache_dir, "not a directory of its own")


def test_somebody_elses_directory_is_refused(cache_dir, monkeypatch):
    cache_dir.mkdir(mode=0o700)
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    refuse(cache_dir, "belongs to another user")


def test_a_file_in_the_way_is_reported(cache_dir):
    cache_dir.write_text("")
    refuse(cache_dir, "cannot be used|not a directory")


def test_a_full_disk_is_reported_and_leaves_nothing(cache, cache_dir, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(CompilationCacheWarning, match="No space left"):
        cache.put("k", b"program")
    assert list(cache_dir.iterdir()) == []


def test_the_machine_has_a_key():
    key = disk_cache.machine_key()
    assert key == disk_cache.machine_key() and len(key) == 64
