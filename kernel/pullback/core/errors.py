"""The error classes, and the texts of the errors that tracing and differentiating give.

Each text says what went wrong, with which values, where in the user's code, and what to do instead.
Builds on source.py. Tested in tests/errors/.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.core import source


class JAXTypeError(TypeError):
    """Base of the type errors that tracing gives."""


class JAXIndexError(IndexError):
    """Base of the index errors that tracing gives."""


class JaxprTypeError(TypeError):
    """A jaxpr that is not well formed."""


class InconclusiveDimensionOperation(Exception):  # noqa: N818  (JAX's name)
    """A question about symbolic dimensions that has no answer for all their values."""


class ShapeError(TypeError, ValueError):
    """Shapes that do not fit each other; both a TypeError and a ValueError, as callers expect."""


class CustomRuleClosureError(JAXTypeError):
    """A custom rule's function closes over a value that is being differentiated."""


# ------------------------------------------------------------------------------------ the parts


def aval_text(aval: Any) -> str:
    """A type as messages show it: `float32[3,4]`."""
    from_dtype = getattr(aval.dtype, "name", None) or str(aval.dtype)
    return f"{from_dtype}[{','.join(map(str, aval.shape))}]"


def value_text(x: Any) -> str:
    """A traced value with its type and origin: `float32[3], argument x`."""
    origin = getattr(_unknown_part(x), "origin", None)
    text = origin() if origin is not None else ""
    return aval_text(x.aval) + (f", {text}" if text else "")


def _unknown_part(tracer: Any) -> Any:
    """The innermost tracer of nested ones: the one because of which the value is not known."""
    while True:
        for name in ("primal", "value"):
            inner = getattr(tracer, name, None)
            if hasattr(inner, "_trace"):
                break
        else:
            return tracer
        tracer = inner


def _situation(tracer: Any) -> tuple[str, str]:
    """Why the elements of a traced value are not known, and how to make them known."""
    trace = _unknown_part(tracer)._trace
    axis = getattr(trace, "axis", None)
    if axis is not None:
        return (
            f"under vmap it stands for {axis.size} values, one for each element of the mapped axis",
            "in_axes=None keeps an argument unmapped.",
        )
    if hasattr(trace, "eqns"):
        name = getattr(trace, "name", "") or "the function"
        static = "jit(f, static_argnames=...) makes an argument a plain Python value."
        named = getattr(trace, "arg_name", None) is not None
        return f"its elements are not known while {name} is traced", static if named else ""
    return f"its elements are not known during {trace.describe()}", ""


def _user_of(tracer: Any) -> str:
    """Whose run a tracer belongs to."""
    trace = tracer._trace
    if hasattr(trace, "eqns"):
        return trace.name or "the traced function"
    return f"the function under {trace.describe()}"


def where_text(info: source.SourceInfo | None = None) -> str:
    """The line that says where in the user's code, with the code; empty outside of it."""
    text = source.describe(info if info is not None else source.current_position())
    return f"At {text}" if text else ""


def line_text(info: source.SourceInfo | None) -> str:
    """A position as a line of a message; empty without one."""
    return f"At {source.describe(info)}" if info is not None else ""


def compose(what: str, *lines: str) -> str:
    """A message of what happened, and the lines that are not empty."""
    return "\n".join([what, *[line for line in lines if line]])


def _unknown_value(what: str, tracer: Any, instead: str) -> str:
    why, known = _situation(tracer)
    return compose(
        what if what.endswith(".") else f"{what}.",
        f"The value: {value_text(tracer)}; {why}.",
        where_text(),
        f"Instead: {instead}" if instead else "",
        f"Or: {known}" if known else "",
    )


# ---------------------------------------------------------------- a known value is needed


class ConcretizationTypeError(JAXTypeError):
    """A number was needed where only a traced value is known.

    A `context` replaces the general text; it may end with a line "Instead: ...".

    Failing:
        >>> jit(lambda x: x * float(x))(2.0)
    Corrected:
        >>> jit(lambda x: x * x.astype(float))(2.0)
    """

    def __init__(self, tracer: Any, context: str = "") -> None:
        what, _, instead = context.partition("\nInstead: ")
        if not what:
            what = "a number was asked of a traced value, as by float(), int(), math.sin(), .item()"
            instead = "stay with arrays: x.astype(int), jnp.floor(x), jnp.sin(x)."
        super().__init__(_unknown_value(what, tracer, instead))


class TracerBoolConversionError(ConcretizationTypeError):
    """A traced value was used as a condition of Python.

    Failing:
        >>> jit(lambda x: x if x > 0 else -x)(1.0)
    Corrected:
        >>> jit(lambda x: jnp.where(x > 0, x, -x))(1.0)
    """

    def __init__(self, tracer: Any) -> None:
        JAXTypeError.__init__(
            self,
            _unknown_value(
                "a traced value was used as True or False, as by if, while, and, or, not, min()",
                tracer,
                "jnp.where(c, a, b) chooses between values, lax.cond(c, f, g, x) between "
                "computations, lax.while_loop repeats; & | ~ combine conditions.",
            ),
        )


class TracerArrayConversionError(JAXTypeError):
    """A traced value was given to NumPy.

    Failing:
        >>> jit(lambda x: np.sin(np.asarray(x)))(1.0)
    Corrected:
        >>> jit(lambda x: jnp.sin(x))(1.0)
    """

    def __init__(self, tracer: Any) -> None:
        super().__init__(
            _unknown_value(
                "a NumPy array was asked of a traced value, as by np.asarray() or NumPy functions",
                tracer,
                "call the function of jnp (jnp.sin for np.sin); for a function that only NumPy "
                "has, jax.pure_callback calls it from a compiled program.",
            )
        )


def lost_derivative(error: type[Exception], tracer: Any) -> Exception:
    """The error of a value that is being differentiated and would become a constant."""
    asked = (
        "a NumPy array was asked of a value that is being differentiated, as by np.sin(x)"
        if error is TracerArrayConversionError
        else "a plain number was asked of a value that is being differentiated, as by float(x) or "
        "math.sin(x)"
    )
    made = error(tracer)
    made.args = (
        compose(
            f"{asked}: its derivative would be lost.",
            f"The value: {value_text(tracer)}.",
            where_text(),
            "Instead: call the function of jnp (jnp.sin for np.sin and math.sin); to look at the "
            "value, print(x) or float(lax.stop_gradient(x)).",
        ),
    )
    return made


class TracerIntegerConversionError(JAXTypeError):
    """A traced value was used as an index or size of Python or NumPy.

    Failing:
        >>> jit(lambda i: [10, 20, 30][i])(1)
    Corrected:
        >>> jit(lambda i: jnp.array([10, 20, 30])[i])(1)
    """

    def __init__(self, tracer: Any) -> None:
        super().__init__(
            _unknown_value(
                "an integer was asked of a traced value, as by a list index, range() or a shape",
                tracer,
                "index an array, jnp.asarray(the_list)[i]; loop with lax.fori_loop; take sizes "
                "from x.shape.",
            )
        )


class NonConcreteBooleanIndexError(JAXIndexError):
    """A traced mask was used as an index: the result's shape would depend on its values.

    Failing:
        >>> jit(lambda x: x[x > 0])(jnp.arange(3.0))
    Corrected:
        >>> jit(lambda x: jnp.where(x > 0, x, 0.0))(jnp.arange(3.0))
    """

    def __init__(self, tracer: Any) -> None:
        super().__init__(
            _unknown_value(
                "a traced boolean array was used as an index: how many elements it selects, and "
                "so the shape of the result, is not known",
                tracer,
                "jnp.where(mask, x, 0) keeps the shape; jnp.nonzero(mask, size=n, fill_value=0) "
                "gives n indices; x.at[mask].set(v) writes.",
            )
        )


class UnexpectedTracerError(JAXTypeError):
    """A traced value outlived the call that it stands for.

    Failing:
        >>> kept = []
        >>> jit(lambda x: kept.append(x) or x)(1.0); kept[0] + 1
    Corrected:
        >>> y, kept = jit(lambda x: (x, x))(1.0); kept + 1
    """

    def __init__(self, msg: Any) -> None:
        if not isinstance(msg, str):
            tracer = msg
            msg = compose(
                "a traced value was used after the function that it belongs to had returned.",
                f"The value: {value_text(tracer)}; it stood for an array only while "
                f"{_user_of(tracer)} ran.",
                where_text(),
                "Instead: return the value from the function, and use what the transformed "
                "function returns; do not keep it in a global, a list or an attribute.",
            )
        super().__init__(msg)


class KeyReuseError(JAXTypeError):
    """A random key was used twice, so that the same numbers come out twice.

    Failing:
        >>> random.normal(key), random.normal(key)
    Corrected:
        >>> k1, k2 = random.split(key); random.normal(k1), random.normal(k2)
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)


class LeakedTracerError(JAXTypeError):
    """Found by `checking_leaks()`: a traced value is still held after its trace ended.

    Failing:
        >>> kept = []
        >>> with checking_leaks(): jit(lambda x: kept.append(x) or x)(1.0)
    Corrected:
        >>> with checking_leaks(): y, kept = jit(lambda x: (x, x))(1.0)
    """

    def __init__(self, tracer: Any, holder: str) -> None:
        super().__init__(
            compose(
                "a traced value is still held after the function that it belongs to returned.",
                f"The value: {value_text(tracer)}, of {_user_of(tracer)}; held by {holder}.",
                where_text(),
                "Instead: return the value from the function, and keep what the transformed "
                "function returns.",
            )
        )


# ------------------------------------------------------------------ errors made by functions


def internal_error(text: str) -> RuntimeError:
    """A failure of the engine itself."""
    return RuntimeError(f"internal error of the engine, please report it: {text}")


def not_a_function(what: str, x: Any) -> TypeError:
    """Something that cannot be called was given to a transformation."""
    return TypeError(
        compose(
            f"{what} expects a function, got {type(x).__name__}: {x!r:.60}",
            where_text(),
            f"Instead: give the function, then call what comes back with the arguments: "
            f"{what}(f)(x).",
        )
    )


def shape_error(what: str, instead: str = "") -> ShapeError:
    """Shapes that do not fit: what is wrong, where in the user's code, and what to do instead."""
    return ShapeError(compose(what, where_text(), f"Instead: {instead}" if instead else ""))


def broadcast_error(name: str, types: Sequence[str], shapes: Sequence[tuple]) -> ShapeError:
    """Operands whose shapes do not broadcast.

    Args:
        name: the operation.
        types: the operands as messages show them.
        shapes: their shapes.
    """
    rank = max(map(len, shapes))
    clash = ""
    for axis in range(1, rank + 1):
        sizes = [s[-axis] for s in shapes if len(s) >= axis and s[-axis] != 1]
        if len(set(sizes)) > 1:
            clash = f": sizes {' and '.join(dict.fromkeys(map(str, sizes)))} on axis {-axis}"
            break
    return shape_error(
        f"{name}: incompatible shapes for broadcasting, {' and '.join(types)}{clash}.",
        _broadcast_advice(shapes),
    )


def _broadcast_advice(shapes: Sequence[tuple]) -> str:
    """How the shapes could be made to fit: by new axes on the right, where that helps."""
    long = max(shapes, key=len)
    for shape in shapes:
        lead = len(long) - len(shape)
        if 0 < lead and shape == long[: len(shape)]:
            index = ", ".join([":"] * len(shape) + ["None"] * lead)
            return (
                f"axes are matched from the right; y[{index}] of the operand y of shape {shape} "
                "adds axes of size 1 on the right."
            )
    return (
        "axes are matched from the right and must be equal or 1: x[:, None], jnp.reshape(x, ...)."
    )


def traced_shape_error(shape: Any, name: str = "") -> TypeError:
    """A shape with a traced entry."""
    entries = shape if isinstance(shape, (tuple, list)) else (shape,)
    tracer = next(d for d in entries if hasattr(d, "_trace"))
    shown = ", ".join("?" if hasattr(d, "_trace") else repr(d) for d in entries)
    prefix = f"{name}: " if name else ""
    return TypeError(
        _unknown_value(
            f"{prefix}Shapes must be 1D sequences of concrete values of integer type, got "
            f"({shown}), where ? is traced",
            tracer,
            "compute shapes from x.shape, which is known while tracing.",
        )
    )


def axis_text(axis: int, ndim: int) -> str:
    """The message of an axis that an array does not have."""
    valid = f"axes {-ndim} to {ndim - 1}" if ndim else "no axis: it is a scalar"
    return compose(
        f"axis {axis} is out of bounds for array of dimension {ndim}.",
        where_text(),
        f"Instead: the array has {valid}.",
    )


def ambiguous_truth_value(x: Any) -> ValueError:
    """Several elements were used as one condition."""
    return ValueError(
        compose(
            f"the truth value of an array of {x.aval.size} elements is ambiguous.",
            f"The value: {value_text(x)}.",
            where_text(),
            "Instead: jnp.any(x), jnp.all(x), or jnp.where(x, a, b).",
        )
    )


_INPUT = {
    "integer": (
        "{what}: the input has dtype {dtype}, which has no derivative: it is not floating.",
        "pass floats, f(3.0) or x.astype(float); or differentiate by another argument with "
        "argnums=; allow_int=True gives float0 zeros.",
    ),
    "complex": (
        "{what}: the input has dtype {dtype}; a Jacobian by complex inputs is not one array.",
        "holomorphic=True if the function is complex-differentiable, else jvp or vjp.",
    ),
    "holomorphic": (
        "{what} with holomorphic=True: the input has dtype {dtype}, which is not complex.",
        "pass complex inputs, x.astype(complex), or leave holomorphic out.",
    ),
}

_OUTPUT = {
    "structure": (
        "{what}: the function must return one real scalar; it returned {found}.",
        "return the scalar alone, or (scalar, extra) with has_aux=True.",
    ),
    "shape": (
        "{what}: the function must return a scalar; it returned {found}.",
        "reduce it, jnp.sum(y) or jnp.mean(y); jacrev gives the derivative of every element, and "
        "vjp multiplies by a vector of your choice.",
    ),
    "integer": (
        "{what}: the output has dtype {dtype}, which has no derivative: it is not floating.",
        "return a float, y.astype(float); integer results are constant almost everywhere.",
    ),
    "complex": (
        "{what}: the output has dtype {dtype}; a gradient is defined for real outputs.",
        "return a real number, jnp.real(y) or jnp.abs(y); holomorphic=True if the function is "
        "complex-differentiable.",
    ),
    "holomorphic": (
        "{what} with holomorphic=True: the output has dtype {dtype}, which is not complex.",
        "return a complex number, or leave holomorphic out.",
    ),
}


def grad_input_error(what: str, dtype: Any, why: str) -> TypeError:
    """An argument that cannot be differentiated by.

    Args:
        what: the transformation.
        dtype: of the argument.
        why: "integer", "complex" or "holomorphic".
    """
    text, instead = _INPUT[why]
    return TypeError(
        compose(text.format(what=what, dtype=dtype), where_text(), f"Instead: {instead}")
    )


def _container_text(x: Any) -> str:
    if isinstance(x, (tuple, list, dict)):
        return f"a {type(x).__name__} of {len(x)}"
    return "None" if x is None else f"a {type(x).__name__}: {x!r:.60}"


def grad_output_error(what: str, x: Any, aval: Any, why: str) -> TypeError:
    """A result that cannot be differentiated.

    Args:
        what: the transformation.
        x: the result.
        aval: its type, or None if it is no array.
        why: "structure", "shape", "integer", "complex" or "holomorphic".
    """
    text, instead = _OUTPUT[why]
    found = _container_text(x) if aval is None else aval_text(aval)
    dtype = None if aval is None else aval.dtype
    return TypeError(
        compose(
            text.format(what=what, dtype=dtype, found=found), where_text(), f"Instead: {instead}"
        )
    )
