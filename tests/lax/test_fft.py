"""Fourier transforms, against NumPy."""

from __future__ import annotations

import harness
import numpy as np
import pytest
from harness import Case

from pullback import lax

X = harness.rng(0).normal(size=(2, 3, 4)).astype(np.float32)
Z = (X + 1j * X[::-1]).astype(np.complex64)
H = Z[..., :3]


def fft(kind: str, *lengths: int) -> object:
    return lambda x: lax.fft(x, kind, lengths)


CASES = [
    Case("fft", fft("fft", 4), (Z,), lambda x: np.fft.fft(x), ulps=32),
    Case("fft2", fft("fft", 3, 4), (Z,), lambda x: np.fft.fft2(x), ulps=64),
    Case("fft3", fft("fft", 2, 3, 4), (Z,), lambda x: np.fft.fftn(x), ulps=64, vmap=False),
    Case("ifft", fft("ifft", 3, 4), (Z,), lambda x: np.fft.ifft2(x), ulps=32),
    Case("rfft", fft("rfft", 4), (X,), lambda x: np.fft.rfft(x), ulps=32),
    Case("rfft-odd", fft("rfft", 3), (X[..., :3],), lambda x: np.fft.rfft(x), ulps=32, vmap=False),
    Case("rfft2", fft("rfft", 3, 4), (X,), lambda x: np.fft.rfft2(x), ulps=64, vmap=False),
    Case("irfft", fft("irfft", 4), (H,), lambda x: np.fft.irfft(x, 4), ulps=32),
    Case("irfft-odd", fft("irfft", 5), (H,), lambda x: np.fft.irfft(x, 5), ulps=32, vmap=False),
    Case(
        "irfft2", fft("irfft", 3, 4), (H,), lambda x: np.fft.irfft2(x, (3, 4)), ulps=64, vmap=False
    ),
    Case("no-axes", lambda x: lax.fft(x, "fft", ()), (Z,), lambda x: x),
    Case("empty", fft("fft", 4), (Z[:0],), lambda x: x),
    Case("from-int", fft("fft", 4), (np.arange(4),), lambda x: np.fft.fft(x), ulps=32),
]


@pytest.mark.parametrize("case", harness.params(CASES))
def test_case(case: Case) -> None:
    harness.check_case(case)


def test_kinds_by_name_and_number() -> None:
    want = np.asarray(lax.fft(Z, "fft", (4,)))
    for kind in ("FFT", lax.FftType.FFT, 0):
        np.testing.assert_array_equal(lax.fft(Z, kind, (4,)), want)


ERRORS = [
    (lambda: lax.fft(Z, "fft", (3,)), ["(3,)", "c64[2,3,4]", "pad or cut"]),
    (lambda: lax.fft(Z, "irfft", (4,)), ["(3,)", "c64[2,3,4]"]),
    (lambda: lax.fft(Z, "rfft", (4,)), ["real", "c64[2,3,4]"]),
    (lambda: lax.fft(Z, "dct", (4,)), ["'dct'", "'irfft'"]),
    (lambda: lax.fft(Z[0, 0], "fft", (3, 4)), ["as many axes", "c64[4]"]),
]


@pytest.mark.parametrize("index", range(len(ERRORS)))
def test_error_texts(index: int) -> None:
    fun, parts = ERRORS[index]
    harness.check_error((TypeError, ValueError), parts, fun)  # type: ignore[arg-type]
