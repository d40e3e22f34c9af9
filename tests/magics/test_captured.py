"""Captured globals, noted and compared."""

import functools

import numpy as np
import pytest

import pullback.numpy as jnp
from pullback.api.jit import jit
from pullback_magics.captured import captured_names, changes, snapshot
from pullback_magics.tokens import token


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (1, 2),
        (1, 1.0),
        (True, 1),
        ("a", "b"),
        ((1, 2), (1, 3)),
        ({"lr": 0.1}, {"lr": 0.2}),
        (None, 0),
        (0.0, -0.0),
    ],
)
def test_other_values_have_other_tokens(before, after):
    assert token(before).key != token(after).key


def test_equal_constants_have_the_same_token():
    assert token({"lr": 0.1, "k": (1, "a")}).key == token({"lr": 0.1, "k": (1, "a")}).key
    assert token(float("nan")).key == token(float("nan")).key


def test_numpy_arrays_are_compared_by_content_too():
    a = np.zeros(3)
    before = token(a)
    assert token(a).key == before.key
    a[1] = 5
    assert token(a).key != before.key


def test_arrays_are_immutable_and_compared_by_identity():
    a = jnp.zeros(3)
    assert token(a).key == token(a).key != token(jnp.zeros(3)).key


def make(namespace, source):
    exec(source, namespace)
    return namespace


def test_names_are_found_through_helpers_and_wrappers():
    names = make(
        {"jit": jit, "functools": functools, "jnp": jnp},
        "scale = 2.0\nshift = 1.0\n"
        "def helper(x): return x * scale\n"
        "jitted = jit(helper)\n"
        "def f(x):\n    g = lambda y: jitted(y) + shift\n    return jnp.sin(g(x))\n"
        "h = functools.partial(f)\n",
    )
    found = captured_names([names["h"]], names)
    assert found["scale"] == "helper" and found["shift"] == "f"
    assert "jnp" not in found


def test_changes_are_named():
    names = make({}, "a = 1\nb = [1.0]\ndef f(): return a, b, g()\ndef g(): return 0\n")
    taken = snapshot(captured_names([names["f"]], names), names)
    assert changes(taken, names) == []
    names["a"] = 2
    names["b"][0] = 2.0
    make(names, "def g(): return 1")
    assert [text for _, text in changes(taken, names)] == [
        "a was 1, now 2",
        "b[0] was 1.0, now 2.0",
        "function g was defined again",
    ]
    del names["a"]
    assert changes(taken, names)[0] == ("a", "a was 1 and is gone")


class Options:
    """Of a library's module, as far as the magics know."""

    def __init__(self, lr):
        self.lr = lr
        self.inner = self


def test_attributes_of_objects_are_compared():
    options = Options(0.1)
    names = {"options": options, "seen": {1, 2}}
    taken = snapshot({"options": "f", "seen": "f"}, names)
    assert changes(taken, names) == []
    options.lr = 0.2
    names["seen"].add(3)
    assert [text for _, text in changes(taken, names)] == [
        "options.lr was 0.1, now 0.2",
        "seen (set) has been replaced or changed",
    ]


def test_classes_and_methods_of_the_user_are_looked_into():
    names = make(
        {"__name__": "__main__"},
        "scale = 2.0\nclass Model:\n    width = 3\n    def call(self, x):\n"
        "        return x * scale * self.width\nmodel = Model()\n",
    )
    found = captured_names([names["model"]], names)
    assert found == {"scale": "call"}
    taken = snapshot({"Model": "f", "model": "f"}, names)
    names["Model"].width = 4
    assert [text for _, text in changes(taken, names)] == [
        "Model.width was 3, now 4",
        "model.width was 3, now 4",
    ]


def test_looking_into_objects_is_bounded():
    big = Options(0.1)
    big.__dict__.update({f"a{i}": Options(i) for i in range(5000)})
    assert token(big).parts == {}
