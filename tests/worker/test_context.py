"""What a handler can do about its job while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stoker import Context, Job, State, Stoker, current, fixed
from stoker.errors import BadInput, LeaseLost
from stoker.watch import run_chores
from tests.worker.conftest import Hire
from tests.worker.waiting import Gate, until


def test_a_snoozed_job_comes_back_and_no_try_is_counted(app: Stoker, hire: Hire) -> None:
    seen: list[tuple[int, int]] = []

    @app.task
    def sleepy() -> str:
        ctx = current()
        seen.append((ctx.attempt, app.desk.store.now()))
        if len(seen) < 3:
            ctx.snooze("100ms")
        return "awake"

    job = sleepy.enqueue()
    hire()
    assert job.wait(timeout="30s") == "awake"
    assert [attempt for attempt, _ in seen] == [1, 1, 1]
    assert seen[2][1] - seen[0][1] >= 200_000


def test_a_handler_that_waits_for_a_reply_holds_no_worker(app: Stoker, hire: Hire) -> None:
    @app.task
    async def ask() -> int:
        ctx = current()
        return ctx.wait_for_reply("number", as_type=int) + ctx.attempt

    other = app.task(lambda: "done")
    job = ask.enqueue()
    hire(concurrency=1)
    until(lambda: job.state is State.WAITING)
    assert other.enqueue().wait(timeout="30s") == "done"
    assert app.reply("number", 41) == "delivered"
    assert job.wait(timeout="30s") == 42


def test_an_early_reply_is_taken_at_once(app: Stoker, hire: Hire) -> None:
    @app.task
    def ask() -> str:
        ctx = current()
        return ctx.wait_for_reply("word", as_type=str)

    app.reply("word", "early")
    job = ask.enqueue()
    hire()
    assert job.wait(timeout="30s") == "early"


def test_no_reply_in_time_is_a_failure(app: Stoker, hire: Hire) -> None:
    @app.task
    def ask() -> None:
        ctx = current()
        ctx.wait_for_reply("silence", timeout="50ms")

    job = ask.enqueue()
    hire(ttl=1)
    until(lambda: job.job.ended)
    assert (job.state, job.job.error) == (State.FAILED, "no reply for 'silence' came in time")


def test_a_second_question_is_not_answered_with_the_first_reply(app: Stoker, hire: Hire) -> None:
    @app.task
    def ask(first: str = "") -> list[str]:
        ctx = current()
        if not first:
            first = ctx.wait_for_reply("one", as_type=str)
            ctx.update({"first": first})
        return [first, ctx.wait_for_reply("two", as_type=str)]

    job = ask.enqueue()
    hire()
    until(lambda: job.job.waits_for == "reply:one")
    app.reply("one", "1")
    until(lambda: job.job.waits_for == "reply:two")
    app.reply("two", "2")
    assert job.wait(timeout="30s") == ["1", "2"]


@pytest.mark.parametrize(("key", "complaint"), [("", "cannot be empty"), (7, "key must be text")])
def test_a_reply_needs_a_key(app: Stoker, hire: Hire, key: Any, complaint: str) -> None:
    @app.task
    def ask() -> None:
        ctx = current()
        with pytest.raises(BadInput, match=complaint):
            ctx.wait_for_reply(key)

    job = ask.enqueue()
    hire()
    assert job.wait(timeout="30s") is None


def test_children_run_when_their_parent_has_finished_and_then_it_runs_again(
    app: Stoker, hire: Hire
) -> None:
    diary: list[str] = []

    @app.task
    def page(number: int) -> None:
        diary.append(f"page {number}")

    @app.task
    def report() -> list[int]:
        ctx = current()
        if not ctx.job.finished_children:
            ctx.spawn([page.call(1), page.call(2), Job("default", page.name, b'{"number": 3}')])
            diary.append("report begun")
        else:
            diary.append("report ended")
        return [ctx.job.finished_children, ctx.attempt]

    job = report.enqueue()
    hire()
    until(lambda: job.job.ended)
    assert job.result == [3, 1]
    assert (diary[0], sorted(diary[1:4]), diary[4]) == (
        "report begun",
        ["page 1", "page 2", "page 3"],
        "report ended",
    )


def test_progress_is_seen_while_the_job_runs(app: Stoker, hire: Hire) -> None:
    gate = Gate()

    @app.task
    def walk() -> None:
        ctx = current()
        ctx.progress(0.5)
        gate.pass_through()

    job = walk.enqueue()
    hire()
    until(lambda: gate.inside)
    assert (job.state, job.progress) == (State.RUNNING, 0.5)
    gate.open()
    until(lambda: job.job.ended)
    assert job.progress == 1.0


def test_a_question_that_is_announced_gets_no_answer_from_before(app: Stoker, hire: Hire) -> None:
    @app.task
    def ask() -> str:
        ctx = current()
        if ctx.job.reply is None:
            app.reply("k", "before")
            ctx.expect_reply("k")
            app.reply("k", "after")
        return ctx.wait_for_reply("k", as_type=str)

    job = ask.enqueue()
    hire()
    assert job.wait(timeout="30s") == "after"


@pytest.mark.parametrize(
    ("say", "complaint"),
    [
        (lambda ctx: ctx.progress(1.5), "progress is a fraction from 0 to 1, not 1.5"),
        (lambda ctx: ctx.progress("x"), "progress is a fraction from 0 to 1, not 'x'"),
        (lambda ctx: ctx.spawn([5]), "children are a list of calls, made with task.call"),
        (lambda ctx: ctx.spawn(5), "children are a list of calls, made with task.call"),
        (lambda ctx: ctx.update(object()), "the payload cannot travel as JSON"),
        (lambda ctx: ctx.finish(object(), within=None), "the result cannot travel as JSON"),
    ],
)
def test_what_makes_no_sense_fails_the_job_and_is_not_tried_again(
    app: Stoker, hire: Hire, say: Callable[[Context], None], complaint: str
) -> None:
    @app.task(retry=fixed(0, limit=1))
    def walk() -> None:
        say(current())

    job = walk.enqueue()
    hire()
    until(lambda: job.job.ended)
    assert complaint in str(job.job.error)
    assert job.job.attempt == 1


def test_the_next_try_begins_with_an_updated_payload(app: Stoker, hire: Hire) -> None:
    @app.task(retry=fixed(0))
    def copy(done: int) -> int:
        ctx = current()
        if done < 3:
            ctx.update({"done": done + 1})
            raise ConnectionError
        return done

    job = copy.enqueue(0)
    hire()
    assert job.wait(timeout="30s") == 3
    assert (job.job.attempt, job.job.payload) == (4, b'{"done":3}')


def test_a_worker_that_lost_its_lease_cannot_update_the_job(app: Stoker, hire: Hire) -> None:
    complaints: list[str] = []

    @app.task
    def late(word: str) -> None:
        ctx = current()
        if ctx.job.crashes:
            return
        app.desk.store.retire(ctx.job.session or 0)
        run_chores(app.desk.clerk, "watch")
        with pytest.raises(LeaseLost) as update:
            ctx.update({"word": "late"})
        with pytest.raises(LeaseLost) as progress:
            ctx.progress(0.5)
        complaints.extend(str(caught.value) for caught in (update, progress))

    job = late.enqueue("first")
    hire(chores=False)
    until(lambda: complaints and job.job.ended)
    assert complaints == [f"job {job.id} is no longer yours; stop working on it"] * 2
    assert job.job.payload == b'{"word":"first"}'


def test_a_lease_without_an_end_can_be_given_one(app: Stoker, hire: Hire) -> None:
    @app.task(timeout=None)
    def work() -> list[bool]:
        ctx = current()
        before = ctx.job.until
        ctx.renew("1h")
        until = ctx.job.until or 0
        return [before is None, 0 < until - app.desk.store.now() <= 3600 * 1_000_000]

    job = work.enqueue()
    hire()
    assert job.wait(timeout="30s") == [True, True]
