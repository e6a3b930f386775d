"""What `stoker run` tells of each job."""

from __future__ import annotations

import re

import pytest

from stoker.desk import Desk
from stoker.doors.cli.run import JobLog
from stoker.kernel.job import Job
from stoker.kernel.outcome import Awaits, Crashed, Failed, Finished, Outcome, Released
from stoker.kernel.retry import Failure
from stoker.store.memory import MemoryStore
from stoker.worker.context import Context

DESK = Desk(MemoryStore())


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Finished(b'"sent"'), 'finished      7  mail.send  TIME  → "sent"'),
        (Finished(), "finished      7  mail.send  TIME"),
        (Finished(b"1" * 90), f"finished      7  mail.send  TIME  → {'1' * 60}…"),
        (
            Failed(Failure(("OSError",), "OSError: cut\nTraceback")),
            "failed        7  mail.send  TIME  OSError: cut",
        ),
        (Released(error="no such task"), "put off       7  mail.send  TIME  no such task"),
        (Awaits("order-17"), "waits         7  mail.send  TIME  for the reply 'order-17'"),
        (Crashed("exit code -9"), "crashed       7  mail.send  TIME  exit code -9"),
    ],
)
def test_each_job_is_told_when_it_starts_and_when_it_ends(
    capsys: pytest.CaptureFixture[str], outcome: Outcome, told: str
) -> None:
    log, context = JobLog(), Context(Job("mail", "mail.send", id=7, attempt=1), DESK)
    log.before(context)
    log.after(context, outcome)
    started, ended = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d  started       7  mail\.send", started)
    timeless = re.sub(r"  [\d.]+ (µs|ms|s)\b", "  TIME", ended[10:]).rstrip()
    assert timeless == told


def test_a_later_try_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    JobLog().before(Context(Job("mail", "mail.send", id=7, attempt=3), DESK))
    assert capsys.readouterr().out.endswith("mail.send  try 3\n")
