"""`pullback.typing`: types for annotations."""

from typing import Any

import numpy as np

from pullback.xla.array import Array

ArrayLike = Array | np.ndarray | np.generic | bool | int | float | complex
DTypeLike = Any

__all__ = ["ArrayLike", "DTypeLike"]
