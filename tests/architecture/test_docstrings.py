"""Every module says what it is, and every public name says what it does."""

from __future__ import annotations

import ast
import functools
import inspect

import pytest

import stoker
import stoker.testing
from tests.architecture.tree import modules, parsed, shown


def own_docstring(thing: object) -> str | None:
    """What `thing` says of itself; a class does not speak through its parents."""
    if inspect.isclass(thing):
        return vars(thing).get("__doc__")
    if inspect.isroutine(thing) or inspect.ismodule(thing):
        return thing.__doc__
    return None


def test_every_module_has_a_docstring() -> None:
    silent = [shown(path) for path in modules() if not ast.get_docstring(parsed(path))]
    assert silent == []


PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (stoker, stoker.testing)
    for name in module.__all__
}


def methods(kind: type) -> dict[str, object]:
    """The public methods and properties of a class, also those it has from parents of ours."""
    ours = [each for each in reversed(kind.__mro__) if each.__module__.startswith("stoker.")]
    members = {name: value for each in ours for name, value in vars(each).items()}
    return {
        name: value
        for name, value in members.items()
        if not name.startswith("_")
        and (inspect.isroutine(value) or isinstance(value, property | functools.cached_property))
    }


def test_every_public_name_is_a_class_or_a_function_with_a_docstring() -> None:
    assert [name for name, thing in PUBLIC.items() if not own_docstring(thing)] == []


@pytest.mark.parametrize("name", [name for name in PUBLIC if inspect.isclass(PUBLIC[name])])
def test_every_method_of_a_public_class_has_a_docstring(name: str) -> None:
    silent = [each for each, value in methods(PUBLIC[name]).items() if not value.__doc__]
    assert silent == []


def test_the_scan_sees_methods_properties_and_those_of_parents() -> None:
    seen = methods(stoker.testing.Harness)
    assert {"drain", "drain_async", "jobs", "assert_finished"} <= seen.keys()
    assert {"wait", "result"} <= methods(stoker.JobHandle).keys()
