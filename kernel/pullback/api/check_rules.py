"""The rules of custom_jvp, custom_vjp and custom_vmap calls whose results begin with an error.

What the rules compute is checked where it is written out, as in checkify(grad(f)). Where they run
later, as in grad(checkify(f)), their error says that nothing failed.

Builds on check_error.py. Tested in tests/api/test_checkify.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pullback.api.check_error import Error
from pullback.core import pytree
from pullback.core.jvp import zero_of


@dataclass(frozen=True, slots=True)
class FwdWithError:
    """A custom_vjp forward rule with an error before its results."""

    rule: Any
    nothing: Callable[[], Error]

    def __call__(self, primals: Sequence[Any], given: Sequence[Any]) -> tuple[list, list]:
        outs, more = self.rule(primals, given)
        return [*pytree.tree_leaves(self.nothing()), *outs], list(more)


@dataclass(frozen=True, slots=True)
class JVPWithError:
    """A custom_jvp rule with an error before its results and their tangents."""

    rule: Any
    nothing: Callable[[], Error]

    def __call__(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list, list]:
        outs, t_outs = self.rule(primals, tangents)
        leaves = pytree.tree_leaves(self.nothing())
        return [*leaves, *outs], [*map(zero_of, leaves), *t_outs]


@dataclass(frozen=True, slots=True)
class BwdWithError:
    """A custom_vjp backward rule that is given a cotangent of an error too."""

    rule: Any
    n: int

    def bound(self) -> BwdWithError:
        """The rule with the structures that the forward rule has just found."""
        return BwdWithError(self.rule.bound(), self.n)

    def __call__(self, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        return self.rule(residuals, cts[self.n :])


@dataclass(frozen=True, slots=True)
class VmapWithError:
    """A custom_vmap rule with an error that is not mapped before its results."""

    rule: Any
    nothing: Callable[[], Error]

    def __call__(self, size: int, mapped: Sequence[bool], args: Sequence[Any]) -> tuple[list, list]:
        outs, out_mapped = self.rule(size, mapped, args)
        leaves = pytree.tree_leaves(self.nothing())
        return [*leaves, *outs], [*[False] * len(leaves), *out_mapped]
