"""The rules of running: what each asks for, to the letter."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from stoker.kernel import rules
from stoker.kernel.change import Change, Tally, Touch, applied
from stoker.kernel.job import Job, State
from stoker.kernel.policy import OnLost, Policy
from stoker.kernel.queue import QueueSettings, Retention
from stoker.kernel.retry import Again, Ask, GiveUp
from stoker.kernel.retry_forms import custom, fixed
from stoker.kernel.window import parse_windows
from tests.kernel.samples import (
    ALL_KEPT,
    BROKEN,
    DAY,
    HOUR,
    HOURLY,
    MINUTE,
    NEXT_ROUND,
    NO_LEASE,
    NOTHING_KEPT,
    NOW,
    SECOND,
    STARTED,
    ending,
    fail,
    job_in,
    wrote,
)

# -- start ---------------------------------------------------------------------------------


def test_starting_gives_a_job_its_lease_and_counts_a_try() -> None:
    job = job_in(State.QUEUED, attempt=2, progress=0.7, error="old", reply=b"r", undecided=True)
    started = rules.start(job, now=NOW, token=9, session=4, visibility=MINUTE)
    assert started == msgspec.structs.replace(
        job,
        state=State.RUNNING,
        token=9,
        session=4,
        until=NOW + MINUTE,
        started_at=NOW,
        attempt=3,
        revision=4,
        progress=0.0,
    )


@pytest.mark.parametrize(
    ("timeout", "visibility", "on_lost", "until"),
    [
        (None, None, OnLost.REQUEUE, None),
        (None, 5, OnLost.REQUEUE, NOW + 5),
        (9, None, OnLost.REQUEUE, NOW + 9),
        (9, 5, OnLost.REQUEUE, NOW + 5),
        (5, 9, OnLost.RETRY, NOW + 5),
        (None, 5, OnLost.STAY, None),
        (9, 5, OnLost.STAY, NOW + 9),
    ],
)
def test_a_lease_ends_with_its_deadline_or_the_time_limit_whichever_is_first(
    timeout: int | None, visibility: int | None, on_lost: OnLost, until: int | None
) -> None:
    job = job_in(State.QUEUED, policy=Policy(timeout=timeout, on_lost=on_lost))
    started = rules.start(job, now=NOW, token=9, session=4, visibility=visibility)
    assert started.until == until
    assert started.session == (None if on_lost is OnLost.STAY else 4)


# -- touch ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("news", "expected"),
    [
        ({}, {}),
        ({"progress": 0.5}, {"progress": 0.5}),
        ({"visibility": MINUTE}, {"until": NOW + MINUTE}),
        ({"visibility": 2 * DAY}, {"until": STARTED + DAY}),
        ({"visibility": 7, "progress": 1.0}, {"until": NOW + 7, "progress": 1.0}),
    ],
)
def test_a_touch_is_guarded_by_the_token_alone(
    news: dict[str, Any], expected: dict[str, Any]
) -> None:
    change = rules.touch(job_in(State.RUNNING), now=NOW, **news)
    assert change == Change(touches=(Touch(5, 77, expected),))


# -- finish --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "kept"),
    [(QueueSettings(), HOUR), (ALL_KEPT, None), (QueueSettings(retention=Retention(9)), 9)],
)
def test_a_finished_job_is_kept_as_long_as_its_queue_says(
    settings: QueueSettings, kept: int | None
) -> None:
    job = job_in(State.RUNNING, session=4)
    change = rules.finish(job, now=NOW, result=b"r", settings=settings)
    assert wrote(change, job) == ending(State.FINISHED, kept, result=b"r")


def test_a_finished_job_that_is_not_kept_is_deleted_and_its_parent_told() -> None:
    job = job_in(State.RUNNING, parent_id=2)
    change = rules.finish(job, now=NOW, settings=NOTHING_KEPT)
    assert (change.deletes, change.tallies) == ((job,), (Tally(2, State.FINISHED),))
    assert (change.writes, change.last[0].state) == ((), State.FINISHED)


SIMPLE_FACTS = st.fixed_dictionaries(
    {},
    optional={
        "policy": st.sampled_from([Policy(), HOURLY, Policy(timeout=None)]),
        "parent_id": st.sampled_from([None, 3]),
        "open_children": st.integers(0, 1),
        "result": st.sampled_from([None, b"old"]),
        "error": st.sampled_from([None, "old"]),
        "undecided": st.booleans(),
        "cancel_requested": st.booleans(),
        "key": st.sampled_from([None, "ann"]),
        "weight": st.sampled_from([0, 1000]),
    },
)


@given(SIMPLE_FACTS, st.sampled_from([None, b"new"]), st.sampled_from([NOTHING_KEPT, ALL_KEPT]))
def test_jobs_that_simply_end_may_be_finished_together(
    facts: dict[str, Any], result: bytes | None, settings: QueueSettings
) -> None:
    jobs = [job_in(State.RUNNING, id=number, **facts) for number in (7, 8)]
    assume(rules.simply_ends(jobs[0]))
    one, other = (rules.finish(job, now=NOW, result=result, settings=settings) for job in jobs)
    done = [(job, result) for job in jobs]
    together = msgspec.structs.replace(one | other, last=())
    assert rules.finish_all(done, now=NOW, settings=settings) == together


@pytest.mark.parametrize(
    "facts",
    [
        {"policy": HOURLY},
        {"parent_id": 3},
        {"open_children": 1},
        {"result": b"old"},
        {"error": "old"},
        {"undecided": True},
    ],
)
def test_a_job_with_more_to_see_to_does_not_simply_end(facts: dict[str, Any]) -> None:
    assert not rules.simply_ends(job_in(State.RUNNING, **facts))
    assert rules.simply_ends(job_in(State.RUNNING))


@pytest.mark.parametrize("state", [state for state in State if state is not State.RUNNING])
def test_only_a_running_job_simply_ends(state: State) -> None:
    assert not rules.simply_ends(job_in(state))


def test_a_finished_child_tells_its_parent() -> None:
    change = rules.finish(job_in(State.RUNNING, parent_id=2), now=NOW)
    assert change.tallies == (Tally(2, State.FINISHED),)


def test_success_wipes_out_the_traces_of_earlier_tries() -> None:
    job = job_in(State.RUNNING, error="old", result=b"old", undecided=True)
    fields = wrote(rules.finish(job, now=NOW), job)
    assert fields == ending(State.FINISHED, HOUR, error=None, result=None, undecided=False)


def test_a_parent_with_open_children_waits_for_them() -> None:
    job = job_in(State.RUNNING, open_children=2, policy=HOURLY)
    fields = wrote(rules.finish(job, now=NOW, result=b"r", payload=b"p"), job)
    assert fields == {
        **NO_LEASE,
        "state": State.WAITING,
        "waits_for": "children",
        "result": b"r",
        "payload": b"p",
    }


def test_a_parent_to_be_cancelled_does_not_wait_for_its_children() -> None:
    job = job_in(State.RUNNING, open_children=2, cancel_requested=True)
    fields = wrote(rules.finish(job, now=NOW, result=b"r"), job)
    assert fields == ending(State.CANCELLED, DAY, result=b"r")


def test_a_repeating_job_comes_round_again() -> None:
    job = job_in(State.RUNNING, policy=HOURLY, attempt=4, crashes=1, finished_children=3)
    fields = wrote(rules.finish(job, now=NOW, result=b"r", payload=b"p"), job)
    assert fields == {**NEXT_ROUND, "result": b"r", "payload": b"p"}


@pytest.mark.parametrize("facts", [{"cancel_requested": True}, {}], ids=["cancelled", "last run"])
def test_a_repeating_job_ends_when_somebody_wants_it(facts: dict[str, Any]) -> None:
    job = job_in(State.RUNNING, policy=HOURLY, **facts)
    change = rules.finish(job, now=NOW, repeat=bool(facts))
    assert wrote(change, job) == ending(State.FINISHED, HOUR)


def test_a_repeat_that_leaves_the_calendar_ends_the_job_and_says_so() -> None:
    year_9500 = 237_600_000_000 * SECOND
    policy = Policy(repeat="SCHEDULED, +999 YEARS")
    job = job_in(State.RUNNING, policy=policy, scheduled_at=year_9500)
    finished = wrote(rules.finish(job, now=NOW), job)
    assert finished["state"] is State.FINISHED
    assert finished["error"].startswith("it cannot repeat: ")
    failed = wrote(fail(job, GiveUp()), job)
    assert failed["state"] is State.FAILED
    assert failed["error"].startswith("broken; it cannot repeat: ")


def test_the_next_round_waits_for_an_open_window_but_remembers_its_hour() -> None:
    windows = parse_windows("05:00-07:00")
    policy = Policy(repeat="FINISHED, +1 HOUR", windows=windows)
    job = job_in(State.RUNNING, policy=policy)
    fields = wrote(rules.finish(job, now=NOW), job)
    assert fields["scheduled_at"] == NOW + HOUR
    assert fields["due_at"] == NOW - NOW % DAY + DAY + 5 * HOUR


# -- all rules -----------------------------------------------------------------------------

policies = st.builds(
    Policy,
    timeout=st.sampled_from([None, SECOND, DAY]),
    on_lost=st.sampled_from([OnLost.REQUEUE, OnLost.RETRY, OnLost.FAIL]),
    crash_limit=st.sampled_from([None, 1, 3]),
    retry=st.sampled_from([fixed("1s", limit=2), custom("h"), fixed(0)]),
    repeat=st.sampled_from([None, "FINISHED, +1 HOUR", "every 5m"]),
)
facts = st.fixed_dictionaries(
    {
        "policy": policies,
        "attempt": st.integers(1, 5),
        "crashes": st.integers(0, 5),
        "open_children": st.integers(0, 2),
        "cancel_requested": st.booleans(),
        "undecided": st.booleans(),
        "parent_id": st.sampled_from([None, 2]),
        "key": st.sampled_from([None, "k"]),
    }
)
verdicts = st.sampled_from([Again(NOW, b"p", 1), Ask("h"), GiveUp(), GiveUp("x")])
kept_as = st.sampled_from([QueueSettings(), NOTHING_KEPT, ALL_KEPT])


@given(
    state=st.sampled_from([State.RUNNING, State.WAITING]),
    facts=facts,
    verdict=verdicts,
    settings=kept_as,
    dice=st.floats(0, 0.999),
)
def test_rules_are_pure_and_leave_a_job_whose_facts_fit_together(
    state: State,
    facts: dict[str, Any],
    verdict: Again | Ask | GiveUp,
    settings: QueueSettings,
    dice: float,
) -> None:
    job = job_in(state, **(facts | ({"cancel_requested": False} if state is State.WAITING else {})))
    untouched = msgspec.structs.replace(job)

    def all_changes() -> list[Change]:
        expired = rules.expire(job, now=NOW, dice=dice, settings=settings)
        if state is State.WAITING:
            return [expired, rules.wake(job, reply=b"r")]
        return [
            expired,
            rules.finish(job, now=NOW, settings=settings),
            rules.fail(job, now=NOW, failure=BROKEN, verdict=verdict, settings=settings),
            rules.release(job, now=NOW, settings=settings),
            rules.wait(job, now=NOW, key="k", settings=settings),
        ]

    changes = all_changes()
    assert changes == all_changes()
    assert job == untouched
    for change in changes:
        for write in change.writes:
            _fits_together(applied(job, write))


def _fits_together(job: Job) -> None:
    assert (job.token is not None) == (job.state is State.RUNNING)
    assert (job.waits_for is not None) == (job.state is State.WAITING)
    assert (job.ended_at is not None) == job.ended
    assert job.session is None or job.state is State.RUNNING
    assert min(job.attempt, job.crashes, job.open_children) >= 0
    assert not (job.ended and job.undecided)
