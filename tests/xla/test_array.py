"""Arrays: type, place, life, conversion to NumPy and Python, text."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import ml_dtypes
import numpy as np
import pytest

import pullback
from pullback.core.aval import make_aval
from pullback.xla import client, compat
from pullback.xla.array import Array, DLDeviceType, array_from_numpy
from pullback.xla.dlpack import from_dlpack
from pullback.xla.sharding import SingleDeviceSharding

F32 = np.dtype(np.float32)


def arr(value, dtype=np.float32, **kwargs):
    return array_from_numpy(np.asarray(value, dtype), **kwargs)


# ------------------------------------------------------------------ type and place


def test_type_is_that_of_the_value():
    x = arr([[1, 2, 3], [4, 5, 6]], np.int16)
    assert x.aval is make_aval((2, 3), np.dtype(np.int16), False)
    assert (x.shape, x.dtype, x.ndim, x.size) == ((2, 3), np.int16, 2, 6)
    assert (x.nbytes, x.itemsize, x.weak_type) == (12, 2, False)
    assert arr(1.0, weak_type=True).weak_type


def test_new_array_is_uncommitted_on_the_default_device():
    x = arr([1.0])
    device = client.default_device()
    assert not x.committed and x.device == device and x.devices() == {device}
    assert x.sharding == SingleDeviceSharding(device) and x.platform == "cpu"
    assert x.is_fully_replicated and x.is_fully_addressable
    (shard,) = x.addressable_shards
    assert shard.device == device and shard.index == (slice(None),) and shard.replica_id == 0
    assert np.array_equal(shard.data, [1.0]) and x.addressable_data(0) is x


def test_array_on_a_named_device_is_committed_there():
    device = client.local_devices()[1]
    x = arr([1.0], device=device)
    assert x.committed and x.device == device and [r.device for r in x] == [device]


def test_wrapping_is_one_slot():
    x = arr([1.0])
    assert np.array_equal(Array(x._buf), x)
    assert not hasattr(x, "__dict__")
    weakref.ref(x)


# ------------------------------------------------------------------ life


def test_waiting_returns_the_array():
    x = arr([1.0])
    assert x.block_until_ready() is x and x.is_ready()
    x.copy_to_host_async()
    assert x.on_device_size_in_bytes() == 4


@pytest.mark.parametrize(
    "use",
    [
        np.asarray,
        float,
        str,
        list,
        pickle.dumps,
        copy.copy,
        Array.block_until_ready,
        Array.is_ready,
        Array.item,
        Array.tolist,
        Array.copy_to_host_async,
        Array.__dlpack__,
        lambda x: x.addressable_shards,
    ],
)
@pytest.mark.parametrize("read_before", [False, True])
def test_use_after_deletion_says_so(use, read_before):
    x = arr(1.0) if use is float else arr([1.0])
    if read_before:
        np.asarray(x)
    x.delete()
    with pytest.raises(RuntimeError, match=r"Array has been deleted with shape=.*donate"):
        use(x)


def test_type_and_text_outlive_deletion():
    x = arr([1.0])
    x.delete()
    x.delete()
    assert x.is_deleted() and x.shape == (1,) and "deleted" in repr(x)


DONATING = """func.func public @main(%a: tensor<64xf32> {tf.aliasing_output=0:i32})
  -> tensor<64xf32> {
  %0 = stablehlo.add %a, %a : tensor<64xf32>
  return %0 : tensor<64xf32>
}"""


def run_donating(x):
    device = client.local_devices()[0]
    options = compat.compile_options([device])
    loaded = compat.compile_and_load(device.client, DONATING, [device], options, ())
    handler = compat.result_handler(x.aval, compat.single_device_sharding(device), False)
    return Array(loaded.execute_sharded([x._buf]).consume_with_handlers([handler])[0])


def test_a_donated_array_reports_it():
    x = arr(np.ones(64))
    assert np.asarray(run_donating(x))[0] == 2
    with pytest.raises(RuntimeError, match="donate_argnums"):
        np.asarray(x)


def test_a_numpy_view_is_safe_from_donation():
    x = arr(np.ones(64))
    view = np.asarray(x)
    y = run_donating(x)
    assert np.asarray(y)[0] == 2 and view[0] == 1


# ------------------------------------------------------------------ NumPy


def test_conversion_to_numpy_is_read_only_zero_copy_and_kept():
    x = arr([1.0, 2.0])
    view = np.asarray(x)
    assert view is np.asarray(x) and not view.flags.writeable
    assert view.ctypes.data == compat.buffer_pointer(x._buf)
    del x
    gc.collect()
    assert view.tolist() == [1.0, 2.0]


def test_numpy_conversion_arguments():
    x = arr([1.0, 2.0])
    assert np.asarray(x, np.float64).dtype == np.float64
    own = np.array(x)
    own[0] = 9
    assert np.asarray(x)[0] == 1
    assert np.asarray(x, copy=False) is np.asarray(x)
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(x, np.float64, copy=False)


def test_the_callers_buffer_is_copied():
    value = np.zeros(1024, np.float32)
    x = array_from_numpy(value)
    value[:] = 1
    assert not np.asarray(x).any()


def test_numpy_leaves_operators_to_the_array():
    assert Array.__array_priority__ == 100


def test_dlpack_both_ways_without_copy():
    x = arr([1.0, 2.0])
    view = np.from_dlpack(x)
    assert view.ctypes.data == compat.buffer_pointer(x._buf)
    assert x.__dlpack_device__() == (DLDeviceType.kDLCPU, 0)
    back = from_dlpack(x)
    assert compat.buffer_pointer(back._buf) == compat.buffer_pointer(x._buf)
    assert back.committed and back.aval is x.aval


def test_dlpack_of_small_floats():
    x = arr([1, 2], ml_dtypes.bfloat16)
    back = from_dlpack(x)
    assert back.dtype == ml_dtypes.bfloat16 and np.asarray(back).tolist() == [1, 2]
    assert from_dlpack(x, copy=True)._buf is not back._buf
    with pytest.raises(BufferError, match="no int4"):
        arr([1], ml_dtypes.int4).__dlpack__()


def test_dlpack_copies_when_asked_or_when_it_must():
    raw = np.zeros(64 + 16, np.uint8)
    start = -raw.ctypes.data % 64
    owned = raw[start : start + 16].view(np.float32)
    shared, copied = from_dlpack(owned), from_dlpack(owned, copy=True)
    owned[0] = 5
    assert np.asarray(shared)[0] == 5 and np.asarray(copied)[0] == 0
    strided = np.arange(8.0)[::2]
    assert np.asarray(from_dlpack(strided)).tolist() == [0, 2, 4, 6]
    with pytest.raises(BufferError, match="must be copied"):
        from_dlpack(strided, copy=False)


def test_dlpack_refusals():
    with pytest.raises(TypeError, match="not list; for others use asarray"):
        from_dlpack([1.0])
    with pytest.raises(BufferError, match="use device_put"):
        arr([1.0]).__dlpack__(dl_device=(2, 0))


# ------------------------------------------------------------------ copies


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int64, ml_dtypes.int4])
def test_pickle_keeps_value_and_type(dtype):
    x = arr([1, 2], dtype, weak_type=True)
    back = pickle.loads(pickle.dumps(x))
    assert back.aval is x.aval and np.array_equal(np.asarray(back), np.asarray(x))
    assert not np.shares_memory(np.asarray(back), np.asarray(x))


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
def test_copy_is_another_buffer(how):
    x = arr([1.0, 2.0])
    y = how(x)
    x.delete()
    assert np.array_equal(y, [1.0, 2.0]) and y.committed is False


# ------------------------------------------------------------------ Python's conversions


def test_scalars_convert():
    assert float(arr(1.5)) == 1.5 and int(arr(3, np.int32)) == 3 and complex(arr(2.0)) == 2
    assert [10, 20][arr(1, np.int8)] == 20 and bool(arr([[3.0]])) is True
    assert arr([[7]], np.int32).item() == 7 and arr([1, 2], np.int32).item(1) == 2
    assert arr([[1, 2]], np.int32).tolist() == [[1, 2]] and type(arr(2.5).item()) is float
    assert float(arr(1.5, ml_dtypes.bfloat16)) == 1.5


@pytest.mark.parametrize(
    ("convert", "value", "error", "text"),
    [
        (float, [1.0, 2.0], TypeError, r"Python float; this one has ndim=1"),
        (int, [1.0], TypeError, r"Python int; this one has ndim=1"),
        (complex, [[1.0]], TypeError, r"Python complex; this one has ndim=2"),
        (bool, [1.0, 2.0], ValueError, r"2 elements is ambiguous"),
        (bool, [], ValueError, r"empty array is ambiguous"),
        (len, 1.0, TypeError, r"scalar array"),
        (iter, 1.0, TypeError, r"scalar array"),
        (hash, [1.0], TypeError, r"unhashable"),
        (lambda x: [1, 2][x], 1.0, TypeError, r"integer scalar"),
    ],
)
def test_refused_conversions(convert, value, error, text):
    with pytest.raises(error, match=text):
        convert(arr(value))


def test_a_bool_is_no_index():
    with pytest.raises(TypeError, match="integer scalar"):
        [1, 2][arr(True, bool)]


def test_iteration_gives_rows():
    rows = list(arr([[1, 2], [3, 4]], weak_type=True))
    assert len(arr([[1, 2], [3, 4]])) == 2 and [type(r) for r in rows] == [Array, Array]
    assert np.array_equal(rows[1], [3, 4]) and rows[0].dtype == F32 and not rows[0].committed


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (0, "x.at[0].set(y)"),
        ((1, slice(2, None)), "x.at[1, 2:].set(y)"),
        ((slice(None, None, 2), ..., None), "x.at[::2, ..., None].set(y)"),
        (np.array([True, False]), "x.at[mask].set(y)"),
        ((0,), "x.at[0,].set(y)"),
        (np.array([1, 2]), "x.at[idx].set(y)"),
    ],
)
def test_item_assignment_names_the_way(index, text):
    with pytest.raises(TypeError) as e:
        arr([1.0, 2.0])[index] = 1
    assert text in str(e.value)


# ------------------------------------------------------------------ text


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (lambda: arr([1, 2]), "Array([1., 2.], dtype=float32)"),
        (lambda: arr(3, weak_type=True), "Array(3., dtype=float32, weak_type=True)"),
        (lambda: arr(True, bool), "Array(True, dtype=bool)"),
        (lambda: arr(np.zeros((0, 3))), "Array([], shape=(0, 3), dtype=float32)"),
        (lambda: arr([1, 1, 1], ml_dtypes.bfloat16), "Array([1, 1, 1], dtype=bfloat16)"),
        (lambda: arr(3, ml_dtypes.int4), "Array(3, dtype=int4)"),
        (
            lambda: arr(np.arange(2000), np.int32),
            "Array([   0,    1,    2, ..., 1997, 1998, 1999], dtype=int32)",
        ),
        (
            lambda: arr(np.arange(6).reshape(2, 3)),
            "Array([[0., 1., 2.],\n       [3., 4., 5.]], dtype=float32)",
        ),
        (
            lambda: arr(np.arange(5) * 1000.5, np.complex64),
            "Array([   0. +0.j, 1000.5+0.j, 2001. +0.j, 3001.5+0.j, 4002. +0.j],"
            "      dtype=complex64)",
        ),
        (
            lambda: arr(np.arange(12) * 1.123456),
            "Array([ 0.      ,  1.123456,  2.246912,  3.370368,  4.493824,  5.61728 ,\n"
            "        6.740736,  7.864192,  8.987648, 10.111104, 11.23456 , 12.358016],"
            "      dtype=float32)",
        ),
    ],
)
def test_repr_is_that_of_jax(x, text):
    assert repr(x()) == text


def test_str_and_format_are_those_of_numpy():
    x = arr([[1, 2], [3, 4]])
    assert str(x) == "[[1. 2.]\n [3. 4.]]" and f"{x}" == str(x)
    assert f"{arr(2.0):.3f}" == "2.000"
    with pytest.raises(TypeError):
        f"{x:.2f}"


def test_dlpack_of_64_bit_numbers_follows_the_option():
    host = np.arange(3.0)
    assert pullback.dlpack.from_dlpack(host).dtype == np.float32
    assert from_dlpack(np.arange(3)).dtype == np.int32
    with pullback.enable_x64(True):
        assert from_dlpack(host).dtype == np.float64
    with pytest.raises(BufferError, match="x64, so it must be copied"):
        from_dlpack(host, copy=False)
