"""The error classes: their bases, their own examples, and what their messages are made of."""

import math
import pickle
import re
import traceback

import numpy as np
import pytest

import pullback as jax
import pullback.numpy as jnp
from pullback import errors, lax
from pullback.api import check_error
from pullback.core import errors as core_errors
from pullback.experimental import checkify

BASES = {
    "ConcretizationTypeError": TypeError,
    "TracerBoolConversionError": errors.ConcretizationTypeError,
    "TracerArrayConversionError": TypeError,
    "TracerIntegerConversionError": TypeError,
    "NonConcreteBooleanIndexError": IndexError,
    "UnexpectedTracerError": TypeError,
    "KeyReuseError": TypeError,
    "LeakedTracerError": TypeError,
    "JaxRuntimeError": RuntimeError,
    "TypePromotionError": ValueError,
}


@pytest.mark.parametrize("name", BASES)
def test_bases(name):
    assert issubclass(getattr(errors, name), BASES[name])


def test_shape_errors_are_caught_as_either():
    for kind in (TypeError, ValueError, errors.ShapeError):
        with pytest.raises(kind, match="incompatible shapes for broadcasting"):
            jnp.ones(3) + jnp.ones(4)


def examples(cls):
    text = cls.__doc__ or ""
    found = re.findall(r"(Failing|Corrected):\n((?:\s+>>> .*\n)+)", text)
    return [(kind, re.sub(r"(?m)^\s+>>> ", "", code)) for kind, code in found]


CLASSES = [
    c
    for c in vars(core_errors).values()
    if isinstance(c, type) and c.__module__ == core_errors.__name__ and examples(c)
]
CLASSES.append(check_error.JaxRuntimeError)
NOT_YET_RAISED = {"KeyReuseError"}  # raised by random/ only while jax_debug_key_reuse is on


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_docstring_examples(cls):
    names = {"jit": jax.jit, "jnp": jnp, "np": np, "random": jax.random}
    names |= {"checkify": checkify, "checking_leaks": jax.checking_leaks, "key": jax.random.key(0)}
    kinds = [kind for kind, _ in examples(cls)]
    assert kinds == ["Failing", "Corrected"]
    for kind, code in examples(cls):
        if kind == "Corrected":
            exec(code, names)
        elif cls.__name__ not in NOT_YET_RAISED:
            with pytest.raises(cls):
                exec(code, names)


def message(function, *args):
    with pytest.raises(Exception) as caught:
        function(*args)
    return str(caught.value)


def test_a_message_names_argument_type_line_and_advice():
    @jax.jit
    def f(params, x):
        if params["w"][0] > 0:
            return x
        return -x

    text = message(f, {"w": jnp.ones(2)}, 1.0)
    assert "bool[], computed by gt of params['w']" in text
    assert "while f is traced" in text
    assert "At test_classes.py, line" in text and "if params" in text
    assert "Instead: jnp.where" in text and "static_argnames" in text
    assert len(text.splitlines()) <= 10


def test_names_of_static_keyword_and_variadic_arguments():
    def f(n, x, *rest, scale):
        return float(x), float(rest[0]), float(scale)

    for skip, name in [(0, "x"), (1, "argument 2"), (2, "scale")]:

        def g(n, x, *rest, scale, skip=skip):
            return float([x, rest[0], scale][skip])

        jitted = jax.jit(g, static_argnums=0)
        assert f"float32[], {name};" in message(lambda j=jitted: j(3, 1.0, 2.0, scale=4.0))


def test_under_vmap_no_static_argument_is_advised():
    text = message(jax.vmap(lambda x: float(x)), jnp.ones(3))
    assert "stands for 3 values" in text and "static" not in text and "in_axes=None" in text


def test_gradients_inside_jit_name_the_jit():
    text = message(jax.jit(jax.grad(lambda x: x if x > 0 else -x)), 1.0)
    assert "of x" in text and "is traced" in text


def test_values_are_known_under_grad_alone():
    assert jax.grad(lambda x: x * 2 if x > 0 else x * float(np.asarray(x)))(1.0) == 2.0


def test_a_leaked_tracer_of_grad_and_vmap():
    kept = []
    jax.grad(lambda x: kept.append(x * 2) or x)(1.0)
    jax.vmap(lambda x: kept.append(x * 2) or x)(jnp.ones(2))
    assert "the function under grad" in message(lambda: kept[0] + 1)
    assert "the function under vmap" in message(lambda: kept[1] + 1)


def test_an_error_in_a_traced_program_names_its_line():
    @jax.jit
    def f(x):
        y = x + 1
        return jax.lax.while_loop(lambda y: y < 9, lambda y: 2 * y, y)

    with pytest.raises(ValueError, match="Reverse-mode") as caught:
        jax.grad(f)(1.0)
    text = "".join(traceback.format_exception_only(caught.value))
    assert re.search(r"While `.*` was processed, of test_classes.py, line \d+: return jax", text)


def test_messages_are_the_same_after_pickling_a_shape_error():
    error = core_errors.shape_error("a", "b")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_message_can_be_given():
    assert str(errors.UnexpectedTracerError("text")) == "text"
    assert str(errors.KeyReuseError("text")) == "text"


def test_context_stands_in_the_message():
    @jax.jit
    def f(x):
        raise errors.ConcretizationTypeError(x, "The size of the window must be known.")

    assert "The size of the window must be known." in message(f, 1.0)


@pytest.mark.parametrize(
    "shapes, advice",
    [
        (((3, 4), (3,)), "y[:, None]"),
        (((3, 4, 5), (3, 4)), "y[:, :, None]"),
        (((3,), (4,)), "must be equal or 1"),
    ],
)
def test_broadcasting_advice(shapes, advice):
    text = str(core_errors.broadcast_error("add", [str(s) for s in shapes], shapes))
    assert advice in text


@pytest.mark.parametrize("transform", ["grad", "jvp"])
@pytest.mark.parametrize("x", [2.0, np.float32(2)])
@pytest.mark.parametrize(
    ("fun", "error"),
    [
        (lambda x: float(x) * x, errors.ConcretizationTypeError),
        (lambda x: complex(x).real * x, errors.ConcretizationTypeError),
        (lambda x: math.sin(x) * x, errors.ConcretizationTypeError),
        (lambda x: x.tolist() * x, errors.ConcretizationTypeError),
        (lambda x: np.sin(x) * x, errors.TracerArrayConversionError),
        (lambda x: np.asarray(x) * x, errors.TracerArrayConversionError),
        (lambda x: np.array([x, x]).sum() * x, errors.TracerArrayConversionError),
    ],
)
def test_a_derivative_is_not_lost_in_silence(transform, x, fun, error):
    with pytest.raises(error, match="its derivative would be lost") as caught:
        jax.grad(fun)(x) if transform == "grad" else jax.jvp(fun, (x,), (x,))
    assert "stop_gradient" in str(caught.value)


@pytest.mark.parametrize("x", [2.0, np.float32(2)])
def test_values_under_grad_that_lose_no_derivative(x):
    for fun in (
        lambda x: x if x > 1 else -x,
        lambda x: x if x else -x,
        lambda x: x * int(x) / 2,
        lambda x: x * x.item() / 2,
        lambda x: x * float(lax.stop_gradient(x)) / 2,
        lambda x: (f"{x:.2f}", str(x), repr(x), x)[3],
    ):
        assert float(jax.grad(fun)(x)) == 1.0
