"""The command line as a whole: help, exit codes, errors in one line."""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

import stoker
from stoker.desk import Desk
from stoker.doors.cli.command import Command, Group
from stoker.doors.cli.root import COMMANDS, root
from stoker.errors import NotFound
from stoker.kernel.job import Job
from tests.cli.conftest import Cli, document
from tools.cli_page import commands

ALL = dict(commands())
NAMES = [name for section in COMMANDS.values() for name in section]
EXAMPLES = [example for command in [*ALL.values(), root] for example in command.examples]


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own, with this Stoker."""
    source = str(Path(stoker.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": source},
    )


def test_the_help_names_every_command_in_its_section(cli: Cli) -> None:
    told = cli("--help").stdout
    for title, section in COMMANDS.items():
        assert f"{title}:\n" in told
        for name, summary in section.items():
            assert f"  {name} " in told
            assert summary in told


def test_without_a_word_the_help_is_shown(cli: Cli) -> None:
    result = cli()
    assert result.exit_code == 2
    assert "Run jobs:" in result.output


@pytest.mark.parametrize("name", NAMES)
def test_every_command_in_the_table_can_be_imported(name: str) -> None:
    command = root.get_command(click.Context(root), name)
    assert isinstance(command, Command | Group)
    assert command.name == name


@pytest.mark.parametrize("name", sorted(ALL))
def test_the_help_of_every_command_has_an_example_of_that_command(cli: Cli, name: str) -> None:
    result = cli(*name.split()[1:], "--help")
    assert result.exit_code == 0
    _, _, examples = result.stdout.partition("\nExamples:\n")
    assert f"  {name}" in examples or f"| {name}" in examples


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_made_of_commands_and_options_that_there_are(example: str) -> None:
    words = shlex.split(example, comments=True)
    ours = words[words.index("stoker") + 1 :]
    rest = list(itertools.takewhile(lambda word: word not in ("|", "<", ">"), ours))
    command: click.Command = root
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), rest.pop(0))
        assert found is not None
        command = found
    assert isinstance(command, Command)
    command.make_context(command.name, rest)


LOADED = """
import sys
from stoker.doors.cli import main
sys.argv = ["stoker", *{words!r}]
try:
    main()
except SystemExit:
    pass
print(*sorted(sys.modules), file=sys.stderr)
"""


def loaded(*words: str) -> set[str]:
    """The modules that a command has imported when it is done."""
    return set(python(LOADED.format(words=words)).stderr.split())


HEAVY = {"rich", "asyncio", "multiprocessing", "ssl", "stoker.client", "stoker.worker"}


def test_asking_for_help_imports_no_command_and_nothing_that_takes_long() -> None:
    modules = loaded("--help")
    assert "stoker.doors.cli.root" in modules
    assert modules & {*HEAVY, "apsw", "msgspec", "stoker.desk", "stoker.doors.cli.jobs"} == set()


def test_looking_at_a_store_imports_neither_rich_nor_what_only_workers_need(jobs: Desk) -> None:
    modules = loaded("jobs", "list", "--json")
    assert "stoker.store.sqlite" in modules
    assert modules & HEAVY == set()


def test_json_needs_no_rich(jobs: Desk) -> None:
    code = """
import sys
sys.modules["rich"] = None
from stoker.doors.cli import main
sys.argv = ["stoker", "queues", "list", "--json"]
main()
"""
    jobs.intake.enqueue(Job("mail"))
    result = python(code)
    assert result.returncode == 0, result.stderr
    assert '"name":"mail"' in result.stdout


def test_a_move_for_programs_needs_no_rich_either(jobs: Desk) -> None:
    code = """
import sys
sys.modules["rich"] = None
from stoker.doors.cli import main
sys.argv = ["stoker", "move", "sqlite:///jobs.db", "sqlite:///new.db", "--json"]
main()
"""
    jobs.intake.enqueue(Job("mail"))
    result = python(code)
    assert (result.returncode, result.stderr) == (0, "")
    assert '"moved": 1' in result.stdout


def test_without_rich_it_says_what_to_install(jobs: Desk) -> None:
    jobs.intake.enqueue(Job("mail"))
    code = """
import sys
sys.modules["rich"] = None
from stoker.doors.cli import main
sys.argv = ["stoker", "queues", "list"]
main()
"""
    result = python(code)
    assert result.returncode == 1
    assert result.stderr == (
        "stoker: error: tables need rich; pip install 'stoker[cli]', or say --json\n"
    )


def test_without_click_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['click'] = None; from stoker.doors.cli import main; main()"
    result = python(code)
    assert result.returncode == 1
    assert result.stderr == (
        "stoker: error: the command line needs click; pip install 'stoker[cli]'\n"
    )


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["jobs", "show", "99"], 3, "there is no job 99"),
        (["jobs", "cancel", "99"], 3, "there is no job 99"),
        (["jobs", "retry", "1"], 1, "cannot revive job 1: it is QUEUED"),
        (["queues", "pause", "nope"], 3, "there is no queue 'nope'; there are: mail"),
        (["jobs", "list", "--state", "asleep"], 2, "there is no state 'asleep'"),
        (["jobs", "list", "--limit", "0"], 2, "Invalid value for '--limit'"),
        (["jobs", "list", "--limit", "9" * 23], 2, "Invalid value for '--limit'"),
        (["jobs", "list", "--after", "9" * 23], 2, "Invalid value for '--after'"),
        (["jobs", "list", "--after", "-5"], 2, "Invalid value for '--after'"),
        (["jobs", "show", "9" * 23], 3, "there is no job 999"),
        (["explain", "9" * 23], 3, "there is no job 999"),
        (["jobs", "delete", "9" * 23], 3, "there is no job 999"),
        (["bench", "--seconds", "nan"], 2, "nan is no number to reckon with"),
        (["token", "add", "x", "--scope", "work", "--rate", "inf"], 2, "inf is no number"),
        (["serve", "--http", ":0", "--http-rate", "nan"], 2, "nan is no number"),
        (["serve", "--bedrock", ":0", "--bedrock-tries", "9" * 23], 2, "'--bedrock-tries'"),
        (["stdio", "--tick-interval", "9" * 23], 2, "Invalid value for '--tick-interval'"),
        (["stdio", "--max-lease", "0"], 2, "Invalid value for '--max-lease'"),
        (["jobs", "list", "--queue", "\udcff"], 2, "holds half a character"),
        (["queues", "show", "\udcff"], 2, "a word of the command is no text in UTF-8"),
        (["jobs", "lst"], 2, "No such command 'lst'"),
        (["job"], 2, "Did you mean 'jobs'?"),
        (["jobs", "show"], 2, "Missing argument 'JOB'; try `stoker jobs show --help`"),
        (
            ["--store", "memory:", "jobs", "list"],
            2,
            "No such option '--store'; options stand behind the command that they are for",
        ),
        (["jobs", "list", "--stor", "memory:"], 2, "try `stoker jobs list --help`"),
        (["stats", "--store", "mysql://x"], 2, "a store's URL begins with one of"),
        (["stats", "--store", "sqlite:///gone.db"], 4, "there is no store at sqlite:///gone.db"),
    ],
)
def test_an_error_is_one_line_and_its_exit_code_means_something(
    cli: Cli, jobs: Desk, words: list[str], code: int, told: str
) -> None:
    jobs.intake.enqueue(Job("mail"))
    result = cli(*words)
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("stoker: error: ")
    assert result.stderr.count("\n") == 1
    assert told in result.stderr


def test_a_file_that_is_no_database_is_trouble_with_the_store(cli: Cli, place: Path) -> None:
    (place / "letter.txt").write_text("Dear Ann, " * 200, encoding="utf-8")
    result = cli("stats", "--store", "sqlite:///letter.txt")
    assert result.exit_code == 4
    assert "letter.txt is damaged or no SQLite file" in result.stderr


def test_even_what_nobody_thought_of_is_told_in_one_line(
    cli: Cli, jobs: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("stoker.doors.cli.jobs.show.table", broken)
    jobs.intake.enqueue(Job("mail"))
    result = cli("jobs", "list")
    assert result.exit_code == 1
    assert result.stderr == "stoker: error: unexpected KeyError: 'x'; STOKER_DEBUG=1 shows where\n"
    monkeypatch.setenv("STOKER_DEBUG", "1")
    with pytest.raises(KeyError):
        cli("jobs", "list")


def test_the_traceback_is_shown_to_those_who_ask_for_it(
    cli: Cli, jobs: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_DEBUG", "1")
    with pytest.raises(NotFound, match="there is no job 99"):
        cli("jobs", "show", "99")


def test_the_version_is_that_of_the_package(cli: Cli) -> None:
    assert cli("--version").stdout == f"stoker {stoker.__version__}\n"
    assert cli("version").stdout.startswith(f"stoker {stoker.__version__} on Python 3.")
    assert document(cli("version", "--json"))["stoker"] == stoker.__version__
