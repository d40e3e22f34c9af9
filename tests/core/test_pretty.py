"""Printed jaxprs against the layout that JAX prints (texts taken from its public behaviour)."""

import numpy as np
import pytest

from pullback.core.aval import make_aval
from pullback.core.jaxpr import DropVar, Eqn, Jaxpr, Literal, Var
from pullback.core.pretty import letters, print_jaxpr, variable_names
from pullback.core.tracer import Primitive

F32 = np.dtype("float32")
I32 = np.dtype("int32")


def prim(name: str, multiple: bool = False) -> Primitive:
    return Primitive(
        name=name,
        abstract=lambda *a, **k: a[0],
        lower=lambda ctx, *a, **k: a[0],
        jvp=lambda p, t, **k: (p[0], t[0]),
        batch=lambda axis, args, dims, **k: (args[0], dims[0]),
        multiple_results=multiple,
    )


def var(*shape: int, dtype=F32) -> Var:
    return Var(make_aval(shape, dtype))


def lit(value) -> Literal:
    return Literal(np.float32(value), make_aval((), F32))


def chain(names, x):
    eqns = []
    for name in names:
        y = var(*x.aval.shape)
        eqns.append(Eqn(prim(name), [x], [y], {}))
        x = y
    return eqns, x


def unary_jaxpr(name: str, shape=()) -> Jaxpr:
    x = var(*shape)
    eqns, y = chain([name], x)
    return Jaxpr((), (x,), (y,), eqns, "<lambda>")


def call(jaxpr: Jaxpr, x: Var, **params) -> tuple[Eqn, Var]:
    y = var(*x.aval.shape)
    params = {"jaxpr": jaxpr, "name": "<lambda>", **params}
    return Eqn(prim("jit", multiple=True), [x], [y], params), y


def test_one_equation_stands_on_one_line():
    assert print_jaxpr(unary_jaxpr("sin", (3,))) == (
        "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"
    )


def test_equations_on_one_line_are_separated():
    x = var()
    eqns, y = chain(["neg", "neg"], x)
    assert print_jaxpr(Jaxpr((), (x,), (y,), eqns)) == (
        "{ lambda ; a:f32[]. let b:f32[] = neg a; c:f32[] = neg b in (c,) }"
    )


def test_no_equation_and_no_variable():
    x = var()
    assert print_jaxpr(Jaxpr((), (x,), (x,), ())) == "{ lambda ; a:f32[]. let  in (a,) }"
    assert print_jaxpr(Jaxpr((), (), (), ())) == "{ lambda ; . let  in () }"


def test_params_literals_and_unread_results():
    x, b, c, d, e = var(3), var(3), var(3), var(), var(3)
    eqns = [
        Eqn(prim("sin"), [x], [b], {}),
        Eqn(prim("mul"), [b, lit(2.0)], [c], {}),
        Eqn(prim("reduce_sum"), [x], [d], {"axes": (0,), "out_sharding": None}),
        Eqn(prim("integer_pow"), [d], [var()], {"y": 2}),
        Eqn(prim("add"), [c, d], [e], {}),
        Eqn(prim("sort", True), [x], [DropVar(x.aval)], {"kind": np.dtype("int32")}),
    ]
    assert print_jaxpr(Jaxpr((), (x,), (e,), eqns)) == (
        "{ lambda ; a:f32[3]. let\n"
        "    b:f32[3] = sin a\n"
        "    c:f32[3] = mul b 2.0:f32[]\n"
        "    d:f32[] = reduce_sum[axes=(0,) out_sharding=None] a\n"
        "    _:f32[] = integer_pow[y=2] d\n"
        "    e:f32[3] = add c d\n"
        "    _:f32[3] = sort[kind=int32] a\n"
        "  in (e,) }"
    )


def test_constants_and_broken_params():
    k, x, y, z = var(3), var(3), var(), var(3)
    params = {
        "dimension_numbers": (([0], [0]), ([], [])),
        "preferred_element_type": np.dtype("float32"),
    }
    eqns = [Eqn(prim("dot_general"), [x, k], [y], params), Eqn(prim("add"), [y, k], [z], {})]
    assert print_jaxpr(Jaxpr((k,), (x,), (z,), eqns)) == (
        "{ lambda a:f32[3]; b:f32[3]. let\n"
        "    c:f32[] = dot_general[\n"
        "      dimension_numbers=(([0], [0]), ([], []))\n"
        "      preferred_element_type=float32\n"
        "    ] b a\n"
        "    d:f32[3] = add c a\n"
        "  in (d,) }"
    )


def test_call_shares_names_with_its_operands():
    x = var()
    eqns, y = chain(["sin", "cos"], inner_x := var())
    eqn, out = call(Jaxpr((), (inner_x,), (y,), eqns), x, inline=False)
    assert print_jaxpr(Jaxpr((), (x,), (out,), [eqn])) == (
        "{ lambda ; a:f32[]. let\n"
        "    b:f32[] = jit[\n"
        "      name=<lambda>\n"
        "      jaxpr={ lambda ; a:f32[]. let c:f32[] = sin a; b:f32[] = cos c in (b,) }\n"
        "    ] a\n"
        "  in (b,) }"
    )


def test_jaxpr_called_twice_is_printed_once():
    x = var()
    inner = unary_jaxpr("sin")
    first, y = call(inner, x)
    second, z = call(inner, y)
    assert print_jaxpr(Jaxpr((), (x,), (z,), [first, second])) == (
        "let lambda = { lambda ; a:f32[]. let b:f32[] = sin a in (b,) } in\n"
        "{ lambda ; c:f32[]. let\n"
        "    d:f32[] = jit[name=<lambda> jaxpr=lambda] c\n"
        "    e:f32[] = jit[name=<lambda> jaxpr=lambda] d\n"
        "  in (e,) }"
    )


def test_branches_stand_in_brackets():
    x, index, y = var(), var(dtype=I32), var()
    branches = (unary_jaxpr("cos"), unary_jaxpr("sin"))
    eqn = Eqn(prim("cond", True), [index, x], [y], {"branches": branches})
    assert print_jaxpr(Jaxpr((), (index, x), (y,), [eqn])) == (
        "{ lambda ; a:i32[] b:f32[]. let\n"
        "    c:f32[] = cond[\n"
        "      branches=(\n"
        "        { lambda ; d:f32[]. let e:f32[] = cos d in (e,) }\n"
        "        { lambda ; f:f32[]. let g:f32[] = sin f in (g,) }\n"
        "      )\n"
        "    ] a b\n"
        "  in (c,) }"
    )


def test_long_lists_are_filled():
    xs = [var() for _ in range(40)]
    assert print_jaxpr(Jaxpr((), xs, xs, ())).splitlines() == [
        "{ lambda ; a:f32[] b:f32[] c:f32[] d:f32[] e:f32[] f:f32[] g:f32[] h:f32[] i:f32[]",
        "    j:f32[] k:f32[] l:f32[] m:f32[] n:f32[] o:f32[] p:f32[] q:f32[] r:f32[] s:f32[]",
        "    t:f32[] u:f32[] v:f32[] w:f32[] x:f32[] y:f32[] z:f32[] ba:f32[] bb:f32[] bc:f32[]",
        "    bd:f32[] be:f32[] bf:f32[] bg:f32[] bh:f32[] bi:f32[] bj:f32[] bk:f32[] bl:f32[]",
        "    bm:f32[] bn:f32[]. let",
        "    ",
        "  in (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y,",
        "    z, ba, bb, bc, bd, be, bf, bg, bh, bi, bj, bk, bl, bm, bn) }",
    ]


@pytest.mark.parametrize(("index", "name"), [(0, "a"), (25, "z"), (26, "ba"), (51, "bz")])
def test_letters(index, name):
    assert letters(index) == name


def test_names_are_those_printed():
    jaxpr = unary_jaxpr("sin")
    names = variable_names(jaxpr)
    assert [names[jaxpr.invars[0]], names[jaxpr.outvars[0]]] == ["a", "b"]


def test_a_long_program_is_printed_without_recursion():
    x = var()
    eqns, y = chain(["sin"] * 5000, x)
    assert print_jaxpr(Jaxpr((), (x,), (y,), eqns)).count("\n") == 5001
