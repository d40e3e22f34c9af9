"""Compiled programs outlive the kernel: restarting and running all again compiles nothing."""

from __future__ import annotations

import stat

COUNTING = (
    "from pullback.xla import compile\n"
    "seen = []\n"
    "compile.on_compile.append(lambda event: seen.append(event.source))"
)
WORK = (
    "import jax, jax.numpy as jnp\n"
    "w = jnp.linspace(0, 1, 12).reshape(4, 3)\n"
    "f = jax.jit(jax.value_and_grad(lambda w: jnp.tanh(w @ w.T).sum()))\n"
    "value, slope = f(w)\n"
    "print(float(value), slope.shape, jax.pmap(lambda x: x + 1)(jnp.arange(2.0)))"
)
ASK = "print(seen.count('compiled'), seen.count('disk') > 0)"


def test_running_all_again_after_a_restart_compiles_nothing(start_kernel, environment, tmp_path):
    variables = environment(PULLBACK_CACHE_DIR=str(tmp_path / "cache"))
    printed = []
    for _ in range(2):
        kernel = start_kernel(env=variables)
        kernel.run(COUNTING)
        printed.append(kernel.run(WORK).stdout)
        counts = kernel.run(ASK).stdout.split()
        kernel.close()
    assert printed[0] == printed[1]
    assert counts == ["0", "True"]
    assert stat.S_IMODE((tmp_path / "cache" / "xla").stat().st_mode) == 0o700


def test_without_a_place_for_programs_the_cells_stay_clean(start_kernel, environment, tmp_path):
    (tmp_path / "file").write_text("")
    kernel = start_kernel(env=environment(PULLBACK_CACHE_DIR=str(tmp_path / "file")))
    result = kernel.run(WORK)
    assert result.stdout and result.stderr == ""
    kernel.close()
