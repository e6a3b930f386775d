"""Every SQL file says what it is for, and every statement in it is used."""

from __future__ import annotations

import re
from pathlib import Path

from tests.architecture.tree import PACKAGE, modules, shown

SQL_FILES = sorted(PACKAGE.glob("**/sql/**/*.sql"))
MIGRATION = re.compile(r"\d{4}_\w+")
STATEMENT = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def is_named(word: str, sql_file: Path) -> bool:
    """Whether a Python file of the package around the `sql` folder says `word`.

    A name put together from two parts, f"first_{second}", counts for every `first_...`.
    """
    folder = next(parent for parent in sql_file.parents if parent.name == "sql")
    first = word.rpartition("_")[0] or word
    said = re.compile(rf"\b{word}\b|\"{first}_\{{")
    return any(said.search(path.read_text(encoding="utf-8")) for path in modules(folder.parent))


def is_loaded(path: Path) -> bool:
    """Whether the package loads the file: by its name, or by its number with all migrations."""
    return is_named("migrations" if MIGRATION.fullmatch(path.stem) else path.stem, path)


def test_there_are_sql_files_to_look_at() -> None:
    assert SQL_FILES != []


def test_every_sql_file_starts_with_its_purpose() -> None:
    purpose = re.compile(r"-- (?!name:)\S")
    silent = [
        shown(path) for path in SQL_FILES if not purpose.match(path.read_text(encoding="utf-8"))
    ]
    assert silent == []


def test_every_sql_file_is_loaded_by_its_package() -> None:
    assert [shown(path) for path in SQL_FILES if not is_loaded(path)] == []


def test_every_named_statement_is_used_by_its_package() -> None:
    unused = [
        f"{shown(path)}: {name}"
        for path in SQL_FILES
        for name in STATEMENT.findall(path.read_text(encoding="utf-8"))
        if not is_named(name, path)
    ]
    assert unused == []
