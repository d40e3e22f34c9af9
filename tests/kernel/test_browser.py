"""JupyterLab in a headless Chromium: a notebook on this kernel runs and shows what it should.

`PULLBACK_SCREENSHOTS=folder` keeps the pictures.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MISSING = [
    name for name in ("playwright", "jupyterlab") if importlib.util.find_spec(name) is None
] + ["chromium"] * (CHROMIUM is None)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]

CELLS = [
    "import jax, jax.numpy as jnp\nprint(jax.grad(lambda x: x ** 2)(3.0), len(jax.devices()))",
    "jnp.arange(12.0).reshape(3, 4) - 5",
    "jnp.sin(jnp.linspace(0, 6, 40))[:, None] * jnp.cos(jnp.linspace(0, 6, 60))",
    "def f(x):\n    return jnp.dot(x, jnp.ones(4))\n\njax.grad(lambda x: f(x).sum())(jnp.ones(3))",
]


ERROR = ".jp-OutputArea-output:has-text('Traceback (most recent call last)')"


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The address of a JupyterLab that serves one notebook."""
    folder = tmp_path_factory.mktemp("lab")
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS],
        metadata={"kernelspec": {"name": "pullback", "display_name": "Pullback (Python)",
                                 "language": "python"}},
    )  # fmt: skip
    nbformat.write(notebook, folder / "check.ipynb")
    port = free_port()
    log = (folder / "log.txt").open("w")
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", "--no-browser", f"--port={port}", "--allow-root",
         "--IdentityProvider.token=", "--ServerApp.password=", f"--ServerApp.root_dir={folder}",
         "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
         "--LabApp.news_url="],
        stdout=log, stderr=log, cwd=folder,
        env={**os.environ, "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
             "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces")},
    )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until_served(f"{address}/api", server, folder / "log.txt")
        yield address
    finally:
        server.terminate()
        server.wait(timeout=30)
        log.close()


def wait_until_served(url: str, server: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if server.poll() is not None:
            pytest.fail(f"JupyterLab ended:\n{log.read_text()[-3000:]}")
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.3)
    pytest.fail(f"JupyterLab did not answer:\n{log.read_text()[-3000:]}")


def run_all(page) -> None:
    """Choose Run > Run All Cells."""
    page.click(".jp-Notebook .jp-CodeCell >> nth=0")
    page.click(".lm-MenuBar-itemLabel:text-is('Run')")
    page.click(".lm-Menu-itemLabel:text-is('Run All Cells')")


def test_a_notebook_runs_and_shows_arrays_and_errors(lab, tmp_path):
    from playwright.sync_api import sync_playwright

    pictures = Path(os.environ.get("PULLBACK_SCREENSHOTS") or tmp_path)
    pictures.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 1600})
        page.goto(f"{lab}/lab/tree/check.ipynb", timeout=120_000)
        page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=120_000)
        page.wait_for_selector('[data-status="idle"]', timeout=120_000)
        try:
            for _ in range(4):  # JupyterLab drops the command while it is still connecting
                run_all(page)
                page.wait_for_timeout(20_000)
                if page.locator(ERROR).count():
                    break
            page.wait_for_selector(ERROR, timeout=60_000)
        finally:
            page.screenshot(path=pictures / "lab.png")
        outputs = page.locator(".jp-OutputArea-output")
        assert "6.0 8" in outputs.nth(0).inner_text()
        table = page.locator(".jp-OutputArea-output table").first
        assert "float32[3,4]" in table.inner_text()
        assert page.locator(".jp-OutputArea-output img[alt^='Heat map']").count() == 1
        error = outputs.last.inner_text()
        assert "return jnp.dot(x, jnp.ones(4))" in error and "engine frame" in error
        browser.close()
