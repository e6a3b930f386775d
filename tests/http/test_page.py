"""The page about the API is the API as it is."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import fields

from stoker.doors.http.app import OPERATIONS
from stoker.doors.http.endpoint import Operation
from stoker.doors.http.problems import KINDS
from tests.architecture.tree import ROOT

PAGE = (ROOT / "docs" / "reference" / "http.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (GET|POST|PUT|PATCH|DELETE) \|.*$", re.MULTILINE)


def row(operation: Operation) -> str:
    """An operation as it stands on the page."""
    path = re.sub(r"{(\w+):\w+}", r"{\1}", operation.path)
    scopes = ", ".join(operation.scopes) or "none"
    key = " yes |" if operation.once else " |"
    return f"| {operation.method} | `{path}` | {scopes} | {operation.summary} |{key}"


def test_every_route_has_its_row_and_there_are_no_others() -> None:
    told = [match[0] for match in ROW.finditer(PAGE)]
    assert sorted(told) == sorted(row(operation) for operation in OPERATIONS)


@pytest.mark.parametrize("operation", [each for each in OPERATIONS if each.query is not None])
def test_every_word_of_a_query_is_on_the_page(operation: Operation) -> None:
    assert operation.query is not None
    path = re.sub(r"{(\w+):\w+}", r"{\1}", operation.path)
    line = next(
        line for line in PAGE.splitlines() if line.startswith(f"| `{operation.method} {path}` |")
    )
    assert [each.name for each in fields(operation.query) if f"`{each.name}`" not in line] == []


def test_every_code_stands_beside_its_status() -> None:
    told = re.findall(r"^\| (\d{3}) \| (.*) \|$", PAGE, re.MULTILINE)
    found = {code: int(status) for status, codes in told for code in re.findall(r"`(\w+)`", codes)}
    assert found == {code: kind.status for code, kind in KINDS.items()}
