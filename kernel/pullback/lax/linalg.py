"""Linear algebra on matrices in the last two axes: an index.

Builds on the files linalg_*.py. Tested in tests/lax/test_linalg.py.
"""

# ruff: noqa: F401

from pullback.lax.linalg_eigen import (
    EighImplementation,
    EigImplementation,
    eig,
    eig_p,
    eigh,
    eigh_p,
)
from pullback.lax.linalg_forms import (
    hessenberg,
    hessenberg_p,
    schur,
    schur_p,
    tridiagonal,
    tridiagonal_p,
    tridiagonal_solve,
    tridiagonal_solve_p,
)
from pullback.lax.linalg_lu import (
    lu,
    lu_p,
    lu_pivots_to_permutation,
    lu_pivots_to_permutation_p,
    lu_solve,
    permute_rows,
)
from pullback.lax.linalg_polar import qdwh
from pullback.lax.linalg_qr import (
    geqp3,
    geqp3_p,
    geqrf,
    geqrf_p,
    householder_product,
    householder_product_p,
    ormqr,
    ormqr_p,
    qr,
    qr_p,
)
from pullback.lax.linalg_svd import SvdAlgorithm, svd, svd_p
from pullback.lax.linalg_triangular import (
    cholesky,
    cholesky_p,
    cholesky_update,
    symmetric_product,
    triangular_solve,
    triangular_solve_p,
)
