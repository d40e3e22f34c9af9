"""The shortest way from an operator on arrays to its executable, for types seen before.

A call by `Primitive.bind` asks the trace, builds a key and passes through the C++ dispatcher; for
one operation on a few numbers that is a third of the time. Here each primitive has a table from the
types of its operands to the executable. Tables are empty while a thread has options of its own.

Builds on dispatch.py. Tested in tests/xla/test_quick.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from pullback.core.config import OPTIONS, Config, config
from pullback.core.tracer import Primitive, eval_trace, state
from pullback.xla import client, compat, dispatch
from pullback.xla.arguments import refuse_deleted, scalar_array
from pullback.xla.array import Array

_LIMIT = 4096
_tables: list[dict[Any, tuple]] = []
# Threads in which an option that programs depend on has a value of its own.
_scoped: set[int] = set()
_OPTIONS = tuple(
    name
    for name, option in OPTIONS.items()
    if option.in_key or name == "jax_numpy_rank_promotion" or "transfer_guard" in name
)


def forget() -> None:
    """Empty every table."""
    for table in _tables:
        table.clear()


def _follow(name: str) -> None:
    """Forget what was learnt under other options."""
    if name not in _OPTIONS:
        return
    own = config.__dict__
    (_scoped.add if any(n in own for n in _OPTIONS) else _scoped.discard)(threading.get_ident())
    forget()


Config.observers.append(_follow)
dispatch.on_clear.append(forget)


def _new_table() -> dict[Any, tuple]:
    table: dict[Any, tuple] = {}
    _tables.append(table)
    return table


def _learn(
    table: dict[Any, tuple], key: Any, prim: Primitive, bufs: list[Any], operand: Any = None
) -> None:
    """Enter the executable that has just run `prim` on these C++ arrays, if it can run so again."""
    if _scoped or dispatch.after_run or config.jax_numpy_rank_promotion != "allow":
        return
    if any(b.is_deleted() or b._committed for b in bufs):
        return
    compiled = dispatch.compiled_at_home(prim, bufs, {})
    if compiled is None:
        return
    if len(table) >= _LIMIT:
        table.clear()
    home = compat.single_device_sharding(client.default_device())
    # The avals are kept, so that their ids, which stand in the key, stay theirs.
    kept = (operand, [b.aval for b in bufs])
    table[key] = (compiled.executable.loaded.execute_sharded, compiled.handlers, home, *kept)


def unary(prim: Primitive, slow: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of one array: `slow`, and straight to the executable of `prim` for known types.

    Args:
        prim: the primitive of one operand that `slow` binds.
        slow: the function for every operand; where it converts first, nothing is learnt.
    """
    table = _new_table()
    after_run = dispatch.after_run

    def call(x: Any, /) -> Any:
        if type(x) is not Array or state.trace is not eval_trace:
            return slow(x)
        buf = x._buf
        entry = table.get(id(buf.aval))
        if entry is not None and buf._sharding is entry[2] and not buf._committed and not after_run:
            try:
                return Array(entry[0]([buf]).consume_with_handlers(entry[1])[0])
            except RuntimeError:
                refuse_deleted([buf])
                raise
        out = slow(x)
        if entry is None:
            _learn(table, id(buf.aval), prim, [buf])
        return out

    return call


def binary(
    prim: Primitive,
    slow: Callable[[Any, Any], Any],
    swap: bool,
    refuse: str,
    convert: Callable[[Any, Any], Any],
) -> Callable[[Any, Any], Any]:
    """An operator method of `Array`: `slow`, and straight to the executable for known types.

    Args:
        prim: the primitive that two operands of one dtype go to.
        slow: the method for every operand, types not seen and tracers included.
        swap: the array is the right operand.
        refuse: kinds of dtype that the primitive is not the operator for.
        convert: (number, aval) -> the number as an operand beside an array of that type, or None.
    """
    pairs, numbers = _new_table(), _new_table()
    after_run = dispatch.after_run

    def method(self: Any, other: Any) -> Any:
        if state.trace is not eval_trace or after_run:
            return slow(self, other)
        buf = self._buf
        kind = type(other)
        if kind is Array:
            operand = other._buf
            entry = pairs.get((id(buf.aval), id(operand.aval)))
            if entry is None:
                return _array_operand(self, other)
            if operand._sharding is not entry[2] or operand._committed:
                return slow(self, other)
        elif kind is float or kind is int:
            entry = numbers.get((id(buf.aval), kind, other))
            if entry is None:
                return _number_operand(self, other)
            operand = entry[3]
        else:
            return slow(self, other)
        if buf._sharding is not entry[2] or buf._committed:
            return slow(self, other)
        bufs = [operand, buf] if swap else [buf, operand]
        try:
            return Array(entry[0](bufs).consume_with_handlers(entry[1])[0])
        except RuntimeError:
            numbers.clear()  # the kept number may be what was deleted
            refuse_deleted(bufs if kind is Array else [buf])
            return slow(self, other)

    def _array_operand(self: Any, other: Any) -> Any:
        out = slow(self, other)
        x, y = self._buf, other._buf
        if x.aval.dtype is y.aval.dtype and x.aval.dtype.kind not in refuse:
            _learn(pairs, (id(x.aval), id(y.aval)), prim, [y, x] if swap else [x, y])
        return out

    def _number_operand(self: Any, other: Any) -> Any:
        out = slow(self, other)
        # -0.0 would find the entry of 0.0, and not-a-number finds none.
        if other != other or (other == 0 and type(other) is float):
            return out
        buf = self._buf
        number = None if buf.aval.dtype.kind in refuse else convert(other, buf.aval)
        if number is not None:
            operand = scalar_array(number)._buf
            bufs = [operand, buf] if swap else [buf, operand]
            _learn(numbers, (id(buf.aval), type(other), other), prim, bufs, operand)
        return out

    method.__name__, method.__qualname__ = slow.__name__, slow.__qualname__
    return method
