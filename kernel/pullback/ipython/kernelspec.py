"""Which files tell Jupyter about the kernel, and where they go.

Builds on jupyter_client; tested in tests/kernel/test_kernelspec.py and tests/packaging.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

KERNEL_NAME = "pullback"
DISPLAY_NAME = "Pullback (Python)"
_SHARED_FOLDER = Path("share", "jupyter", "kernels", KERNEL_NAME)
_SOURCE_FOLDER = Path(__file__).parents[2] / "kernelspec"


def resources() -> Path:
    """The folder with kernel.json and the logos.

    Returns:
        the source tree's folder, or the one that the wheel put under the prefix.
    Raises:
        FileNotFoundError: neither is there, so the installation is damaged.
    """
    if (_SOURCE_FOLDER / "kernel.json").is_file():
        return _SOURCE_FOLDER
    for file in metadata.files("pullback") or ():
        if file.name == "kernel.json":
            folder = Path(str(file.locate())).resolve().parent
            if (folder / "kernel.json").is_file():
                return folder
    raise FileNotFoundError(
        f"the kernelspec's files are neither in {_SOURCE_FOLDER} nor under "
        f"{Path(sys.prefix) / _SHARED_FOLDER}; "
        "reinstall with `pip install --force-reinstall pullback`"
    )


def kernel_json(
    display_name: str | None = None,
    env: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
) -> dict[str, object]:
    """The content of kernel.json for this interpreter.

    Args:
        display_name: what the launcher shows; the packaged name when None.
        env: environment variables added to the packaged ones.
        arguments: further words for the kernel's command line.
    Returns:
        the packaged specification with `sys.executable` as the interpreter.
    """
    spec = json.loads((resources() / "kernel.json").read_text(encoding="utf-8"))
    spec["argv"] = [sys.executable, *spec["argv"][1:], *arguments]
    if display_name:
        spec["display_name"] = display_name
    spec["env"] = {**spec.get("env", {}), **(env or {})}
    return spec


def install(
    *,
    user: bool = False,
    prefix: str | None = None,
    name: str = KERNEL_NAME,
    display_name: str | None = None,
    env: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
) -> Path:
    """Write the kernelspec where Jupyter finds it.

    Args:
        user: into the user's Jupyter folder.
        prefix: into `PREFIX/share/jupyter`; for all users when both are unset.
        name: the folder's name, which notebooks store.
        display_name: what the launcher shows.
        env: environment variables for the kernel's process.
        arguments: further words for the kernel's command line.
    Returns:
        the folder that was written.
    Raises:
        PermissionError: the place is not writable.
    """
    spec = kernel_json(display_name, env, arguments)
    with tempfile.TemporaryDirectory(prefix="pullback-kernelspec-") as folder:
        staged = Path(folder) / name
        staged.mkdir()
        for file in resources().iterdir():
            if file.suffix in (".png", ".svg"):
                shutil.copyfile(file, staged / file.name)
        text = json.dumps(spec, indent=2, ensure_ascii=False) + "\n"
        (staged / "kernel.json").write_text(text, encoding="utf-8")
        manager = KernelSpecManager()
        written = manager.install_kernel_spec(
            str(staged), kernel_name=name, user=user, prefix=prefix
        )
    return Path(written)


def uninstall(name: str = KERNEL_NAME) -> Path:
    """Remove a kernelspec that `install` wrote.

    Raises:
        NoSuchKernel: there is none of that name.
    """
    manager = KernelSpecManager(ensure_native_kernel=False)
    if name not in manager.find_kernel_specs():
        raise NoSuchKernel(name)
    return Path(manager.remove_kernel_spec(name))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pullback install", description="Write the Pullback kernelspec for Jupyter."
    )
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--user", action="store_true", help="for the current user")
    place.add_argument(
        "--sys-prefix", action="store_true", help=f"into this environment ({sys.prefix})"
    )
    place.add_argument("--prefix", metavar="P", help="into P/share/jupyter")
    parser.add_argument("--name", default=KERNEL_NAME, help="the kernel's name (%(default)s)")
    parser.add_argument("--display-name", help=f"what the launcher shows ({DISPLAY_NAME})")
    parser.add_argument(
        "--env",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "VALUE"),
        help="an environment variable of the kernel; may be repeated",
    )
    return parser


def install_main(argv: Sequence[str]) -> int:
    """`pullback install`: write the kernelspec and say where."""
    parser = _parser()
    options = parser.parse_args(argv)
    if options.prefix == "":
        parser.error("argument --prefix: names no folder")
    try:
        folder = install(
            user=options.user,
            prefix=sys.prefix if options.sys_prefix else options.prefix,
            name=options.name,
            display_name=options.display_name,
            env=dict(options.env),
        )
    except ValueError as error:  # a name that Jupyter does not allow
        parser.error(f"argument --name: {error}")
    except OSError as error:
        is_closed = isinstance(error, PermissionError)
        reason = "is not writable" if is_closed else f"cannot be used ({error.strerror})"
        print(
            f"pullback install: {error.filename} {reason}; use --user, --sys-prefix or --prefix P",
            file=sys.stderr,
        )
        return 1
    print(f"Installed kernelspec {options.name} in {folder}")
    return 0


def uninstall_main(argv: Sequence[str]) -> int:
    """`pullback uninstall`: remove the kernelspec and say from where."""
    parser = argparse.ArgumentParser(
        prog="pullback uninstall", description="Remove the Pullback kernelspec."
    )
    parser.add_argument("--name", default=KERNEL_NAME, help="the kernel's name (%(default)s)")
    options = parser.parse_args(argv)
    try:
        folder = uninstall(options.name)
    except NoSuchKernel:
        print(f"pullback uninstall: no kernelspec named {options.name}", file=sys.stderr)
        return 1
    print(f"Removed kernelspec {options.name} from {folder}")
    return 0
