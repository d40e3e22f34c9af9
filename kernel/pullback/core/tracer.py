"""Traces, tracers and primitives: which program a call of a primitive becomes part of.

Each thread has one current trace. `Primitive.bind` hands the call to it; a trace that owns none of
the arguments passes the call on to its parent, and the last one evaluates. Rules run with their
trace's parent as the current trace.

Builds on aval.py. Tested in tests/core/test_tracer.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.core import errors, source
from pullback.core.aval import ShapedArray, typeof


class _State(threading.local):
    """Per thread: the current trace, the axis names in scope, and a source position to use."""

    trace: Trace
    axis_env: tuple[tuple[Any, int], ...] = ()
    source: Any = None
    name_stack: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Primitive:
    """One operation and everything that is known of it. Stated in one call, never added to.

    Attributes:
        name: what stands in a printed jaxpr.
        abstract: (*avals, **params) -> aval, or a tuple of avals with `multiple_results`.
        lower: (ctx, *ir_values, **params) -> ir value (a sequence with `multiple_results`).
        jvp: (primals, tangents, **params) -> (out, tangent_out); a tangent may be a `Zero`.
        linearize: like `jvp`, where primal values may only be computed without tangents; given
            for operations whose jvp would mix the two (calls, loops, custom rules).
        transpose: (cotangent, *args, **params) -> one cotangent or None per argument; linear
            arguments arrive as `UndefinedPrimal`. With `multiple_results`, a list of cotangents.
        batch: (axis, args, dims, **params) -> (out, out_dim); dims are int or None.
        nondifferentiable: why there is no derivative, if there is none.
        multiple_results: whether results come as a list.
        impl: evaluates concrete arguments; None means compile the lowering and run it.
        effectful: (params) -> bool; such equations are never removed.
        axis_param: the parameter that holds mapped axis names, for collectives.
        stage: (args, params) -> (args, params) that a staging trace writes instead, for calls
            whose parameters hold Python functions.
        label: (params) -> short text for graph pictures.
        doc: one line of what it computes, with its formula.
    """

    name: str
    abstract: Callable[..., Any]
    lower: Callable[..., Any] | None = None
    jvp: Callable[..., Any] | None = None
    linearize: Callable[..., Any] | None = None
    transpose: Callable[..., Any] | None = None
    batch: Callable[..., Any] | None = None
    nondifferentiable: str | None = None
    multiple_results: bool = False
    impl: Callable[..., Any] | None = None
    effectful: Callable[[dict], bool] | None = None
    axis_param: str | None = None
    stage: Callable[[tuple, dict], tuple[tuple, dict]] | None = None
    label: Callable[[dict], str] | None = None
    doc: str = ""

    def __post_init__(self) -> None:
        if self.lower is None and self.impl is None:
            raise TypeError(f"primitive {self.name}: neither a lowering nor an implementation")
        if self.jvp is None and self.linearize is None and self.nondifferentiable is None:
            if self.transpose is None:
                raise TypeError(f"primitive {self.name}: no derivative rule and no reason for it")
        if self.batch is None:
            raise TypeError(f"primitive {self.name}: no batching rule")

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the primitive to arrays or tracers under the current trace."""
        return state.trace.process(self, args, params)

    def __repr__(self) -> str:
        return self.name


class Trace:
    """An interpreter of primitives. `live` turns False when its function has returned."""

    live: bool = True
    parent: Trace | None = None
    # Whether tangents are only recorded while primal values are computed: rules that run beneath
    # such a trace must not mix the two in one operation.
    separates_tangents: bool = False

    def process(self, prim: Primitive, args: tuple, params: dict) -> Any:
        """Apply `prim`; subclasses say what that means."""
        raise NotImplementedError

    def describe(self) -> str:
        """What the trace does, for error messages."""
        return type(self).__name__


# Tracers of at most so many elements show their value, where it is known.
_SHOWN_SIZE = 16


class Tracer:
    """A stand-in for an array while a function is traced. Operators are attached by numpy/."""

    __array_priority__ = 1000
    __slots__ = ("__weakref__", "_trace", "aval")

    _trace: Any
    aval: ShapedArray
    # Whether the value is being differentiated, so that a plain number in its place is another one.
    has_tangent = False

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)
    weak_type = property(lambda self: self.aval.weak_type)
    itemsize = property(lambda self: self.aval.dtype.itemsize)
    nbytes = property(lambda self: self.aval.size * self.aval.dtype.itemsize)

    def concrete(self) -> Any:
        """The array beneath, or None if the value is not known while tracing."""
        return None

    def _known(self, error: type[Exception]) -> Any:
        if not self._trace.live:
            raise errors.UnexpectedTracerError(self)
        value = self.concrete()
        if value is None:
            raise error(self)
        return value if hasattr(value, "__array__") else np.asarray(value, self.aval.dtype)

    def _constant(self, error: type[Exception]) -> Any:
        """The value, where making it a constant loses no derivative."""
        value = self._known(error)
        if self.has_tangent:
            raise errors.lost_derivative(error, self)
        return value

    def __bool__(self) -> bool:
        if self.aval.size != 1:
            raise errors.ambiguous_truth_value(self)
        return bool(self._known(errors.TracerBoolConversionError))

    def __int__(self) -> int:
        return int(self._known(errors.ConcretizationTypeError))

    def __float__(self) -> float:
        return float(self._constant(errors.ConcretizationTypeError))

    def __complex__(self) -> complex:
        return complex(self._constant(errors.ConcretizationTypeError))

    def __index__(self) -> int:
        return self._known(errors.TracerIntegerConversionError).__index__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self._constant(errors.TracerArrayConversionError).__array__(dtype, copy=copy)

    def item(self, *args: int) -> Any:
        """The value as a Python scalar, where it is known."""
        return self._known(errors.ConcretizationTypeError).item(*args)

    def tolist(self) -> Any:
        """The value as nested lists, where it is known."""
        return self._constant(errors.ConcretizationTypeError).tolist()

    def __len__(self) -> int:
        if not self.aval.shape:
            raise TypeError("len() of unsized object: this traced value is a scalar")
        return self.aval.shape[0]

    def __hash__(self) -> int:
        raise TypeError(
            f"unhashable type: {type(self).__name__} (a traced {self.aval.str_short()})\n"
            "Instead: use values known before tracing (shapes, static arguments) as keys."
        )

    def block_until_ready(self) -> Tracer:
        """The tracer itself: there is nothing to wait for while tracing."""
        return self

    def __repr__(self) -> str:
        kind = f"{type(self).__name__}<{self.aval.str_short()}>"
        if self.aval.size > _SHOWN_SIZE or not self._trace.live:
            return kind
        value = self.concrete()
        return kind if value is None else f"{kind} with value {value}"

    def __format__(self, spec: str) -> str:
        value = self.concrete()
        return format(value, spec) if spec and value is not None else repr(self)


def concrete_or_none(x: Any) -> Any:
    """The concrete array that `x` is or stands for, or None."""
    return x.concrete() if isinstance(x, Tracer) else x


class EvalTrace(Trace):
    """Runs each primitive at once. `run` compiles and executes; xla/dispatch.py provides it."""

    def __init__(self) -> None:
        self.run: Callable[[Primitive, tuple, dict], Any] = _no_backend

    def process(self, prim: Primitive, args: tuple, params: dict) -> Any:
        impl = prim.impl
        if impl is not None:
            for x in args:
                if isinstance(x, Tracer):
                    raise errors.UnexpectedTracerError(x)
            return impl(*args, **params)
        return self.run(prim, args, params)

    def describe(self) -> str:
        return "evaluation"


def _no_backend(prim: Primitive, args: tuple, params: dict) -> Any:
    raise RuntimeError(f"cannot evaluate {prim.name}: import pullback.xla.dispatch first")


class _Backend:
    """Compiles and runs a jaxpr on concrete arguments; xla/dispatch.py provides both."""

    run: Callable[[Any, Any, dict], list[Any]]
    # Whether somebody wants to see each operation or program as it runs.
    watched: Callable[[], bool] = staticmethod(lambda: False)


backend = _Backend()
eval_trace = EvalTrace()
_State.trace = eval_trace
state = _State()
source.processed[0] = lambda: state.source

# Called with (entering, trace) when a staging trace becomes current or stops being it, so that
# compiled-call caches outside the core can take note.
staging_observers: list[Callable[[Trace], None]] = []


def current_trace() -> Trace:
    """The trace that the calling thread's primitives go to."""
    return state.trace


@contextmanager
def set_current(trace: Trace) -> Iterator[Trace]:
    """Make `trace` current inside the block; restored also on KeyboardInterrupt."""
    previous = state.trace
    state.trace = trace
    try:
        yield trace
    finally:
        state.trace = previous


@contextmanager
def eval_context() -> Iterator[None]:
    """Evaluate inside the block whatever is being traced outside (`ensure_compile_time_eval`)."""
    with set_current(eval_trace):
        yield


@contextmanager
def extend_axis_env(name: Any, size: int) -> Iterator[None]:
    """Bring a mapped axis name of the given size into scope."""
    previous = state.axis_env
    state.axis_env = (*previous, (name, size))
    try:
        yield
    finally:
        state.axis_env = previous


def axis_size(name: Any) -> int:
    """The size of a mapped axis in scope.

    Raises:
        NameError: no such axis is in scope.
    """
    for known, size in reversed(state.axis_env):
        if known == name:
            return size
    raise NameError(
        f"unbound axis name: {name!r}. In scope: "
        f"{', '.join(repr(n) for n, _ in state.axis_env if n is not None) or 'none'}.\n"
        f"Instead: call the function under vmap(..., axis_name={name!r}), pmap or shard_map."
    )


def typecheck_args(args: tuple) -> list[ShapedArray]:
    """The abstract values of arguments."""
    return [typeof(x) for x in args]
