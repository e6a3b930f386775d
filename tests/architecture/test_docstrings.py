"""Every module says what it is, and every public name says what it does."""

from __future__ import annotations

import ast
import inspect

import stoker
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


def test_every_public_name_is_a_class_a_function_or_a_module_with_a_docstring() -> None:
    names = [name for name in stoker.__all__ if name != "__version__"]
    assert names, "stoker exports nothing"
    assert [name for name in names if not own_docstring(getattr(stoker, name))] == []
