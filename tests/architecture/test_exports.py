"""What `stoker` exports comes when it is asked for, and is what a type checker takes it for."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

import stoker
from tests.architecture.tree import PACKAGE, parsed


def homes_by_import() -> dict[str, set[str]]:
    """The imports that only a type checker sees, by module."""
    tree = parsed(PACKAGE / "__init__.py")
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {
        node.module or "": {alias.name for alias in node.names}
        for node in block.body
        if isinstance(node, ast.ImportFrom)
    }


def test_every_name_is_fetched_from_where_its_type_comes_from() -> None:
    fetched = {home: set(names.split()) for home, names in stoker._HOMES.items()}
    assert fetched == homes_by_import()
    lazy = set().union(*fetched.values())
    assert {*stoker.__all__} - lazy == {"StokerError"}
    assert lazy - {*stoker.__all__} == set()


def test_the_names_are_in_order_and_can_be_listed_and_fetched() -> None:
    assert stoker.__all__ == sorted(stoker.__all__)
    assert {*stoker.__all__, "__version__"} <= {*dir(stoker)}
    assert all(getattr(stoker, name) is getattr(stoker, name) for name in stoker.__all__)


def test_a_name_that_there_is_not_is_an_error() -> None:
    with pytest.raises(AttributeError, match="module 'stoker' has no attribute 'stocker'"):
        stoker.stocker  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'stocker'"):
        from stoker import stocker  # type: ignore[attr-defined]  # noqa: F401, PLC0415


def test_importing_stoker_imports_no_other_room() -> None:
    code = "import sys, stoker; print(*(m for m in sys.modules if m.startswith('stoker')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"stoker", "stoker.errors"}
