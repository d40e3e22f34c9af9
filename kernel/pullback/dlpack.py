"""`pullback.dlpack`: an index of the exchange of memory with other libraries."""

from pullback.numpy.creation import from_dlpack

__all__ = ["from_dlpack"]
