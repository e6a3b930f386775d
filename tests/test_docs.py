"""Every Python block in the pages runs as written, and the pages leave nothing out.

The blocks of one page share a namespace, as if they were typed one after the other. A line
`print(x)  # text` promises that `text` is printed; a print that shows nothing is not allowed.
A block that begins with the name of a file is that file; a page that has one also has the workers
that its shell blocks start.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple, get_overloads

import click
import msgspec
import pytest

from stoker import Context, Job, JobHandle, Retention, Stoker, errors
from stoker.client.task import Options
from stoker.doors.cli.root import root
from stoker.kernel import lifecycle
from stoker.store import Store
from stoker.store.sqlite import SqliteStore
from stoker.worker.worker import WorkerSettings
from tests.architecture.tree import PACKAGE, ROOT, shown

DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# (\w+\.py)\n")
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
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


def files(text: str) -> dict[str, str]:
    """The files that a page shows, by name."""
    named = [(FILE.match(block.code), block.code) for block in blocks(text)]
    return {match[1]: code for match, code in named if match}


_SHELL = re.compile(r" [|<>] ")
"""From here on a line is the shell's business."""


def commands(text: str) -> list[list[str]]:
    """The `stoker` commands in the shell blocks of a page, as their arguments."""
    lines = [line for block in SHELL.findall(text) for line in block.splitlines()]
    split = [shlex.split(_SHELL.split(line)[0], comments=True) for line in lines]
    return [words[1:] for words in split if words and words[0] == "stoker"]


def lies(text: str, page: str) -> list[tuple[int, list[str], list[str]]]:
    """Run a page; returns the blocks (line, promised, printed) that did not print what they say."""
    names: dict[str, Any] = {"__name__": "__page__"}
    typed = [block for block in blocks(text) if not FILE.match(block.code)]
    ran = [(block, block.run(page, names)) for block in typed]
    return [(b.line, b.promised(), printed) for b, printed in ran if b.promised() != printed]


@contextmanager
def workers(text: str) -> Iterator[None]:
    """The workers that a page with files starts, until the end of the page."""
    wanted = [words for words in commands(text) if words[0] == "worker" and files(text)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "stoker", *words],
            env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for words in wanted
    ]
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
        ends = [(process.communicate()[1], process.returncode) for process in processes]
    assert [code for _, code in ends] == [0] * len(wanted), ends


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with modules, which are closed and forgotten in the end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for path in tmp_path.glob("*.py"):
        module = sys.modules.pop(path.stem, None)
        if module is not None:
            module.app.close()


RUNNABLE = [page for page in PAGES if blocks(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", RUNNABLE, ids=shown)
def test_the_page_does_what_it_says(page: Path, folder: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name, code in files(text).items():
        (folder / name).write_text(code, encoding="utf-8")
    with workers(text):
        assert lies(text, shown(page)) == []


@pytest.mark.parametrize("page", ["README.md", "docs/guide/quickstart.md"])
def test_the_first_page_has_a_file_and_starts_a_worker_for_it(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [*files(text)] == ["tasks.py"]
    assert ["worker", "tasks:app"] in commands(text)


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_every_stoker_command_on_a_page_can_be_read(page: Path) -> None:
    for words in commands(page.read_text(encoding="utf-8")):
        command: click.Command = root
        context, rest = click.Context(root, info_name="stoker"), words
        while isinstance(command, click.Group):
            name, found, rest = command.resolve_command(context, rest)
            assert found is not None, words
            command, context = found, click.Context(found, parent=context, info_name=name)
        command.make_context(command.name, list(rest), parent=context.parent)


def test_the_readme_and_every_page_of_the_guide_have_something_to_run() -> None:
    wanted = {ROOT / "README.md", *(DOCS / "guide").rglob("*.md")}
    assert len(wanted) > 1, "there is no guide"
    assert wanted - {*RUNNABLE} == set()


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


def kinds(error: type[errors.StokerError]) -> Iterator[type[errors.StokerError]]:
    """All errors of ours that derive from one."""
    for kind in error.__subclasses__():
        if kind.__module__.startswith("stoker."):
            yield kind
            yield from kinds(kind)


def test_every_error_has_its_line_on_the_errors_page() -> None:
    codes = {kind.code for kind in kinds(errors.StokerError)}
    assert {"bad_input", "job_failed", "store_corrupt"} <= codes
    assert unsaid(codes, "reference/errors.md", "\n| `{}` | ") == []


def test_every_option_of_a_task_is_on_the_settings_page_and_in_the_guide() -> None:
    *_, with_options = get_overloads(Stoker.task)
    options = [*inspect.signature(with_options).parameters][1:]
    assert unsaid(options, "reference/settings.md", "\n| `{}` | ") == []
    assert unsaid(options, "guide/tasks.md", "\n| `{}` | ") == []


def test_every_option_of_a_call_is_on_the_settings_page_and_in_the_guide() -> None:
    options = [field.name for field in msgspec.structs.fields(Options)]
    assert unsaid(options, "reference/settings.md", "\n| `{}` | ") == []
    assert unsaid(options, "guide/enqueue.md", "\n| `{}` | ") == []


def test_everything_a_handler_can_ask_of_its_context_is_in_the_guide() -> None:
    names = [name for name in vars(Context) if not name.startswith("_") and name != "stop"]
    assert unsaid(names, "guide/tasks.md", "`{}") == []


def test_everything_a_handle_can_do_is_in_the_guide() -> None:
    names = [name for name in vars(JobHandle) if not name.startswith("_")]
    assert unsaid(names, "guide/enqueue.md", "`{}") == []


def test_every_verb_of_a_store_is_on_the_store_page() -> None:
    verbs = [name for name in vars(Store) if not name.startswith("_")]
    assert unsaid(verbs, "reference/store.md", "`{}") == []


def test_every_option_of_the_sqlite_store_is_on_the_settings_page() -> None:
    options = [*inspect.signature(SqliteStore).parameters]
    assert unsaid(options, "reference/settings.md", "\n| `{}` | ") == []


@pytest.mark.parametrize("kind", [Job, Retention, WorkerSettings])
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


# -- the capabilities ----------------------------------------------------------------------

CAPABILITY = re.compile(
    r"^\| ([A-Z]{3}-\d\d) \| [^|]+ \| (yes|desk|partly|planned)\b[^|]* \| ([^|]*)\|$", re.MULTILINE
)
SHOWN_BY = re.compile(r"\[(\w+)::(test_\w+)\]\(\.\./(tests/[\w/]+\.py)\)")
CAPABILITIES = (DOCS / "capabilities.md").read_text(encoding="utf-8")


def missing(shown_by: str) -> list[str]:
    """Which of the tests that are named do not exist where they are said to be."""
    return [
        f"{file}::{name}"
        for stem, name, file in SHOWN_BY.findall(shown_by)
        if Path(file).stem != stem
        or f"def {name}(" not in (ROOT / file).read_text(encoding="utf-8")
    ]


def test_every_test_that_shows_a_capability_exists() -> None:
    assert len(SHOWN_BY.findall(CAPABILITIES)) == CAPABILITIES.count("::") > 200
    assert missing(CAPABILITIES) == []


def test_the_scan_notices_a_test_that_does_not_exist() -> None:
    here = "[test_docs::test_{}](../tests/test_docs.py)"
    made_up = here.format("nothing_at_all")
    assert missing(here.format("every_test_that_shows_a_capability_exists") + made_up) == [
        "tests/test_docs.py::test_nothing_at_all"
    ]


def test_every_capability_is_there_once_and_shown_unless_it_is_planned() -> None:
    rows = CAPABILITY.findall(CAPABILITIES)
    ids = [number for number, _, _ in rows]
    assert ids == re.findall(r"^\| ([A-Z]{3}-\d\d)", CAPABILITIES, re.MULTILINE)
    assert len(ids) == len(set(ids))
    assert [number for number, now, tests in rows if now != "planned" and not tests.strip()] == []


def test_the_capabilities_are_counted_right() -> None:
    counted = Counter(now for _, now, _ in CAPABILITY.findall(CAPABILITIES))
    told = re.search(
        r"Of (\d+) lines (\d+) are there, (\d+) at the desk, (\d+) partly, and (\d+) are planned",
        CAPABILITIES,
    )
    assert told is not None
    words = ("yes", "desk", "partly", "planned")
    assert [*map(int, told.groups())] == [counted.total(), *(counted[word] for word in words)]
