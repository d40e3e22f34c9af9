"""Compilation: caches, keys, interrupts, observers, tiny programs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import weakref

import ml_dtypes
import numpy as np
import pytest

from pullback.core.aval import make_aval
from pullback.core.config import config, log_compiles
from pullback.xla import client, compat, compile, disk_cache
from pullback.xla.array import Array, array_from_numpy
from pullback.xla.compile import cache_key, compile_module, is_tiny_and_exact


@pytest.fixture
def events(cache_dir, monkeypatch):
    """The compile events of the test, with its own disk cache and an empty memory."""
    found: list = []
    monkeypatch.setattr(compile, "_alive", weakref.WeakValueDictionary())
    compile.clear_memory()
    compile.on_compile.append(found.append)
    yield found
    compile.clear_memory()
    compile.on_compile.remove(found.append)


def build(module, **kwargs):
    return compile_module(module, name="f", devices=tuple(client.devices()[:1]), **kwargs)


def sources(events):
    return [e.source for e in events]


def key_of(module, n=1, **changes):
    devices = changes.pop("devices", tuple(client.devices()[:n]))
    return cache_key(
        module, devices, changes.get("r", 1), changes.get("p", n), changes.get("o", ())
    )


# ------------------------------------------------------------------ executables


def test_an_executable_runs(module, events):
    executable = build(module(3))
    aval = make_aval((3,), np.dtype(np.float32), False)
    sharding = compat.single_device_sharding(client.devices()[0])
    x = array_from_numpy(np.arange(3, dtype=np.float32))
    handler = compat.result_handler(aval, sharding, False)
    (out,) = executable.execute([x._buf, x._buf], [handler])
    assert np.array_equal(np.asarray(Array(out)), [0, 2, 4])
    assert "add" in executable.as_text() and len(executable.hlo_modules()) == 1
    assert executable.cost_analysis()["flops"] == 3
    assert executable.memory_analysis().output_size_in_bytes == 12
    assert repr(executable) == "<Executable f on 1 device(s), compiled>"
    (event,) = events
    assert event.name == "f" and event.source == "compiled" and event.seconds > 0


def test_bytecode_and_text_are_taken(module, events):
    first = build(module(3))
    text = str(module(3))
    assert build(text) is first and build(text.encode()) is first


def test_errors_of_xla_come_through(module, events):
    with pytest.raises(compat.XlaRuntimeError, match="No such compile option"):
        build(module(3), compiler_options={"xla_no_such_flag": True})
    assert compile.compiling_now() == [] and disk_cache.current().size() == (0, 0)


# ------------------------------------------------------------------ caches


def test_memory_then_disk(module, events):
    first = build(module(5))
    assert build(module(5)) is first
    del first
    compile.clear_memory()
    third = build(module(5))
    assert sources(events) == ["compiled", "memory", "disk"]
    assert third.source == "disk"


def test_the_last_programs_stay_in_memory(module, events, monkeypatch):
    monkeypatch.setattr(compile, "_RECENT_LIMIT", 2)
    monkeypatch.setenv("PULLBACK_COMPILATION_CACHE", "0")
    for n in (5, 6, 5, 7, 5, 6):
        build(module(n))
    assert sources(events) == ["compiled", "compiled", "memory", "compiled", "memory", "compiled"]
    assert compile.memory_statistics() == {"alive": 2, "recent": 2}


def test_moving_the_cell_does_not_recompile_but_the_place_is_kept(module, events):
    first = build(module(5, location='"a.py":3:4'))
    moved = module(5, location='"b.py":30:4')
    assert 'b.py":30:4' in moved.operation.get_asm(enable_debug_info=True)
    assert build(moved) is first and "a.py" in first.as_text()


def test_a_program_with_callbacks_is_never_kept(events):
    text = """func.func public @main(%a: tensor<3xf32>) -> tensor<3xf32> {
      %0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%a) {api_version=4:i32,
        has_side_effect=true, backend_config={index=0:ui64}} : (tensor<3xf32>)->tensor<3xf32>
      return %0 : tensor<3xf32> }"""
    for factor in (2, 3):
        executable = build(text, callbacks=[lambda x, k=factor: (np.asarray(x) * np.float32(k),)])
        aval = make_aval((3,), np.dtype(np.float32), False)
        sharding = compat.single_device_sharding(client.devices()[0])
        x = array_from_numpy(np.ones(3, np.float32))
        handler = compat.result_handler(aval, sharding, False)
        (out,) = executable.execute([x._buf], [handler])
        assert np.asarray(Array(out))[0] == factor and executable.key is None
    assert sources(events) == ["compiled", "compiled"] and disk_cache.current().size() == (0, 0)


def test_a_foreign_program_under_the_key_is_removed(module, events):
    key = build(module(5)).key
    compile.clear_memory()
    cache = disk_cache.current()
    cache.put(key, b"not a program")
    again = build(module(5))
    assert again.source == "compiled" and len(cache.get(key)) > 1000
    del again
    compile.clear_memory()
    cache.put(key, b"not a program")
    config.update("jax_raise_persistent_cache_errors", True)
    try:
        with pytest.raises(compat.XlaRuntimeError):
            build(module(5))
    finally:
        config.update("jax_raise_persistent_cache_errors", False)


@pytest.mark.parametrize(
    ("option", "value", "kept"),
    [
        ("jax_enable_compilation_cache", False, 0),
        ("jax_persistent_cache_min_compile_time_secs", 100.0, 0),
        ("jax_persistent_cache_min_entry_size_bytes", 10**6, 0),
        ("jax_persistent_cache_min_entry_size_bytes", 10, 1),
    ],
)
def test_settings_of_the_cache(module, events, option, value, kept):
    before = config.read(option)
    config.update(option, value)
    try:
        build(module(5))
    finally:
        config.update(option, before)
    assert disk_cache.current().size()[0] == kept


def test_the_key_holds_all_that_changes_the_program(module, monkeypatch):
    devices = client.devices()
    base = key_of(module(5))
    others = [
        key_of(module(6)),
        key_of(module(5, "subtract")),
        key_of(module(5), devices=(devices[1],)),
        key_of(module(5), 2),
        key_of(module(5), 2, r=2, p=1),
        key_of(module(5), o=(("xla_backend_optimization_level", 0),)),
    ]
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    others.append(key_of(module(5)))
    monkeypatch.delenv("XLA_FLAGS")
    assert key_of(module(5)) == base
    for name, value in (("jaxlib_version", "0.0"), ("xla_version", 1)):
        monkeypatch.setattr(compile, "_environment_keys", {})
        monkeypatch.setattr(compat, name, value)
        others.append(key_of(module(5)))
    monkeypatch.setattr(compile, "_environment_keys", {})
    monkeypatch.setattr(disk_cache, "machine_key", lambda: "another CPU")
    others.append(key_of(module(5)))
    assert len({base, *others}) == len(others) + 1


RESTART = """
import numpy as np
from pullback.xla import client, compat, compile
from tests_module import make
seen = []
compile.on_compile.append(lambda e: seen.append(e.source))
for n in (3, 5000):
    compile.compile_module(make(n), name="f", devices=tuple(client.devices()[:1]))
print(*seen)
"""


def test_a_new_process_compiles_nothing(cache_dir, tmp_path):
    (tmp_path / "tests_module.py").write_text(
        "from pullback.xla import compat\n"
        "def make(n):\n"
        "    t = f'tensor<{n}xf32>'\n"
        "    text = f'func.func public @main(%a: {t}) -> {t} {{ %0 = stablehlo.add %a, %a : {t}\\n'\n"
        "    with compat.mlir_context():\n"
        "        return compat.mlir().ir.Module.parse(text + f' return %0 : {t} }}')\n"
    )
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    env = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "random"}
    outs = []
    for _ in range(2):
        args = [sys.executable, "-W", "error", "-c", RESTART]
        done = subprocess.run(args, env=env, capture_output=True, text=True)
        assert done.returncode == 0 and done.stderr == "", done.stderr
        outs.append(done.stdout.split())
    assert outs == [["compiled"] * 2, ["disk"] * 2]


# ------------------------------------------------------------------ interrupts


def test_an_interrupt_waits_and_the_program_is_kept(module, events, monkeypatch):
    monkeypatch.setattr(signal, "getsignal", lambda number: signal.default_int_handler)
    real = compat.compile_and_load
    seen = []

    def slow(*args):
        seen.extend(compile.compiling_now())
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        return real(*args)

    monkeypatch.setattr(compat, "compile_and_load", slow)
    with pytest.raises(KeyboardInterrupt):
        build(module(7))
    monkeypatch.setattr(compat, "compile_and_load", real)
    assert [name for name, _ in seen] == ["f"] and compile.compiling_now() == []
    build(module(7))
    assert sources(events) == ["disk"]


def test_another_thread_leaves_signals_alone(module, events):
    handler = signal.getsignal(signal.SIGINT)
    results = []
    thread = threading.Thread(target=lambda: results.append(build(module(9))))
    thread.start()
    thread.join()
    assert results and signal.getsignal(signal.SIGINT) is handler
    build(module(9))
    assert signal.getsignal(signal.SIGINT) is handler


def test_threads_compile_at_once(module, events):
    modules = [module(20 + i) for i in range(4)]
    results: list = []
    threads = [threading.Thread(target=lambda m=m: results.append(build(m))) for m in modules]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 4 and sources(events) == ["compiled"] * 4


# ------------------------------------------------------------------ tiny programs


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("%0 = stablehlo.add %a, %b : T", True),
        ("%0 = stablehlo.negate %a : T", True),
        ("%1 = stablehlo.multiply %a, %b : T\n %0 = stablehlo.add %1, %b : T", False),
        ("%0 = stablehlo.tanh %a : T", False),
        ("%1 = stablehlo.maximum %a, %b : T\n %0 = stablehlo.divide %1, %b : T", True),
    ],
)
def test_which_programs_are_tiny_and_exact(body, expected):
    for type_, small in (("tensor<64x64xf32>", True), ("tensor<64x65xf32>", False)):
        text = f"func.func public @main(%a: {type_}, %b: {type_}) -> {type_} {{ {body}\n return %0 : T }}"
        with compat.mlir_context():
            parsed = compat.mlir().ir.Module.parse(text.replace("T", type_))
        assert is_tiny_and_exact(parsed) == (expected and small)


def test_complex_arithmetic_calls_and_regions_are_not():
    complex_ = """func.func public @main(%a: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {
      %0 = stablehlo.multiply %a, %a : tensor<2xcomplex<f32>>
      return %0 : tensor<2xcomplex<f32>> }"""
    call = """func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = call @g(%a) : (tensor<2xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32> }
      func.func private @g(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }"""
    reduce = """func.func public @main(%a: tensor<2xf32>) -> tensor<f32> {
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions=[0]
        : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32> }"""
    for text in (complex_, call, reduce):
        with compat.mlir_context():
            assert not is_tiny_and_exact(compat.mlir().ir.Module.parse(text))


DTYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.uint8, np.int64]
NAMES = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16"}
NAMES |= {"int32": "i32", "uint8": "ui8", "int64": "i64"}


@pytest.mark.parametrize("op", "add subtract multiply divide maximum minimum".split())
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_quick_compilation_changes_no_bit(op, dtype, monkeypatch):
    rng = np.random.default_rng(0)
    dtype = np.dtype(dtype)
    t = f"tensor<512x{NAMES[dtype.name]}>"
    text = f"func.func public @main(%a: {t}, %b: {t}) -> {t} {{ %0 = stablehlo.{op} %a, %b : {t}\n return %0 : {t} }}"
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        x, y = rng.integers(info.min, info.max, (2, 512), dtype=dtype, endpoint=True)
        y[y == 0] = 1
    else:
        x, y = (rng.standard_normal((2, 512)) * 10.0 ** rng.integers(-4, 4, (2, 512))).astype(dtype)
        x[:6] = [np.nan, np.inf, -np.inf, 0, -0.0, 1e-7]
        y[3:8] = [0, -0.0, 1e-7, np.nan, -np.inf]
    outs = []
    device = client.devices()[0]
    aval = make_aval((512,), dtype, False)
    handler = compat.result_handler(aval, compat.single_device_sharding(device), False)
    for overrides in ((), tuple(compat.quick_compile_overrides().items())):
        options = compat.compile_options([device], overrides=overrides)
        loaded = compat.compile_and_load(device.client, text, [device], options, ())
        bufs = [array_from_numpy(v)._buf for v in (x, y)]
        (out,) = loaded.execute_sharded(bufs).consume_with_handlers([handler])
        outs.append(np.asarray(Array(out)).tobytes())
    assert outs[0] == outs[1]


def test_settings_of_the_optimiser(module, events):
    config.update("jax_disable_most_optimizations", True)
    try:
        first = build(module(5000))
    finally:
        config.update("jax_disable_most_optimizations", False)
    config.update("jax_optimization_level", "O1")
    try:
        second = build(module(5000))
    finally:
        config.update("jax_optimization_level", "UNKNOWN")
    third = build(module(5000))
    assert len({first.key, second.key, third.key}) == 3


def test_loading_is_much_faster_than_compiling(module, events):
    build(module(5000, "power"))
    compile.clear_memory()
    start = time.perf_counter()
    build(module(5000, "power"))
    assert sources(events)[1] == "disk" and time.perf_counter() - start < events[0].seconds


def test_compilations_are_logged_when_asked(module, events, caplog):
    build(module(5))
    compile.clear_memory()
    assert caplog.records == []
    with log_compiles(True):
        kept = build(module(5)), build(module(6))
    assert [r.getMessage().split(" in ")[0] for r in caplog.records] == [
        "f: loaded from disk",
        "f: compiled",
    ]
    assert len(kept) == 2


def test_programs_are_written_out_when_asked(module, events, tmp_path):
    config.update("jax_dump_ir_to", str(tmp_path / "ir"))
    try:
        compile_module(module(5), name="a/<b>", devices=tuple(client.devices()[:1]))
    finally:
        config.update("jax_dump_ir_to", "")
    (file,) = (tmp_path / "ir").iterdir()
    assert file.name.endswith("_a_b_.mlir") and "stablehlo.add" in file.read_text()
