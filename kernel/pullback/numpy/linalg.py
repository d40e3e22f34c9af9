"""Linear algebra on stacks of matrices, `jnp.linalg`: an index of names."""

# ruff: noqa: F401

from pullback.numpy.decompositions import (
    EighResult,
    EigResult,
    QRResult,
    SlogdetResult,
    SVDResult,
    cholesky,
    det,
    diagonal,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    inv,
    lstsq,
    matmul,
    matrix_transpose,
    pinv,
    qr,
    slogdet,
    solve,
    svd,
    svdvals,
    tensordot,
    trace,
    vecdot,
)
from pullback.numpy.norms import (
    cond,
    cross,
    matrix_norm,
    matrix_power,
    matrix_rank,
    multi_dot,
    norm,
    outer,
    tensorinv,
    tensorsolve,
    vector_norm,
)
