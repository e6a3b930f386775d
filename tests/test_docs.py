"""Every Python block in the pages runs as written, and prints what its comments say.

The blocks of one page share a namespace, as if they were typed one after the other. A line
`print(x)  # text` promises that `text` is printed; a print that shows nothing is not allowed.
"""

from __future__ import annotations

import doctest
import importlib
import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.architecture.tree import PACKAGE, ROOT, modules, shown

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
GUIDE = ROOT / "docs" / "guide"
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
            exec(compile("\n" * (self.line - 1) + self.code, page, "exec"), names)  # noqa: S102
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
    wanted = {ROOT / "README.md", *GUIDE.glob("*.md")}
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
