"""Functions under jit, grad and vmap: composite functions inline, and agree with their eager form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import numpy as jnp
from pullback.numpy.fused import fused

V = np.array([0.5, -1.25, 2.0, 3.5], np.float32)
M = np.arange(1, 7, dtype=np.float32).reshape(2, 3) / 4
S = np.array([[2.0, 0.5, 0.1], [0.3, 1.5, -0.2], [0.0, 0.4, 1.0]], np.float32)

# name -> (function, argument); each is smooth at the argument
SMOOTH: dict[str, tuple[Any, np.ndarray]] = {
    "mean": (jnp.mean, V),
    "var": (lambda x: jnp.var(x, ddof=1), V),
    "std_axis": (lambda x: jnp.std(x, axis=1), M),
    "prod": (jnp.prod, V),
    "cumprod": (jnp.cumprod, V),
    "cumsum": (lambda x: jnp.cumsum(x, 1), M),
    "max": (lambda x: jnp.max(x, axis=0), M),
    "sort": (jnp.sort, V),
    "median": (jnp.median, V),
    "quantile": (lambda x: jnp.quantile(x, jnp.array([0.2, 0.7])), V),
    "norm": (jnp.linalg.norm, V),
    "norm3": (lambda x: jnp.linalg.norm(x, 3), V),
    "nuclear": (lambda x: jnp.linalg.norm(x, "nuc"), S),
    "inv": (jnp.linalg.inv, S),
    "det": (jnp.linalg.det, S),
    "slogdet": (lambda x: jnp.linalg.slogdet(x)[1], S),
    "solve": (lambda x: jnp.linalg.solve(x, V[:3]), S),
    "cholesky": (lambda x: jnp.linalg.cholesky(x @ x.T), S),
    "pinv": (jnp.linalg.pinv, M),
    "svd": (lambda x: jnp.linalg.svd(x, compute_uv=False), M),
    "matrix_power": (lambda x: jnp.linalg.matrix_power(x, 3), S),
    "einsum": (lambda x: jnp.einsum("ij,jk,kl->il", x, x, x), S),
    "einsum_trace": (lambda x: jnp.einsum("ii", x), S),
    "tensordot": (lambda x: jnp.tensordot(x, x, 1), S),
    "matmul_batch": (lambda x: jnp.matmul(x, jnp.stack([x, 2 * x])), S),
    "outer": (lambda x: jnp.outer(x, x), V),
    "kron": (lambda x: jnp.kron(x, x), M),
    "cross": (lambda x: jnp.cross(x[:3], x[1:]), V),
    "interp": (lambda x: jnp.interp(x, jnp.array([-2.0, 0.0, 4.0]), jnp.array([1.0, 3.0, 0.0])), V),
    "convolve": (lambda x: jnp.convolve(x, x), V),
    "pad": (lambda x: jnp.pad(x, 2, mode="reflect"), V),
    "pad_mean": (lambda x: jnp.pad(x, 1, mode="mean"), V),
    "gradient": (jnp.gradient, V),
    "trapezoid": (jnp.trapezoid, V),
    "logaddexp": (lambda x: jnp.logaddexp(x, 2 * x), V),
    "logaddexp2": (lambda x: jnp.logaddexp2(x, 2 * x), V),
    "hypot": (lambda x: jnp.hypot(x, 2.0), V),
    "sinc": (jnp.sinc, np.array([0.0, 0.3, 1.0], np.float32)),
    "remainder": (lambda x: x % 0.8, V),
    "power": (lambda x: jnp.abs(x) ** 1.5 + x**3 + 2.0**x, V),
    "where": (lambda x: jnp.where(x > 0, jnp.sqrt(jnp.abs(x)), x**2), V),
    "clip": (lambda x: jnp.clip(x, -1.0, 3.0), V),
    "take": (lambda x: jnp.take(x, jnp.array([0, 2, 2])), V),
    "take_along": (lambda x: jnp.take_along_axis(x, jnp.array([[0], [2]]), 1), M),
    "repeat": (lambda x: jnp.repeat(x, 3), V),
    "tile": (lambda x: jnp.tile(x, (2, 2)), M),
    "roll": (lambda x: jnp.roll(x, 1), V),
    "stack": (lambda x: jnp.stack([x, x**2]), V),
    "split": (lambda x: jnp.split(x, 2)[1], V),
    "cov": (jnp.cov, M),
    "average": (lambda x: jnp.average(x, weights=jnp.arange(1.0, 5.0)), V),
    "nansum": (jnp.nansum, V),
    "polyval": (lambda x: jnp.polyval(x, 1.5), V),
    "tril": (jnp.tril, S),
    "diagonal": (jnp.diagonal, S),
    "linspace": (lambda x: jnp.linspace(x[0], x[1], 4), V),
    "fft": (lambda x: jnp.abs(jnp.fft.rfft(x)) ** 2, V),
    "vectorize": (lambda x: jnp.vectorize(jnp.dot, signature="(n),(n)->()")(x, x), M),
    "along_axis": (lambda x: jnp.apply_along_axis(lambda r: r * r.sum(), 1, x), M),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_jit_grad_and_vmap(name: str) -> None:
    fun, value = SMOOTH[name]
    x = jnp.asarray(value)
    eager = fun(x)
    eager = eager if isinstance(eager, jnp.ndarray) else eager[0]
    only = lambda a: (lambda out: out if isinstance(out, jnp.ndarray) else out[0])(fun(a))
    np.testing.assert_allclose(pb.jit(only)(x), eager, rtol=2e-5, atol=1e-6)
    mapped = pb.vmap(only)(jnp.stack([x, x]))
    np.testing.assert_allclose(mapped[1], eager, rtol=2e-5, atol=1e-5)
    weights = np.cos(np.arange(eager.size, dtype=np.float32)).reshape(eager.shape)
    loss = lambda a: (only(a) * weights).sum()
    gradient = pb.grad(loss)(x)
    np.testing.assert_allclose(pb.jit(pb.grad(loss))(x), gradient, rtol=1e-4, atol=1e-5)
    way = jnp.asarray(np.sin(np.arange(1, value.size + 1, dtype=np.float32)).reshape(value.shape))
    slope = float((gradient * way).sum())
    step = 1e-2
    numeric = float(loss(x + step * way) - loss(x - step * way)) / (2 * step)
    assert slope == pytest.approx(numeric, rel=2e-2, abs=5e-3)


def test_fused_is_one_program_and_inlines() -> None:
    calls = []

    @fused("power")
    def f(x: Any, power: int) -> Any:
        calls.append(power)
        return x**power + 1

    assert f(jnp.ones(2), 3).tolist() == [2, 2]
    assert f(jnp.ones(2), 3).tolist() == [2, 2]
    assert calls == [3]
    names = [e.primitive.name for e in pb.make_jaxpr(lambda x: f(x, 2))(1.0).eqns]
    assert names == ["integer_pow", "add"]
    assert float(pb.grad(lambda x: f(x, 2))(3.0)) == 6


def test_zero_keeps_its_sign_in_fused_calls() -> None:
    for zero in (0.0, -0.0, 0.0):
        assert float(jnp.copysign(2.0, zero)) == np.copysign(2.0, zero)


def test_jaxprs_are_direct() -> None:
    def ops(f: Any, *args: Any) -> list[str]:
        return [e.primitive.name for e in pb.make_jaxpr(f)(*args).eqns]

    v = jnp.ones(3)
    assert ops(lambda x: x + 1, v) == ["add"]
    assert ops(lambda x: 2 * x + x, v) == ["mul", "add"]
    assert ops(lambda x: x[1], v) == ["slice", "squeeze"]
    assert ops(lambda x: x[1:], v) == ["slice"]
    assert ops(lambda x: x[::-1], v) == ["rev"]
    assert ops(jnp.mean, v) == ["reduce_sum", "div"]
    assert ops(lambda x: x @ x, v) == ["dot_general"]
    assert ops(lambda x: x.T, jnp.ones((2, 3))) == ["transpose"]


def test_64_bit_types_when_enabled() -> None:
    with pb.enable_x64():
        assert jnp.arange(3).dtype == np.int64
        assert (
            jnp.ones(2).dtype == np.float64 and (jnp.ones(2, "float32") * 2.0).dtype == np.float32
        )
        assert (jnp.arange(3) / 2).dtype == np.float64
        assert jnp.sum(jnp.ones(3, "int8")).dtype == np.int64
        assert jnp.argmax(jnp.ones(3)).dtype == np.int64
        assert float(jnp.float64(1) + 1e-12) == 1 + 1e-12
    assert jnp.arange(3).dtype == np.int32
