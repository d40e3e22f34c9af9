"""Einstein summation: a formula over axis names becomes a sequence of dot_generals.

Builds on lax/dot.py. Source: NumPy reference, `einsum`. Tested in tests/numpy/test_einsum.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback import lax
from pullback.core import dtypes
from pullback.numpy import promote
from pullback.numpy.fused import fused
from pullback.numpy.reductions import reduce_axes

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: Any = "auto",
    precision: Any = None,
    preferred_element_type: Any = None,
    _dot_general: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Sums of products, written as a formula such as "ij,jk->ik".

    Args:
        subscripts: axis names of each operand, and of the result; "..." for axes that broadcast.
        operands: arrays. Also the form einsum(x, [0, 1], y, [1, 2], [0, 2]).
        out: not supported: arrays are immutable.
        optimize: how to find the order of contractions: "auto", "optimal", "greedy", True, False,
            or a path as `einsum_path` gives.
        precision: of the multiplications.
        preferred_element_type: dtype to accumulate in and return.

    Returns:
        The array that the formula describes.

    Example:
        >>> einsum("ij,ij->i", jnp.ones((2, 3)), jnp.ones((2, 3)))
        Array([3., 3.], dtype=float32)
    """
    del out_sharding, _dot_general
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.einsum is not supported.")
    formula, arrays = _formula(subscripts, operands)
    for i, x in enumerate(arrays):
        promote.aval_of("einsum", x, i)
    arrays = promote.lift_all("einsum", *(promote.promote("einsum", *arrays)))
    preferred = None
    if preferred_element_type is not None:
        preferred = dtypes.requested_dtype(preferred_element_type, "einsum")
    terms, result = parse(formula, [x.shape for x in arrays])
    path = tuple(contraction_path(terms, result, [x.shape for x in arrays], optimize))
    return _einsum(arrays, tuple(terms), result, path, precision, preferred)


def _formula(subscripts: Any, operands: tuple) -> tuple[str, list[Any]]:
    """The text form of both ways to write a formula."""
    if isinstance(subscripts, str):
        return subscripts.replace(" ", ""), list(operands)
    items = [subscripts, *operands]
    result = items.pop() if len(items) % 2 else None

    def names(numbers: Sequence[Any]) -> str:
        return "".join("..." if n is Ellipsis else _LETTERS[n] for n in numbers)

    text = ",".join(names(n) for n in items[1::2])
    if result is not None:
        text += "->" + names(result)
    return text, items[0::2]


def parse(formula: str, shapes: list[tuple[int, ...]]) -> tuple[list[str], str]:
    """The axis names of each operand and of the result, ellipses written out.

    Raises:
        ValueError: the formula does not fit the operands.
    """
    left, arrow, right = formula.partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise ValueError(
            f"einsum {formula!r} names {len(terms)} operands, but {len(shapes)} were given"
        )
    used = set(formula) - set(",.->")
    bad = [c for c in used if not c.isalpha()]
    if bad:
        raise ValueError(f"einsum {formula!r}: {bad[0]!r} is not an axis name (a letter)")
    free = [c for c in _LETTERS if c not in used]
    widest = 0
    for term, shape in zip(terms, shapes, strict=True):
        named = len(term.replace("...", ""))
        if "..." in term:
            widest = max(widest, len(shape) - named)
        if ("..." not in term and named != len(shape)) or named > len(shape):
            raise ValueError(
                f"einsum {formula!r}: {term!r} names {named} axes, the operand has shape {shape}.\n"
                "Instead: one letter for each axis; ... stands for all that are left."
            )
    dots = "".join(free[:widest])
    full = []
    for term, shape in zip(terms, shapes, strict=True):
        n = len(shape) - len(term.replace("...", ""))
        full.append(term.replace("...", dots[widest - n :] if n else ""))
    if arrow:
        result = right.replace("...", dots)
    else:
        counts = {c: left.count(c) for c in used}
        result = dots + "".join(sorted(c for c in used if counts[c] == 1))
    known = set("".join(full))
    for c in result:
        if c not in known:
            raise ValueError(f"einsum {formula!r}: the result names {c!r}, which no operand has")
        if result.count(c) > 1:
            raise ValueError(f"einsum {formula!r}: the result names {c!r} twice")
    sizes: dict[str, int] = {}
    for term, shape in zip(full, shapes, strict=True):
        for c, n in zip(term, shape, strict=True):
            if sizes.setdefault(c, n) != n and 1 not in (n, sizes[c]):
                raise ValueError(
                    f"einsum {formula!r}: axis {c!r} has sizes {sizes[c]} and {n}, "
                    f"in operands of shapes {', '.join(map(str, shapes))}.\n"
                    "Instead: other letters for axes of other sizes, or transpose the formula."
                )
            sizes[c] = max(sizes[c], n) if n != 0 else n
    return full, result


def contraction_path(
    terms: list[str], result: str, shapes: list[tuple[int, ...]], optimize: Any
) -> list[tuple[int, ...]]:
    """The order of contractions: pairs of positions in the shrinking list of operands."""
    if len(terms) <= 2:
        return [tuple(range(len(terms)))]
    if optimize is False or optimize is None:
        return [(0, 1)] * (len(terms) - 1)
    if isinstance(optimize, (list, tuple)):
        steps = optimize[1:] if optimize and optimize[0] == "einsum_path" else optimize
        return [tuple(step) for step in steps]
    method = "greedy" if optimize in ("auto", True) and len(terms) > 4 else optimize
    if method in ("auto", True):
        method = "optimal"
    if not (isinstance(method, str) and method in ("greedy", "optimal")):
        raise ValueError(
            f"einsum: optimize must be 'auto', 'optimal', 'greedy', a bool or a path, got {optimize!r}"
        )
    stand_ins = [np.broadcast_to(np.float32(0), s) for s in shapes]
    steps = np.einsum_path(",".join(terms) + "->" + result, *stand_ins, optimize=method)[0]
    return [tuple(step) for step in steps[1:]]


def einsum_path(subscripts: Any, /, *operands: Any, optimize: Any = "auto") -> Any:
    """The order of contractions that `einsum` would take, and a text about its cost.

    Args:
        subscripts, operands: as for `einsum`.
        optimize: how to find the order.

    Returns:
        The path (for einsum's `optimize`) and the text.
    """
    formula, arrays = _formula(subscripts, operands)
    stand_ins = [np.broadcast_to(np.float32(0), np.shape(x)) for x in arrays]
    method = "optimal" if optimize in ("auto", True) else optimize
    return np.einsum_path(formula, *stand_ins, optimize=method)


@fused("terms", "result", "path", "precision", "preferred")
def _einsum(
    arrays: list[Any],
    terms: tuple[str, ...],
    result: str,
    path: Any,
    precision: Any,
    preferred: Any,
) -> Any:
    left = list(zip(arrays, terms, strict=True))
    for step in path:
        chosen = [left[i] for i in step]
        for i in sorted(step, reverse=True):
            del left[i]
        others = set("".join(t for _, t in left)) | set(result)
        x, term = chosen[0]
        x, term = _reduce_single(x, term, others | set("".join(t for _, t in chosen[1:])))
        for y, y_term in chosen[1:]:
            y, y_term = _reduce_single(y, y_term, others | set(term))
            x, term = _pair(x, term, y, y_term, others, precision, preferred)
        left.append((x, term))
    x, term = left[0]
    for y, y_term in left[1:]:
        x, term = _pair(x, term, y, y_term, set(result), precision, preferred)
    x, term = _reduce_single(x, term, set(result))
    perm = tuple(term.index(c) for c in result)
    x = x if perm == tuple(range(len(perm))) else lax.transpose(x, perm)
    if preferred is None or x.dtype == preferred:
        return x
    return lax.convert_element_type(x, preferred)


def _reduce_single(x: Any, term: str, needed: set[str]) -> tuple[Any, str]:
    """Diagonals for repeated names, sums over names that nobody else has."""
    while len(set(term)) < len(term):
        c = next(c for c in term if term.count(c) > 1)
        i = term.index(c)
        j = term.index(c, i + 1)
        x = _diagonal(x, i, j)
        term = term[:j] + term[j + 1 :]
    lonely = tuple(i for i, c in enumerate(term) if c not in needed)
    if lonely:
        x = reduce_axes("sum", x, lonely)
        term = "".join(c for c in term if c in needed)
    return x, term


def _diagonal(x: Any, i: int, j: int) -> Any:
    """Axis j tied to axis i: a sum over j of x masked by i == j, which keeps the axes' order."""
    shape = x.shape
    if shape[i] != shape[j]:
        drop, keep = (i, j) if shape[i] == 1 else (j, i)
        x = lax.squeeze(x, (drop,))
        if keep == j:
            perm = list(range(x.ndim))
            perm.insert(i, perm.pop(j - 1))
            x = lax.transpose(x, tuple(perm))
        return x
    rows = lax.broadcasted_iota(np.int32, shape, i)
    columns = lax.broadcasted_iota(np.int32, shape, j)
    masked = lax.select(rows == columns, x, lax.full_like(x, 0))
    return (
        reduce_axes("sum", masked, (j,))
        if x.dtype != np.bool_
        else reduce_axes("any", masked, (j,))
    )


def _pair(
    x: Any, x_term: str, y: Any, y_term: str, needed: set[str], precision: Any, preferred: Any
) -> tuple[Any, str]:
    """One contraction of two operands."""
    x, x_term, y, y_term = _drop_ones(x, x_term, y, y_term)
    shared = [c for c in x_term if c in y_term]
    batch = [c for c in shared if c in needed]
    summed = [c for c in shared if c not in needed]
    numbers = (
        (tuple(x_term.index(c) for c in summed), tuple(y_term.index(c) for c in summed)),
        (tuple(x_term.index(c) for c in batch), tuple(y_term.index(c) for c in batch)),
    )
    if x.dtype != y.dtype:  # an earlier product has the preferred dtype
        x, y = promote.promote("einsum", x, y)
    out = lax.dot_general(x, y, numbers, precision=precision, preferred_element_type=preferred)
    term = "".join(batch)
    term += "".join(c for c in x_term if c not in shared)
    term += "".join(c for c in y_term if c not in shared)
    return out, term


def _drop_ones(x: Any, x_term: str, y: Any, y_term: str) -> tuple[Any, str, Any, str]:
    """An axis of size 1 in one operand only broadcasts: it is left out there."""
    x_drop, y_drop = [], []
    for c in set(x_term) & set(y_term):
        i, j = x_term.index(c), y_term.index(c)
        if x.shape[i] != y.shape[j]:
            if x.shape[i] == 1:
                x_drop.append(i)
            else:
                y_drop.append(j)
    if x_drop:
        x = lax.squeeze(x, tuple(sorted(x_drop)))
        x_term = "".join(c for i, c in enumerate(x_term) if i not in x_drop)
    if y_drop:
        y = lax.squeeze(y, tuple(sorted(y_drop)))
        y_term = "".join(c for i, c in enumerate(y_term) if i not in y_drop)
    return x, x_term, y, y_term
