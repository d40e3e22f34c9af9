"""The error classes. An index of core/errors.py and of the runtime's own error."""

from pullback.core.dtypes import TypePromotionError
from pullback.core.errors import (
    ConcretizationTypeError,
    CustomRuleClosureError,
    InconclusiveDimensionOperation,
    JAXIndexError,
    JaxprTypeError,
    JAXTypeError,
    KeyReuseError,
    LeakedTracerError,
    NonConcreteBooleanIndexError,
    ShapeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)
from pullback.xla.compat import XlaRuntimeError as JaxRuntimeError

__all__ = [
    "ConcretizationTypeError",
    "CustomRuleClosureError",
    "InconclusiveDimensionOperation",
    "JAXIndexError",
    "JAXTypeError",
    "JaxRuntimeError",
    "JaxprTypeError",
    "KeyReuseError",
    "LeakedTracerError",
    "NonConcreteBooleanIndexError",
    "ShapeError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "TypePromotionError",
    "UnexpectedTracerError",
]
