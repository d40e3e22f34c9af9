"""Each error of docs/errors.md prints what the page says, and what the page advises works."""

import os

import error_examples
import pytest

ENTRIES = error_examples.entries(error_examples.PAGE.read_text())
EXAMPLES = [error_examples.read(entry) for entry in ENTRIES[1:]]
WRITE = os.environ.get("PULLBACK_WRITE_DOCS") == "1"
ADVICE = ("Instead:", "Did you mean")
OF_OTHERS = ("unhashable type: 'Array'", "unhashable type: 'list'")  # Python's and jaxlib's own


def write(number, printed):
    ENTRIES[number + 1] = error_examples.with_printed(ENTRIES[number + 1], printed)
    error_examples.PAGE.write_text("".join(ENTRIES))


@pytest.mark.parametrize("number", range(len(EXAMPLES)), ids=[e.title for e in EXAMPLES])
def test_message_is_the_documented_one(number):
    example = EXAMPLES[number]
    printed = error_examples.run_cell(example.failing)
    assert printed, "the failing example did not fail"
    if WRITE:
        write(number, printed)
    else:
        assert printed == example.printed


@pytest.mark.parametrize("example", EXAMPLES, ids=[e.title for e in EXAMPLES])
def test_the_advice_works(example):
    assert error_examples.run_cell(example.working) == ""


@pytest.mark.parametrize("example", EXAMPLES, ids=[e.title for e in EXAMPLES])
def test_message_form(example):
    lines = example.printed.splitlines()
    assert lines[0].startswith(example.title.rpartition(": ")[2] + ": ")
    assert len(lines) <= 10
    assert all(len(line) <= 320 for line in lines)
    assert any(word in example.printed for word in ADVICE) or example.printed.strip().endswith(
        OF_OTHERS
    )
