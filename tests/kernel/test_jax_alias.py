"""`import jax`: the engine's modules where the real one is absent or replaced."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

REAL = os.environ.get("PULLBACK_JAX_PYTHON", "")


def run_python(code, *, python=sys.executable, **variables):
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [python, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **variables},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_jax_module_is_the_engine_module():
    out = run_python("""
        from pullback.ipython import jax_alias
        jax_alias.install()
        import jax, pullback
        import jax.numpy as jnp
        from jax import lax, random
        from jax.scipy.special import expit
        import jax.scipy.special
        import pullback.numpy, pullback.lax, pullback.scipy.special
        assert jnp is pullback.numpy is jax.numpy
        assert lax is pullback.lax
        assert expit is pullback.scipy.special.expit
        assert jax.scipy.special is pullback.scipy.special
        assert jax.grad is pullback.grad
        assert pullback.numpy.__spec__.name == "pullback.numpy"
        assert jax.__version__ == "0.10.2" and jax.__version_info__ == (0, 10, 2)
        from jax.version import __version__
        assert __version__ == "0.10.2"
        assert "grad" in dir(jax)
        print("same")
    """)
    assert out == "same\n"


def test_import_order_does_not_matter():
    out = run_python("""
        import pullback.numpy
        from pullback.ipython import jax_alias
        jax_alias.install()
        import jax.scipy.special
        import jax.numpy
        import jax
        print(jax.numpy is pullback.numpy, float(jax.grad(lambda x: x ** 2)(3.0)))
    """)
    assert out == "True 6.0\n"


def test_what_is_not_served_is_refused_by_name():
    out = run_python("""
        from pullback.ipython import jax_alias
        jax_alias.install()
        import importlib
        import jax
        for name in ("jax._src", "jax.nonsense", "jax.ipython", "jax.numpy.nonsense"):
            try:
                importlib.import_module(name)
            except ModuleNotFoundError as error:
                print(error.name, "Pullback" in str(error))
        try:
            jax.nonsense
        except AttributeError as error:
            print(error)
    """)
    lines = out.splitlines()
    assert lines[:4] == [
        "jax._src True",
        "jax.nonsense True",
        "jax.ipython True",
        "jax.numpy.nonsense True",
    ]
    assert "Pullback serves JAX's public API 0.10.2" in lines[4]


def test_uninstall_forgets_the_names():
    out = run_python("""
        import sys
        from pullback.ipython import jax_alias
        jax_alias.install(); jax_alias.install()
        assert sum(isinstance(f, jax_alias.JaxAliasFinder) for f in sys.meta_path) == 1
        import jax.numpy
        assert jax_alias.is_served()
        jax_alias.uninstall(); jax_alias.uninstall()
        print([n for n in sys.modules if n == "jax" or n.startswith("jax.")])
        try:
            import jax
        except ModuleNotFoundError:
            print("gone")
    """)
    assert out == "[]\ngone\n"


def test_a_real_jax_on_the_path_wins_unless_replaced(tmp_path):
    package = tmp_path / "jax"
    (package / "numpy").mkdir(parents=True)
    (package / "__init__.py").write_text("__version__ = 'real'\n")
    (package / "numpy" / "__init__.py").write_text("")
    code = """
        from pullback.ipython import jax_alias
        jax_alias.install(replace_real={replace})
        import jax, jax.numpy
        print(jax.__version__, jax_alias.is_served())
        try:
            import jax.nonsense
        except ModuleNotFoundError as error:
            print(error)
    """
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    out = run_python(code.format(replace=False), PYTHONPATH=path)
    assert out == "real False\nNo module named 'jax.nonsense'\n"
    out = run_python(code.format(replace=True), PYTHONPATH=path)
    assert out.startswith("0.10.2 True\n")


def test_replacing_a_loaded_real_jax_is_refused(tmp_path):
    (tmp_path / "jax.py").write_text("")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    out = run_python(
        """
        import jax
        from pullback.ipython import jax_alias
        jax_alias.install()
        try:
            jax_alias.install(replace_real=True)
        except RuntimeError as error:
            print(error)
        """,
        PYTHONPATH=path,
    )
    assert "restart the kernel" in out


def test_the_kernel_serves_import_jax(kernel):
    code = "import jax, pullback, jax.numpy as jnp\nprint(jnp is pullback.numpy, jax.__version__)"
    assert kernel.run(code).stdout == "True 0.10.2\n"


BESIDE_THE_REAL_ONE = """
    import sys
    sys.path[:0] = {paths!r}
    {first}
    {second}
    import numpy as np
    big = 2**40 + 1
    ours = pullback.numpy.asarray(np.arange(3.0, dtype=np.float32))
    assert float(pullback.grad(lambda x: x ** 3)(2.0)) == 12.0
    assert float(jax.grad(lambda x: x ** 3)(2.0)) == 12.0
    with pullback.enable_x64(True):
        value = pullback.numpy.asarray(np.int64(big))
        assert value.dtype == np.int64 and int(value) == big, (value.dtype, int(value))
        assert int(pullback.jit(lambda v: v + 1)(value)) == big + 1
    assert pullback.numpy.asarray(1).dtype == np.int32
    assert jax.numpy.asarray(1).dtype == np.int32
    there = jax.numpy.asarray(np.asarray(ours)) + 1
    back = pullback.numpy.asarray(np.asarray(there))
    assert np.asarray(back).tolist() == [1.0, 2.0, 3.0]
    assert type(jax.jit(lambda v: v * 2)(there)).__module__.startswith("jaxlib")
    assert jax.__version__ == "0.10.2" and jax.__file__
    print("both")
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not REAL, reason="PULLBACK_JAX_PYTHON names no interpreter that has the real jax"
)
@pytest.mark.parametrize(
    ("first", "second"),
    [("import jax", "import pullback, pullback.numpy"),
     ("import pullback, pullback.numpy", "import jax")],
    ids=["jax first", "engine first"],
)  # fmt: skip
def test_the_engine_works_beside_the_real_jax(first, second):
    import pullback

    paths = [str(entry.parent) for entry in map(__import__("pathlib").Path, pullback.__path__)]
    code = BESIDE_THE_REAL_ONE.format(paths=paths, first=first, second=second)
    assert run_python(code, python=REAL) == "both\n"
