"""Answers that come too late, twice, or for nobody: they do no harm, and their sender is told."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.desk import Desk, Reply
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Awaits
from stoker.kernel.policy import Policy
from stoker.kernel.queue import QueueSettings, Retention
from stoker.kernel.retry_forms import fixed
from stoker.store import Query, Store
from stoker.watch.recover import recover
from tests.engines import VirtualClock
from tests.store.conformance.acts import (
    BROKEN,
    DAY,
    MINUTE,
    SECOND,
    asking,
    put,
    running,
    seen,
    snapshot,
    state,
    take,
)


def test_a_second_answer_changes_nothing_for_the_job(desk: Desk, store: Store) -> None:
    job = asking(desk)
    desk.control.reply("k", b"first")
    before = snapshot(store)
    assert desk.control.reply("k", b"second") is Reply.KEPT
    assert snapshot(store) == before
    assert seen(desk, job.id).reply == b"first"


ENDS = {
    "finished": Reply.REPEATED,
    "cancelled": Reply.LATE,
    "timed out": Reply.LATE,
    "deleted": Reply.KEPT,
}
"""How a job ends that has asked, and what is said to an answer after that."""


def over(desk: Desk, clock: VirtualClock, end: str = "timed out", **facts: Any) -> Job:
    """A job whose question is over."""
    waiting = desk.report.wait(running(desk, **facts), Awaits("k", timeout=SECOND))
    if end == "finished":
        desk.control.reply("k", b"1")
        desk.report.finish(take(desk))
    elif end == "cancelled":
        desk.control.cancel(waiting.id)
    elif end == "deleted":
        desk.control.delete(waiting.id)
    else:
        clock.pass_(1)
        recover(desk.clerk)
    return waiting


@pytest.mark.parametrize("retention", [0, DAY])
@pytest.mark.parametrize("end", ENDS)
def test_an_answer_that_comes_too_late_does_no_harm(
    desk: Desk, store: Store, clock: VirtualClock, end: str, retention: int
) -> None:
    kept = Retention(finished=retention, failed=retention, cancelled=retention)
    desk.control.configure("q", QueueSettings(retention=kept))
    over(desk, clock, end)
    before = snapshot(store)
    assert desk.control.reply("k", b"late") is ENDS[end]
    assert snapshot(store) == before


@pytest.mark.parametrize("end", ["finished", "timed out"])
def test_a_late_answer_is_not_taken_by_who_asks_the_same_afterwards(
    desk: Desk, clock: VirtualClock, end: str
) -> None:
    over(desk, clock, end)
    desk.control.reply("k", b"late")
    clock.pass_(1)
    successor = desk.report.wait(running(desk), Awaits("k"))
    assert (successor.state, successor.reply) == (State.WAITING, None)
    assert desk.control.reply("k", b"its own") is Reply.DELIVERED


def test_a_late_answer_is_not_taken_by_the_next_try(desk: Desk, clock: VirtualClock) -> None:
    job = over(desk, clock, policy=Policy(retry=fixed("1h")))
    assert desk.control.reply("k", b"much too late") is Reply.LATE
    clock.pass_(3600)
    assert desk.control.reply("k", b"late") is Reply.LATE
    again = desk.report.wait(take(desk), Awaits("k"))
    assert (again.id, again.state, again.attempt) == (job.id, State.WAITING, 2)


def test_an_answer_that_overtakes_the_question_of_a_later_try_is_taken(
    desk: Desk, clock: VirtualClock
) -> None:
    over(desk, clock, policy=Policy(retry=fixed(0)))
    assert desk.control.reply("k", b"late") is Reply.LATE
    again = take(desk)
    assert desk.control.reply("k", b"in time") is Reply.KEPT
    assert desk.control.reply("k", b"in time, too") is Reply.REPEATED
    after = desk.report.wait(again, Awaits("k"))
    assert (after.state, after.reply) == (State.QUEUED, b"in time")


def test_an_answer_that_overtakes_the_question_of_a_successor_is_taken(
    desk: Desk, clock: VirtualClock
) -> None:
    over(desk, clock, "finished")
    assert desk.control.reply("k", b"late") is Reply.REPEATED
    clock.pass_(1)
    successor = running(desk)
    assert desk.control.reply("k", b"its own") is Reply.REPEATED  # as far as can be known
    assert desk.report.wait(successor, Awaits("k")).reply == b"its own"


def test_what_came_before_a_question_was_announced_is_no_answer_to_it(desk: Desk) -> None:
    first, second = running(desk), running(desk)
    desk.control.reply("k", b"early")
    desk.control.reply("other", b"of somebody else")
    desk.control.expect_reply("k")
    assert desk.report.wait(first, Awaits("k")).state is State.WAITING
    assert desk.report.wait(second, Awaits("other")).reply == b"of somebody else"


def test_what_comes_after_a_question_was_announced_is_its_answer(
    desk: Desk, clock: VirtualClock
) -> None:
    over(desk, clock)
    desk.control.reply("k", b"late")
    successor = running(desk)
    desk.control.expect_reply("k")
    assert desk.control.reply("k", b"in time") is Reply.KEPT
    assert desk.report.wait(successor, Awaits("k")).reply == b"in time"


def test_of_a_question_that_is_over_one_knows_for_ten_minutes(
    desk: Desk, clock: VirtualClock
) -> None:
    over(desk, clock)
    clock.now += 10 * MINUTE - 1
    assert desk.control.reply("k", b"late") is Reply.LATE
    clock.now += 10 * MINUTE
    assert desk.control.reply("k", b"new") is Reply.KEPT


def test_the_next_part_of_an_answer_may_come_before_the_job_asks_for_it(
    desk: Desk, clock: VirtualClock
) -> None:
    asking(desk)
    desk.control.reply("k", b"1")
    assert desk.control.reply("k", b"2") is Reply.KEPT
    clock.pass_(1)
    after = desk.report.wait(take(desk), Awaits("k"))
    assert after.reply == b"2"
    running_again = take(desk)
    assert desk.control.reply("k", b"3") is Reply.KEPT
    assert desk.report.wait(running_again, Awaits("k")).reply == b"3"


def test_a_second_answer_is_not_taken_by_the_next_try(desk: Desk, clock: VirtualClock) -> None:
    asking(desk, policy=Policy(retry=fixed("1s")))
    desk.control.reply("k", b"1")
    desk.report.fail(take(desk), BROKEN)
    assert desk.control.reply("k", b"1") is Reply.REPEATED
    clock.pass_(1)
    assert desk.report.wait(take(desk), Awaits("k")).state is State.WAITING


def test_an_answer_with_another_key_wakes_nobody(desk: Desk, store: Store) -> None:
    asking(desk, "k")
    before = snapshot(store)
    for key in ("K", "k ", "reply:k", "*"):
        assert desk.control.reply(key, b"x") is Reply.KEPT
    assert snapshot(store) == before


def test_an_answer_that_its_sender_sends_again_is_not_taken_twice(
    desk: Desk, clock: VirtualClock
) -> None:
    asking(desk)
    assert desk.control.reply("k", b"1", once="message 7") is Reply.DELIVERED
    again = desk.report.wait(take(desk), Awaits("k"))
    assert desk.control.reply("k", b"1", once="message 7") is Reply.REPEATED
    assert state(desk, again.id) is State.WAITING
    clock.now += 10 * MINUTE - 1
    assert desk.control.reply("k", b"1", once="message 7") is Reply.REPEATED
    assert desk.control.reply("k", b"2", once="message 8") is Reply.DELIVERED


def test_an_early_answer_that_is_sent_again_is_not_kept_again(desk: Desk) -> None:
    first, second = running(desk), running(desk)
    assert desk.control.reply("k", b"1", once="message 7") is Reply.KEPT
    desk.report.wait(first, Awaits("k"))
    assert desk.control.reply("k", b"1", once="message 7") is Reply.REPEATED
    assert desk.report.wait(second, Awaits("k")).state is State.WAITING


def test_of_two_doors_that_bring_the_same_answer_one_is_told_it_was_repeated(
    desk: Desk, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = asking(desk), asking(desk)
    look = store.find

    def overtaken(query: Query) -> list[Job]:
        monkeypatch.setattr(store, "find", look)
        assert desk.control.reply("k", b"1", once="message 7") is Reply.DELIVERED
        return look(query)

    monkeypatch.setattr(store, "find", overtaken)
    assert desk.control.reply("k", b"1", once="message 7") is Reply.REPEATED
    assert (state(desk, first.id), state(desk, second.id)) == (State.QUEUED, State.WAITING)


def test_a_job_that_is_revived_does_not_have_the_answer_of_its_last_life(desk: Desk) -> None:
    job = asking(desk)
    desk.control.reply("k", b"1")
    desk.report.finish(take(desk))
    assert seen(desk, job.id).reply == b"1"
    desk.control.revive(job.id)
    assert take(desk).reply is None


def test_the_next_run_of_a_repeating_job_does_not_have_the_answer_of_the_last_one(
    desk: Desk, clock: VirtualClock
) -> None:
    put(desk, policy=Policy(repeat="every 1h"))
    clock.pass_(3600)
    desk.report.wait(take(desk), Awaits("k"))
    desk.control.reply("k", b"1")
    desk.report.finish(take(desk))
    assert desk.control.reply("k", b"1") is Reply.REPEATED
    clock.pass_(3600)
    again = take(desk)
    assert (again.attempt, again.reply) == (1, None)
    assert desk.report.wait(again, Awaits("k")).state is State.WAITING
