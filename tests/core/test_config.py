"""Settings: names, values, environment, scopes per thread, the trace key."""

import os
import subprocess
import sys
import threading
import warnings

import pytest

from pullback.core import config as module
from pullback.core.config import config


@pytest.fixture
def restored():
    before = dict(config.values)
    yield
    for name, value in before.items():
        if getattr(config, name) != value:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                config.update(name, value)


def test_defaults():
    assert config.jax_enable_x64 is False
    assert config.jax_threefry_partitionable is False
    assert config.jax_numpy_dtype_promotion == "standard"
    assert config.jax_default_matmul_precision is None
    assert config.jax_platforms is None or isinstance(config.jax_platforms, str)


def test_update_and_read(restored):
    config.update("jax_enable_x64", True)
    assert config.jax_enable_x64 is True and config.read("jax_enable_x64") is True
    assert config.values["jax_enable_x64"] is True
    assert "jax_enable_x64=True" in repr(config)


def test_unknown_names_suggest_the_nearest():
    for use in (
        lambda: config.update("jax_enable_x46", True),
        lambda: config.jax_enable_x46,
        lambda: config.read("jax_enable_x46"),
        lambda: config.enable_x64,
    ):
        with pytest.raises(AttributeError, match="jax_enable_x64"):
            use()


def test_assignment_is_refused_with_the_way_to_do_it():
    with pytest.raises(AttributeError, match=r"config\.update\('jax_enable_x64', True\)"):
        config.jax_enable_x64 = True


@pytest.mark.parametrize(
    "name, value, error",
    [
        ("jax_enable_x64", "maybe", TypeError),
        ("jax_numpy_rank_promotion", "perhaps", ValueError),
        ("jax_num_cpu_devices", "many", ValueError),
        ("jax_compilation_cache_dir", 3, TypeError),
        ("jax_default_prng_impl", None, ValueError),
    ],
)
def test_values_are_checked(name, value, error):
    with pytest.raises(error, match=name):
        config.update(name, value)


def test_texts_and_numbers_stand_for_booleans(restored):
    for value, expected in [(1, True), ("false", False), ("True", True), (0, False)]:
        config.update("jax_debug_nans", value)
        assert config.jax_debug_nans is expected


def test_options_that_do_not_apply_warn():
    with pytest.warns(UserWarning, match="jax_use_shardy_partitioner has no effect"):
        config.update("jax_use_shardy_partitioner", False)


def test_inert_options_warn_when_they_are_changed(restored):
    config.update("jax_pprint_use_color", True)
    with pytest.warns(UserWarning, match="jax_pprint_use_color has no effect"):
        config.update("jax_pprint_use_color", False)
    with pytest.warns(UserWarning, match="jax_softmax_custom_jvp has no effect"):
        module.softmax_custom_jvp(False)


def test_generators_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match="threefry2x32"):
        config.update("jax_default_prng_impl", "rbg")


@pytest.mark.parametrize(
    "scope, name, value",
    [
        (module.enable_x64(True), "jax_enable_x64", True),
        (module.disable_jit(), "jax_disable_jit", True),
        (module.debug_nans(), "jax_debug_nans", True),
        (module.debug_infs(True), "jax_debug_infs", True),
        (module.numpy_rank_promotion("raise"), "jax_numpy_rank_promotion", "raise"),
        (module.default_matmul_precision("float32"), "jax_default_matmul_precision", "float32"),
        (module.log_compiles(True), "jax_log_compiles", True),
        (module.checking_leaks(), "jax_check_tracer_leaks", True),
        (module.threefry_partitionable(True), "jax_threefry_partitionable", True),
        (module.transfer_guard("disallow"), "jax_transfer_guard_device_to_host", "disallow"),
    ],
)
def test_scopes_set_and_restore(scope, name, value):
    before = getattr(config, name)
    for _ in range(2):  # a scope can be entered again
        with scope:
            assert getattr(config, name) == value
            with scope:
                assert getattr(config, name) == value
            assert getattr(config, name) == value
        assert getattr(config, name) == before


def test_a_scope_is_restored_after_an_error():
    with pytest.raises(KeyError), module.enable_x64(True):
        raise KeyError
    assert not config.jax_enable_x64


def test_a_scope_decorates():
    @module.enable_x64(True)
    def inside():
        return config.jax_enable_x64

    assert inside() and not config.jax_enable_x64


def test_a_scope_checks_its_value_when_it_is_made():
    with pytest.raises(ValueError, match="jax_numpy_rank_promotion"):
        module.numpy_rank_promotion("sometimes")


def in_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_a_scope_holds_for_its_thread_only():
    with module.enable_x64(True):
        assert in_thread(lambda: config.jax_enable_x64) is False


def test_an_update_holds_for_all_threads_but_not_inside_a_scope(restored):
    with module.enable_x64(False):
        in_thread(lambda: config.update("jax_enable_x64", True))
        assert config.jax_enable_x64 is False
    assert config.jax_enable_x64 is True


def test_trace_key_changes_with_what_changes_programs(restored):
    start = config.trace_key()
    assert config.trace_key() is start
    with module.enable_x64(True):
        inside = config.trace_key()
        assert inside != start and hash(inside) != hash(start)
        assert in_thread(config.trace_key) == start
    assert config.trace_key() is start
    with module.log_compiles(True):
        assert config.trace_key() is start
    config.update("jax_default_matmul_precision", "highest")
    assert config.trace_key() != start
    config.update("jax_default_matmul_precision", None)
    assert config.trace_key() is start


def test_observers_are_told(restored):
    seen = []
    module.Config.observers.append(seen.append)
    try:
        with module.debug_nans():
            pass
        config.update("jax_debug_nans", False)
    finally:
        module.Config.observers.remove(seen.append)
    assert seen == ["jax_debug_nans"] * 3


def value_in_subprocess(name, **environment):
    code = f"from pullback.core.config import config; print(repr(config.{name}))"
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=60,
    )
    return run.stdout.strip() or run.stderr


def test_environment():
    assert value_in_subprocess("jax_enable_x64", JAX_ENABLE_X64="1") == "True"
    both = {"JAX_ENABLE_X64": "1", "PULLBACK_ENABLE_X64": "0"}
    assert value_in_subprocess("jax_enable_x64", **both) == "False"
    assert value_in_subprocess("jax_platforms", JAX_PLATFORMS="cpu") == "'cpu'"
    assert "JAX_ENABLE_X64" in value_in_subprocess("jax_enable_x64", JAX_ENABLE_X64="perhaps")
