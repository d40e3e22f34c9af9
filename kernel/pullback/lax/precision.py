"""How exact matrix products and convolutions are: precisions and algorithms.

Builds on core. Tested in tests/lax/test_dot.py.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from pullback.core import dtypes
from pullback.core.config import config


class Precision(Enum):
    """How exact products of float32 numbers are on hardware that has faster, coarser ones."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    def __repr__(self) -> str:
        return f"Precision.{self.name}"

    def __str__(self) -> str:
        return self.name


_BY_NAME = {
    "default": Precision.DEFAULT,
    "fastest": Precision.DEFAULT,
    "bfloat16": Precision.DEFAULT,
    "high": Precision.HIGH,
    "bfloat16_3x": Precision.HIGH,
    "tensorfloat32": Precision.HIGH,
    "highest": Precision.HIGHEST,
    "float32": Precision.HIGHEST,
}


class DotAlgorithm(NamedTuple):
    """The arithmetic that a matrix product must use.

    Attributes:
        lhs_precision_type, rhs_precision_type: what the operands are rounded to.
        accumulation_type: the dtype of the sums.
        lhs_component_count, rhs_component_count: into how many numbers each operand is split.
        num_primitive_operations: how many products are added up.
        allow_imprecise_accumulation: whether sums may be coarser within the hardware.

    Source: StableHLO specification, dot_general.
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False

    def attribute(self, ctx: Any) -> Any:
        """The StableHLO attribute."""
        types = [
            ctx.element_type(dtypes.dtype(t))
            if not isinstance(t, str) or t != "tf32"
            else ctx.ir.FloatTF32Type.get()
            for t in self[:3]
        ]
        return ctx.hlo.DotAlgorithm.get(*types, *self[3:])


class DotAlgorithmPreset(Enum):
    """Well-known algorithms, named operands_operands_sums; X3, X6, X9 split float32 numbers."""

    DEFAULT = "DEFAULT"
    ANY_F8_ANY_F8_F32 = "ANY_F8_ANY_F8_F32"
    ANY_F8_ANY_F8_F32_FAST_ACCUM = "ANY_F8_ANY_F8_F32_FAST_ACCUM"
    ANY_F8_ANY_F8_ANY = "ANY_F8_ANY_F8_ANY"
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = "ANY_F8_ANY_F8_ANY_FAST_ACCUM"
    F16_F16_F16 = "F16_F16_F16"
    F16_F16_F32 = "F16_F16_F32"
    BF16_BF16_BF16 = "BF16_BF16_BF16"
    BF16_BF16_F32 = "BF16_BF16_F32"
    BF16_BF16_F32_X3 = "BF16_BF16_F32_X3"
    BF16_BF16_F32_X6 = "BF16_BF16_F32_X6"
    BF16_BF16_F32_X9 = "BF16_BF16_F32_X9"
    TF32_TF32_F32 = "TF32_TF32_F32"
    TF32_TF32_F32_X3 = "TF32_TF32_F32_X3"
    F32_F32_F32 = "F32_F32_F32"
    F64_F64_F64 = "F64_F64_F64"

    def __repr__(self) -> str:
        return f"DotAlgorithmPreset.{self.name}"

    def __str__(self) -> str:
        return self.name

    def algorithm(self, lhs: Any, rhs: Any, out: Any) -> DotAlgorithm | None:
        """The algorithm for operands and results of these dtypes; None is the default one."""
        name = self.value
        if name == "DEFAULT":
            return None
        if name.startswith("ANY_F8"):
            sums = np.dtype(np.float32) if "_F8_F32" in name else out
            return DotAlgorithm(lhs, rhs, sums, 1, 1, 1, name.endswith("FAST_ACCUM"))
        part, _, sums, *times = name.split("_")
        ops = int(times[0][1:]) if times else 1
        kind = "tf32" if part == "TF32" else dtypes.dtype(_LONG[part])
        return DotAlgorithm(kind, kind, dtypes.dtype(_LONG[sums]), 1, 1, ops)


_LONG = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}
PrecisionLike = Any


def canonical_precision(precision: Any, name: str = "precision") -> Any:
    """What users write for a precision as None, an algorithm, or a pair of `Precision`.

    Args:
        precision: None, a `Precision`, its name, a pair of those, a `DotAlgorithm` or preset.

    Raises:
        ValueError: an unknown name.
    """
    if precision is None:
        precision = config.jax_default_matmul_precision
        if precision is None:
            return None
    if isinstance(precision, (DotAlgorithm, DotAlgorithmPreset)):
        return precision
    if isinstance(precision, (tuple, list)) and len(precision) == 2:
        return tuple([_one(p, name) for p in precision])
    one = _one(precision, name)
    return one if isinstance(one, (DotAlgorithm, DotAlgorithmPreset)) else (one, one)


def _one(precision: Any, name: str) -> Any:
    if precision is None:
        return Precision.DEFAULT
    if isinstance(precision, Precision):
        return precision
    if isinstance(precision, str):
        if precision in _BY_NAME:
            return _BY_NAME[precision]
        if precision in DotAlgorithmPreset.__members__:
            return DotAlgorithmPreset[precision]
    raise ValueError(
        f"{name}: precision must be None, a lax.Precision, a DotAlgorithm or preset, a pair, or "
        f"one of {', '.join(map(repr, _BY_NAME))}; got {precision!r}."
    )


def precision_config(ctx: Any, precision: Any) -> Any:
    """The StableHLO attribute of a pair of precisions."""
    if precision is None or isinstance(precision, (DotAlgorithm, DotAlgorithmPreset)):
        precision = (Precision.DEFAULT, Precision.DEFAULT)
    return ctx.ir.ArrayAttr.get([ctx.hlo.PrecisionAttr.get(p.name) for p in precision])


def algorithm_attribute(ctx: Any, precision: Any, lhs: Any, rhs: Any, out: Any) -> Any:
    """The StableHLO attribute of an algorithm, or None."""
    if isinstance(precision, DotAlgorithmPreset):
        precision = precision.algorithm(lhs, rhs, out)
    return precision.attribute(ctx) if isinstance(precision, DotAlgorithm) else None
