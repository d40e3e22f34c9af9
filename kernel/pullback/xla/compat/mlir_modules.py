"""MLIR from jaxlib: its Python modules and the process's one context.

Builds on jaxlib only, which it imports at the first use. Tested in tests/xla/test_compat.py.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from types import ModuleType
from typing import Any


@dataclass(frozen=True, slots=True)
class Mlir:
    """The MLIR modules that lowering writes with."""

    ir: ModuleType
    func: ModuleType
    stablehlo: ModuleType
    chlo: ModuleType
    sdy: ModuleType
    mhlo: ModuleType
    passmanager: ModuleType


@functools.cache
def mlir() -> Mlir:
    """The MLIR modules, imported at the first call (about 60 ms)."""
    from jaxlib.mlir import ir, passmanager
    from jaxlib.mlir.dialects import chlo, func, mhlo, sdy, stablehlo

    return Mlir(ir, func, stablehlo, chlo, sdy, mhlo, passmanager)


@functools.cache
def mlir_context() -> Any:
    """The process's one MLIR context, with every dialect that we write (a new one costs 4 ms)."""
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext

    m = mlir()
    registry = m.ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context = m.ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    context.enable_multithreading(False)
    m.sdy.register_dialect(context)
    m.stablehlo.register_dialect(context)
    m.chlo.register_dialect(context)
    m.mhlo.register_mhlo_dialect(context)
    return context
