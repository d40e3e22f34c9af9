"""Programs for the laws: drawn as nested tuples, built twice, with structure and in plain Python.

A program maps float[3] to float[3], smoothly wherever the draw is not on an edge. The structured
build uses the transformations, the collectives and the control flow; the plain one writes the same mathematics with
Python loops, Python branches and none of `jit`, `vmap`, `checkpoint` and custom rules, so that each
construct has something to be compared with. Used by tests/laws/test_generated_programs.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from hypothesis import strategies as st

import pullback as pb
from pullback import lax
from pullback import numpy as jnp

N = 3
MATRIX = np.array([[0.3, -0.7, 0.2], [0.5, 0.1, -0.4], [-0.2, 0.6, 0.8]])
SHIFT = np.array([0.31, -0.52, 0.17])
STEPS = np.array([[0.2, -0.1, 0.4], [-0.3, 0.5, 0.1], [0.6, 0.2, -0.2]])

Function = Callable[[Any], Any]
Mode = Literal["both", "forward", "reverse"]


LEAVES: dict[str, Function] = {
    "sin": jnp.sin,
    "tanh": jnp.tanh,
    "gauss": lambda x: jnp.exp(-x * x),
    "square": lambda x: 0.4 * x**2,
    "root": lambda x: jnp.sqrt(1.0 + x * x),
    "log": lambda x: jnp.log1p(x * x),
    "quotient": lambda x: x / (1.2 + jnp.cos(x)),
    "atan2": lambda x: jnp.arctan2(x, 1.0 + x[::-1] ** 2),
    "power": lambda x: (1.0 + x * x) ** SHIFT,
    "softmax": lambda x: pb.nn.softmax(x),
    "norm": lambda x: x / jnp.linalg.norm(x + 2.0),
    "variance": lambda x: x * jnp.var(x),
    "max": lambda x: x + jnp.max(x * SHIFT),
    "prod": lambda x: x + 0.3 * jnp.prod(x),
    "cumsum": lambda x: jnp.cumsum(x) / 2,
    "cumprod": lambda x: jnp.cumprod(x),
    "matmul": lambda x: MATRIX @ x,
    "quadratic": lambda x: 0.4 * x * (x @ MATRIX @ x),
    "outer": lambda x: (x[:, None] * jnp.sin(x)[None]).sum(0) / 2,
    "einsum": lambda x: jnp.einsum("i,ij,j->j", x, MATRIX, x),
    "solve": lambda x: jnp.linalg.solve(MATRIX + 2.0 * jnp.eye(N) + 0.1 * jnp.outer(x, x), x),
    "reverse": lambda x: x[::-1],
    "take": lambda x: x[np.array([2, 0, 0])] * SHIFT,
    "roll": lambda x: jnp.roll(x, 1) * x,
    "set": lambda x: x.at[1].set(x[0] * x[2]),
    "scatter": lambda x: x.at[np.array([0, 2, 2])].add(jnp.cos(x)),
    "concatenate": lambda x: jnp.concatenate([x[1:], jnp.sin(x[:1])]),
    "pad": lambda x: jnp.pad(x[:2], (1, 0)) + x,
    "sort": lambda x: jnp.sort(x * np.array([1.0, 2.1, -1.3])),
    "where": lambda x: jnp.where(x > 0.05, 0.5 * x, jnp.sin(x)),
    "clip": lambda x: jnp.clip(x, -0.83, 0.91) * x,
    "complex": lambda x: (jnp.exp(lax.complex(0.3 * x, jnp.sin(x))) * (1.0 - 0.4j)).real,
    "modulus": lambda x: 0.5 * abs(lax.complex(x, x[::-1] + 2.0)) * jnp.angle(x + 1.5j),
    # Only constants: what rounding does has no derivative to compare with.
    "bfloat16": lambda x: x * (jnp.asarray(SHIFT, jnp.bfloat16) * 2).astype(x.dtype),
    "stopped": lambda x: x * lax.stop_gradient(MATRIX.diagonal()),
    "dynamic": lambda x: lax.dynamic_slice(jnp.tile(x, 2), ((x[0] > 0) + 1,), (N,)) * x,
}

WRAPPERS = [
    "jit",
    "checkpoint",
    "dots",
    "nothing",
    "custom_jvp",
    "custom_vmap",
    "vmap",
    "linearize",
]
COLLECTIVES = ["psum", "ppermute", "all_gather", "all_to_all", "psum_scatter"]
LOOPS = ["scan", "scan_reversed", "scan_unrolled", "fori", "map", "associative"]
BRANCHES = ["cond", "switch", "select"]
JOINS = ["compose", "add", "multiply"]


def programs(mode: Mode = "both", max_leaves: int = 4) -> st.SearchStrategy[tuple]:
    """Nested tuples that `build` turns into functions.

    Args:
        mode: "forward" programs hold a `while_loop` or an inner jvp, "reverse" ones a `custom_vjp`
            or an inner gradient; those of "both" only what either mode differentiates.
        max_leaves: about how many primitive functions a program has.
    """
    special = {"both": ["jvp"], "forward": ["while", "jvp"], "reverse": ["custom_vjp", "grad"]}[
        mode
    ]
    # Pushing tangents through a custom_vjp is an error by design, and linearize does that.
    wrappers = [w for w in WRAPPERS if mode != "reverse" or w != "linearize"]
    wrappers += COLLECTIVES
    one = [*wrappers, *LOOPS, *special]

    def extend(inner: st.SearchStrategy) -> st.SearchStrategy:
        return st.one_of(
            st.tuples(st.sampled_from(one), inner),
            st.tuples(st.sampled_from([*BRANCHES, *JOINS]), inner, inner),
        )

    leaf = st.tuples(st.sampled_from(sorted(LEAVES)))
    inner = st.recursive(leaf, extend, max_leaves=max_leaves)
    if mode == "both":
        return extend(inner)
    # Few draws would often miss what the mode is there for, so every program holds it.
    marked = st.tuples(st.sampled_from(special), inner)
    return st.one_of(
        marked,
        st.tuples(st.sampled_from([*wrappers, *LOOPS]), marked),
        st.tuples(st.sampled_from([*BRANCHES, *JOINS]), marked, leaf),
    )


def build(program: tuple, *, plain: bool = False) -> Function:
    """The function float[3] -> float[3] that a drawn program stands for."""
    f = _build(program, plain)
    return lambda x: f(jnp.asarray(x))


def _build(program: tuple, plain: bool) -> Function:
    name, *parts = program
    if name in LEAVES:
        return LEAVES[name]
    inner = [_build(p, plain) for p in parts]
    return (PLAIN if plain else STRUCTURED)[name](*inner)


def _custom_jvp(f: Function) -> Function:
    g = pb.custom_jvp(lambda x: f(x))

    @g.defjvp
    def rule(primals: tuple, tangents: tuple) -> tuple:
        return pb.jvp(f, primals, tangents)

    return g


def _custom_vjp(f: Function) -> Function:
    g = pb.custom_vjp(lambda x: f(x))
    g.defvjp(lambda x: (f(x), x), lambda x, ct: pb.vjp(f, x)[1](ct))
    return g


def _custom_vmap(f: Function) -> Function:
    g = pb.custom_batching.custom_vmap(lambda x: f(x))

    @g.def_vmap
    def rule(axis_size: int, in_batched: list, x: Any) -> tuple:
        return pb.vmap(f)(x), True

    return g


def _mapped(collective: Callable[[Any, str], Any]) -> Callable[[Function], Function]:
    """The function at scaled points, one for each element of a named axis that communicate."""

    def wrap(f: Function) -> Function:
        name = f"axis{next(_numbers)}"

        def one(scale: Any, x: Any) -> Any:
            return collective(f(scale * x), name) * (lax.axis_index(name) + 1.0)

        def run(x: Any) -> Any:
            return pb.vmap(one, (0, None), axis_name=name)(jnp.asarray(SHIFT), x).sum(0)

        return run

    return wrap


def _plain_mapped(collective: Callable[[Any], Any]) -> Callable[[Function], Function]:
    """The same on the stack of all elements' values."""

    def wrap(f: Function) -> Function:
        def run(x: Any) -> Any:
            stacked = jnp.stack([f(scale * x) for scale in SHIFT])
            return sum(row * (i + 1.0) for i, row in enumerate(collective(stacked)))

        return run

    return wrap


_numbers = itertools.count()


def _is_high(x: Any) -> Any:
    return jnp.sum(x) > 0.11


def _while(f: Function) -> Function:
    def run(x: Any) -> Any:
        def body(state: tuple) -> tuple:
            i, y = state
            return i + 1, jnp.tanh(f(y) + x)

        # The number of steps depends on the data: two or three.
        return lax.while_loop(lambda s: s[0] < 2 + _is_high(x), body, (0, x))[1]

    return run


def _plain_while(f: Function) -> Function:
    def run(x: Any) -> Any:
        y = x
        for _ in range(2 + int(_is_high(x))):
            y = jnp.tanh(f(y) + x)
        return y

    return run


def _scan(**options: Any) -> Callable[[Function], Function]:
    def wrap(f: Function) -> Function:
        def run(x: Any) -> Any:
            def body(carry: Any, step: Any) -> tuple:
                new = jnp.tanh(f(carry) * x + step)
                return new, (new[0], step * carry)

            last, (firsts, products) = lax.scan(body, x, jnp.asarray(STEPS) * x, **options)
            return last + firsts.sum() * 0.2 + products.mean(0)

        return run

    return wrap


def _plain_scan(*, reverse: bool = False) -> Callable[[Function], Function]:
    def wrap(f: Function) -> Function:
        def run(x: Any) -> Any:
            carry, firsts, products = x, 0.0, 0.0
            for row in STEPS[::-1] if reverse else STEPS:
                step = row * x
                new = jnp.tanh(f(carry) * x + step)
                firsts, products = firsts + new[0], products + step * carry / len(STEPS)
                carry = new
            return carry + firsts * 0.2 + products

        return run

    return wrap


def _fori(f: Function) -> Function:
    return lambda x: lax.fori_loop(0, 3, lambda i, y: jnp.sin(f(y)) + i * 0.1 * x, x)


def _plain_fori(f: Function) -> Function:
    def run(x: Any) -> Any:
        y = x
        for i in range(3):
            y = jnp.sin(f(y)) + i * 0.1 * x
        return y

    return run


def _associative(f: Function) -> Function:
    def run(x: Any) -> Any:
        return lax.associative_scan(lambda a, b: a * b + 0.2 * (a + b), f(x)[::-1])

    return run


def _plain_associative(f: Function) -> Function:
    def run(x: Any) -> Any:
        y = f(x)[::-1]
        # The same bracketing as for three elements: ((a b) c).
        out = [y[0]]
        for i in (1, 2):
            out.append(out[-1] * y[i] + 0.2 * (out[-1] + y[i]))
        return jnp.stack(out)

    return run


def _linearize(f: Function) -> Function:
    def run(x: Any) -> Any:
        y, push = pb.linearize(f, x)
        return y + push(SHIFT * x)

    return run


def _push(f: Function) -> Function:
    def run(x: Any) -> Any:
        y, t = pb.jvp(f, (x,), (SHIFT * x,))
        return y + t

    return run


def _grad(f: Function) -> Function:
    return lambda x: pb.grad(lambda y: (f(y) * SHIFT).sum())(x)


STRUCTURED: dict[str, Callable[..., Function]] = {
    "jit": lambda f: pb.jit(f),
    "checkpoint": lambda f: pb.checkpoint(f),
    "dots": lambda f: pb.checkpoint(f, policy=pb.checkpoint_policies.dots_saveable),
    "nothing": lambda f: pb.checkpoint(f, policy=pb.checkpoint_policies.nothing_saveable),
    "custom_jvp": _custom_jvp,
    "custom_vjp": _custom_vjp,
    "custom_vmap": _custom_vmap,
    "psum": _mapped(lambda y, name: lax.psum(y * 0.4, name)),
    "ppermute": _mapped(lambda y, name: lax.ppermute(y, name, [(0, 1), (1, 2), (2, 0)])),
    "all_gather": _mapped(lambda y, name: lax.all_gather(y, name).T @ SHIFT),
    "all_to_all": _mapped(lambda y, name: lax.all_to_all(y, name, 0, 0)),
    "psum_scatter": _mapped(lambda y, name: jnp.full(N, lax.psum_scatter(y, name)) * SHIFT),
    "vmap": lambda f: lambda x: pb.vmap(lambda c: f(c * x))(jnp.asarray(SHIFT)).sum(0),
    "map": lambda f: lambda x: lax.map(lambda c: f(c * x), jnp.asarray(SHIFT)).sum(0),
    "linearize": _linearize,
    "jvp": _push,
    "grad": _grad,
    "while": _while,
    "scan": _scan(),
    "scan_reversed": _scan(reverse=True),
    "scan_unrolled": _scan(unroll=2),
    "fori": _fori,
    "associative": _associative,
    "cond": lambda f, g: lambda x: lax.cond(_is_high(x), f, lambda y: g(y) * x, x),
    "switch": lambda f, g: (
        lambda x: lax.switch(jnp.int32(_is_high(x)) + 1, [jnp.sin, lambda y: g(y) - x, f], x)
    ),
    "select": lambda f, g: lambda x: lax.select(jnp.full(N, _is_high(x)), f(x), g(x)),
    "compose": lambda f, g: lambda x: f(g(x)),
    "add": lambda f, g: lambda x: f(x) + g(x),
    "multiply": lambda f, g: lambda x: 0.5 * f(x) * g(x),
}

PLAIN: dict[str, Callable[..., Function]] = {
    **STRUCTURED,
    **{name: lambda f: f for name in ("jit", "checkpoint", "dots", "nothing")},
    **{name: lambda f: f for name in ("custom_jvp", "custom_vjp", "custom_vmap")},
    "psum": _plain_mapped(lambda ys: [0.4 * ys.sum(0)] * N),
    "ppermute": _plain_mapped(lambda ys: [ys[2], ys[0], ys[1]]),
    "all_gather": _plain_mapped(lambda ys: [ys.T @ SHIFT] * N),
    "all_to_all": _plain_mapped(lambda ys: list(ys.T)),
    "psum_scatter": _plain_mapped(lambda ys: [y * SHIFT for y in ys.sum(0)]),
    "vmap": lambda f: lambda x: sum(f(c * x) for c in SHIFT),
    "map": lambda f: lambda x: sum(f(c * x) for c in SHIFT),
    "linearize": _push,
    "while": _plain_while,
    "scan": _plain_scan(),
    "scan_reversed": _plain_scan(reverse=True),
    "scan_unrolled": _plain_scan(),
    "fori": _plain_fori,
    "associative": _plain_associative,
    "cond": lambda f, g: lambda x: f(x) if _is_high(x) else g(x) * x,
    "switch": lambda f, g: lambda x: f(x) if _is_high(x) else g(x) - x,
    "select": lambda f, g: lambda x: f(x) if _is_high(x) else g(x),
}
