"""A jitted function's traces: signatures, static arguments, the C++ dispatcher's misses.

Builds on core/ and xla/. Tested in tests/api/test_jit.py.
"""

from __future__ import annotations

import functools
import inspect
import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pullback.api import float0, retrace
from pullback.api.signature import Static, name_of
from pullback.core import errors, leaks, pytree, source
from pullback.core.aval import ShapedArray, is_arraylike, typeof
from pullback.core.call import jit_p
from pullback.core.config import config
from pullback.core.jaxpr import Jaxpr, close, dce_jaxpr, eval_jaxpr
from pullback.core.stage import JaxprTrace, trace_to_jaxpr
from pullback.core.tracer import Tracer, eval_trace, staging_observers, state
from pullback.xla import arguments, client, compat, dispatch, spmd
from pullback.xla.array import Array
from pullback.xla.lowering import lower_module

_log = logging.getLogger(__name__)
_staging = compat.make_config("pullback_staging", False, in_jit_key=True)


def _note_staging(trace: Any) -> None:
    _staging.set_local(isinstance(trace, JaxprTrace))


# While a program is being written, a call of a jitted function on constants belongs into it too:
# the C++ dispatcher, which would run it, must miss.
staging_observers.append(_note_staging)
source.leak_watcher[0] = leaks.watch


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One tracing of a jitted function: seconds, and why there was no trace to reuse."""

    name: str
    seconds: float
    reason: str


# Called with a TraceEvent, or (name, 'lower', seconds) pairs, as they happen. Views add to them.
on_trace: list[Callable[[TraceEvent], None]] = []
on_lower: list[Callable[[str, float], None]] = []


@dataclass(frozen=True, slots=True)
class JitOptions:
    """What `jit` was asked for beside the function."""

    static_argnums: tuple[int, ...] = ()
    static_argnames: tuple[str, ...] = ()
    donate_argnums: tuple[int, ...] = ()
    donate_argnames: tuple[str, ...] = ()
    keep_unused: bool = False
    device: Any = None
    inline: bool = False
    compiler_options: tuple[tuple[str, Any], ...] = ()


class _KeyUses:
    """Which keys a program has used up, for jax_debug_key_reuse; random/reuse.py provides both."""

    is_used: Callable[[Any], bool]
    note: Callable[[str, Any], None]


key_uses = _KeyUses()


class TracedProgram:
    """A function traced at one signature: the jaxpr, its constants, and the shape of its result."""

    __slots__ = (
        "closed",
        "const_bufs",
        "consts",
        "donated",
        "in_tree",
        "kept",
        "name",
        "out_tree",
        "small",
        "used_keys",
    )

    def __init__(
        self, closed: Jaxpr, consts: list[Any], in_tree: Any, out_tree: Any, name: str
    ) -> None:
        self.closed = closed
        self.consts = consts
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.name = name
        self.small: Jaxpr | None = None
        self.kept: list[bool] = []
        self.donated: tuple[bool, ...] = ()
        self.const_bufs: list[Any] | None = None
        self.used_keys: list[int] = []

    def pruned(self, keep_unused: bool) -> tuple[Jaxpr, list[bool]]:
        """The jaxpr without dead code and unread inputs, and which inputs it keeps."""
        if self.small is None:
            n_out = len(self.closed.outvars)
            self.small, self.kept = dce_jaxpr(self.closed, [True] * n_out, keep_unused)
        return self.small, self.kept


class JitFunction:
    """What belongs to one jitted function: options, its traces, and how to miss."""

    def __init__(self, fun: Callable[..., Any], options: JitOptions) -> None:
        self.fun = fun
        self.options = options
        self.name = name_of(fun)
        self.traces: dict[tuple, TracedProgram] = {}
        # Calls with numbers or NumPy arrays among the arguments, which C++ leaves to us:
        # signature -> (run, which inputs are passed, constants' buffers, the result's structure).
        self.quick: dict[tuple, tuple] = {}

    def split(self, args: tuple, kwargs: dict) -> tuple[tuple, dict, tuple, dict]:
        """Dynamic positional, dynamic named, static positional (number, value), static named."""
        nums, names = self.options.static_argnums, self.options.static_argnames
        if not nums and not names:
            return args, kwargs, (), {}
        static_nums = {n % len(args) if n < 0 else n for n in nums} if args else set()
        dynamic = tuple(a for i, a in enumerate(args) if i not in static_nums)
        static = tuple(
            (i, Static(args[i], str(i), self.name)) for i in sorted(static_nums) if i < len(args)
        )
        static_kw = {k: Static(v, repr(k), self.name) for k, v in kwargs.items() if k in names}
        dynamic_kw = {k: v for k, v in kwargs.items() if k not in names}
        return dynamic, dynamic_kw, static, static_kw

    def trace(self, args: tuple, kwargs: dict) -> tuple[TracedProgram, list[Any]]:
        """The traced program for these arguments, from the cache or fresh, and the leaves."""
        dynamic, dynamic_kw, static, static_kw = self.split(args, kwargs)
        leaves, tree = float0.flatten((dynamic, dynamic_kw))
        avals = tuple([self._aval(x, tree, i) for i, x in enumerate(leaves)])
        key = (
            avals,
            tree,
            static,
            tuple(static_kw.items()),
            config.trace_key(),
            state.axis_env,
        )
        found = self.traces.get(key)
        if found is None:
            start = time.perf_counter()
            found = self._trace(avals, tree, static, static_kw)
            seconds = time.perf_counter() - start
            if config.jax_log_compiles:
                _log.warning("%s: traced in %.3f s", self.name, seconds)
            if on_trace:
                event = TraceEvent(self.name, seconds, self._why(key))
                for observer in tuple(on_trace):
                    observer(event)
            if not any(isinstance(c, Tracer) for c in found.consts):
                if len(self.traces) >= 256:
                    self.traces.pop(next(iter(self.traces)))
                self.traces[key] = found
        return found, leaves

    def _aval(self, x: Any, tree: Any, index: int) -> ShapedArray:
        if type(x) is Array:
            return x._buf.aval
        try:
            return typeof(x)
        except TypeError:
            name = self._arg_name(tree, self.options.static_argnums, index)
            argument = re.split(r"[\[.]", name)[0]
            raise TypeError(
                f"jit of {self.name}: {name} is not an array but a {type(x).__name__}: {x!r:.60}\n"
                f"Instead: make the argument static, jit(f, static_argnames={argument!r}), or let "
                "the function read it from outside."
            ) from None

    def _why(self, key: tuple) -> str:
        if not self.traces and retrace.seen_before(self.fun):
            return retrace.SAME_LINE
        static = [i for i, _ in key[2]]
        return retrace.reason(key, self.traces, functools.partial(self._named, static))

    def _named(self, static: Sequence[int], tree: Any, index: int) -> str:
        return self._arg_name(tree, static, index)

    def _trace(self, avals: tuple, tree: Any, static: tuple, static_kw: dict) -> TracedProgram:
        fun = self.fun
        out_tree: list[Any] = []
        used: list[int] = []

        def flat(*leaves: Any) -> list[Any]:
            dynamic, dynamic_kw = pytree.tree_unflatten(tree, leaves)
            args = list(dynamic)
            for i, value in static:
                args.insert(i, value.value)
            named = {**dynamic_kw, **{k: v.value for k, v in static_kw.items()}}
            outs, shape = float0.flatten(fun(*args, **named))
            out_tree.append(shape)
            _check_outputs(outs, shape, self.name)
            if config.jax_debug_key_reuse:
                used[:] = [i for i, x in enumerate(leaves) if key_uses.is_used(x)]
            return outs

        name_of = functools.partial(self._arg_name, tree, [i for i, _ in static])
        jaxpr, consts = trace_to_jaxpr(flat, avals, name=self.name, arg_name=name_of)
        program = TracedProgram(close(jaxpr), consts, tree, out_tree[0], self.name)
        program.used_keys = used
        program.donated = (False,) * len(consts) + self._donated(tree)
        return program

    def _arg_name(self, tree: Any, static: Sequence[int], index: int) -> str:
        """How the user calls a leaf of the arguments: `params['w']`."""
        path = pytree.leaf_key_path(tree, index)
        if path[0] == pytree.SequenceKey(1):
            return f"{path[1].key}{pytree.keystr(path[2:])}"
        position = path[1].idx
        for taken in sorted(static):
            position += taken <= position
        try:
            names = list(inspect.signature(self.fun).parameters)
            kinds = [p.kind for p in inspect.signature(self.fun).parameters.values()]
        except (ValueError, TypeError):
            names, kinds = [], []
        if position < len(names) and kinds[position] is not inspect.Parameter.VAR_POSITIONAL:
            return f"{names[position]}{pytree.keystr(path[2:])}"
        return f"argument {position}{pytree.keystr(path[2:])}"

    def _donated(self, tree: Any) -> tuple[bool, ...]:
        nums, names = self.options.donate_argnums, self.options.donate_argnames
        if not nums and not names:
            return (False,) * tree.num_leaves
        static = set(self.options.static_argnums)
        args_tree, kwargs_tree = tree.children()
        children = args_tree.children()
        positions = [i for i in range(len(children) + len(static)) if i not in static]
        donated: list[bool] = []
        for position, child in zip(positions, children, strict=False):
            donated += [position in nums] * child.num_leaves
        keys = kwargs_tree.node_data()[1] if kwargs_tree.node_data() else ()
        for key, child in zip(keys, kwargs_tree.children(), strict=True):
            donated += [key in names] * child.num_leaves
        return tuple(donated)

    def cache_miss(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, bool]:
        """What the C++ dispatcher calls for a signature that it does not know."""
        if config.jax_disable_jit:
            return self.fun(*args, **kwargs), None, False
        signature = self._signature(args, kwargs) if state.trace is eval_trace else None
        if signature is not None:
            key, bufs = signature
            entry = self.quick.get(key)
            if entry is not None:
                run, kept, consts, out_tree, _ = entry
                passed = [b for b, keep in zip(bufs, kept, strict=True) if keep]
                outs = [Array(b) for b in run([*consts, *passed])]
                return pytree.tree_unflatten(out_tree, outs), None, bool(on_trace)
        program, leaves = self.trace(args, kwargs)
        for i in program.used_keys:
            key_uses.note(self.name, leaves[i])
            signature = None
        if state.trace is not eval_trace:
            # True: C++ asks again next time, which may be outside of this trace.
            return self._bind(program, leaves), None, True
        for x in leaves:
            if isinstance(x, Tracer):
                raise errors.UnexpectedTracerError(x)
        return self._call(program, leaves, signature)

    def _signature(self, args: tuple, kwargs: dict) -> tuple[tuple, list[Any]] | None:
        """A key for the quick path and the arguments' buffers; None where it does not apply."""
        options = self.options
        if options.device is not None or options.donate_argnums or options.donate_argnames:
            return None
        static: tuple = ()
        nums, names = options.static_argnums, options.static_argnames
        if nums or names:
            if any(n < 0 for n in nums):
                return None
            static = (
                *[(n, type(args[n]), args[n]) for n in nums if n < len(args)],
                *[(k, type(v), v) for k, v in kwargs.items() if k in names],
            )
            args = tuple([a for i, a in enumerate(args) if i not in nums])
            kwargs = {k: v for k, v in kwargs.items() if k not in names}
        leaves, tree = float0.flatten((args, kwargs))
        if not on_trace and all(type(x) is Array for x in leaves):
            return None  # C++ takes such calls from here on, once it is given its data
        bufs = arguments.home_buffers(leaves)
        if bufs is None or dispatch.after_run or any(b._committed for b in bufs):
            return None
        # Avals are interned and kept alive by the entry, so that their ids may stand for them.
        key = (
            tree,
            static,
            config.trace_key(),
            client.default_device(),
            *[id(b.aval) for b in bufs],
        )
        try:
            hash(key)
        except TypeError:  # an unhashable static argument: the slow path says which
            return None
        return key, bufs

    def _bind(self, program: TracedProgram, leaves: list[Any]) -> Any:
        if self.options.inline:
            outs = eval_jaxpr(program.closed, (), *program.consts, *leaves)
        else:
            outs = jit_p.bind(*program.consts, *leaves, jaxpr=program.closed, name=self.name)
        return pytree.tree_unflatten(program.out_tree, outs)

    def _call(
        self, program: TracedProgram, leaves: list[Any], signature: tuple | None
    ) -> tuple[Any, Any, bool]:
        values = [*program.consts, *leaves]
        mesh = spmd.find_mesh(program.closed) or spmd.input_mesh(values)
        if mesh is not None:
            outs = spmd.run_spmd(program.closed, values, mesh, self.name)
            return pytree.tree_unflatten(program.out_tree, outs), None, False
        if self.options.device is not None:
            device, committed = client._as_device(self.options.device), True
            bufs = [arguments.to_buffer(x, device) for x in [*program.consts, *leaves]]
            bufs = [arguments.on_device(b, device, True) for b in bufs]
        else:
            default = client.default_device()
            bufs = [
                x._buf if type(x) is Array else arguments.to_buffer(x, default)
                for x in [*program.consts, *leaves]
            ]
            device, bufs, committed = arguments.move_together(bufs)
        compiled, kept = self.compiled(program, device, committed)
        outs = compiled([b for b, keep in zip(bufs, kept, strict=True) if keep])
        if dispatch.after_program:
            values = [*program.consts, *leaves]
            dispatch.observed_program(program.closed, values, outs, self.name)
        result = pytree.tree_unflatten(program.out_tree, outs)
        if signature is not None and not committed:
            n_consts = len(program.consts)
            consts = [b for b, keep in zip(bufs[:n_consts], kept, strict=False) if keep]
            if len(self.quick) >= 256:
                self.quick.pop(next(iter(self.quick)))
            self.quick[signature[0]] = (
                compiled.run_bufs,
                kept[n_consts:],
                consts,
                program.out_tree,
                [b.aval for b in signature[1]],
            )
        fast = self._fast_data(program, leaves, bufs, compiled, kept, result)
        # While observers want each call, C++ asks again next time instead of remembering "never".
        return result, fast, bool(dispatch.after_run or on_trace)

    def compiled(
        self, program: TracedProgram, device: Any, committed: bool
    ) -> tuple[dispatch.CompiledJaxpr, list[bool]]:
        """The executable for a traced program on a device, and which inputs it takes."""
        small, kept = program.pruned(self.options.keep_unused)
        key = ("compiled", device, committed, self.options.compiler_options)
        found = small.cache.get(key)
        if found is None:
            donated = [d for d, keep in zip(program.donated, kept, strict=True) if keep]
            start = time.perf_counter()
            lowered = lower_module(small, self.name, platform=device.platform, donated=donated)
            seconds = time.perf_counter() - start
            if config.jax_log_compiles:
                _log.warning("%s: lowered to StableHLO in %.3f s", self.name, seconds)
            for observer in tuple(on_lower):
                observer(self.name, seconds)
            found = small.cache[key] = dispatch.compile_lowered(
                lowered,
                small.in_avals,
                small.out_avals,
                device,
                committed,
                dict(self.options.compiler_options),
            )
        return found, kept

    def _fast_data(
        self,
        program: TracedProgram,
        leaves: list[Any],
        bufs: list[Any],
        compiled: dispatch.CompiledJaxpr,
        kept: list[bool],
        result: Any,
    ) -> Any:
        """What lets the next call of this signature stay in C++; None where it cannot.

        Python numbers and 64-bit NumPy values are converted by us (their dtype depends on
        enable_x64), so such calls come here each time.
        """
        if dispatch.after_run or on_trace or self.options.device is not None:
            return None
        if compiled.has_callbacks or program.used_keys:
            return None
        for x, buf in zip(leaves, bufs[len(program.consts) :], strict=True):
            if type(x) is not Array or x._buf is not buf:
                return None
        n_consts = len(program.consts)
        sharding = compat.single_device_sharding(compiled.device)
        const_args = [b for b, keep in zip(bufs[:n_consts], kept, strict=False) if keep]
        leaves_out, out_tree = compat.dispatch_registry.flatten(result)
        if len(leaves_out) != len(compiled.out_avals):
            return None
        n_in = sum(kept)
        committed = bool(bufs) and any(b._committed for b in bufs)
        return compat.FastData(
            compiled.executable.loaded,
            out_tree,
            [sharding] * n_in,
            [sharding] * len(compiled.out_avals),
            compiled.out_avals,
            [committed] * len(compiled.out_avals),
            kept[n_consts:],
            [None] * n_in,
            const_args,
        )


def _check_outputs(outs: Sequence[Any], tree: Any, name: str) -> None:
    for i, x in enumerate(outs):
        if not is_arraylike(x):
            path = pytree.leaf_path(tree, i)
            at = f" at {path}" if path else ""
            raise TypeError(
                f"jit of {name}: the function returned a {type(x).__name__}{at}, which is not a "
                f"valid array type: {x!r:.60}\n"
                "Instead: return arrays, numbers, None, or containers of them."
            )
