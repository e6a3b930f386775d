"""Jobs in every state, and what rules make of them, for tests of the rules."""

from __future__ import annotations

from typing import Any

from stoker.kernel import answers, rules
from stoker.kernel.change import Change, NoteWrite
from stoker.kernel.job import ENDED, Job, State
from stoker.kernel.policy import Policy
from stoker.kernel.queue import QueueSettings, Retention
from stoker.kernel.retry import Again, Ask, Failure, GiveUp

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

NOW = 1_700_000_000 * SECOND
STARTED = NOW - 10 * SECOND

BROKEN = Failure(("builtins.ValueError", "builtins.Exception"), "broken")
NO_LEASE = {"token": None, "session": None, "until": None}

HOURLY = Policy(repeat="FINISHED, +1 HOUR")
NOTHING_KEPT = QueueSettings(retention=Retention(0, 0, 0))
ALL_KEPT = QueueSettings(retention=Retention(None, None, None))

NEXT_ROUND = {
    **NO_LEASE,
    "state": State.QUEUED,
    "due_at": NOW + HOUR,
    "scheduled_at": NOW + HOUR,
    "attempt": 0,
    "crashes": 0,
    "undecided": False,
    "waits_for": None,
    "finished_children": 0,
    "failed_children": 0,
    "cancelled_children": 0,
}

_OF_STATE: dict[State, dict[str, Any]] = {
    State.QUEUED: {},
    State.RUNNING: {"token": 77, "until": STARTED + DAY, "started_at": STARTED, "attempt": 1},
    State.WAITING: {"waits_for": "reply:k", "started_at": STARTED, "attempt": 1},
}


def job_in(state: State, **facts: Any) -> Job:
    """A job in that state, with all the facts that go with it."""
    usual: dict[str, Any] = {
        "queue": "q",
        "id": 5,
        "state": state,
        "revision": 3,
        "due_at": NOW - MINUTE,
        "scheduled_at": NOW - MINUTE,
        "created_at": NOW - HOUR,
    }
    if state in ENDED:
        usual |= {"ended_at": NOW - SECOND, "until": NOW + HOUR, "attempt": 1}
    return Job(**(usual | _OF_STATE.get(state, {}) | facts))


def is_over(job: Job, *, answered: bool = False, since: int = NOW) -> NoteWrite:
    """The note that the question of a job is over; its key is "k"."""
    until = since + 10 * MINUTE
    over = answers.Over(job.id, job.attempt, job.scheduled_at, answered, until)
    (note,) = answers.known("k", over).notes
    return note


def wrote(change: Change, job: Job, *notes: NoteWrite) -> dict[str, Any]:
    """What the only write of a Change sets; nothing but these notes is in it besides."""
    (write,) = change.writes
    assert change == Change(writes=(write,), notes=notes)
    assert write.job == job
    return dict(write.set)


def ending(state: State, kept: int | None, **news: Any) -> dict[str, Any]:
    """What is set when a job ends now and is kept for that long."""
    until = None if kept is None else NOW + kept
    return {**NO_LEASE, "state": state, "ended_at": NOW, "until": until, **news}


def fail(job: Job, verdict: Again | Ask | GiveUp, **more: Any) -> Change:
    """What comes of a failure when somebody has judged it."""
    return rules.fail(job, now=NOW, failure=BROKEN, verdict=verdict, **more)
