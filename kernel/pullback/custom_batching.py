"""Functions with a vectorisation of their own: an index."""

# ruff: noqa: F401

from pullback.api.custom_vmap import custom_vmap, sequential_vmap
