"""What Tab and `?` say: options of magics and their values, public modules, shape, dtype and device of arrays.

Builds on IPython's completer (matcher API v2) and inspector; tested in
tests/kernel/test_completion.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from IPython.core import oinspect
from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)
from IPython.core.completerlib import module_completion

from pullback.ipython.array_display import device_text
from pullback.ipython.jax_alias import JaxView
from pullback.xla import client
from pullback.xla.array import Array


def array_type_text(array: Array) -> str:
    """`float32[100,2]`, as jaxprs write it."""
    return f"{array.dtype}[{','.join(map(str, array.shape))}]"


def array_facts(array: Array) -> str:
    """One line about an array: type, device, size; or that it is gone."""
    if array.is_deleted():
        return f"{array_type_text(array)}, deleted (donated to a compiled function)"
    n_bytes = array.size * array.dtype.itemsize
    return f"{array_type_text(array)} on {device_text(array)}, {n_bytes} bytes"


# --------------------------------------------------------------------------- options of magics


def _magic_name(line: str) -> tuple[str, str] | None:
    """(`cell` or `line`, name) of the magic that a line calls, wherever it stands in the line."""
    text = line.lstrip()
    if text.startswith("%%"):
        words = text[2:].split(maxsplit=1)
        return ("cell", words[0]) if words else None
    before, found, after = line.rpartition("%")
    is_call = found and (not before.strip() or before.rstrip().endswith("="))
    words = after.split(maxsplit=1) if is_call else []
    return ("line", words[0]) if words else None


def _parser_of(shell: Any, line: str) -> argparse.ArgumentParser | None:
    named = _magic_name(line)
    if named is None:
        return None
    kind, name = named
    function = shell.find_cell_magic(name) if kind == "cell" else shell.find_line_magic(name)
    return getattr(function, "parser", None)


def _values_of(action: argparse.Action, line: str, namespace: Mapping[str, object]) -> list[str]:
    """What may stand after an option: its choices, names of the user's, or devices."""
    if action.choices:
        return [str(choice) for choice in action.choices]
    if action.metavar in ("NAMES", "WHAT"):
        return [
            name
            for name, value in namespace.items()
            if not isinstance(value, ModuleType) and not callable(value)
        ]
    if action.metavar == "D":
        after_colon = line.split()[-1].partition(":")[1]
        return [str(d.id) if after_colon else f"{d.platform}:{d.id}" for d in client.devices()]
    return []


def _own_names(shell: Any) -> dict[str, object]:
    """The user's names, without those that the shell keeps for itself."""
    hidden = shell.user_ns_hidden
    return {
        name: value
        for name, value in shell.user_ns.items()
        if not name.startswith("_") and hidden.get(name, hidden) is not value
    }


def option_matcher(shell: Any) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """A matcher for the options of magics declared by `magic_arguments`.

    Args:
        shell: the shell whose magics are looked up when asked.
    Returns:
        a matcher of API v2 for `shell.Completer.custom_matchers`.
    """

    @context_matcher(identifier="pullback.magic_options", priority=100)
    def complete_options(context: CompletionContext) -> SimpleMatcherResult:
        lines = context.full_text.split("\n")
        line = lines[context.cursor_line][: context.cursor_position]
        parser = _parser_of(shell, line)
        if parser is None:
            return {"completions": [], "suppress": False}
        words = line.split()
        if line and not line[-1].isspace():
            words.pop()
        token = context.token
        previous = words[-1] if words else ""
        asked = [action for action in parser._actions if previous in action.option_strings]
        if asked and asked[0].nargs != 0:
            found = _values_of(asked[0], line, _own_names(shell))
            kind = "value"
        elif token.startswith("-"):
            found = [text for action in parser._actions for text in action.option_strings]
            kind = "option"
        elif token.isidentifier() and any(a.dest == "expression" for a in parser._actions):
            found = list(_own_names(shell))
            kind = "instance"
        else:
            found, kind = [], ""
        matches = [SimpleCompletion(text, type=kind) for text in found if text.startswith(token)]
        return {"completions": matches, "suppress": bool(matches) and kind != "instance"}

    return complete_options


# --------------------------------------------------------------------------- modules


def _is_public(parent: str, name: str) -> bool:
    """Whether an index of ours offers a name; True for other modules."""
    module = sys.modules.get(parent)
    is_ours = getattr(module, "__name__", "").partition(".")[0] == "pullback"
    is_index = isinstance(module, JaxView) or (is_ours and "__dir__" in vars(module))
    return not is_index or name in dir(module)


def complete_modules(shell: Any, event: Any) -> list[str]:
    """IPython's completions of an import statement, less the files that are no one's to import."""
    words = event.line.split()
    found = module_completion(event.line) or []
    if words[0] == "from" and "import" in words[2:]:
        return [name for name in found if _is_public(words[1], name)]
    split = [(name, *name.rpartition(".")) for name in found]
    return [name for name, parent, _, leaf in split if _is_public(parent, leaf)]


# --------------------------------------------------------------------------- in and out

_STATEMENTS = ("import", "from")
_BEFORE_IPYTHONS = 10  # hooks with lower numbers are asked first; IPython's own has 50


def install(shell: Any) -> None:
    """Add both completers to a shell; doing it twice changes nothing."""
    if not any(_is_ours(matcher) for matcher in shell.Completer.custom_matchers):
        shell.Completer.custom_matchers.append(option_matcher(shell))
        for word in _STATEMENTS:
            shell.set_hook("complete_command", complete_modules, _BEFORE_IPYTHONS, str_key=word)


def uninstall(shell: Any) -> None:
    """Take the completers out again."""
    kept = [matcher for matcher in shell.Completer.custom_matchers if not _is_ours(matcher)]
    shell.Completer.custom_matchers[:] = kept
    for word in _STATEMENTS:
        chain = shell.strdispatchers["complete_command"].strs[word].chain
        chain[:] = [
            entry for entry in chain if getattr(entry[1], "__func__", None) is not complete_modules
        ]


def _is_ours(matcher: Any) -> bool:
    return getattr(matcher, "matcher_identifier", None) == "pullback.magic_options"


def with_array_types(
    completions: list[dict[str, Any]], namespace: Mapping[str, object]
) -> list[dict[str, Any]]:
    """Completions with the type of those that name an array written out.

    Args:
        completions: the entries of a complete_reply's typed metadata.
        namespace: the user's names.
    Returns:
        the same entries; an array's has `float32[3]` as its type.
    """
    out = []
    for entry in completions:
        value = namespace.get(entry["text"])
        out.append({**entry, "type": array_type_text(value)} if _is_array(value) else entry)
    return out


def _is_array(value: object) -> bool:
    return type(value) is Array


# What IPython's inspector says of the object that stands around a function.
_OF_THE_WRAPPER = ("call_def", "call_docstring", "class_docstring", "init_docstring", "string_form")


def _is_wrapped_function(value: object) -> bool:
    """Whether a transformation of ours made the callable of a function, whose help says it all."""
    kind = type(value)
    is_ours = kind.__module__.partition(".")[0] == "pullback" or kind.__name__ == "PjitFunction"
    is_instance = is_ours and callable(value) and not isinstance(value, type | ModuleType)
    return is_instance and bool(getattr(value, "__doc__", None) or hasattr(value, "__wrapped__"))


class ArrayInspector(oinspect.Inspector):
    """IPython's inspector, which for an array says shape, dtype, device and size.

    Of a function that is compiled or has a derivative of its own it says what the function says.
    """

    def info(self, obj: Any, oname: str = "", info: Any = None, detail_level: int = 0) -> Any:
        """The fields that `name?` and Shift-Tab show."""
        if not _is_array(obj):
            fields = super().info(obj, oname, info, detail_level)
            if _is_wrapped_function(obj):
                fields.update(dict.fromkeys(_OF_THE_WRAPPER))
            return fields
        facts = array_facts(obj)
        fields = super().info(facts if obj.is_deleted() else obj, oname, info, detail_level)
        fields.update(type_name=facts, docstring="", class_docstring=None, init_docstring=None)
        if obj.is_deleted():
            fields.update(string_form=None, length=None)
        return fields
