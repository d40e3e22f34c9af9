"""`pullback.stages`: an index of the stages of jit."""

from pullback.api.stages import Compiled, Lowered, Traced

__all__ = ["Compiled", "Lowered", "Traced"]
