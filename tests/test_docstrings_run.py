"""Every example in a docstring runs, and every public name has one."""

from __future__ import annotations

import doctest
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import stoker
import stoker.testing
from tests.architecture.tree import PACKAGE, modules


def module_names() -> list[str]:
    """The modules that have an example anywhere."""
    return [
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in modules()
        if ">>> " in path.read_text(encoding="utf-8")
    ]


def examples() -> Iterator[doctest.DocTest]:
    """Every docstring with examples, each with names of its own."""
    for name in module_names():
        for found in doctest.DocTestFinder().find(importlib.import_module(name), name):
            if found.examples:
                yield found


EXAMPLES = {example.name: example for example in examples()}
PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (stoker, stoker.testing)
    for name in module.__all__
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_is_right(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told: list[str] = []
    result = doctest.DocTestRunner().run(EXAMPLES[name], out=told.append, clear_globs=False)
    assert (result.failed, "".join(told)) == (0, "")


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_an_example_that_is_not_skipped(name: str) -> None:
    thing = PUBLIC[name]
    assert inspect.isclass(thing) or inspect.isroutine(thing)
    example = EXAMPLES.get(f"{thing.__module__}.{thing.__qualname__}")
    assert example is not None, f"the docstring of {name} has no example"
    assert not any(doctest.SKIP in line.options for line in example.examples)


def test_a_wrong_example_is_noticed() -> None:
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    result = doctest.DocTestRunner().run(wrong, out=lambda _: None)
    assert (result.attempted, result.failed) == (1, 1)
