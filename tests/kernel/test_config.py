"""The kernel's traits: devices, `import jax`, deterministic outputs."""

from __future__ import annotations

import sys


def test_the_cpu_shows_eight_devices(kernel):
    assert kernel.run("import jax\nprint(len(jax.devices()))").stdout == "8\n"


def test_the_number_of_devices_is_a_trait(start_kernel):
    kernel = start_kernel(extra_arguments=["--PullbackKernel.cpu_devices=3"])
    assert kernel.run("import jax\nprint(jax.local_device_count())").stdout == "3\n"
    kernel.close()


def test_the_environment_wins_over_the_default_number(start_kernel, environment):
    kernel = start_kernel(
        extra_arguments=["--PullbackKernel.deterministic=True"],
        env=environment(PULLBACK_NUM_CPU_DEVICES="1"),
    )
    code = "import os, jax\nprint(jax.device_count(), os.environ['PULLBACK_DETERMINISTIC'])"
    assert kernel.run(code).stdout == "1 1\n"
    kernel.run("import jax.numpy as jnp\nx = jnp.ones(3)")
    assert "cpu:0" not in kernel.run("x").displays[-1]["text/html"]
    kernel.close()


def test_xlas_own_flag_wins_over_the_default_number(start_kernel, environment):
    kernel = start_kernel(
        env=environment(XLA_FLAGS="--xla_force_host_platform_device_count=3"),
    )
    assert kernel.run("import jax\nprint(jax.device_count())").stdout == "3\n"
    kernel.close()


def test_a_process_started_from_a_cell_has_one_device(kernel):
    command = f"!{sys.executable} -c 'import pullback; print(pullback.device_count())'"
    assert kernel.run(command).stdout.strip() == "1"
