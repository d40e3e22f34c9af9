"""Drawings of how arrays lie on devices."""

from __future__ import annotations

import pytest

import pullback as pb
from pullback import numpy as jnp


def drawn(capsys, x, **options):
    pb.debug.visualize_array_sharding(x, **options)
    return capsys.readouterr().out.splitlines()


def spread(x, mesh, *spec):
    return pb.device_put(x, pb.NamedSharding(mesh, pb.P(*spec)))


def test_one_device(capsys):
    assert drawn(capsys, jnp.ones(3)) == ["┌─────────┐", "│  CPU 0  │", "└─────────┘"]


def test_parts_of_a_vector_and_copies(capsys):
    mesh = pb.make_mesh((2,), ("d",))
    assert drawn(capsys, spread(jnp.ones(4), mesh, "d"))[1] == "│  CPU 0  │  CPU 1  │"
    assert drawn(capsys, spread(jnp.ones(4), mesh))[1] == "│ CPU 0,1 │"


def test_parts_of_a_matrix(capsys):
    mesh = pb.make_mesh((2,), ("d",))
    rows = drawn(capsys, spread(jnp.ones((4, 4)), mesh, "d"), scale=0.6)
    assert [line.strip("│ ") for line in rows if "CPU" in line] == ["CPU 0", "CPU 1"]
    assert sum(line.startswith("├") for line in rows) == 1
    assert len({len(line) for line in rows}) == 1
    columns = drawn(capsys, spread(jnp.ones((4, 4)), mesh, None, "d"))
    assert any("CPU 0" in line and "CPU 1" in line for line in columns)


def test_refusals():
    with pytest.raises(ValueError, match="one or two axes"):
        pb.debug.visualize_array_sharding(jnp.ones((2, 2, 2)))
    with pytest.raises(NotImplementedError, match="traced value"):
        pb.jit(lambda x: pb.debug.visualize_array_sharding(x))(jnp.ones(3))
    seen = []
    pb.debug.inspect_array_sharding(jnp.ones(3), callback=seen.append)
    assert len(seen[0].device_set) == 1
