"""The stages of jit one by one: traced, lowered, compiled; and shapes without arrays.

Builds on program.py. Tested in tests/api/test_jit.py.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol, runtime_checkable

from pullback.api.program import JitFunction, TracedProgram, on_lower
from pullback.core import dtypes, pytree
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.jaxpr import ClosedJaxpr
from pullback.core.tracer import eval_trace, state
from pullback.xla import arguments, client, compat, dispatch
from pullback.xla.lowering import lower_module, module_text


class ShapeDtypeStruct:
    """The shape and dtype of an array that need not exist.

    Example:
        >>> ShapeDtypeStruct((2, 3), "float32").shape
        (2, 3)
    """

    __slots__ = ("dtype", "shape", "sharding", "weak_type")

    def __init__(
        self, shape: Sequence[int], dtype: Any, *, sharding: Any = None, weak_type: bool = False
    ) -> None:
        if dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be given")
        self.shape = tuple(int(d) for d in shape)
        self.dtype = dtypes.canonicalize_dtype(dtype)
        self.sharding = sharding
        self.weak_type = weak_type

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: prod(self.shape))

    @property
    def aval(self) -> ShapedArray:
        """The abstract value."""
        return make_aval(self.shape, self.dtype, self.weak_type)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and (
            self.shape,
            self.dtype,
            self.weak_type,
        ) == (other.shape, other.dtype, other.weak_type)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.weak_type))

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{weak})"


@dataclass(frozen=True, slots=True)
class ArgInfo:
    """The type of an argument, and whether its memory is given to the program."""

    _aval: ShapedArray
    donated: bool

    shape = property(lambda self: self._aval.shape)
    dtype = property(lambda self: self._aval.dtype)


@runtime_checkable
class Wrapped(Protocol):
    """What `jit` gives: a function that can also be traced and lowered without running."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """The function traced at the types of these arguments."""
        ...

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The function as StableHLO for the types of these arguments."""
        ...


class _Types:
    """The types of a traced program's arguments and results, in their structures."""

    _jit: JitFunction
    _program: TracedProgram

    @property
    def fun_name(self) -> str:
        """The function's name."""
        return self._jit.name

    @property
    def in_tree(self) -> Any:
        """The structure of (args, kwargs)."""
        return self._program.in_tree

    @property
    def out_tree(self) -> Any:
        """The structure of the result."""
        return self._program.out_tree

    @property
    def in_avals(self) -> Any:
        """The abstract values of (args, kwargs), static ones left out."""
        return pytree.tree_unflatten(self.in_tree, self._arguments())

    @property
    def args_info(self) -> Any:
        """The types of (args, kwargs), static ones left out, and which are donated."""
        donated = self._program.donated[len(self._program.consts) :]
        infos = [ArgInfo(a, d) for a, d in zip(self._arguments(), donated, strict=True)]
        return pytree.tree_unflatten(self.in_tree, infos)

    @property
    def out_avals(self) -> Any:
        """The abstract values of the result."""
        return pytree.tree_unflatten(self.out_tree, self._program.closed.out_avals)

    @property
    def out_info(self) -> Any:
        """The shapes and dtypes of the result, in its structure."""
        return pytree.tree_unflatten(
            self.out_tree,
            [
                ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type)
                for a in self._program.closed.out_avals
            ],
        )

    def _arguments(self) -> list[ShapedArray]:
        program = self._program
        return [v.aval for v in program.closed.invars[len(program.consts) :]]


class Traced(_Types):
    """A function traced at given types: `jaxpr`, `out_info`, and `lower()`."""

    def __init__(self, state_of: JitFunction, program: TracedProgram) -> None:
        self._jit = state_of
        self._program = program

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The traced program with its constants."""
        program = self._program
        n = len(program.consts)
        invars = program.closed.invars
        return ClosedJaxpr(
            program.closed.replace(constvars=invars[:n], invars=invars[n:]), program.consts
        )

    def lower(self, *, device: Any = None) -> Lowered:
        """Write the program as StableHLO."""
        return Lowered(self._jit, self._program, device or client.default_device())


class Lowered(_Types):
    """A program as StableHLO: `as_text()` and `compile()`."""

    def __init__(self, state_of: JitFunction, program: TracedProgram, device: Any) -> None:
        self._jit = state_of
        self._program = program
        self._device = device
        small, kept = program.pruned(state_of.options.keep_unused)
        donated = [d for d, keep in zip(program.donated, kept, strict=True) if keep]
        start = time.perf_counter()
        self._lowered = lower_module(
            small, state_of.name, platform=device.platform, donated=donated
        )
        self.seconds = time.perf_counter() - start
        for observer in tuple(on_lower):
            observer(state_of.name, self.seconds)

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The StableHLO module as text (`dialect` 'stablehlo'), or XLA's HLO ('hlo')."""
        if dialect in (None, "stablehlo"):
            return module_text(self._lowered.module, debug_info=debug_info)
        if dialect == "hlo":
            return compat.module_to_hlo_text(self._lowered.module)
        raise ValueError(f"unknown dialect {dialect!r}: choose 'stablehlo' or 'hlo'")

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The MLIR module."""
        return self._lowered.module

    def cost_analysis(self) -> Any:
        """XLA's estimate of the compiled program's cost."""
        return self.compile().cost_analysis()

    def compile(self, compiler_options: dict[str, Any] | None = None) -> Compiled:
        """Compile the program for its device."""
        small, kept = self._program.pruned(self._jit.options.keep_unused)
        key = ("compiled", self._device, False, self._jit.options.compiler_options)
        found = None if compiler_options else small.cache.get(key)
        if found is None:
            options = {**dict(self._jit.options.compiler_options), **(compiler_options or {})}
            found = dispatch.compile_lowered(
                self._lowered, small.in_avals, small.out_avals, self._device, False, options
            )
            if not compiler_options:
                small.cache[key] = found
        return Compiled(self._jit, self._program, found, kept)


class Compiled(_Types):
    """A compiled program: call it, or ask for its text, cost and memory."""

    def __init__(
        self,
        state_of: JitFunction,
        program: TracedProgram,
        compiled: dispatch.CompiledJaxpr,
        kept: list[bool],
    ) -> None:
        self._jit = state_of
        self._program = program
        self._compiled = compiled
        self._kept = kept

    @property
    def executable(self) -> Any:
        """The executable (xla/compile.py)."""
        return self._compiled.executable

    def runtime_executable(self) -> Any:
        """The executable as jaxlib has it."""
        return self._compiled.executable.loaded

    def as_text(self) -> str:
        """The optimized HLO."""
        return self._compiled.executable.as_text()

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate: flops, transcendentals, bytes accessed."""
        return self._compiled.executable.cost_analysis()

    def memory_analysis(self) -> Any:
        """XLA's sizes in bytes: argument, output, temp, alias."""
        return self._compiled.executable.memory_analysis()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = pytree.tree_flatten((args, kwargs))
        if tree != self._program.in_tree:
            options = self._jit.options
            static = (*map(str, options.static_argnums), *options.static_argnames)
            raise TypeError(
                f"{self._jit.name} was compiled for arguments of structure "
                f"{self._program.in_tree}, called with {tree}"
                + (
                    f"\nInstead: leave out the static arguments ({', '.join(static)}): they were "
                    "given to lower() and are part of the program."
                    if static
                    else ""
                )
            )
        n = len(self._program.consts)
        for i, (x, var) in enumerate(zip(leaves, self._program.closed.invars[n:], strict=True)):
            aval = typeof(x)
            if (aval.shape, aval.dtype) != (var.aval.shape, var.aval.dtype):
                raise TypeError(
                    f"{self._jit.name} was compiled for {var.aval.str_short()} at "
                    f"{pytree.leaf_path(tree, i)}, called with {aval.str_short()}"
                )
        if state.trace is not eval_trace:
            raise TypeError(
                f"the compiled {self._jit.name} cannot be called while tracing; "
                "call the jitted function instead"
            )
        device = self._compiled.device
        bufs = [
            arguments.on_device(arguments.to_buffer(x, device), device, False)
            for x in [*self._program.consts, *leaves]
        ]
        outs = self._compiled([b for b, keep in zip(bufs, self._kept, strict=True) if keep])
        return pytree.tree_unflatten(self._program.out_tree, outs)
