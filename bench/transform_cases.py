"""What transformations of the programs save, hold and cost in one engine: JSON, one number a case.

    python transform_cases.py ENGINE [TEXT]

Cases are named "KIND: program"; TEXT picks those whose name holds it. Run by compare_transforms.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import transform_programs as programs
from measure import engine, fresh, load, results, wanted

jax, jnp = load()


def made(build: Callable[..., Any], **options: Any) -> tuple[Callable[..., Any], tuple]:
    """A program, as a function that no cache has seen, and its arguments in float32."""
    fun, args = build(jax, jnp, np.random.default_rng(0), **options)
    return fun, jax.tree.map(np.float32, args)


def n_equations(jaxpr: Any) -> int:
    """The equations of a jaxpr and of the jaxprs in them, counted where they stand."""
    total = 0
    for eqn in jaxpr.eqns:
        total += 1
        for value in eqn.params.values():
            for item in value if isinstance(value, tuple | list) else (value,):
                if hasattr(item, "eqns"):
                    total += n_equations(item)
    return total


def residual_bytes(fun: Callable[..., Any], args: tuple) -> int:
    """Bytes that a pullback keeps besides the arguments: each array once, scalars written in apart."""
    pullback = jax.make_jaxpr(lambda *xs: jax.tree.leaves(jax.vjp(fun, *xs)[1]))(*args).jaxpr
    kept = {id(v): v for v in pullback.outvars if not hasattr(v, "val")}
    for var in (*pullback.invars, *pullback.constvars):
        kept.pop(id(var), None)
    return sum(prod(v.aval.shape) * v.aval.dtype.itemsize for v in kept.values())


def temporary_bytes(fun: Callable[..., Any], args: tuple) -> int:
    """Scratch memory of the compiled gradient, by XLA's own analysis."""
    return jax.jit(jax.grad(fun)).lower(*args).compile().memory_analysis().temp_size_in_bytes


def resident_megabytes() -> float:
    """The memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


CELL = """
def cell(w, x):
    return jnp.tanh(x @ w)

@jax.jit
def loss(w, xs):
    step = lambda h, x: (cell(w, h) + x, jnp.sin(h))
    last, hs = jax.lax.scan(step, jnp.zeros(3), xs)
    return jax.lax.cond(last[0] > 0, lambda h: h.sum(), lambda h: h.max(), last) + hs.mean()

gradient = jax.grad(loss)(w, xs)
rows = jax.vmap(jax.grad(loss), (None, 0))(w, jnp.stack([xs, xs]))
eager = jax.grad(lambda w: jnp.sum(cell(w, xs) ** 2))(w)
"""


def growth_of_reruns() -> float:
    """Megabytes by which memory grows from the 100th to the 1,000th run of a cell."""
    scope = {"jax": jax, "jnp": jnp, "w": jnp.eye(3), "xs": jnp.ones((4, 3))}
    for run in range(1000):
        exec(compile(CELL, "cell", "exec"), scope)
        if run == 99:
            before = resident_megabytes()
    return max(0.0, resident_megabytes() - before)


def note(kind: str, program: str, number: Callable[[], float]) -> None:
    """Note a number under its name, if it is asked for."""
    name = f"{kind}: {program}"
    if wanted(name):
        results[name] = number()


KEEPERS = {
    "RNN by scan": made(programs.recurrent),
    "LSTM by scan": made(programs.lstm),
    "ODE, Runge-Kutta by scan": made(programs.ode),
    "transformer block": made(programs.transformer, n_layers=1),
    "12 transformer blocks": made(programs.transformer),
    "12 transformer blocks with remat": made(programs.transformer, remat=True),
    "12 transformer blocks by scan": made(programs.scanned_transformer),
    "12 transformer blocks by scan with remat": made(programs.scanned_transformer, remat=True),
}
for name, (fun, args) in KEEPERS.items():
    note("bytes", name, lambda fun=fun, args=args: residual_bytes(fun, args))


def along(fun: Callable[..., Any]) -> Callable[..., Any]:
    """The derivative by forward mode in the first argument, of scalars."""
    return lambda a, start: jax.jvp(lambda a: fun(a, start), (a,), (jnp.ones_like(a),))[1]


TRANSFORMED: dict[str, tuple[Callable[..., Any], Callable[[], Any]]] = {
    "grad of an RNN by scan": (jax.grad, lambda: made(programs.recurrent)),
    "grad of an LSTM by scan": (jax.grad, lambda: made(programs.lstm)),
    "grad of an ODE by scan": (jax.grad, lambda: made(programs.ode)),
    "hessian of a small net": (jax.hessian, lambda: made(programs.net)),
    "grad of a transformer block": (jax.grad, lambda: made(programs.transformer, n_layers=1)),
    "grad of 12 transformer blocks": (jax.grad, lambda: made(programs.transformer)),
    "grad of 12 transformer blocks with remat": (
        jax.grad,
        lambda: made(programs.transformer, remat=True),
    ),
    "vmap of grad of a fori_loop": (
        lambda f: jax.vmap(jax.grad(f)),
        lambda: made(programs.newton),
    ),
    "vmap of jvp of a while_loop": (
        lambda f: jax.vmap(along(f)),
        lambda: made(programs.newton_while),
    ),
}
for name, (transform, build) in TRANSFORMED.items():
    fun, args = build()
    note(
        "equations",
        name,
        lambda t=transform, f=fun, a=args: n_equations(jax.make_jaxpr(t(f))(*a).jaxpr),
    )


def lowered(transform: Callable[..., Any], build: Callable[[], Any]) -> Callable[[], Any]:
    """An action that traces and lowers the transformed program as if for the first time."""

    args = build()[1]

    def act() -> Any:
        return jax.jit(transform(build()[0])).lower(*args)

    return act


for name, (transform, build) in TRANSFORMED.items():
    fresh(f"trace+lower ms: {name}", lowered(transform, build), 5)

LONG: dict[str, Callable[..., Any]] = {
    "12 transformer blocks, time 256": programs.transformer,
    "12 transformer blocks by scan, time 256": programs.scanned_transformer,
}
for name, program in LONG.items():
    for remat in (False, True):
        note(
            "temporary bytes",
            name + (", checkpointed" if remat else ""),
            lambda p=program, r=remat: temporary_bytes(*made(p, remat=r, time=256)),
        )
if engine == "pullback":  # jax compiles each of the runs anew, which takes half an hour
    note("MB grown", "a cell run 1,000 times, after the first 100", growth_of_reruns)
if __name__ == "__main__":
    print(json.dumps(results))
