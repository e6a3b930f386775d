"""Statements and migrations that live in files, each with its name and purpose."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

_NAMED = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_MIGRATION = re.compile(r"^(\d{4})_\w+\.sql$")


@cache
def statements(package: str, file: str) -> dict[str, str]:
    """The statements of one file by the names given in its `-- name: x` lines."""
    pieces = _NAMED.split(_read(package, file))
    return {name: text.strip() for name, text in zip(pieces[1::2], pieces[2::2], strict=True)}


@cache
def migrations(package: str) -> dict[int, str]:
    """The numbered migrations of an engine, in order."""
    names = sorted(entry.name for entry in resources.files(package).iterdir())
    numbered = {int(m[1]): _read(package, name) for name in names if (m := _MIGRATION.match(name))}
    assert list(numbered) == list(range(1, len(numbered) + 1)), "migrations must count 1, 2, 3 ..."
    return numbered


def _read(package: str, file: str) -> str:
    return resources.files(package).joinpath(file).read_text(encoding="utf-8")
