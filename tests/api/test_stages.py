"""The stages of jit: what each says of the program's arguments and results."""

from __future__ import annotations

import numpy as np
import pytest

import pullback
import pullback.numpy as jnp
from pullback import stages


def scaled(x, y, n, *, z):
    return {"sum": x * n + y, "z": z}


def traced():
    f = pullback.jit(scaled, static_argnums=2, donate_argnums=0)
    return f.trace(1.0, jnp.arange(2.0), 3, z=4)


def test_types_of_arguments_and_results_at_each_stage():
    first = traced()
    for stage in (first, first.lower(), first.lower().compile()):
        (x, y), named = stage.args_info
        assert isinstance(x, stages.ArgInfo)
        assert (x.shape, x.dtype, x.donated) == ((), np.float32, True)
        assert (y.shape, y.dtype, y.donated) == ((2,), np.float32, False)
        assert named["z"].dtype == np.int32
        assert stage.in_avals[0][0].weak_type
        assert stage.in_tree == pullback.tree.structure(((0, 0), {"z": 0}))
        assert stage.out_tree == pullback.tree.structure({"sum": 0, "z": 0})
        assert stage.out_info["sum"] == pullback.ShapeDtypeStruct((2,), "float32")
        assert stage.out_info["z"] == pullback.ShapeDtypeStruct((), "int32", weak_type=True)
        assert stage.out_avals["z"].weak_type
        assert stage.fun_name == "scaled"


def test_classes():
    f = pullback.jit(lambda x: x)
    lowered = f.lower(1.0)
    assert isinstance(f, stages.Wrapped)
    assert not isinstance(scaled, stages.Wrapped)
    assert isinstance(lowered, stages.Lowered)
    assert isinstance(lowered.compile(), stages.Compiled)
    assert lowered.compile().runtime_executable().hlo_modules()


def test_a_compiled_program_takes_no_static_arguments():
    """Another value there would be ignored."""
    compiled = pullback.jit(lambda x, n: x * n, static_argnums=1).lower(2.0, 3).compile()
    assert compiled(2.0) == 6.0
    with pytest.raises(TypeError, match=r"leave out the static arguments \(1, n\)"):
        compiled(2.0, 4)
