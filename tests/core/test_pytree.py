"""Pytrees: flattening, mapping, key paths, prefixes, registration."""

import collections
import copy
import dataclasses
import doctest
import functools
import pickle
import typing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pullback import tree, tree_util
from pullback.core import pytree, pytree_nodes
from pullback.core.pytree import (
    DictKey,
    GetAttrKey,
    Partial,
    SequenceKey,
    flatten_prefix,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)


class Point(typing.NamedTuple):
    x: typing.Any
    y: typing.Any


TREES = st.recursive(
    st.one_of(st.none(), st.integers()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        st.dictionaries(st.integers(), inner, max_size=3).map(collections.OrderedDict),
        st.builds(Point, inner, inner),
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(TREES)
def test_flatten_and_rebuild_are_inverse(t):
    leaves, treedef = tree_flatten(t)
    assert tree_unflatten(treedef, leaves) == t
    assert tree_map(lambda x: x, t) == t
    assert treedef == tree_structure(t) and hash(treedef) == hash(tree_structure(t))
    assert pickle.loads(pickle.dumps(treedef)) == treedef
    pairs, with_path = tree_flatten_with_path(t)
    assert [leaf for _, leaf in pairs] == leaves and with_path == treedef
    assert len({path for path, _ in pairs}) == len(pairs)
    assert flatten_prefix("axes", treedef, t) is not None


def test_order_and_none():
    assert tree_leaves({"b": 1, "a": (2, None, [3])}) == [2, 3, 1]
    assert tree_leaves(collections.OrderedDict(b=1, a=2)) == [1, 2]
    d = collections.defaultdict(list, b=1, a=2)
    assert tree_leaves(d) == [2, 1]
    assert tree_map(lambda x: x, d).default_factory is list
    assert tree_leaves(None) == [] and tree_leaves(3) == [3]
    assert tree_leaves((1, None), is_leaf=lambda x: x is None) == [1, None]


def test_text_of_a_structure():
    assert str(tree_structure({"a": (1, None)})) == "PyTreeDef({'a': (*, None)})"


def test_map_over_several_trees():
    assert tree_map(lambda x, y: x + y, {"a": 1}, {"a": 10}) == {"a": 11}
    assert tree_map(lambda x, y: (x, y), (1, 2), ([3], {"a": 4})) == ((1, [3]), (2, {"a": 4}))


@pytest.mark.parametrize(
    "first, second, text",
    [
        ((1, 2), (1, 2, 3), "at the root, a tuple of 2 against 3 items"),
        ({"a": 1}, {"b": 1}, "'a' only in the first, 'b' only in the other"),
        ({"a": [1]}, {"a": (1,)}, r"at \['a'\], a list of 1 against a tuple of 1"),
        ({"a": [1]}, {"a": 2}, r"at \['a'\], a list of 1 against a leaf \(int\)"),
        ([Point(1, (2,))], [Point(1, (2, 3))], r"at \[0\]\.y, a tuple of 1 against 2 items"),
    ],
)
def test_map_names_the_place_of_a_mismatch(first, second, text):
    with pytest.raises(ValueError, match=f"tree_map: tree 2 .*{text}"):
        tree_map(lambda x, y: x, first, second)


def test_unsortable_keys_are_explained():
    with pytest.raises(ValueError, match="cannot be sorted"):
        tree_flatten({1: 2, "a": 3})


def test_key_paths():
    pairs = tree.leaves_with_path({"w": [1, Point(2, 3)]})
    assert [keystr(path) for path, _ in pairs] == ["['w'][0]", "['w'][1].x", "['w'][1].y"]
    assert keystr(pairs[1][0], simple=True, separator="/") == "w/1/x"
    assert pairs[0][0] == (DictKey("w"), SequenceKey(0))
    swapped = tree.map_with_path(lambda p, x, y: (keystr(p), x, y), [1], [2])
    assert swapped == [("[0]", 1, 2)]
    stopped = tree_flatten_with_path([[1], [2]], lambda x: x == [2])[0]
    assert [leaf for _, leaf in stopped] == [1, [2]]
    shallow = tree_flatten_with_path([[1], [2]], lambda p, x: len(p) == 1, True)[0]
    assert [leaf for _, leaf in shallow] == [[1], [2]]


def test_reductions():
    assert tree.reduce(lambda a, b: a - b, [10, 2, {"a": 3}]) == 5
    assert tree.reduce(lambda a, b: a + b, [], 7) == 7
    with pytest.raises(TypeError):
        tree.reduce(lambda a, b: a + b, [])
    for n in range(1, 9):
        letters = "abcdefgh"[:n]
        assert tree.reduce_associative(lambda a, b: a + b, list(letters)) == letters
    assert tree.reduce_associative(max, [], identity=0) == 0
    with pytest.raises(TypeError, match="identity="):
        tree.reduce_associative(max, [])
    assert tree.all([True, (1,)]) and not tree.all({"a": 0}) and tree.all(())


def test_transpose():
    outer, inner = tree_structure([0, 0]), tree_structure({"a": 0, "b": 0})
    t = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert tree.transpose(outer, inner, t) == {"a": [1, 3], "b": [2, 4]}
    assert tree.transpose(outer, None, t) == {"a": [1, 3], "b": [2, 4]}
    with pytest.raises(TypeError, match="subtree 1"):
        tree.transpose(outer, inner, [{"a": 1, "b": 2}, {"a": 3}])


def test_broadcast():
    assert tree.broadcast((1, 2), ((3, 4), {"a": 5})) == ((1, 1), {"a": 2})
    with pytest.raises(ValueError, match="a tuple of 2 against a list of 2"):
        tree.broadcast((1, 2), [3, 4])


ARGUMENTS = tree_structure(({"w": 1, "b": 2}, [3, 4]))


def test_prefix_of_arguments():
    assert flatten_prefix("in_axes", ARGUMENTS, 0) == [0] * 4
    assert flatten_prefix("in_axes", ARGUMENTS, None) == [None] * 4
    assert flatten_prefix("in_axes", ARGUMENTS, (0, None)) == [0, 0, None, None]
    assert flatten_prefix("in_axes", ARGUMENTS, ({"w": 0, "b": None}, [1, 2])) == [None, 0, 1, 2]


@pytest.mark.parametrize(
    "prefix, text",
    [
        ((0, 1, 2), "at args: it gives a tuple of 3 for a tuple of 2"),
        (({"w": 0}, 1), r"at args\[0\]: it gives a dict with keys 'w' for a dict .* 'b', 'w'"),
        ((0, (1, 2)), r"at args\[1\]: it gives a tuple of 2 for a list of 2"),
        ((0, [1, (2,)]), r"at args\[1\]\[1\]: it gives a tuple of 1 for a leaf"),
    ],
)
def test_prefix_mismatch_names_the_place(prefix, text):
    with pytest.raises(ValueError, match=text):
        flatten_prefix("in_axes", ARGUMENTS, prefix, root="args")


def test_register_node():
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    tree_util.register_pytree_node(Pair, lambda p: ((p.a, p.b), None), lambda _, ab: Pair(*ab))
    assert tree_util.is_tree_node(Pair)
    assert tree_leaves([Pair(1, (2, 3))]) == [1, 2, 3]
    assert keystr(tree_flatten_with_path(Pair(1, 2))[0][1][0]) == "[<flat index 1>]"
    with pytest.raises(ValueError, match="Pair is registered already"):
        tree_util.register_pytree_node(Pair, lambda p: ((), None), lambda _, ab: Pair(*ab))


def test_register_classes():
    @tree_util.register_pytree_node_class
    class Box:
        def __init__(self, inside):
            self.inside = inside

        def tree_flatten(self):
            return (self.inside,), "aux"

        @classmethod
        def tree_unflatten(cls, aux, children):
            assert aux == "aux"
            return cls(*children)

    @tree_util.register_pytree_with_keys_class
    class Keyed(Box):
        def tree_flatten_with_keys(self):
            return ((GetAttrKey("inside"), self.inside),), "aux"

    assert tree_map(lambda x: x + 1, Box(1)).inside == 2
    assert keystr(tree_flatten_with_path(Keyed([1]))[0][0][0]) == ".inside[0]"
    assert tree_leaves(Keyed(5)) == [5]


def test_register_static():
    @tree_util.register_static
    @dataclasses.dataclass(frozen=True)
    class Setting:
        name: str

    assert tree_leaves(Setting("a")) == []
    assert tree_structure(Setting("a")) == tree_structure(Setting("a"))
    assert tree_structure(Setting("a")) != tree_structure(Setting("b"))


def test_register_dataclass():
    @tree_util.register_dataclass
    @dataclasses.dataclass
    class Layer:
        w: typing.Any
        name: str = tree.static(default="layer")
        made: int = dataclasses.field(init=False, default=3)

    leaves, treedef = tree_flatten(Layer(1, "x"))
    assert leaves == [1] and tree_unflatten(treedef, [2]) == Layer(2, "x")
    assert keystr(tree_flatten_with_path(Layer(1))[0][0][0]) == ".w"

    @functools.partial(tree_util.register_dataclass, data_fields=["a"], meta_fields=["b"])
    @dataclasses.dataclass
    class Named:
        a: int
        b: int

    assert tree_leaves(Named(1, 2)) == [1]


def test_register_dataclass_refuses_incomplete_fields():
    @dataclasses.dataclass
    class Two:
        a: int
        b: int

    for data, meta, error in [
        (["a"], [], ValueError),
        (["a", "b"], ["c"], ValueError),
        (["a"], ["a", "b"], ValueError),
        (["a"], None, TypeError),
    ]:
        with pytest.raises(error, match="register_dataclass"):
            tree_util.register_dataclass(Two, data, meta)
    with pytest.raises(TypeError, match="not a dataclass"):
        tree_util.register_dataclass(type("Plain", (), {}))
    tree_util.register_dataclass(Two, ["a"], [], ["b"])


def test_partial():
    p = Partial(pow, 2)
    assert p(3) == 8 and tree_leaves(p) == [2]
    assert tree_map(lambda x: x + 1, p)(3) == 27
    nested = Partial(functools.partial(pow, 2), 3)
    assert nested() == 8 and tree_leaves(nested) == [3]
    assert tree_structure(p) == tree_structure(Partial(pow, 5))
    assert tree_leaves(Partial(print, 1, sep=2)) == [1, 2]


def test_one_level():
    assert tree_util.flatten_one_level({"b": 1, "a": [2]}) == (([2], 1), ("a", "b"))
    assert tree_util.flatten_one_level(None) == ((), None)
    keyed = tree_util.flatten_one_level_with_keys(Point(1, 2))[0]
    assert keyed == ((GetAttrKey("x"), 1), (GetAttrKey("y"), 2))
    with pytest.raises(ValueError, match="int is a leaf"):
        tree_util.flatten_one_level(3)


def test_structures_of_structures():
    leaf = tree_structure(0)
    assert tree_util.treedef_is_leaf(leaf) and not tree_util.treedef_is_leaf(tree_structure(None))
    assert tree_util.treedef_tuple([leaf, leaf]) == tree_structure((0, 0))
    assert tree_util.treedef_children(tree_structure((1, [2]))) == [leaf, tree_structure([2])]
    assert tree_util.all_leaves([1, 2]) and not tree_util.all_leaves([1, [2]])
    assert tree_util.all_leaves([1, None], is_leaf=lambda x: x is None)
    assert copy.deepcopy(tree_structure((1,))) == tree_structure((1,))


def test_nodes_reach_other_registries():
    other = type(pytree.registry)()
    pytree.mirror_into(other)
    assert other.is_node(collections.OrderedDict) and other.is_node(Partial)

    class Late:
        pass

    tree_util.register_pytree_node(Late, lambda _: ((7,), None), lambda *_: Late())
    assert other.flatten(Late())[0] == [7]


def test_public_names_are_complete():
    wanted = "all broadcast flatten flatten_with_path leaves leaves_with_path map map_with_path "
    wanted += "reduce reduce_associative static structure transpose unflatten"
    assert set(tree.__all__) == set(wanted.split())
    assert all(hasattr(tree_util, name) for name in tree_util.__all__)


@pytest.mark.parametrize("module", [pytree, pytree_nodes])
def test_examples(module):
    names = {name: getattr(pytree, name) for name in pytree.__all__}
    result = doctest.testmod(module, extraglobs=names)
    assert result.failed == 0 and result.attempted > 0
