"""The older place of `shard_map`: an index."""

# ruff: noqa: F401

from pullback.api.shard_map import shard_map
