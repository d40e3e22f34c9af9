"""A running kernel, and what its cells print and show.

Shared by tests/kernel; builds on jupyter_client.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
TIMEOUT_S = 120


@dataclass
class CellResult:
    """What one cell did, as a front end sees it."""

    status: str = "ok"
    stdout: str = ""
    stderr: str = ""
    displays: list[dict[str, Any]] = field(default_factory=list)
    error_name: str = ""
    error_value: str = ""
    traceback: str = ""
    prompts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The plain text of the last result."""
        return self.displays[-1]["text/plain"] if self.displays else ""


class RunningKernel:
    """A kernel process and a client on all its channels."""

    def __init__(self, manager: KernelManager, **options: Any) -> None:
        self.manager = manager
        manager.start_kernel(**options)
        self.client = manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=TIMEOUT_S)

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()

    def run(
        self,
        code: str,
        *,
        check: bool = True,
        on_output: Callable[[dict[str, Any]], None] | None = None,
        answers: Sequence[str] | None = None,
    ) -> CellResult:
        """Run a cell to its end.

        Args:
            code: the cell.
            check: fail if the cell raises.
            on_output: called with each message as it comes.
            answers: what to answer when the cell asks for input; None: nobody can be asked.
        """
        result = CellResult()
        given = iter(answers or ())

        def hook(message: dict[str, Any]) -> None:
            collect(result, message)
            if on_output is not None:
                on_output(message)

        def answer(message: dict[str, Any]) -> None:
            result.prompts.append(message["content"]["prompt"])
            self.client.input(next(given))

        reply = self.client.execute_interactive(
            code,
            allow_stdin=answers is not None,
            timeout=TIMEOUT_S,
            output_hook=hook,
            stdin_hook=answer,
        )
        result.status = reply["content"]["status"]
        if check and result.status != "ok":
            pytest.fail(
                f"the cell raised {result.error_name}:\n{result.traceback or result.stderr}"
            )
        return result

    def ask(self, kind: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The content of the reply to a complete, inspect, kernel_info ... request."""
        message_id = getattr(self.client, kind)(*args, **kwargs)
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            reply = self.client.get_shell_msg(timeout=TIMEOUT_S)
            if reply["parent_header"].get("msg_id") == message_id:
                return reply["content"]
        raise TimeoutError(kind)


def collect(result: CellResult, message: dict[str, Any]) -> None:
    """Add one iopub message to what a cell did."""
    content = message["content"]
    match message["msg_type"]:
        case "stream" if content["name"] == "stdout":
            result.stdout += content["text"]
        case "stream":
            result.stderr += content["text"]
        case "execute_result" | "display_data":
            result.displays.append(content["data"])
        case "error":
            result.error_name = content["ename"]
            result.error_value = content["evalue"]
            result.traceback = _ANSI.sub("", "\n".join(content["traceback"]))


def kernel_environment(**variables: str) -> dict[str, str]:
    """The environment of a kernel: this process's, less what the suite sets for itself."""
    own = {k: v for k, v in os.environ.items() if k != "PULLBACK_NUM_CPU_DEVICES"}
    return {**own, **variables}


@pytest.fixture(scope="session")
def environment() -> Callable[..., dict[str, str]]:
    """`environment(NAME="value")`: a kernel's environment with further variables."""
    return kernel_environment


@pytest.fixture(scope="session")
def start_kernel() -> Iterator[Callable[..., RunningKernel]]:
    """`start_kernel(extra_arguments=[...], env={...})`; each kernel ends with the session."""
    started: list[RunningKernel] = []

    def start(name: str = "pullback", **options: Any) -> RunningKernel:
        options.setdefault("env", kernel_environment())
        kernel = RunningKernel(KernelManager(kernel_name=name), **options)
        started.append(kernel)
        return kernel

    yield start
    for kernel in started:
        if kernel.manager.is_alive():
            kernel.close()


@pytest.fixture(scope="session")
def shared_kernel(start_kernel: Callable[..., RunningKernel]) -> RunningKernel:
    """One kernel for all tests that leave no trace behind."""
    return start_kernel()


@pytest.fixture
def kernel(shared_kernel: RunningKernel) -> Iterator[RunningKernel]:
    """The shared kernel, its namespace emptied before the test."""
    shared_kernel.run("%reset -f")
    yield shared_kernel
