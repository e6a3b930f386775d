"""A worker that stops: what runs may end, what does not end is given back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from stoker import JobHandle, State, Stoker, WaitTimeout, current
from stoker.worker import ferry
from stoker.worker.context import StopReason
from stoker.worker.pace import Pace
from tests.worker.conftest import Hire
from tests.worker.trouble import put_in_front_of
from tests.worker.waiting import LIMIT, Gate, until


def in_background(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def untouched(job: JobHandle[Any]) -> bool:
    """Is the job as if it had never been taken?"""
    facts = job.job
    return (facts.state, facts.attempt, facts.token, facts.session) == (State.QUEUED, 0, None, None)


def test_running_jobs_may_finish_within_the_grace_period(app: Stoker, hire: Hire) -> None:
    gate, loop_gate = Gate(), Gate()
    jobs = [app.task(gate.pass_through).enqueue(), app.task(loop_gate.pass_through_async).enqueue()]
    worker = hire(grace=LIMIT)
    until(lambda: gate.inside and loop_gate.inside)
    stopping = in_background(worker.stop)
    until(lambda: not worker._ferry.accepting)
    later = app.task(name="later")(lambda: None).enqueue()
    gate.open()
    loop_gate.open()
    stopping.join(LIMIT)
    assert [job.state for job in jobs] == [State.FINISHED] * 2
    assert untouched(later)


def test_an_async_handler_that_does_not_finish_is_given_back(app: Stoker, hire: Hire) -> None:
    seen: list[object] = []

    @app.task
    async def wait() -> None:
        seen.append("begun")
        try:
            await asyncio.sleep(LIMIT)
        finally:
            seen.append(current().stop_reason)

    job = wait.enqueue()
    worker = hire()
    until(lambda: seen)
    worker.stop(grace=0)
    assert seen == ["begun", StopReason.SHUTDOWN]
    assert untouched(job)


def test_a_sync_handler_that_looks_is_given_back(app: Stoker, hire: Hire) -> None:
    begun = threading.Event()

    @app.task
    def wait() -> None:
        ctx = current()
        begun.set()
        until(ctx.check)

    job = wait.enqueue()
    worker = hire()
    until(begun.is_set)
    worker.stop(grace=0)
    assert untouched(job)


def test_a_sync_handler_that_does_not_look_is_given_back_all_the_same(
    app: Stoker, hire: Hire
) -> None:
    gate = Gate()

    @app.task
    def wait() -> str:
        gate.pass_through()
        return "too late"

    job = wait.enqueue()
    worker = hire()
    until(lambda: gate.inside)
    worker.stop(grace=0)
    assert untouched(job)
    gate.open()
    until(lambda: not gate.inside)
    with pytest.raises(WaitTimeout):
        job.wait(timeout="50ms")


def test_an_async_handler_that_will_not_end_does_not_hold_up_the_end(
    app: Stoker, hire: Hire
) -> None:
    asked: list[int] = []
    begun = threading.Event()

    @app.task
    async def stubborn() -> None:
        begun.set()
        while len(asked) < 2:
            try:
                await asyncio.sleep(LIMIT)
            except asyncio.CancelledError:
                asked.append(1)

    job = stubborn.enqueue()
    worker = hire()
    until(begun.is_set)
    worker.stop(grace=0)
    assert len(asked) == 2
    assert untouched(job)
    until(lambda: not [t for t in threading.enumerate() if t.name == "stoker-loop"])


def test_jobs_that_have_not_begun_are_given_back_at_once(
    app: Stoker, hire: Hire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pace, "ahead", lambda self, idle: 5)
    monkeypatch.setattr(ferry, "AHEAD_SECONDS", LIMIT)
    gate = Gate()
    task = app.task(gate.pass_through)
    jobs = app.enqueue_many([task.call() for _ in range(6)])
    worker = hire(concurrency=1, grace=LIMIT)
    until(lambda: gate.inside and len(worker._ferry.in_hand) == 6)
    stopping = in_background(worker.stop)
    until(lambda: sum(untouched(job) for job in jobs) == 5)
    gate.open()
    stopping.join(LIMIT)
    assert [job.state for job in jobs] == [State.FINISHED] + [State.QUEUED] * 5
    assert gate.came == 1


def test_jobs_that_arrive_while_the_worker_stops_go_back_untouched(app: Stoker, hire: Hire) -> None:
    inner = app.desk
    store, ran = put_in_front_of(app), list[int]()
    task = app.task(lambda: ran.append(1))
    worker = hire(chores=False)
    until(lambda: worker._ferry._asleep)
    store.deliverable.clear()
    # Two at a time: one alone would not be claimed but come with the ring.
    ids = [placed.id for placed in inner.intake.enqueue_many([task.call().job] * 2)]
    until(lambda: all(job.state is State.RUNNING for job in inner.store.get(ids).values()))
    stopping = in_background(worker.stop)
    until(lambda: not worker._ferry.accepting)
    store.deliverable.set()
    stopping.join(LIMIT)
    assert all(untouched(app.job(job_id)) for job_id in ids)
    assert ran == []


def test_a_worker_that_stopped_has_closed_its_session_and_given_up_its_turn(
    app: Stoker, hire: Hire
) -> None:
    worker = hire(ttl=1)
    until(lambda: not app.desk.store.hold("chores", "somebody else", 1))
    worker.stop()
    assert app.desk.store.sessions() == []
    assert app.desk.store.hold("chores", "somebody else", 1)


def test_stopping_twice_does_no_harm(app: Stoker, hire: Hire) -> None:
    @app.task
    async def quick() -> str:
        return "quick"

    worker = hire()
    assert quick.enqueue().wait(timeout="30s") == "quick"
    worker.stop()
    worker.stop()
    assert app.desk.store.sessions() == []


def test_a_cancelled_handler_that_does_not_end_is_cancelled_with_the_worker(
    app: Stoker, hire: Hire
) -> None:
    gate = Gate()
    job = app.task(gate.pass_through).enqueue()
    worker = hire()
    until(lambda: gate.inside)
    job.cancel()
    worker.stop(grace=0)
    assert job.state is State.CANCELLED
    gate.open()


def test_what_was_given_back_runs_elsewhere(app: Stoker, hire: Hire) -> None:
    gate = Gate()
    job = app.task(gate.pass_through_async).enqueue()
    first = hire()
    until(lambda: gate.inside)
    first.stop(grace=0)
    hire()
    until(lambda: gate.inside)
    gate.open()
    assert job.wait(timeout="30s") is None
    assert (gate.came, job.job.attempt, job.job.crashes) == (2, 1, 0)
