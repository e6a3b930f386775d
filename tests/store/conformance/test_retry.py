"""Retries: what the policy says is what happens, at the time it says."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Failed
from stoker.kernel.policy import Policy
from stoker.kernel.retry import Again, Failure, GiveUp, RetryPolicy
from stoker.kernel.retry_forms import by_error, custom, exponential, fixed, linear, listed, never
from tests.engines import VirtualClock
from tests.store.conformance.acts import (
    BROKEN,
    MINUTE,
    SECOND,
    put,
    running,
    seen,
    state,
    take,
    take_all,
)

# The dice always fall on 0, so jitter takes nothing away.
DELAYS: list[tuple[RetryPolicy, list[float]]] = [
    (never(), []),
    (fixed("10s", limit=3), [10, 10, 10]),
    (fixed(0, limit=2), [0, 0]),
    (linear("5s", step="5s", cap="12s", limit=4), [5, 10, 12, 12]),
    (exponential(5, base="1s", factor=3, cap="1m"), [1, 3, 9, 27, 60]),
    (listed("1s", "10s", "1m"), [1, 10, 60]),
    (by_error({"ValueError": listed("7s")}, otherwise=never()), [7]),
    (by_error({"OSError": listed("7s")}, otherwise=listed("8s", "9s")), [8, 9]),
]


@pytest.mark.parametrize(("policy", "delays"), DELAYS, ids=range(len(DELAYS)))
def test_a_job_is_tried_again_by_its_policy_and_then_fails(
    desk: Desk, clock: VirtualClock, policy: RetryPolicy, delays: list[float]
) -> None:
    job_id = put(desk, policy=Policy(retry=policy))
    for number, delay in enumerate(delays, start=1):
        after = desk.report.fail(take(desk), BROKEN)
        assert (after.state, after.attempt) == (State.QUEUED, number)
        assert after.due_at == clock.now + round(delay * SECOND)
        if delay:
            clock.now = after.due_at - 1
            assert take_all(desk) == []
            clock.now = after.due_at
    last = desk.report.fail(take(desk), BROKEN)
    assert (last.state, last.error, last.attempt) == (State.FAILED, "broken", len(delays) + 1)
    assert seen(desk, job_id) == last
    assert take_all(desk) == []


def test_retries_without_a_limit_never_end(desk: Desk) -> None:
    job_id = put(desk, policy=Policy(retry=fixed(0)))
    for _ in range(50):
        desk.report.fail(take(desk), BROKEN)
    assert (state(desk, job_id), seen(desk, job_id).attempt) == (State.QUEUED, 50)


@pytest.mark.parametrize(
    ("kinds", "delay"),
    [
        (("requests.exceptions.Timeout", "builtins.OSError"), 1),
        (("httpx.Timeout",), 2),
        (("builtins.ConnectionError", "builtins.OSError"), 3),
        (("builtins.KeyError", "builtins.LookupError"), 4),
    ],
)
def test_the_kind_of_error_chooses_the_policy(
    desk: Desk, clock: VirtualClock, kinds: tuple[str, ...], delay: int
) -> None:
    retry = by_error(
        {"requests.Timeout": fixed(1), "Timeout": fixed(2), OSError: fixed(3)}, otherwise=fixed(4)
    )
    job = running(desk, policy=Policy(retry=retry))
    after = desk.report.fail(job, Failure(kinds, "x"))
    assert after.due_at == clock.now + delay * SECOND


def test_a_failed_try_says_what_went_wrong_and_success_wipes_it_out(desk: Desk) -> None:
    job_id = put(desk, policy=Policy(retry=fixed(0)))
    desk.report.fail(take(desk), Failure(("x.Y",), "no route to ☃\n"))
    assert seen(desk, job_id).error == "no route to ☃\n"
    desk.report.finish(take(desk), b"1")
    assert (seen(desk, job_id).error, seen(desk, job_id).result) == (None, b"1")


# -- verdicts ------------------------------------------------------------------------------


def test_a_verdict_may_change_time_payload_and_rank(desk: Desk, clock: VirtualClock) -> None:
    job = running(desk, payload=b"1", rank=5)
    at = clock.now + MINUTE
    desk.report.fail(job, BROKEN, verdict=Again(at, payload=b"2", rank=-5))
    after = seen(desk, job.id)
    assert (after.due_at, after.payload, after.rank) == (at, b"2", -5)
    rival = put(desk, due_at=at - 1, rank=0)
    clock.now = at
    assert take_all(desk) == [job.id, rival]


def test_a_verdict_that_says_no_more_than_when_changes_nothing_else(
    desk: Desk, clock: VirtualClock
) -> None:
    job = running(desk, payload=b"1", rank=5)
    desk.report.fail(job, BROKEN, verdict=Again(clock.now))
    after = seen(desk, job.id)
    assert (after.payload, after.rank, after.error) == (b"1", 5, "broken")


def test_a_verdict_overrules_the_policy(desk: Desk) -> None:
    stubborn = running(desk, policy=Policy(retry=fixed("1s")))
    after = desk.report.fail(stubborn, BROKEN, verdict=GiveUp("hopeless"))
    assert (after.state, after.error) == (State.FAILED, "hopeless")


def test_a_verdict_without_a_reason_leaves_the_message(desk: Desk) -> None:
    after = desk.report.fail(running(desk), BROKEN, verdict=GiveUp())
    assert (after.state, after.error) == (State.FAILED, "broken")


# -- policies that need code ---------------------------------------------------------------


def test_a_job_whose_handler_is_not_at_hand_waits_undecided_in_its_place(
    desk: Desk, clock: VirtualClock
) -> None:
    job = running(desk, policy=Policy(retry=custom("ask.me")))
    clock.pass_(1)
    after = desk.report.fail(job, BROKEN)
    assert (after.state, after.undecided, after.error) == (State.QUEUED, True, "broken")
    assert after.due_at == job.due_at
    again = take(desk)
    assert (again.id, again.undecided) == (job.id, True)


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [(Again(5), State.QUEUED), (GiveUp("enough"), State.FAILED)],
    ids=["again", "give up"],
)
def test_the_verdict_of_the_handler_ends_the_indecision(
    desk: Desk, verdict: Again | GiveUp, expected: State
) -> None:
    desk.report.fail(running(desk, policy=Policy(retry=custom("ask.me"))), BROKEN)
    after = desk.report.fail(take(desk), BROKEN, verdict=verdict)
    assert (after.state, after.undecided) == (expected, False)


def test_asking_the_handler_is_no_try_of_its_own(desk: Desk, clock: VirtualClock) -> None:
    desk.report.fail(running(desk, policy=Policy(retry=custom("ask.me"))), BROKEN)
    asked = take(desk)
    assert asked.attempt == 1
    desk.report.fail(asked, BROKEN, verdict=Again(clock.now))
    assert take(desk).attempt == 2


# -- what the next try sees ----------------------------------------------------------------


def test_the_next_try_sees_what_was_stored_meanwhile(desk: Desk) -> None:
    job = running(desk, payload=b"1", policy=Policy(retry=fixed(0)))
    desk.report.fail(job, BROKEN)
    desk.control.edit(job.id, {"payload": b"corrected"})
    assert take(desk).payload == b"corrected"


def test_reporting_many_treats_each_on_its_own(desk: Desk) -> None:
    facts: list[dict[str, Any]] = [
        {},
        {"policy": Policy(retry=fixed(0))},
        {"key": "k"},
        {"policy": Policy(repeat="FINISHED, +1 HOUR")},
    ]
    desk.intake.enqueue_many([Job("q", **each) for each in facts])
    jobs = desk.dispatch.claim(["q"], 10)
    assert len(jobs) == 4
    lease = desk.dispatch.request(["q"], 5)
    results, grants = desk.report.many([(job, Failed(BROKEN)) for job in jobs], [lease])
    by_id = {job.id: result for job, result in zip(jobs, results, strict=True)}
    states = {job_id: getattr(result, "state", result) for job_id, result in by_id.items()}
    assert states == {1: State.FAILED, 2: State.QUEUED, 3: State.FAILED, 4: State.QUEUED}
    assert grants[0] is not None
    assert [job.id for job in grants[0]] == [2]
