"""The magics as functions: an index; see pullback_magics.functions."""

from pullback_magics.functions import devices, grad, grad_cell, graph, jit_cell, timing

__all__ = ["devices", "grad", "grad_cell", "graph", "jit_cell", "timing"]
