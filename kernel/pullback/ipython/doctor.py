"""What is installed, what was found, and what to do about each thing missing.

Builds on the engine's public functions; tested in tests/kernel/test_doctor.py.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
from packaging.requirements import Requirement

from pullback.ipython.kernelspec import KERNEL_NAME
from pullback.xla import client, compat, disk_cache

Status = Literal["ok", "note", "missing"]
_MARKS: dict[Status, str] = {"ok": "ok  ", "note": "note", "missing": "MISS"}
_PLATFORM_VARIABLES = (
    *("PULLBACK_PLATFORMS", "JAX_PLATFORMS"),
    *("PULLBACK_PLATFORM_NAME", "JAX_PLATFORM_NAME"),
)
_ACCELERATOR_PREFIXES = ("jax-cuda", "jax_cuda", "jax-rocm", "jax_rocm", "libtpu")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report, and what to do where something is missing."""

    status: Status
    what: str
    found: str
    advice: str = ""


def _requirements() -> list[Requirement]:
    parsed = (Requirement(text) for text in metadata.requires("pullback") or ())
    return [r for r in parsed if r.marker is None or r.marker.evaluate({"extra": ""})]


def _package(requirement: Requirement) -> Finding:
    name = requirement.name
    fix = f'pip install "{requirement.name}{requirement.specifier}"'
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding("missing", name, "not installed", fix)
    if not requirement.specifier.contains(version, prereleases=True):
        wanted = f"{version}, but {requirement.specifier} is supported"
        return Finding("missing", name, wanted, fix)
    return Finding("ok", name, version)


def versions() -> list[Finding]:
    """Python, this package and each package that it needs."""
    head = [
        Finding("ok", "Python", f"{platform.python_version()} ({sys.executable})"),
        Finding("ok", "pullback", metadata.version("pullback")),
    ]
    return head + [_package(requirement) for requirement in _requirements()]


def devices() -> list[Finding]:
    """The devices of the default platform, and whether the quick dispatch path works."""
    try:
        found = client.devices()
    except RuntimeError as error:
        chosen = [name for name in _PLATFORM_VARIABLES if os.environ.get(name)]
        advice = f"unset {' and '.join(chosen)} to use the CPU" if chosen else ""
        return [Finding("missing", "devices", str(error).splitlines()[0], advice)]
    names = ", ".join(f"{device.platform}:{device.id}" for device in found)
    kinds = ", ".join(sorted({device.device_kind for device in found}))
    out = [Finding("ok", "devices", f"{names} ({kinds}); the kernel shows the CPU as 8")]
    reason = compat.dispatch_self_test()
    if reason is None:
        return [*out, Finding("ok", "dispatch", "in C++")]
    advice = "calls of compiled functions are slower; report this with the versions above"
    return [*out, Finding("note", "dispatch", f"in Python: {reason}", advice)]


def plugins() -> list[Finding]:
    """Accelerator plugins that are installed beside jaxlib."""
    found = sorted(
        {
            f"{distribution.name} {distribution.version}"
            for distribution in metadata.distributions()
            if (distribution.name or "").startswith(_ACCELERATOR_PREFIXES)
        }
    )
    if found:
        return [Finding("ok", "plugins", ", ".join(found))]
    has_gpu = Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi")
    if not has_gpu:
        return [Finding("ok", "plugins", "none (and no NVIDIA driver: the CPU is used)")]
    advice = f'pip install "jax-cuda13-plugin[with-cuda]=={compat.jaxlib_version}"'
    return [Finding("note", "plugins", "an NVIDIA driver, but no plugin", advice)]


def graphs() -> list[Finding]:
    """What draws graphs: the bundled Graphviz, and the `dot` command."""
    try:
        importlib.import_module("pygraphviz")
        bundled = Finding("ok", "pygraphviz", "lays graphs out in-process")
    except ImportError as error:
        advice = 'pip install "pygraphviz>=2.0.4"; until then graphs are shown as text'
        bundled = Finding("missing", "pygraphviz", str(error), advice)
    dot = shutil.which("dot")
    if dot:
        return [bundled, Finding("ok", "dot", dot)]
    return [bundled, Finding("ok", "dot", "not on the PATH (not needed beside pygraphviz)")]


def jupyter() -> list[Finding]:
    """The kernelspec and JupyterLab."""
    try:
        spec = KernelSpecManager().get_kernel_spec(KERNEL_NAME)
    except NoSuchKernel:
        advice = "pullback install --sys-prefix (or --user)"
        out = [Finding("missing", "kernelspec", "not found by Jupyter", advice)]
    else:
        out = [_kernelspec(spec.resource_dir, spec.argv[0])]
    try:
        out.append(Finding("ok", "jupyterlab", metadata.version("jupyterlab")))
    except metadata.PackageNotFoundError:
        advice = "pip install jupyterlab, or open the notebook in another editor"
        out.append(Finding("note", "jupyterlab", "not in this environment", advice))
    return out


def _kernelspec(folder: str, interpreter: str) -> Finding:
    here = Path(sys.executable)
    is_bare = interpreter in ("python", "python3")
    if is_bare or (Path(interpreter).exists() and Path(interpreter).parent == here.parent):
        return Finding("ok", "kernelspec", folder)
    advice = "pullback install --sys-prefix, from the environment that shall run"
    return Finding("note", "kernelspec", f"{folder} starts {interpreter}", advice)


def real_jax() -> list[Finding]:
    """Whether the real jax is here too, and who answers `import jax`."""
    try:
        version = metadata.version("jax")
    except metadata.PackageNotFoundError:
        return [Finding("ok", "import jax", "gives this engine inside the kernel")]
    advice = "c.PullbackKernel.provide_jax = True gives this engine instead"
    return [Finding("note", "import jax", f"gives the real jax {version}", advice)]


def cache() -> list[Finding]:
    """Where compiled programs are kept."""
    current = disk_cache.current()
    if current is None:
        if disk_cache.is_switched_off():
            advice = "unset PULLBACK_COMPILATION_CACHE to keep compiled programs"
            return [Finding("note", "program cache", "off", advice)]
        reason = disk_cache.open_directory(disk_cache.default_directory()) or "not in use"
        advice = "set PULLBACK_CACHE_DIR to a directory of your own, or each start compiles anew"
        return [Finding("note", "program cache", reason, advice)]
    n_files, n_bytes = current.size()
    used = f"{n_files} files, {n_bytes / 2**20:.1f} of at most {current.max_bytes / 2**20:.0f} MiB"
    return [Finding("ok", "program cache", f"{current.directory}: {used}")]


_SECTIONS: tuple[Callable[[], list[Finding]], ...] = (
    versions,
    devices,
    plugins,
    graphs,
    jupyter,
    real_jax,
    cache,
)


def examine() -> list[Finding]:
    """All findings, in the order of the report."""
    heard: list[str] = []
    disk_cache.listeners.append(heard.append)  # `cache` reports it in its line
    try:
        return [finding for section in _SECTIONS for finding in section()]
    finally:
        disk_cache.listeners.remove(heard.append)


def report(findings: Sequence[Finding]) -> str:
    """The findings as text, one a line, each with its advice beneath."""
    width = max(len(finding.what) for finding in findings)
    lines = []
    for f in findings:
        lines.append(f"{_MARKS[f.status]}  {f.what:<{width}}  {f.found}")
        if f.advice:
            lines.append(f"{'':<{width + 6}}  -> {f.advice}")
    n_missing = sum(f.status == "missing" for f in findings)
    verdict = f"{n_missing} thing(s) missing." if n_missing else "Nothing is missing."
    return "\n".join([*lines, "", verdict])


def print_environment_info(return_string: bool = False) -> str | None:
    """The report of `pullback doctor`, printed.

    Args:
        return_string: give the text back instead of printing it.
    """
    text = report(examine())
    if return_string:
        return text
    print(text)
    return None


def main(argv: Sequence[str]) -> int:
    """`pullback doctor`: print the report; 1 if something needed is missing."""
    parser = argparse.ArgumentParser(
        prog="pullback doctor", description="Say what is installed and what is missing."
    )
    parser.add_argument("--version", action="store_true", help="print the version only")
    if parser.parse_args(argv).version:
        print(f"pullback {metadata.version('pullback')}")
        return 0
    findings = examine()
    print(report(findings))
    return int(any(f.status == "missing" for f in findings))
