"""Recomputation in the backward pass: an index."""

# ruff: noqa: F401

from pullback import checkpoint_policies
from pullback.api.checkpoint import checkpoint, checkpoint_name, remat
