"""Jaxpr to StableHLO: one module a program, one function a nested call.

Builds on core/jaxpr.py and xla/compat.py. Tested in tests/xla/test_lowering.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from pullback.core import dtypes
from pullback.core.aval import ShapedArray, abstract_token, make_aval, typeof
from pullback.core.jaxpr import Eqn, Jaxpr, Literal, inner_jaxprs
from pullback.core.stage import trace_to_jaxpr
from pullback.core.tracer import eval_context
from pullback.xla import compat

_SMALL_FLOATS = {
    "bfloat16": "BF16Type",
    "float8_e4m3b11fnuz": "Float8E4M3B11FNUZType",
    "float8_e4m3fn": "Float8E4M3FNType",
    "float8_e4m3fnuz": "Float8E4M3FNUZType",
    "float8_e5m2": "Float8E5M2Type",
    "float8_e5m2fnuz": "Float8E5M2FNUZType",
    "float8_e3m4": "Float8E3M4Type",
    "float8_e4m3": "Float8E4M3Type",
    "float8_e8m0fnu": "Float8E8M0FNUType",
    "float4_e2m1fn": "Float4E2M1FNType",
    "float16": "F16Type",
    "float32": "F32Type",
    "float64": "F64Type",
}
_SMALL_INTS = {"int2": 2, "int4": 4, "uint2": 2, "uint4": 4}


def element_type(dtype: Any) -> Any:
    """The MLIR element type of a dtype; needs the MLIR context.

    Raises:
        TypeError: XLA has no such type.
    """
    ir = compat.mlir().ir
    if dtype == dtypes.float0:
        return ir.IntegerType.get_signless(1)
    dtype = np.dtype(dtype)
    name = dtype.name
    if name in _SMALL_FLOATS:
        return getattr(ir, _SMALL_FLOATS[name]).get()
    if name in _SMALL_INTS:
        make = ir.IntegerType.get_unsigned if name[0] == "u" else ir.IntegerType.get_signless
        return make(_SMALL_INTS[name])
    if dtype.kind == "b":
        return ir.IntegerType.get_signless(1)
    if dtype.kind == "i":
        return ir.IntegerType.get_signless(dtype.itemsize * 8)
    if dtype.kind == "u":
        return ir.IntegerType.get_unsigned(dtype.itemsize * 8)
    if dtype.kind == "c":
        part = ir.F32Type.get() if dtype.itemsize == 8 else ir.F64Type.get()
        return ir.ComplexType.get(part)
    raise TypeError(f"dtype {dtype} has no StableHLO type; use a numeric dtype")


def tensor_type(aval: ShapedArray) -> Any:
    """The MLIR tensor type of an aval (or the token type); needs the MLIR context."""
    if aval is abstract_token:
        return compat.mlir().stablehlo.TokenType.get()
    return compat.mlir().ir.RankedTensorType.get(aval.shape, element_type(aval.dtype))


def dense_attr(value: np.ndarray) -> Any:
    """The MLIR attribute that holds an array; needs the MLIR context."""
    ir = compat.mlir().ir
    element = element_type(value.dtype)
    shape = value.shape
    value = np.ascontiguousarray(value)
    if value.dtype == np.bool_:
        value = np.packbits(value, bitorder="little")
    elif value.dtype.name in _SMALL_INTS:
        value = value.astype(np.int8 if value.dtype.name[0] == "i" else np.uint8)
    elif value.dtype == ml_dtypes.bfloat16:
        value = value.view(np.uint16)
    elif value.dtype.kind == "V":
        value = value.view(np.uint8)
    return ir.DenseElementsAttr.get(value, type=element, shape=shape)


@dataclass(slots=True)
class ModuleContext:
    """What a module's functions share: symbols, callbacks, platform, how axes map to devices."""

    module: Any
    platform: str
    functions: dict[Jaxpr, Any] = field(default_factory=dict)
    callbacks: list[Callable[..., Any]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    n_channels: int = 0
    axis_groups: dict[Any, Any] = field(default_factory=dict)
    # Inside a shard_map over some axes of its mesh only.
    partly_manual: bool = False
    keepalives: list[Any] = field(default_factory=list)
    token: Any = None

    def unique_name(self, name: str) -> str:
        """A symbol not used yet."""
        base = "".join(c if c.isalnum() or c == "_" else "_" for c in name) or "f"
        candidate, n = base, 0
        while candidate in self.names:
            n += 1
            candidate = f"{base}_{n}"
        self.names.add(candidate)
        return candidate

    def new_channel(self) -> int:
        """The next channel id for a cross-device operation."""
        self.n_channels += 1
        return self.n_channels


class LoweringContext:
    """What a lowering rule is handed: types of the equation, and StableHLO to write with."""

    __slots__ = ("aval_out", "avals_in", "avals_out", "eqn", "module_context")

    def __init__(
        self,
        module_context: ModuleContext,
        avals_in: Sequence[ShapedArray],
        avals_out: Sequence[ShapedArray],
        eqn: Eqn | None = None,
    ) -> None:
        self.module_context = module_context
        self.avals_in = list(avals_in)
        self.avals_out = list(avals_out)
        self.aval_out = avals_out[0] if avals_out else None
        self.eqn = eqn

    hlo = property(lambda self: compat.mlir().stablehlo)
    chlo = property(lambda self: compat.mlir().chlo)
    sdy = property(lambda self: compat.mlir().sdy)
    func = property(lambda self: compat.mlir().func)
    ir = property(lambda self: compat.mlir().ir)
    platform = property(lambda self: self.module_context.platform)

    def type(self, aval: ShapedArray) -> Any:
        """The tensor type of an aval."""
        return tensor_type(aval)

    def element_type(self, dtype: Any) -> Any:
        """The element type of a dtype."""
        return element_type(dtype)

    def const(self, value: Any, aval: ShapedArray | None = None) -> Any:
        """A constant; a scalar `value` fills the aval's shape."""
        if aval is None:
            array = np.asarray(value)
            return self.hlo.constant(dense_attr(array.astype(typeof(value).dtype, copy=False)))
        array = np.asarray(value).astype(aval.dtype, copy=False)
        out = self.hlo.constant(dense_attr(array))
        if array.shape == aval.shape:
            return out
        return self.hlo.broadcast_in_dim(tensor_type(aval), out, self.dims(()))

    def dims(self, values: Sequence[int]) -> Any:
        """An i64 array attribute."""
        return self.ir.DenseI64ArrayAttr.get([int(v) for v in values])

    i64_array = dims

    def bool_array(self, values: Sequence[bool]) -> Any:
        """A bool array attribute."""
        return self.ir.DenseBoolArrayAttr.get([bool(v) for v in values])

    def i64_matrix(self, rows: Sequence[Sequence[int]]) -> Any:
        """A two-dimensional i64 attribute (padding, replica groups)."""
        return self.ir.DenseIntElementsAttr.get(
            np.asarray(rows, np.int64).reshape(len(rows), len(rows[0]) if rows else 2)
        )

    def i64_attr(self, value: int) -> Any:
        """A 64-bit integer attribute."""
        return self.ir.IntegerAttr.get(self.ir.IntegerType.get_signless(64), int(value))

    def broadcast_to(self, value: Any, source: ShapedArray, target: ShapedArray) -> Any:
        """The value broadcast NumPy-style from one shape to another."""
        if source.shape == target.shape:
            return value
        offset = target.ndim - source.ndim
        dims = [offset + i for i in range(source.ndim)]
        squeezed = [
            i for i in range(source.ndim) if source.shape[i] == 1 != target.shape[offset + i]
        ]
        if squeezed:
            keep = [i for i in range(source.ndim) if i not in squeezed]
            small = make_aval(tuple(source.shape[i] for i in keep), source.dtype)
            value = self.hlo.reshape(tensor_type(small), value)
            dims = [dims[i] for i in keep]
        out = make_aval(target.shape, source.dtype)
        return self.hlo.broadcast_in_dim(tensor_type(out), value, self.dims(dims))

    def call(self, jaxpr: Jaxpr, values: Sequence[Any], name: str = "") -> list[Any]:
        """Call a jaxpr (without constvars); it becomes one function of the module.

        One with ordered side effects is written in place, so that they stay in one chain.
        """
        if len(jaxpr.eqns) <= 1 or has_ordered_effects(jaxpr):
            return lower_jaxpr(self.module_context, jaxpr, values)
        fn = self.module_context.functions.get(jaxpr)
        if fn is None:
            fn = _lower_function(self.module_context, jaxpr, name or jaxpr.debug_name or "call")
        outs = [tensor_type(a) for a in jaxpr.out_avals]
        symbol = self.ir.FlatSymbolRefAttr.get(fn)
        return list(self.func.CallOp(outs, symbol, list(values)).results)

    def token(self) -> Any:
        """The token after the last ordered side effect."""
        if self.module_context.token is None:
            self.module_context.token = self.hlo.create_token()
        return self.module_context.token

    def is_ordered(self, jaxpr: Jaxpr) -> bool:
        """Whether a program has side effects whose order is to be kept."""
        return has_ordered_effects(jaxpr)

    def set_token(self, token: Any) -> None:
        """Make the next ordered side effect come after the one that gave `token`."""
        self.module_context.token = token

    def inline(self, jaxpr: Jaxpr, values: Sequence[Any]) -> list[Any]:
        """Write a jaxpr's equations (without constvars) in place."""
        return lower_jaxpr(self.module_context, jaxpr, values)

    def fun(
        self,
        function: Callable[..., Any],
        values: Sequence[Any],
        avals: Sequence[ShapedArray] | None = None,
    ) -> list[Any]:
        """Lower a Python function on lax operations in place.

        Args:
            function: takes one array per value; returns an array or a sequence of them.
            values: ir values.
            avals: their types; the equation's by default.
        """

        def flat(*args: Any) -> Sequence[Any]:
            out = function(*args)
            return out if isinstance(out, tuple | list) else (out,)

        with eval_context():
            jaxpr, consts = trace_to_jaxpr(flat, self.avals_in if avals is None else avals)
        const_values = [self.const(np.asarray(c), typeof(c)) for c in consts]
        return lower_jaxpr(self.module_context, jaxpr, [*const_values, *values])

    def region(
        self, region: Any, avals: Sequence[ShapedArray], body: Callable[..., Sequence[Any]]
    ) -> None:
        """Fill an operation's region: `body(ctx, *block_arguments)` gives the returned values."""
        block = region.blocks.append(*[tensor_type(a) for a in avals])
        with self.ir.InsertionPoint(block):
            inner = LoweringContext(self.module_context, avals, [])
            results = body(inner, *block.arguments)
            self.hlo.return_(list(results))

    def scalar_region(self, region: Any, prim_lower: Callable[..., Any], dtype: Any) -> None:
        """Fill a reducer region: two scalars of a dtype combined by a StableHLO builder."""
        scalar = make_aval((), dtype)
        self.region(region, [scalar, scalar], lambda ctx, x, y: [prim_lower(x, y)])

    def custom_call(
        self,
        target: str,
        operands: Sequence[Any],
        result_types: Sequence[Any],
        *,
        backend_config: dict[str, Any] | None = None,
        operand_layouts: Sequence[Sequence[int]] | None = None,
        result_layouts: Sequence[Sequence[int]] | None = None,
        has_side_effect: bool = False,
        aliases: dict[int, int] | None = None,
    ) -> list[Any]:
        """A typed FFI call; attributes in `backend_config` are MLIR attributes."""
        ir = self.ir
        attributes: dict[str, Any] = {
            "call_target_name": ir.StringAttr.get(target),
            "has_side_effect": ir.BoolAttr.get(has_side_effect),
            "api_version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 4),
            "backend_config": ir.DictAttr.get(backend_config or {}),
        }
        if operand_layouts is not None and result_layouts is not None:
            attributes["operand_layouts"] = _layouts_attr(ir, operand_layouts)
            attributes["result_layouts"] = _layouts_attr(ir, result_layouts)
        if aliases:
            attributes["output_operand_aliases"] = ir.ArrayAttr.get(
                [
                    self.hlo.OutputOperandAlias.get(
                        output_tuple_indices=[out] if len(result_types) > 1 else [],
                        operand_index=operand,
                        operand_tuple_indices=[],
                    )
                    for operand, out in aliases.items()
                ]
            )
        op = self.hlo.CustomCallOp.build_generic(
            results=list(result_types), operands=list(operands), attributes=attributes
        )
        return list(op.results)

    def add_callback(self, function: Callable[..., Any]) -> int:
        """Register a Python function of the program; its index for the custom call."""
        self.module_context.callbacks.append(function)
        return len(self.module_context.callbacks) - 1


def has_ordered_effects(jaxpr: Jaxpr) -> bool:
    """Whether a program has side effects whose order is to be kept."""
    found = jaxpr.cache.get("ordered")
    if found is None:
        found = any(
            bool(e.params.get("ordered")) or any(map(has_ordered_effects, inner_jaxprs(e.params)))
            for e in jaxpr.eqns
        )
        jaxpr.cache["ordered"] = found
    return found


def _layouts_attr(ir: Any, layouts: Sequence[Sequence[int]]) -> Any:
    index = ir.IndexType.get()
    return ir.ArrayAttr.get(
        [ir.DenseIntElementsAttr.get(np.asarray(l, np.int64), type=index) for l in layouts]
    )


def _location(eqn: Eqn, cache: dict[Any, Any]) -> Any:
    ir = compat.mlir().ir
    source = eqn.source
    if source is None:
        return ir.Location.name(eqn.primitive.name)
    key = (eqn.primitive.name, source.file, source.line)
    found = cache.get(key)
    if found is None:
        place = ir.Location.file(source.file, source.line, 0)
        found = cache[key] = ir.Location.name(eqn.primitive.name, place)
    return found


def lower_jaxpr(
    module_context: ModuleContext,
    jaxpr: Jaxpr,
    values: Sequence[Any],
    separately: bool = False,
) -> list[Any]:
    """Write a jaxpr's equations at the insertion point; `values` are constvars' then invars'."""
    env: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), values, strict=True))
    literals: dict[Literal, Any] = {}
    locations: dict[Any, Any] = {}
    base = LoweringContext(module_context, (), ())

    def read(atom: Any) -> Any:
        if type(atom) is not Literal:
            return env[atom]
        found = literals.get(atom)
        if found is None:
            found = literals[atom] = base.const(atom.val, atom.aval)
        return found

    for number, eqn in enumerate(jaxpr.eqns):
        prim = eqn.primitive
        if prim.lower is None:
            raise NotImplementedError(f"{prim.name} cannot be compiled: it runs in Python only")
        operands = [read(a) for a in eqn.invars]
        if separately and operands:
            # The number keeps two barriers around the same operands from being made one.
            mark = base.const(np.int32(number))
            operands = list(base.hlo.OptimizationBarrierOp([*operands, mark]).results)[:-1]
        ctx = LoweringContext(
            module_context, [a.aval for a in eqn.invars], [v.aval for v in eqn.outvars], eqn
        )
        with _location(eqn, locations):
            out = prim.lower(ctx, *operands, **eqn.params)
        outs = out if isinstance(out, list | tuple) else [out]
        env.update(zip(eqn.outvars, outs, strict=True))
    return [read(a) for a in jaxpr.outvars]


def _lower_function(module_context: ModuleContext, jaxpr: Jaxpr, name: str) -> str:
    """Write a jaxpr as a private function; its symbol."""
    m = compat.mlir()
    symbol = module_context.unique_name(name)
    in_types = [tensor_type(a) for a in jaxpr.in_avals]
    out_types = [tensor_type(a) for a in jaxpr.out_avals]
    with m.ir.InsertionPoint(module_context.module.body):
        fn = m.func.FuncOp(symbol, (in_types, out_types))
        fn.attributes["sym_visibility"] = m.ir.StringAttr.get("private")
        block = fn.add_entry_block()
    with m.ir.InsertionPoint(block):
        m.func.ReturnOp(lower_jaxpr(module_context, jaxpr, block.arguments))
    module_context.functions[jaxpr] = symbol
    return symbol


@dataclass(frozen=True, slots=True)
class LoweredModule:
    """A StableHLO module with the Python callbacks that it calls."""

    module: Any
    callbacks: tuple[Callable[..., Any], ...]
    name: str


def lower_module(
    jaxpr: Jaxpr,
    name: str,
    *,
    platform: str = "cpu",
    donated: Sequence[bool] = (),
    num_replicas: int = 1,
    num_partitions: int = 1,
    arg_shardings: Sequence[Any] = (),
    axis_groups: dict[Any, Any] | None = None,
    separately: bool = False,
) -> LoweredModule:
    """The StableHLO module of a jaxpr; constvars come first in its signature.

    Args:
        jaxpr: the program.
        name: the module is called `jit_<name>`.
        platform: which platform's lowerings to choose.
        donated: per input whether its memory may be reused for a result.
        num_replicas: how many devices run the program side by side (pmap).
        num_partitions: over how many devices one program is divided.
        arg_shardings: per input an HLO sharding text or None.
        axis_groups: mapped axis name to its replica groups.
        separately: the compiler may not rewrite operations together.
    """
    m = compat.mlir()
    ir = m.ir
    with compat.mlir_context(), ir.Location.unknown():
        module = ir.Module.create()
        context = ModuleContext(module, platform, axis_groups=axis_groups or {})
        module_name = context.unique_name(f"jit_{name or 'f'}")
        module.operation.attributes["sym_name"] = ir.StringAttr.get(module_name)
        i32 = ir.IntegerType.get_signless(32)
        module.operation.attributes["mhlo.num_replicas"] = ir.IntegerAttr.get(i32, num_replicas)
        module.operation.attributes["mhlo.num_partitions"] = ir.IntegerAttr.get(i32, num_partitions)
        context.names.add("main")
        inputs = (*jaxpr.constvars, *jaxpr.invars)
        in_types = [tensor_type(v.aval) for v in inputs]
        out_types = [tensor_type(a) for a in jaxpr.out_avals]
        with ir.InsertionPoint(module.body):
            fn = m.func.FuncOp("main", (in_types, out_types))
            fn.attributes["sym_visibility"] = ir.StringAttr.get("public")
            block = fn.add_entry_block()
        with ir.InsertionPoint(block):
            m.func.ReturnOp(lower_jaxpr(context, jaxpr, block.arguments, separately))
        attrs = _argument_attributes(ir, jaxpr, donated, arg_shardings)
        if attrs is not None:
            fn.arg_attrs = ir.ArrayAttr.get(attrs)
        module.operation.verify()
    return LoweredModule(module, tuple(context.callbacks), name)


def _argument_attributes(
    ir: Any, jaxpr: Jaxpr, donated: Sequence[bool], shardings: Sequence[Any]
) -> list[Any] | None:
    """Aliasing of donated inputs with results of the same type, and input shardings."""
    n_in = len(jaxpr.constvars) + len(jaxpr.invars)
    attrs: list[dict[str, Any]] = [{} for _ in range(n_in)]
    if any(donated):
        free = [(a.shape, a.dtype) for a in jaxpr.out_avals]
        taken = [False] * len(free)
        offset = len(jaxpr.constvars)
        for i, (var, donate) in enumerate(zip(jaxpr.invars, donated, strict=True)):
            if not donate:
                continue
            for o, kind in enumerate(free):
                if not taken[o] and kind == (var.aval.shape, var.aval.dtype):
                    taken[o] = True
                    i32 = ir.IntegerType.get_signless(32)
                    attrs[offset + i]["tf.aliasing_output"] = ir.IntegerAttr.get(i32, o)
                    break
            else:
                attrs[offset + i]["jax.buffer_donor"] = ir.BoolAttr.get(True)
    for entry, sharding in zip(attrs, shardings, strict=False):
        if sharding is not None:
            entry["mhlo.sharding"] = ir.StringAttr.get(sharding)
    if not any(attrs):
        return None
    return [ir.DictAttr.get(a) for a in attrs]


def module_text(module: Any, *, debug_info: bool = False) -> str:
    """The module as StableHLO text."""
    return module.operation.get_asm(enable_debug_info=debug_info)
