"""The magics as functions: grad, graph, timing, devices, jit_cell. An index; see pullback_magics."""

from pullback_magics.functions import devices, grad, graph, jit_cell, timing

__all__ = ["devices", "grad", "graph", "jit_cell", "timing"]
