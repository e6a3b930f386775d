"""The kernel reads no clock, rolls no dice, does no I/O and writes no log."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

import pytest

from tests.architecture.tree import PACKAGE, modules, parsed, shown

IMPURE_MODULES = frozenset(
    {
        *("asyncio", "io", "logging", "os", "pathlib", "random", "secrets", "shutil", "signal"),
        *("socket", "sqlite3", "subprocess", "tempfile", "threading", "time", "urllib", "uuid"),
    }
)
IMPURE_BUILTINS = frozenset({"input", "open", "print"})
CLOCK_READINGS = frozenset({"now", "today", "utcnow"})
FRIENDS = ("cronsim", "msgspec", "stoker.errors", "stoker.kernel")


def imported(node: ast.AST) -> list[str]:
    """The full names one statement imports; `from a import b` counts as a.b."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def is_pure(name: str) -> bool:
    """Whether the kernel may import `name`."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names:
        return top not in IMPURE_MODULES
    return any(f"{name}.".startswith(f"{friend}.") for friend in FRIENDS)


def impurities(tree: ast.Module) -> Iterator[str]:
    """Everything in a module that the kernel must not do, with its line."""
    for node in ast.walk(tree):
        for name in imported(node):
            if not is_pure(name):
                yield f"line {node.lineno}: imports {name}"  # type: ignore[attr-defined]
        if isinstance(node, ast.Name) and node.id in IMPURE_BUILTINS:
            yield f"line {node.lineno}: uses {node.id}"
        if isinstance(node, ast.Attribute) and node.attr in CLOCK_READINGS:
            yield f"line {node.lineno}: reads a clock with .{node.attr}"


def test_the_kernel_is_pure() -> None:
    found = [
        f"{shown(path)} {impurity}"
        for path in modules(PACKAGE / "kernel")
        for impurity in impurities(parsed(path))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("code", "impurity"),
    [
        ("import time", "line 1: imports time"),
        ("import os.path", "line 1: imports os.path"),
        ("from random import choice", "line 1: imports random.choice"),
        ("import apsw", "line 1: imports apsw"),
        ("from stoker import store", "line 1: imports stoker.store"),
        ("def f():\n    import uuid", "line 2: imports uuid"),
        ("open('x')", "line 1: uses open"),
        ("say = print", "line 1: uses print"),
        ("from datetime import date as day\nday.today()", "line 2: reads a clock with .today"),
        ("import datetime\nf = datetime.datetime.now", "line 2: reads a clock with .now"),
    ],
)
def test_the_scan_notices_an_impurity(code: str, impurity: str) -> None:
    assert list(impurities(ast.parse(code))) == [impurity]


def test_the_scan_allows_what_is_pure() -> None:
    code = """
        import math, msgspec
        from datetime import UTC, datetime
        from cronsim import CronSim
        from stoker.errors import BadInput
        from stoker.kernel.job import Job
        def due(job, now): return job.due_at <= now
    """
    assert list(impurities(ast.parse("if True:" + code))) == []
