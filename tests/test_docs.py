"""Every Python block in the pages runs as written, and the pages leave nothing out.

The blocks of one page share a namespace, as if they were typed one after the other. A line
`print(x)  # text` promises that `text` is printed; a print that shows nothing is not allowed.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from collections.abc import Iterable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from stoker import Job, Retention, errors
from stoker.kernel import lifecycle
from stoker.store import Store
from stoker.store.sqlite import SqliteStore
from tests.architecture.tree import PACKAGE, ROOT, modules, shown

DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PRINT = re.compile(r"^ *print\(.*?\)(?:  # (.*))?$", re.MULTILINE)
UNSAID = "(a print that does not show what it prints)"


class Block(NamedTuple):
    """Python code on a page, and the line on which it begins."""

    code: str
    line: int

    def promised(self) -> list[str]:
        """What its comments say that it prints."""
        return [text or UNSAID for text in PRINT.findall(self.code)]

    def run(self, page: str, names: dict[str, Any]) -> list[str]:
        """Run it among the names of its page; returns what it printed."""
        printed = StringIO()
        with redirect_stdout(printed):
            code = "\n" * (self.line - 1) + self.code
            exec(compile(code, page, "exec", dont_inherit=True), names)  # noqa: S102
        return printed.getvalue().splitlines()


def blocks(text: str) -> list[Block]:
    """The Python blocks of a page, in order."""
    return [
        Block(match[1], text[: match.start(1)].count("\n") + 1) for match in BLOCK.finditer(text)
    ]


def lies(text: str, page: str) -> list[tuple[int, list[str], list[str]]]:
    """Run a page; returns the blocks (line, promised, printed) that did not print what they say."""
    names: dict[str, Any] = {"__name__": "__page__"}
    ran = [(block, block.run(page, names)) for block in blocks(text)]
    return [(b.line, b.promised(), printed) for b, printed in ran if b.promised() != printed]


RUNNABLE = [page for page in PAGES if blocks(page.read_text(encoding="utf-8"))]
WITH_DOCTESTS = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in modules()
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("page", RUNNABLE, ids=shown)
def test_the_page_does_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert lies(page.read_text(encoding="utf-8"), shown(page)) == []


def test_the_readme_and_every_page_of_the_guide_have_something_to_run() -> None:
    wanted = {ROOT / "README.md", *(DOCS / "guide").glob("*.md")}
    assert len(wanted) > 1, "there is no guide"
    assert wanted - {*RUNNABLE} == set()


@pytest.mark.parametrize("module", WITH_DOCTESTS)
def test_the_examples_in_docstrings_are_right(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_the_scan_runs_blocks_in_one_namespace_and_notices_a_lie() -> None:
    page = "A\n```python\nx = 2\nprint(x)  # 2\n```\nB\n```python\nprint(x + 1)  # 4\n```\n"
    assert lies(page, "page") == [(8, ["4"], ["3"])]


def test_the_scan_notices_a_print_that_shows_nothing() -> None:
    page = "```python\nprint('x')\n```\n"
    assert lies(page, "page") == [(2, [UNSAID], ["x"])]


def test_an_error_in_a_block_names_the_line_of_its_page() -> None:
    with pytest.raises(ZeroDivisionError) as error:
        lies("A\n\n```python\n\n1 / 0\n```\n", "page.md")
    last = error.traceback[-1]
    assert (str(last.path).endswith("page.md"), last.lineno + 1) == (True, 5)


# -- nothing is left out -------------------------------------------------------------------


def unsaid(names: Iterable[str], page: str, form: str) -> list[str]:
    """Which of the names a page does not have, in the given form."""
    text = (DOCS / page).read_text(encoding="utf-8")
    wanted = list(names)
    assert wanted, "nothing to look for"
    return [name for name in wanted if form.format(name) not in text]


def test_every_event_of_the_lifecycle_is_told_in_words() -> None:
    assert unsaid(lifecycle.TRANSITIONS, "lifecycle.md", "\n| {} | ") == []


def test_every_error_has_its_line_on_the_errors_page() -> None:
    classes = [e for e in vars(errors).values() if inspect.isclass(e)]
    codes = [e.code for e in classes if issubclass(e, errors.StokerError)]
    assert unsaid(set(codes) - {"error"}, "reference/errors.md", "\n| `{}` | ") == []


def test_every_verb_of_a_store_is_on_the_store_page() -> None:
    verbs = [name for name in vars(Store) if not name.startswith("_")]
    assert unsaid(verbs, "reference/store.md", "`{}") == []


def test_every_option_of_the_sqlite_store_is_on_the_settings_page() -> None:
    options = [*inspect.signature(SqliteStore).parameters]
    assert unsaid(options, "reference/settings.md", "\n| `{}` | ") == []


@pytest.mark.parametrize("kind", [Job, Retention])
def test_every_field_is_on_the_settings_page(kind: type[msgspec.Struct]) -> None:
    fields = [field.name for field in msgspec.structs.fields(kind)]
    assert unsaid(fields, "reference/settings.md", "`{}`") == []


def test_every_table_and_index_is_on_the_storage_page() -> None:
    schema = (PACKAGE / "store" / "sqlite" / "sql" / "0001_initial.sql").read_text(encoding="utf-8")
    tables = re.findall(r"^CREATE TABLE (\w+)", schema, re.MULTILINE)
    indexes = re.findall(r"^CREATE (?:UNIQUE )?INDEX (\w+)", schema, re.MULTILINE)
    assert unsaid(tables, "storage-sqlite.md", "`{}`") == []
    assert unsaid(indexes, "storage-sqlite.md", "`{}") == []


def test_no_decision_takes_more_than_forty_lines() -> None:
    pages = sorted((DOCS / "adr").glob("*.md"))
    assert [page.name[:3] for page in pages] == [f"{n:03}" for n in range(1, len(pages) + 1)]
    lengths = {page.name: len(page.read_text(encoding="utf-8").splitlines()) for page in pages}
    assert {name: lines for name, lines in lengths.items() if lines > 40} == {}
