"""Looking into compiled programs while they run: an index."""

# ruff: noqa: F401

from pullback.api.breakpoint import breakpoint
from pullback.api.effects import debug_callback as callback
from pullback.api.effects import debug_log as log
from pullback.api.effects import debug_print as print
from pullback.api.sharding_view import (
    inspect_array_sharding,
    visualize_array_sharding,
    visualize_sharding,
)
