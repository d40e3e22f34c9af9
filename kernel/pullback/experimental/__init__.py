"""Names that JAX keeps under `experimental`: an index."""

# ruff: noqa: F401

from pullback.api.effects import io_callback
