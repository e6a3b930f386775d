"""Answers from outside: they find the job that waits for them, early, late or in time."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.desk import Desk, Reply
from stoker.errors import BadInput, Duplicate, LeaseLost
from stoker.kernel.change import Change, Note, NoteWrite
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
    HOUR,
    MINUTE,
    SECOND,
    put,
    running,
    seen,
    snapshot,
    state,
    take,
    take_all,
)

KEYS = ["k", "order 7", "näme ☃", "a:b*?['\"]\n", "reply:k", "x" * 500]


def asking(desk: Desk, key: str = "k", **facts: Any) -> Job:
    """A job that waits for an answer."""
    return desk.report.wait(running(desk, **facts), Awaits(key))


def test_a_waiting_job_holds_no_worker_and_is_given_to_nobody(desk: Desk) -> None:
    job = asking(desk)
    assert (job.state, job.waits_for) == (State.WAITING, "reply:k")
    assert (job.token, job.session) == (None, None)
    assert take_all(desk) == []
    with pytest.raises(LeaseLost):
        desk.report.finish(running_copy(job))


def running_copy(job: Job) -> Job:
    """What the worker still has in hand."""
    return Job("q", id=job.id, state=State.RUNNING, token=1001, revision=1, attempt=1)


@pytest.mark.parametrize("key", KEYS, ids=range(len(KEYS)))
@pytest.mark.parametrize("answer", [b"yes", b"", b"\x00\xff", b"a" * 100_000], ids=range(4))
def test_an_answer_wakes_the_job_that_waits_for_its_key(
    desk: Desk, key: str, answer: bytes
) -> None:
    job = asking(desk, key)
    assert desk.control.reply(key, answer) is Reply.DELIVERED
    woken = seen(desk, job.id)
    assert (woken.state, woken.waits_for, woken.reply) == (State.QUEUED, None, answer)
    assert take(desk).reply == answer


def test_an_answered_job_goes_on_with_the_same_try_in_its_old_place(
    desk: Desk, clock: VirtualClock
) -> None:
    job = asking(desk)
    rival = put(desk)
    clock.pass_(5)
    desk.control.reply("k", b"1")
    first, second = desk.dispatch.claim(["q"], 2)
    assert [first.id, second.id] == [job.id, rival]
    assert first.attempt == 1


def test_of_two_waiting_jobs_each_gets_its_own_answer(desk: Desk) -> None:
    left, right = asking(desk, "left"), asking(desk, "right")
    desk.control.reply("right", b"r")
    assert (state(desk, left.id), state(desk, right.id)) == (State.WAITING, State.QUEUED)
    desk.control.reply("left", b"l")
    assert (seen(desk, left.id).reply, seen(desk, right.id).reply) == (b"l", b"r")


def test_two_jobs_that_wait_for_one_key_are_answered_one_after_the_other(desk: Desk) -> None:
    first, second = asking(desk), asking(desk)
    desk.control.reply("k", b"1")
    assert (state(desk, first.id), state(desk, second.id)) == (State.QUEUED, State.WAITING)
    desk.control.reply("k", b"2")
    assert seen(desk, second.id).reply == b"2"


def test_a_job_may_ask_again_and_forgets_the_old_answer(desk: Desk) -> None:
    asking(desk)
    desk.control.reply("k", b"1")
    again = desk.report.wait(take(desk), Awaits("other"))
    assert (again.state, again.reply, again.attempt) == (State.WAITING, None, 1)
    desk.control.reply("other", b"2")
    assert take(desk).reply == b"2"


# -- early answers -------------------------------------------------------------------------


def test_an_answer_that_comes_before_the_question_is_kept_for_it(desk: Desk) -> None:
    job = running(desk)
    assert desk.control.reply("k", b"early") is Reply.KEPT
    after = desk.report.wait(job, Awaits("k"))
    assert (after.state, after.reply, after.waits_for) == (State.QUEUED, b"early", None)
    again = take(desk)
    assert (again.id, again.attempt, again.reply) == (job.id, 1, b"early")


def test_an_early_answer_serves_one_job_only(desk: Desk) -> None:
    first, second = running(desk), running(desk)
    desk.control.reply("k", b"early")
    desk.report.wait(first, Awaits("k"))
    assert desk.report.wait(second, Awaits("k")).state is State.WAITING


def test_a_second_early_answer_is_ignored(desk: Desk) -> None:
    assert desk.control.reply("k", b"first") is Reply.KEPT
    assert desk.control.reply("k", b"second") is Reply.REPEATED
    assert desk.report.wait(running(desk), Awaits("k")).reply == b"first"


def test_an_answer_nobody_asks_for_is_kept_for_a_minute_and_no_longer(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    desk.control.reply("k", b"old")
    clock.now += MINUTE - 1
    assert store.notes(["reply:k"])["reply:k"].value == b"old"
    clock.now += 1
    assert store.notes(["reply:k"]) == {}
    assert desk.report.wait(running(desk), Awaits("k")).state is State.WAITING


def test_after_an_old_answer_has_gone_a_new_one_is_kept(desk: Desk, clock: VirtualClock) -> None:
    desk.control.reply("k", b"old")
    clock.now += MINUTE
    assert desk.control.reply("k", b"new") is Reply.KEPT
    assert desk.report.wait(running(desk), Awaits("k")).reply == b"new"


def test_an_answer_that_overtakes_the_waiting_job_is_not_lost(
    desk: Desk, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = running(desk)
    kept = Change(notes=(NoteWrite("reply:k", b"in between", expect=0),))
    look = store.notes

    def overtaken(keys: list[str]) -> dict[str, Note]:
        monkeypatch.setattr(store, "notes", look)
        found = look(keys)
        store.transact([kept])
        return found

    monkeypatch.setattr(store, "notes", overtaken)
    after = desk.report.wait(job, Awaits("k"))
    assert (after.state, after.reply) == (State.QUEUED, b"in between")


def test_a_job_that_begins_to_wait_while_its_answer_is_being_kept_gets_it(
    desk: Desk, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = running(desk)
    look = store.find

    def too_early(query: Query) -> list[Job]:
        monkeypatch.setattr(store, "find", look)
        found = look(query)
        desk.report.wait(job, Awaits("k"))
        return found

    monkeypatch.setattr(store, "find", too_early)
    assert desk.control.reply("k", b"in between") is Reply.DELIVERED
    assert seen(desk, job.id).reply == b"in between"
    assert store.notes(["reply:k"]) == {}


def test_an_answer_does_not_wake_a_job_that_waits_for_something_else_by_now(
    desk: Desk, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = asking(desk, "k")
    desk.control.reply("k", b"first")
    now = desk.report.wait(take(desk), Awaits("other"))
    monkeypatch.setattr(store, "find", lambda query: [stale])
    assert desk.control.reply("k", b"second") is Reply.KEPT
    assert seen(desk, stale.id) == now


# -- late and unknown answers --------------------------------------------------------------


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


# -- waiting -------------------------------------------------------------------------------


def test_a_question_without_a_key_is_refused(desk: Desk) -> None:
    job = running(desk)
    with pytest.raises(BadInput, match="cannot be empty"):
        desk.report.wait(job, Awaits(""))
    assert desk.report.finish(job).state is State.FINISHED


def test_a_question_may_leave_a_remark_whether_its_answer_is_there_or_not(desk: Desk) -> None:
    first, second = running(desk), running(desk)
    desk.control.reply("early", b"1")
    assert desk.report.wait(first, Awaits("k", meta="asked")).meta == "asked"
    assert desk.report.wait(second, Awaits("early", meta="asked, too")).meta == "asked, too"


def test_a_running_job_may_find_out_its_unique_key(desk: Desk) -> None:
    first, second = running(desk, unique_key="first"), running(desk)
    renamed = desk.report.rename(first, "found out")
    put(desk, unique_key="first")
    with pytest.raises(Duplicate) as refused:
        desk.report.rename(second, "found out")
    assert refused.value.existing_id == first.id
    assert desk.report.finish(renamed).state is State.FINISHED
    assert desk.report.rename(second, "found out").unique_key == "found out"


def test_a_job_to_be_cancelled_does_not_begin_to_wait(desk: Desk) -> None:
    job = running(desk)
    desk.control.cancel(job.id)
    assert desk.report.wait(job, Awaits("k")).state is State.CANCELLED


def test_a_waiting_job_can_be_cancelled_at_once(desk: Desk) -> None:
    job = asking(desk)
    after = desk.control.cancel(job.id)
    assert (after.state, after.waits_for) == (State.CANCELLED, None)


def test_a_job_may_wait_as_long_as_it_says(desk: Desk, clock: VirtualClock) -> None:
    job = running(desk, policy=Policy(timeout=None))
    after = desk.report.wait(job, Awaits("k", timeout=HOUR))
    assert after.until == clock.now + HOUR
    clock.now += HOUR - 1
    assert recover(desk.clerk) == 0
    assert desk.control.reply("k", b"just in time") is Reply.DELIVERED
