"""One test a fact about jaxlib that the engine stands on."""

from __future__ import annotations

import collections
import gc
import inspect
import os
import sys
import types

import ml_dtypes
import numpy as np
import pytest

from pullback.core.aval import make_aval
from pullback.xla import client, compat
from pullback.xla.array import Array
from pullback.xla.compat import dispatcher, state

F32 = np.dtype(np.float32)


def put(value, **kwargs):
    value = np.asarray(value)
    aval = make_aval(value.shape, value.dtype, False)
    return compat.device_put_buffer(value, aval, client.local_devices()[0], **kwargs)


def loaded_add(module):
    devices = client.local_devices()[:1]
    options = compat.compile_options(devices)
    return compat.compile_and_load(devices[0].client, module(3), devices, options, ())


@pytest.fixture(params=["cpp", "python"])
def either(request, monkeypatch):
    """The name of the dispatcher: both serve the same contract."""
    monkeypatch.setattr(dispatcher, "fast_dispatch_works", lambda: request.param == "cpp")
    return request.param


# ------------------------------------------------------------------ buffers


def test_put_copies_the_callers_buffer():
    raw = np.zeros(4096 + 64, np.uint8)
    start = -raw.ctypes.data % 64
    value = raw[start : start + 4096].view(np.float32)  # aligned: jaxlib would alias it
    buf = put(value)
    value[:] = 7
    assert not compat.to_numpy(buf).any()


def test_put_without_copy_aliases_an_aligned_buffer():
    raw = np.zeros(4096 + 64, np.uint8)
    start = -raw.ctypes.data % 64
    value = raw[start : start + 4096].view(np.float32)
    assert compat.buffer_pointer(put(value, copy=False)) == value.ctypes.data


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64", "complex128"])
def test_64_bit_values_stay_whole(dtype):
    value = np.array([2**40 + 1]).astype(dtype)
    buf = put(value)
    assert compat.to_numpy(buf).dtype == dtype and compat.to_numpy(buf)[0] == value[0]


NATIVE = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64"
SMALL = (
    "bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3b11fnuz float8_e4m3fnuz float8_e5m2fnuz "
    "float8_e8m0fnu float8_e3m4 float8_e4m3 float4_e2m1fn int4 uint4 int2 uint2"
)


@pytest.mark.parametrize("name", [*NATIVE.split(), *SMALL.split()])
@pytest.mark.parametrize("shape", [(), (3,), (0, 2), (2, 3)])
def test_values_come_back_from_the_device(name, shape):
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    value = np.ones(shape).astype(dtype)
    back = compat.to_numpy(put(value))
    assert back.dtype == dtype and back.shape == shape
    assert back.tobytes() == value.tobytes() and not back.flags.writeable


def test_numpy_view_is_not_a_copy():
    buf = put(np.arange(5.0, dtype=F32))
    assert compat.to_numpy(buf).ctypes.data == compat.buffer_pointer(buf)


def test_view_outlives_the_array():
    view = compat.to_numpy(put(np.arange(1000.0, dtype=F32)))
    gc.collect()
    assert view.sum() == 499500


@pytest.mark.parametrize(
    "make", [lambda: np.arange(12.0).reshape(3, 4).T, lambda: np.arange(9.0)[1::2]]
)
def test_strided_values(make):
    assert np.array_equal(compat.to_numpy(put(make())), make())


def test_result_handler_gives_our_aval_and_sharding(module):
    aval = make_aval((3,), F32, False)
    sharding = compat.single_device_sharding(client.local_devices()[0])
    handler = compat.result_handler(aval, sharding, False)
    x = put(np.ones(3, F32))
    (out,) = loaded_add(module).execute_sharded([x, x]).consume_with_handlers([handler])
    assert out.aval is aval and out._sharding is sharding and out._committed is False


def test_a_cpp_sharding_takes_attributes():
    device = client.local_devices()[0]
    sharding = compat.gspmd_sharding([device], compat.HloSharding.replicate())
    sharding.anything = 1
    assert sharding.anything == 1


def test_copy_to_another_device():
    a, b = client.local_devices()[:2]
    buf = put(np.arange(3.0, dtype=F32))
    moved = compat.copy_to_devices(buf, compat.single_device_sharding(b), [b], False)
    assert moved._sharding._device == b and moved.aval is buf.aval
    assert np.array_equal(compat.to_numpy(moved), [0, 1, 2])
    assert buf._sharding._device == a


# ------------------------------------------------------------------ process-wide state


def test_log_lines_of_xla_are_off():
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "3"


def test_real_jax_is_not_loaded_here():
    assert not compat.real_jax_loaded()


def test_setting_in_the_key_makes_the_dispatcher_miss(either):
    setting = compat.make_config("pullback_test_setting", 0, in_jit_key=True)
    miss, misses = one_argument_call()
    call = compat.make_pjit("twice", None, miss)
    x = Array(put(np.ones(3, F32)))
    call(x)
    setting.set_local(1)
    call(x), call(x)
    setting.set_local(0)
    call(x)
    assert len(misses) == 2


def test_taking_an_array_apart_gets_our_types():
    """C++ asks jax for a shard's type and place; it is answered, and nothing stays behind."""
    before = dict(sys.modules)
    with compat.no_jax_import():
        pointer = put(np.ones(11, F32)).unsafe_buffer_pointer()
    assert pointer and {n for n in sys.modules if n.partition(".")[0] == "jax"} == set()
    assert before.keys() == sys.modules.keys()


def test_a_module_named_jax_is_put_back():
    alias = types.ModuleType("jax")
    sys.modules["jax"] = alias
    try:
        with compat.no_jax_import():
            assert sys.modules["jax"] is not alias
        assert sys.modules["jax"] is alias and "jax.core" not in sys.modules
    finally:
        del sys.modules["jax"]


# ------------------------------------------------------------------ the dispatcher


ONE_ARGUMENT = """func.func public @main(%a: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.add %a, %a : tensor<3xf32>
  return %0 : tensor<3xf32>
}"""


def test_fast_data_has_the_fields_that_cpp_reads():
    assert compat.FastData._fields == (
        "xla_executable",
        "out_pytree_def",
        "in_shardings",
        "out_shardings",
        "out_avals",
        "out_committed",
        "kept_var_bitvec",
        "in_device_local_layouts",
        "const_args",
    )


def one_argument_call(committed=False, kept=(True,), consts=()):
    devices = client.local_devices()[:1]
    with compat.mlir_context():
        module = compat.mlir().ir.Module.parse(ONE_ARGUMENT)
    options = compat.compile_options(devices)
    loaded = compat.compile_and_load(devices[0].client, module, devices, options, ())
    aval = make_aval((3,), F32, False)
    sharding = compat.single_device_sharding(devices[0])
    handler = compat.result_handler(aval, sharding, committed)
    misses = []

    def miss(*args, **kwargs):
        misses.append((args, kwargs))
        leaves, _ = compat.dispatch_registry.flatten((args, kwargs))
        if not all(isinstance(x, compat.ArrayImpl) for x in leaves):
            return "slow", None, False
        bufs = [*consts, *(x for x, keep in zip(leaves, kept, strict=True) if keep)]
        out = Array(loaded.execute_sharded(bufs).consume_with_handlers([handler])[0])
        tree = compat.dispatch_registry.flatten(out)[1]
        n = sum(kept) + len(consts)
        fast = compat.FastData(
            loaded,
            tree,
            [sharding] * n,
            [sharding],
            [aval],
            [committed],
            list(kept),
            [None] * n,
            list(consts),
        )
        return out, fast, False

    return miss, misses


def test_second_call_of_a_signature_stays_in_the_dispatcher(either):
    miss, misses = one_argument_call()
    call = compat.make_pjit("twice", None, miss)
    x = Array(put(np.arange(3.0, dtype=F32)))
    outs = [call(x) for _ in range(3)]
    assert len(misses) == 1
    assert all(np.array_equal(np.asarray(o), [0, 2, 4]) for o in outs)
    assert all(type(o) is Array for o in outs) and call._cache_size() == 1


def test_an_unread_argument_is_dropped(either):
    miss, misses = one_argument_call(kept=(False, True))
    call = compat.make_pjit("second", None, miss)
    x, y = Array(put(np.zeros(3, F32))), Array(put(np.ones(3, F32)))
    assert [np.asarray(call(x, y))[0] for _ in range(2)] == [2, 2] and len(misses) == 1


def test_constants_are_put_before_the_arguments(either):
    const = put(np.full(3, 5, F32))
    miss, misses = one_argument_call(kept=(False,), consts=(const,))
    call = compat.make_pjit("constant", None, miss)
    x = Array(put(np.zeros(3, F32)))
    assert [np.asarray(call(x))[0] for _ in range(2)] == [10, 10] and len(misses) == 1


def test_fast_data_keeps_the_constants():
    # Without the constants' bits C++ reads beyond the list and drops arguments at random.
    fast = compat.FastData(None, None, [], [], [], [], [False, True], [], ["c1", "c2"])
    assert fast.kept_var_bitvec == [True, True, False, True]


def test_static_arguments_are_compared_by_value(either):
    seen = []

    def miss(x, flag, *, name):
        seen.append((flag, name))
        return one_argument_call()[0](x)[:2] + (False,)

    call = compat.make_pjit("static", None, miss, [1], ["name"])
    x = Array(put(np.zeros(3, F32)))
    for flag, name in ((True, "a"), (True, "a"), (False, "a"), (True, "b"), (True, "a")):
        call(x, flag, name=name)
    assert seen == [(True, "a"), (False, "a"), (True, "b")]


def test_unknown_leaf_goes_to_the_miss_each_time(either):
    miss, misses = one_argument_call()
    call = compat.make_pjit("twice", None, miss)

    class Tracer:
        pass

    t = Tracer()
    assert call(t) == "slow" and call(t) == "slow" and len(misses) == 2


@pytest.mark.parametrize("forget", [False, True])
def test_a_miss_without_fast_data_is_final_unless_forgotten(forget):
    miss, misses = one_argument_call()
    ready = []
    call = compat.make_pjit(
        "later", None, lambda x: miss(x) if ready else (miss(x)[0], None, forget)
    )
    x = Array(put(np.ones(3, F32)))
    call(x), call(x)
    ready.append(1)
    call(x), call(x), call(x)
    assert len(misses) == (3 if forget else 5)


def test_exceptions_of_a_miss_come_through(either):
    def miss(x):
        raise KeyError("mine")

    call = compat.make_pjit("bad", None, miss)
    with pytest.raises(KeyError, match="mine"):
        call(Array(put(np.zeros(3, F32))))


def test_weak_type_and_commitment_are_part_of_the_signature(either):
    miss, misses = one_argument_call()
    call = compat.make_pjit("twice", None, miss)
    value = np.zeros(3, F32)
    device = client.local_devices()[0]
    for weak in (False, True):
        for committed in (False, True):
            aval = make_aval((3,), F32, weak)
            call(Array(compat.device_put_buffer(value, aval, device, committed)))
    assert len(misses) == 4


def test_structures_are_flattened(either):
    miss, misses = one_argument_call()

    def nested(tree):
        (x,) = tree["a"]
        out, fast, again = miss(x)
        return out, fast, again

    call = compat.make_pjit("nested", None, nested)
    x = Array(put(np.ones(3, F32)))
    assert np.asarray(call({"a": [x]}))[0] == 2
    assert np.asarray(call({"a": [x]}))[0] == 2 and len(misses) == 1


def test_cleared_caches_miss_again(either):
    miss, misses = one_argument_call()

    def fun(x):
        return x

    call = compat.make_pjit("twice", fun, miss)
    x = Array(put(np.ones(3, F32)))
    call(x), call(x)
    compat.clear_dispatch_caches()
    call(x)
    assert len(misses) == 2


def test_binds_as_a_method(either):
    class Model:
        twice = compat.make_pjit("twice", None, lambda self, x: (self, None, False))

    model = Model()
    assert model.twice(Array(put(np.ones(3, F32)))) is model


def test_self_test_passes():
    assert compat.dispatch_self_test() is None


def test_self_test_says_what_went_wrong(monkeypatch):
    monkeypatch.setattr(dispatcher, "_cpp_pjit", lambda *a: None)
    assert "TypeError" in compat.dispatch_self_test()
    monkeypatch.setattr(dispatcher, "_cpp_pjit", lambda *a: lambda x: a[2](x)[0])  # no cache
    assert "got" in compat.dispatch_self_test()


def test_unknown_jaxlib_is_tried_before_use(monkeypatch):
    monkeypatch.delenv("PULLBACK_DISPATCH", raising=False)
    monkeypatch.setattr(dispatcher, "jaxlib_version", "0.99.0")
    asked = []
    monkeypatch.setattr(dispatcher, "dispatch_self_test", lambda: asked.append(1) or "broken")
    works = inspect.unwrap(dispatcher.fast_dispatch_works)
    assert works() is False and asked == [1]


def test_wrong_dispatch_setting_is_refused(monkeypatch):
    monkeypatch.setenv("PULLBACK_DISPATCH", "fast")
    with pytest.raises(ValueError, match="auto, cpp or python"):
        inspect.unwrap(dispatcher.fast_dispatch_works)()


# ------------------------------------------------------------------ registry, MLIR, options


def test_registry_knows_dict_classes_and_arrays():
    registry = compat.dispatch_registry
    ordered = collections.OrderedDict(b=1, a=2)
    leaves, tree = registry.flatten(ordered)
    assert leaves == [1, 2] and tree.unflatten(leaves) == ordered
    default = collections.defaultdict(list, b=1, a=2)
    leaves, tree = registry.flatten(default)
    back = tree.unflatten(leaves)
    assert leaves == [2, 1] and back == default and back.default_factory is list
    array = Array(put(np.ones(2, F32)))
    leaves, tree = registry.flatten([array])
    assert leaves == [array._buf] and type(tree.unflatten(leaves)[0]) is Array


def test_one_context_with_all_dialects():
    assert compat.mlir_context() is compat.mlir_context()
    text = """func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = chlo.erf_inv %a : tensor<2xf32> -> tensor<2xf32>
      %1 = stablehlo.tanh %0 : tensor<2xf32>
      return %1 : tensor<2xf32> }"""
    with compat.mlir_context():
        assert "chlo.erf_inv" in str(compat.mlir().ir.Module.parse(text))


def test_hlo_text_of_a_module(module):
    assert "HloModule" in compat.module_to_hlo_text(module(3))


def test_unknown_option_is_an_error(module):
    devices = client.local_devices()[:1]
    options = compat.compile_options(devices, overrides=[("xla_no_such_flag", 1)])
    with pytest.raises(compat.XlaRuntimeError, match="No such compile option"):
        compat.compile_and_load(devices[0].client, module(3), devices, options, ())


def test_executables_survive_serialisation(module):
    loaded = loaded_add(module)
    devices = client.local_devices()[:1]
    blob = compat.serialize_executable(devices[0].client, loaded)
    options = compat.compile_options(devices)
    again = compat.deserialize_executable(devices[0].client, blob, devices, options)
    assert again.hlo_modules()[0].to_string() == loaded.hlo_modules()[0].to_string()


def test_sub_configurations_are_kept_alive():
    assert state._jit_key_configs and state._other_configs
