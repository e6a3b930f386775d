"""Answers from outside: they find the job that waits for them, early, late or in time."""

from __future__ import annotations

import pytest

from stoker.desk import Desk, Reply
from stoker.errors import BadInput, Duplicate, LeaseLost
from stoker.kernel.change import Change, Note, NoteWrite
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Awaits
from stoker.kernel.policy import Policy
from stoker.store import Query, Store
from stoker.watch.recover import recover
from tests.engines import VirtualClock
from tests.store.conformance.acts import (
    HOUR,
    MINUTE,
    asking,
    put,
    running,
    seen,
    state,
    take,
    take_all,
)

KEYS = ["k", "order 7", "näme ☃", "a:b*?['\"]\n", "reply:k", "x" * 500]


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
