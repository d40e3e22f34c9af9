"""Small programs and isolated caches for the runtime's tests."""

from __future__ import annotations

import pytest

from pullback.xla import compat, disk_cache

ADD = """func.func public @main(%a: tensor<{n}xf32>, %b: tensor<{n}xf32>) -> tensor<{n}xf32> {{
  %0 = stablehlo.{op} %a, %b : tensor<{n}xf32>
  return %0 : tensor<{n}xf32>
}}"""


@pytest.fixture
def module():
    """A maker of one-operation modules on two float32 vectors."""

    def make(n: int = 3, op: str = "add", location: str = ""):
        text = ADD.format(n=n, op=op)
        if location:
            text = text.replace(
                f"tensor<{n}xf32>\n  return", f"tensor<{n}xf32> loc({location})\n  return"
            )
        with compat.mlir_context():
            return compat.mlir().ir.Module.parse(text)

    return make


@pytest.fixture
def cache_dir(tmp_path, monkeypatch):
    """A disk cache of this test's own; gives its directory."""
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("PULLBACK_COMPILATION_CACHE", raising=False)
    monkeypatch.delenv("PULLBACK_CACHE_MAX_BYTES", raising=False)
    yield tmp_path / "xla"
    disk_cache._opened.clear()
