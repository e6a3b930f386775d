"""The rules of running: what each asks for, to the letter."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from stoker.errors import BadInput, IllegalMove
from stoker.kernel import rules
from stoker.kernel.change import Change, Note, NoteWrite, Tally, Touch, Write, applied
from stoker.kernel.job import Job, State
from stoker.kernel.policy import OnLost, Policy
from stoker.kernel.queue import QueueSettings, Retention
from stoker.kernel.retry import Again, Ask, GiveUp
from stoker.kernel.retry_forms import custom, fixed
from stoker.kernel.window import parse_windows
from tests.kernel.samples import (
    BROKEN,
    DAY,
    HOUR,
    MINUTE,
    NO_LEASE,
    NOW,
    SECOND,
    STARTED,
    ending,
    job_in,
    wrote,
)

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


# -- fail ----------------------------------------------------------------------------------


def fail(job: Job, verdict: Again | Ask | GiveUp, **more: Any) -> Change:
    return rules.fail(job, now=NOW, failure=BROKEN, verdict=verdict, **more)


def test_a_job_tried_again_is_due_when_the_verdict_says() -> None:
    job = job_in(State.RUNNING, undecided=True)
    assert wrote(fail(job, Again(NOW + 5)), job) == {
        **NO_LEASE,
        "state": State.QUEUED,
        "due_at": NOW + 5,
        "undecided": False,
        "error": "broken",
    }


def test_a_verdict_may_bring_a_payload_and_a_rank() -> None:
    job = job_in(State.RUNNING)
    fields = wrote(fail(job, Again(NOW, b"p", 0)), job)
    assert (fields["payload"], fields["rank"]) == (b"p", 0)


def test_a_job_whose_handler_must_be_asked_continues_its_try() -> None:
    job = job_in(State.RUNNING, attempt=3)
    assert wrote(fail(job, Ask("h")), job) == {
        **NO_LEASE,
        "state": State.QUEUED,
        "undecided": True,
        "attempt": 2,
        "error": "broken",
    }


@pytest.mark.parametrize(
    ("verdict", "error"), [(GiveUp(), "broken"), (GiveUp("enough"), "enough")], ids=["", "reason"]
)
def test_a_job_given_up_fails_and_tells_its_parent(verdict: GiveUp, error: str) -> None:
    job = job_in(State.RUNNING, parent_id=2)
    (write,) = fail(job, verdict).writes
    assert write == Write(job, ending(State.FAILED, 30 * DAY, error=error))
    assert fail(job, verdict).tallies == (Tally(2, State.FAILED),)


def test_a_repeating_job_given_up_loses_only_this_run() -> None:
    job = job_in(State.RUNNING, policy=HOURLY, attempt=2)
    assert wrote(fail(job, GiveUp()), job) == {**NEXT_ROUND, "error": "broken"}
    ended = wrote(fail(job, GiveUp(), repeat=False), job)
    assert ended == ending(State.FAILED, 30 * DAY, error="broken")


@pytest.mark.parametrize("verdict", [Again(NOW), Ask("h"), GiveUp("x")])
def test_a_job_to_be_cancelled_that_fails_is_cancelled(verdict: Again | Ask | GiveUp) -> None:
    job = job_in(State.RUNNING, cancel_requested=True, policy=HOURLY)
    assert wrote(fail(job, verdict), job) == ending(State.CANCELLED, DAY, error="broken")


# -- release -------------------------------------------------------------------------------


def test_a_job_given_back_has_not_been_tried() -> None:
    job = job_in(State.RUNNING, attempt=3, session=4)
    change = rules.release(job, now=NOW)
    assert wrote(change, job) == {**NO_LEASE, "state": State.QUEUED, "attempt": 2}


def test_a_job_given_back_may_be_put_off_and_changed() -> None:
    job = job_in(State.RUNNING)
    fields = wrote(rules.release(job, now=NOW, due_at=NOW + 9, payload=b"p", error="why"), job)
    assert (fields["due_at"], fields["payload"], fields["error"]) == (NOW + 9, b"p", "why")


def test_a_job_to_be_cancelled_that_is_given_back_is_cancelled() -> None:
    job = job_in(State.RUNNING, cancel_requested=True)
    assert wrote(rules.release(job, now=NOW), job) == ending(State.CANCELLED, DAY)


# -- wait and wake -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timeout", "until"), [(None, STARTED + DAY), (MINUTE, NOW + MINUTE), (2 * DAY, STARTED + DAY)]
)
def test_a_job_that_waits_gives_up_its_lease_and_expects_no_earlier_answer(
    timeout: int | None, until: int
) -> None:
    job = job_in(State.RUNNING, reply=b"old")
    change = rules.wait(job, now=NOW, key="k", timeout=timeout)
    news = {**NO_LEASE, "state": State.WAITING, "until": until, "waits_for": "reply:k"}
    assert change == Change(
        writes=(Write(job, {**news, "reply": None}),),
        notes=(NoteWrite("reply:k", None, expect=0),),
    )


def test_an_answer_that_was_there_before_is_taken_with_its_note() -> None:
    job = job_in(State.RUNNING, attempt=2)
    change = rules.wait(job, now=NOW, key="k", kept=Note("reply:k", b"early", revision=6))
    news = {**NO_LEASE, "state": State.QUEUED, "attempt": 1, "reply": b"early"}
    assert change == Change(
        writes=(Write(job, news),), notes=(NoteWrite("reply:k", None, expect=6),)
    )


def test_a_job_to_be_cancelled_does_not_wait() -> None:
    job = job_in(State.RUNNING, cancel_requested=True)
    assert wrote(rules.wait(job, now=NOW, key="k"), job) == ending(State.CANCELLED, DAY)


def test_a_wait_needs_a_key() -> None:
    with pytest.raises(BadInput, match="cannot be empty"):
        rules.wait(job_in(State.RUNNING), now=NOW, key="")


@pytest.mark.parametrize("reply", [None, b"", b"r"])
def test_a_job_that_wakes_continues_the_try_it_was_in(reply: bytes | None) -> None:
    job = job_in(State.WAITING, attempt=2, until=NOW)
    expected: dict[str, Any]
    expected = {"state": State.QUEUED, "waits_for": None, "until": None, "attempt": 1}
    if reply is not None:
        expected["reply"] = reply
    assert wrote(rules.wake(job, reply=reply), job) == expected


def test_a_job_that_never_ran_has_no_try_to_continue() -> None:
    job = job_in(State.WAITING, waits_for="parent", started_at=None, attempt=0)
    expected = {"state": State.QUEUED, "waits_for": None, "until": None}
    assert wrote(rules.wake(job), job) == expected


def test_a_schedule_is_never_woken() -> None:
    job = job_in(State.WAITING, waits_for="tick")
    with pytest.raises(IllegalMove, match="never runs itself"):
        rules.wake(job)


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
