"""Streams that are closed, full, or read by nobody: said in one line, with one exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import stoker
from stoker.desk import Desk
from stoker.kernel.job import Job
from tests.stdio.bus import worker_id
from tests.stdio.pipes import added, says

COMMANDS = ["jobs list", "jobs list --json", "jobs show 1", "stats", "top", "check", "--help"]

Ended = subprocess.CompletedProcess[str]


def shell(words: str, streams: str, stdin: str = "", stdout: int = subprocess.PIPE) -> Ended:
    """Run a command, its streams bent by a shell."""
    source = str(Path(stoker.__file__).parents[1])
    return subprocess.run(
        ["sh", "-c", f'exec "$0" -m stoker {words} {streams}', sys.executable],
        input=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": source},
    )


@pytest.fixture(autouse=True)
def job(jobs: Desk) -> None:
    jobs.intake.enqueue(Job("mail"))


@pytest.mark.parametrize(
    ("words", "streams"),
    [
        *((words, ">&-") for words in COMMANDS),
        ("top", "<&- >&- 2>&-"),
        ("workers", "2>&-"),
        ("workers", "2>/dev/full"),
    ],
)
def test_a_stream_that_is_closed_is_not_missed(words: str, streams: str) -> None:
    done = shell(words, streams)
    assert (done.returncode, "error" in done.stderr) == (0, False)


@pytest.mark.parametrize("words", [*COMMANDS, "enqueue ping"])
def test_output_that_cannot_be_written_is_told(words: str) -> None:
    done = shell(words, ">/dev/full")
    assert done.returncode == 1
    assert done.stderr == ("stoker: error: the output cannot be written: No space left on device\n")


@pytest.mark.parametrize("words", [*COMMANDS, "enqueue ping"])
def test_a_reader_that_has_had_enough_is_no_failure(words: str) -> None:
    ours, theirs = os.pipe()
    os.close(ours)  # nobody will ever read
    done = shell(words, "", stdout=theirs)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_error_keeps_its_exit_code_where_nobody_can_be_told() -> None:
    assert shell("jobs show 99", "2>/dev/full").returncode == 3
    assert shell("jobs show 99", ">&- 2>&-").returncode == 3


def test_nobody_there_to_answer_is_a_no() -> None:
    assert shell("jobs cancel --all", "<&-").returncode == 1
    assert shell("enqueue ping --payload -", "<&-").returncode == 2


def test_messages_to_nobody_go_into_no_file_of_the_store(place: Path) -> None:
    ann = worker_id("ann")
    said = (says(ann, "worker_idle"), added("one"))
    done = shell("stdio", ">&-", "".join(f"{json.dumps(each)}\n" for each in said))
    assert done.returncode == 1
    assert all(b"job_assignment" not in file.read_bytes() for file in place.glob("*gate"))
