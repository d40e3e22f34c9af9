"""Solutions of linear and nonlinear equations, differentiated by what they satisfy.

`custom_linear_solve` differentiates A x = b without looking into the solver; `custom_root` does the
same for f(x) = 0 by the implicit function theorem. Builds on core/call.py and custom_rules.py.
Tested in tests/lax/test_linear_solve.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pullback.core import pytree
from pullback.core.aval import ShapedArray, tangent_aval, typeof
from pullback.core.batching import AxisData, bdim_at_front
from pullback.core.call import batch_jaxpr, transpose_jaxpr
from pullback.core.jaxpr import Jaxpr, eval_jaxpr
from pullback.core.jvp import Zero, add_tangents, instantiate, jvp_flat, zero_of
from pullback.core.stage import trace_to_jaxpr
from pullback.core.tracer import Primitive
from pullback.core.transpose import is_undefined
from pullback.lax.custom_rules import custom_jvp_call_p
from pullback.lax.elementwise import neg_p
from pullback.lax.inner import TracedFunction, function_name, trace_function
from pullback.lax.loop_parts import split_at


@dataclass(frozen=True, slots=True)
class Solver:
    """The programs around one linear system; each takes its own constants first.

    Attributes:
        matvec: x -> A x.
        vecmat: x -> A^T x, if known.
        solve: b -> x (and auxiliary results).
        transpose_solve: b -> x with A^T x = b, if known.
        counts: how many constants each of the four takes.
    """

    matvec: Jaxpr
    vecmat: Jaxpr | None
    solve: Jaxpr
    transpose_solve: Jaxpr | None
    counts: tuple[int, int, int, int]

    def programs(self) -> tuple[Jaxpr | None, ...]:
        """The four programs."""
        return self.matvec, self.vecmat, self.solve, self.transpose_solve

    def transposed(self) -> Solver:
        """The system of A^T."""
        m, v, s, t = self.counts
        if self.vecmat is None or self.transpose_solve is None:
            raise TypeError(
                "custom_linear_solve: reverse mode needs the solution of the transposed system.\n"
                "Instead: pass transpose_solve=, or symmetric=True where the matrix is symmetric."
            )
        return Solver(self.vecmat, self.matvec, self.transpose_solve, self.solve, (v, m, t, s))


def _solve_abstract(*avals: ShapedArray, solver: Solver, n_b: int) -> list[ShapedArray]:
    return solver.solve.out_avals


def _split(args: Sequence[Any], solver: Solver) -> list[list[Any]]:
    """Constants of matvec, vecmat, solve and transpose_solve; and b."""
    return split_at(args, *solver.counts)


def _solve_impl(*args: Any, solver: Solver, n_b: int) -> list[Any]:
    _, _, consts, _, b = _split(args, solver)
    return eval_jaxpr(solver.solve, (), *consts, *b)


def _solve_lower(ctx: Any, *values: Any, solver: Solver, n_b: int) -> list[Any]:
    _, _, consts, _, b = _split(values, solver)
    return ctx.call(solver.solve, [*consts, *b], name="solve")


def _solve_jvp(primals: Any, tangents: Any, *, solver: Solver, n_b: int) -> tuple[list, list]:
    """A x = b gives A dx = db - dA x."""
    outs = linear_solve_p.bind(*primals, solver=solver, n_b=n_b)
    x = outs[:n_b]
    consts, *_ = _split(primals, solver)
    const_ts, *_, b_ts = _split(tangents, solver)
    rhs = list(b_ts)
    if any(type(t) is not Zero for t in const_ts):
        _, change = jvp_flat(lambda *c: eval_jaxpr(solver.matvec, (), *c, *x), consts, const_ts)
        rhs = [
            add_tangents(t, d if type(d) is Zero else neg_p.bind(d))
            for t, d in zip(rhs, change, strict=True)
        ]
    if all(type(r) is Zero for r in rhs):
        return outs, [zero_of(o) for o in outs]
    fixed = primals[: len(primals) - n_b]
    t_outs = linear_solve_p.bind(*fixed, *map(instantiate, rhs), solver=solver, n_b=n_b)
    return outs, [*t_outs[:n_b], *(zero_of(o) for o in outs[n_b:])]


def _solve_transpose(cts: Any, *args: Any, solver: Solver, n_b: int) -> list[Any]:
    if any(is_undefined(a) for a in args[: len(args) - n_b]):
        raise TypeError("custom_linear_solve is linear in b only")
    matvec, vecmat, solve, transpose_solve, b = _split(args, solver)
    turned = solver.transposed()
    given = [instantiate(ct) for ct in cts[:n_b]]
    outs = linear_solve_p.bind(
        *vecmat, *matvec, *transpose_solve, *solve, *given, solver=turned, n_b=n_b
    )
    return [None] * (len(args) - n_b) + [
        ct if is_undefined(a) else None for ct, a in zip(outs[:n_b], b, strict=True)
    ]


def _solve_batch(
    axis: AxisData, args: Any, dims: Any, *, solver: Solver, n_b: int
) -> tuple[list, list]:
    groups, group_dims = _split(args, solver), _split(dims, solver)
    mapped: list[Jaxpr | None] = []
    operands: list[Any] = []
    counts = []
    for program, consts, const_dims in zip(solver.programs(), groups, group_dims, strict=False):
        if program is None:
            mapped.append(None)
            counts.append(0)
            continue
        derived, lead, _ = batch_jaxpr(
            program, axis, (*const_dims, *(0,) * n_b), (0,) * len(program.outvars)
        )
        mapped.append(derived)
        operands += [*lead, *consts]
        counts.append(len(lead) + len(consts))
    b = [bdim_at_front(x, d, axis.size) for x, d in zip(groups[4], group_dims[4], strict=True)]
    matvec, vecmat, solve, transpose_solve = mapped
    new = Solver(matvec, vecmat, solve, transpose_solve, tuple(counts))  # type: ignore[arg-type]
    outs = linear_solve_p.bind(*operands, *b, solver=new, n_b=n_b)
    return outs, [0] * len(outs)


linear_solve_p = Primitive(
    name="custom_linear_solve",
    doc="x with A x = b, by a given solver; linear in b",
    multiple_results=True,
    abstract=_solve_abstract,
    impl=_solve_impl,
    lower=_solve_lower,
    jvp=_solve_jvp,
    transpose=_solve_transpose,
    batch=_solve_batch,
)


def _check_like(what: str, found: TracedFunction, tree: Any, avals: Sequence[ShapedArray]) -> None:
    shapes = [(a.shape, a.dtype) for a in found.out_avals[: len(avals)]]
    if shapes != [(a.shape, a.dtype) for a in avals]:
        raise TypeError(
            f"custom_linear_solve: {what} must return values like its argument: expected "
            f"{[a.str_short() for a in avals]} in {tree}, got "
            f"{[a.str_short() for a in found.out_avals]} in {found.out_tree}."
        )


def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    transpose_solve: Callable[[Callable[[Any], Any], Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """The x with matvec(x) = b that `solve` finds, with derivatives from the equation itself.

    Args:
        matvec: linear function of values like `b`; may close over differentiated values.
        b: pytree of arrays, the right-hand side.
        solve: (matvec, b) -> x; it is not differentiated.
        transpose_solve: (vecmat, b) -> x with vecmat(x) = b; reverse mode needs it.
        symmetric: the matrix is symmetric, so `solve` serves for the transposed system.
        has_aux: `solve` returns (x, auxiliary values); these have no derivative.

    Returns:
        x, like `b` (with the auxiliary values if there are any).
    """
    leaves, tree = pytree.tree_flatten(b)
    in_tree = pytree.tree_structure((b,))
    avals = [typeof(x).strip_weak_type() for x in leaves]
    product = trace_function(matvec, in_tree, avals, "matvec")
    _check_like("matvec", product, tree, avals)
    solution = trace_function(lambda v: solve(matvec, v), in_tree, avals, "solve")
    _check_like("solve", solution, tree, avals)
    turned: TracedFunction | None = None
    if symmetric and transpose_solve is None:
        transposed: Jaxpr | None = product.jaxpr
        transposed_consts = product.consts
        turned = solution
    elif transpose_solve is not None:
        n = len(product.consts)
        linear = (False,) * n + (True,) * len(leaves)
        derived, lead, there = transpose_jaxpr(product.jaxpr, linear, (False,) * len(leaves))
        if lead or not all(there):
            raise TypeError("custom_linear_solve: matvec is not linear in all its inputs.")
        transposed, transposed_consts = derived, product.consts

        def vecmat(x: Any) -> Any:
            outs = eval_jaxpr(derived, (), *product.consts, *pytree.tree_leaves(x))
            return pytree.tree_unflatten(tree, outs)

        turned = trace_function(lambda v: transpose_solve(vecmat, v), in_tree, avals, "solve")
        _check_like("transpose_solve", turned, tree, avals)
    else:
        transposed, transposed_consts = None, []
    turned_consts = turned.consts if turned is not None else []
    solver = Solver(
        product.jaxpr,
        transposed,
        solution.jaxpr,
        turned.jaxpr if turned is not None else None,
        (len(product.consts), len(transposed_consts), len(solution.consts), len(turned_consts)),
    )
    outs = linear_solve_p.bind(
        *product.consts,
        *transposed_consts,
        *solution.consts,
        *turned_consts,
        *leaves,
        solver=solver,
        n_b=len(leaves),
    )
    return pytree.tree_unflatten(solution.out_tree, outs)


@dataclass(frozen=True, slots=True, eq=False)
class _RootRule:
    """The derivative of a root: dx = -tangent_solve(f'(x), df)."""

    jaxpr: Jaxpr
    n_consts: int
    tree: Any
    n_x: int
    tangent_solve: Callable[..., Any]
    solution: Jaxpr

    def root(self, operands: Sequence[Any]) -> list[Any]:
        """The root (and auxiliary values), with this derivative."""
        return custom_jvp_call_p.bind(
            *operands,
            call=self.solution,
            jvp=self,
            num_consts=0,
            symbolic_zeros=True,
            name="root",
        )

    def __call__(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list, list]:
        outs = self.root(primals)
        x = outs[: self.n_x]
        consts = primals[: self.n_consts]
        _, rhs = jvp_flat(
            lambda *c: eval_jaxpr(self.jaxpr, (), *c, *x), consts, tangents[: self.n_consts]
        )
        rhs = [instantiate(t) for t in rhs]

        def linear(v: Any) -> Any:
            _, change = jvp_flat(
                lambda *y: eval_jaxpr(self.jaxpr, (), *consts, *y), x, pytree.tree_leaves(v)
            )
            return pytree.tree_unflatten(self.tree, [instantiate(t) for t in change])

        found = self.tangent_solve(linear, pytree.tree_unflatten(self.tree, rhs))
        dx = [neg_p.bind(t) for t in pytree.tree_leaves(found)]
        rest = [Zero(tangent_aval(typeof(o))) for o in outs[self.n_x :]]
        return outs, [*dx, *rest]


def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    tangent_solve: Callable[[Callable[[Any], Any], Any], Any],
    has_aux: bool = False,
) -> Any:
    """The root of `f` that `solve` finds, with derivatives by the implicit function theorem.

    Args:
        f: function whose root is sought; may close over differentiated values.
        initial_guess: pytree of arrays; the root does not depend on it.
        solve: (f, initial_guess) -> root; it is not differentiated.
        tangent_solve: (g, y) -> x with g(x) = y for a linear function g; for scalars,
            `lambda g, y: y / g(1.0)`.
        has_aux: `solve` returns (root, auxiliary values).

    Returns:
        The root, like `initial_guess` (with the auxiliary values if there are any).
    """
    leaves, tree = pytree.tree_flatten(initial_guess)
    in_tree = pytree.tree_structure((initial_guess,))
    avals = [typeof(x).strip_weak_type() for x in leaves]
    value = trace_function(f, in_tree, avals, function_name(f))
    if value.out_tree != tree:
        raise TypeError(
            f"custom_root: f must return a value like its argument: expected {tree}, "
            f"got {value.out_tree}."
        )
    n_consts = len(value.consts)
    solution = trace_function(lambda guess: solve(f, guess), in_tree, avals, "solve")

    dummy = pytree.tree_unflatten(solution.out_tree, solution.out_avals)
    if has_aux and not (isinstance(dummy, tuple | list) and len(dummy) == 2):
        raise TypeError(
            "custom_root: with has_aux, solve must return a pair (root, auxiliary values), got "
            f"{solution.out_tree}."
        )
    found = pytree.tree_structure(dummy[0]) if has_aux else solution.out_tree
    if found != tree:
        raise TypeError(
            f"custom_root: solve() must return a root like initial_guess: expected {tree}, "
            f"got {found}.\nInstead: with has_aux=True it returns (root, auxiliary values)."
        )

    def flat(*args: Any) -> list[Any]:
        return eval_jaxpr(solution.jaxpr, (), *args[n_consts:])

    operands = [*value.consts, *solution.consts, *leaves]
    closed, _ = trace_to_jaxpr(flat, [typeof(x) for x in operands], name="root")
    rule = _RootRule(value.jaxpr, n_consts, tree, len(leaves), tangent_solve, closed)
    outs = rule.root(operands)
    return pytree.tree_unflatten(solution.out_tree, outs)
