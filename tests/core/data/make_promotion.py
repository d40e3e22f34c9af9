"""Writes promotion.json beside this file: what the real jax says of dtype promotion.

Run it with the Python of an environment that has jax: `python make_promotion.py`.
"""

import json
import os
import pathlib
import warnings

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import ml_dtypes
import numpy as np
from jax import dtypes

warnings.simplefilter("ignore")

NAMES = [
    "bool", "uint2", "uint4", "uint8", "uint16", "uint32", "uint64",
    "int2", "int4", "int8", "int16", "int32", "int64",
    "float4_e2m1fn", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn",
    "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    "bfloat16", "float16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip
WEAK = {"int*": 1, "float*": 1.0, "complex*": 1j, "bool*": True}


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def operand(name):
    return WEAK[name] if name in WEAK else dtype_of(name)


def outcome(function):
    try:
        dtype, weak = function()
    except dtypes.TypePromotionError:
        return "TypePromotionError"
    except Exception as error:
        return type(error).__name__
    return [np.dtype(dtype).name, bool(weak)]


def result_type(*names):
    return outcome(lambda: dtypes.result_type(*map(operand, names), return_weak_type_flag=True))


def strict(*names):
    with jax.numpy_dtype_promotion("strict"):
        return result_type(*names)


def table():
    everything = NAMES + list(WEAK)
    found = {"names": NAMES, "weak": list(WEAK)}
    for x64 in (False, True):
        jax.config.update("jax_enable_x64", x64)
        found[f"x64={x64}"] = {
            "pairs": [[a, b, result_type(a, b)] for a in everything for b in everything],
            "strict": [[a, b, strict(a, b)] for a in everything for b in everything],
            "triples": [
                [a, b, c, result_type(a, b, c)]
                for a in ("bool", "uint8", "int64", "bfloat16", "float32", "float*", "int*")
                for b in ("uint64", "int8", "int*", "float*", "complex*", "float16")
                for c in everything
            ],
            "canonical": [
                [a, np.dtype(dtypes.canonicalize_dtype(dtype_of(a))).name] for a in NAMES
            ],
            "inexact": [
                [a, np.dtype(jax._src.dtypes.to_inexact_dtype(dtype_of(a))).name] for a in NAMES
            ],
        }
    kinds = ["bool", "signedinteger", "unsignedinteger", "integer", "floating", "inexact",
             "complexfloating", "number", "generic"]  # fmt: skip
    found["issubdtype"] = [
        [
            a,
            k,
            bool(jax.numpy.issubdtype(dtype_of(a), np.dtype(k) if k == "bool" else getattr(np, k))),
        ]
        for a in NAMES
        for k in kinds
    ]
    found["finfo"] = {
        a: {
            k: str(getattr(jax.numpy.finfo(dtype_of(a)), k))
            for k in ("bits", "eps", "max", "min", "tiny", "nmant", "nexp", "smallest_subnormal")
        }
        for a in NAMES
        if jax.numpy.issubdtype(dtype_of(a), np.inexact)
    }
    found["iinfo"] = {
        a: [
            int(jax.numpy.iinfo(dtype_of(a)).min),
            int(jax.numpy.iinfo(dtype_of(a)).max),
            int(jax.numpy.iinfo(dtype_of(a)).bits),
        ]
        for a in NAMES
        if jax.numpy.issubdtype(dtype_of(a), np.integer)
    }
    isd = ["bool", "signed integer", "unsigned integer", "integral", "real floating",
           "complex floating", "numeric"]  # fmt: skip
    found["isdtype"] = [[a, k, bool(jax.numpy.isdtype(dtype_of(a), k))] for a in NAMES for k in isd]
    found["version"] = jax.__version__
    return found


if __name__ == "__main__":
    path = pathlib.Path(__file__).with_name("promotion.json")
    lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in table().items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
