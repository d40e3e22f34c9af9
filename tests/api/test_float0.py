"""Tangents of integers, dtype float0, in and out of compiled and mapped functions."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import numpy as jnp

GRADIENT = pb.grad(lambda x: x * 2.0, allow_int=True)
NONE = np.zeros((), pb.float0)


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        (lambda: pb.jit(GRADIENT)(3), ()),
        (lambda: pb.jit(lambda x: pb.jit(GRADIENT)(x))(3), ()),
        (lambda: pb.vmap(GRADIENT)(jnp.arange(3)), (3,)),
        (lambda: pb.jit(pb.vmap(GRADIENT))(jnp.arange(3)), (3,)),
        (lambda: pb.jit(lambda z: z)(np.zeros((2,), pb.float0)), (2,)),
    ],
)
def test_results(call, shape):
    for _ in range(3):
        out = call()
        assert out.dtype == pb.float0
        assert out.shape == shape


def test_arguments():
    assert float(pb.jit(lambda z, x: x)(NONE, 1.0)) == 1.0
    f = pb.jit(lambda x, z: pb.jvp(lambda i, x: (i * x, i), (2, x), (z, 1.0))[1])
    for _ in range(2):
        tangents = f(3.0, NONE)
        assert float(tangents[0]) == 2.0
        assert tangents[1].dtype == pb.float0
    fwd, bwd = pb.fwd_and_bwd(lambda x: (x * 2, jnp.int32(1)), 0)
    assert float(bwd(fwd(3.0)[1], (1.0, NONE))) == 2.0
