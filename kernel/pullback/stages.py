"""`pullback.stages`: an index of the stages of jit."""

from pullback.api.stages import ArgInfo, Compiled, Lowered, Traced, Wrapped

__all__ = ["ArgInfo", "Compiled", "Lowered", "Traced", "Wrapped"]
