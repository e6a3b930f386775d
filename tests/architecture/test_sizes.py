"""Files and functions stay small enough to be read in one go."""

from __future__ import annotations

import ast

from tests.architecture.tree import PACKAGE, modules, parsed, shown

LONGEST_FILE = 450
LONGEST_FUNCTION = 50


def test_no_file_is_too_long() -> None:
    lengths = {
        shown(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules()
    }
    assert lengths, f"no Python file under {PACKAGE}"
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_no_function_is_too_long() -> None:
    lengths = {
        f"{shown(path)}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in modules()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FUNCTION} == {}
