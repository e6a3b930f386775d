"""A worker that was taken for dead: its handlers stop, and it begins again as somebody new."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import msgspec

from stoker import OnLost, State, Stoker, current
from stoker.store import Filter
from stoker.watch import run_chores
from stoker.worker.context import StopReason
from tests.worker.conftest import Hire
from tests.worker.waiting import LIMIT, Gate, until


def test_a_lost_session_stops_its_handlers_and_its_jobs_run_again(app: Stoker, hire: Hire) -> None:
    diary: list[Any] = []

    @app.task
    async def wait() -> str:
        diary.append(("begun", current().attempt))
        if current().attempt == 1:
            try:
                await asyncio.sleep(LIMIT)
            finally:
                diary.append(current().stop_reason)
        return "again"

    job = wait.enqueue()
    worker = hire(ttl=1)
    lost = worker.session
    until(lambda: diary)
    app.desk.store.retire(lost)
    assert job.wait(timeout="30s") == "again"
    assert diary == [("begun", 1), StopReason.LOST, ("begun", 2)]
    assert (job.job.attempt, job.job.crashes) == (2, 1)
    assert worker.session != lost
    assert worker.session in {session.id for session in app.desk.store.sessions()}


def test_nothing_is_reported_of_a_handler_that_stopped_for_a_lost_session(
    app: Stoker, hire: Hire
) -> None:
    begun = threading.Event()

    @app.task
    async def wait() -> None:
        begun.set()
        await asyncio.sleep(LIMIT)

    job = wait.enqueue()
    worker = hire(ttl=1, chores=False)
    until(begun.is_set)
    lost = worker.session
    app.desk.store.retire(lost)
    until(lambda: worker.finished == 1)
    assert (job.state, job.job.session, job.job.error) == (State.RUNNING, lost, None)
    worker.stop()
    run_chores(app.desk.clerk, "watch")
    assert (job.job.crashes, job.job.attempt) == (1, 1)
    assert job.job.error == f"worker lost in try 1: session {lost} is gone"


def test_a_sync_handler_of_a_lost_session_may_end_in_peace_but_not_report(
    app: Stoker, hire: Hire
) -> None:
    gate, words = Gate(), list[int]()

    @app.task
    def work() -> str:
        attempt = current().attempt
        if attempt == 1:
            gate.pass_through()
        words.append(attempt)
        return f"word {attempt}"

    job = work.enqueue()
    worker = hire(ttl=1)
    until(lambda: gate.inside)
    app.desk.store.retire(worker.session)
    assert job.wait(timeout="30s") == "word 2"
    gate.open()
    until(lambda: words == [2, 1])
    until(lambda: not worker._ferry.in_hand)
    assert job.result == "word 2"


def test_an_idle_worker_that_was_taken_for_dead_goes_on_at_once(
    app: Stoker, hire: Hire, no_poll: None
) -> None:
    task = app.task(lambda: "alive")
    worker = hire(ttl=60)
    until(lambda: worker._ferry._asleep)
    lost = worker.session
    app.desk.store.retire(lost)
    assert task.enqueue().wait(timeout="30s") == "alive"
    assert worker.session != lost


def test_a_loss_that_is_noticed_twice_costs_one_session(app: Stoker, hire: Hire) -> None:
    worker = hire(ttl=60)
    first = worker.session
    worker._heart.lose(first)
    second = worker.session
    worker._heart.lose(first)
    assert first != second == worker.session


def test_a_job_that_is_to_stay_outlives_the_session_of_its_worker(app: Stoker, hire: Hire) -> None:
    gate = Gate()
    job = app.task(on_lost=OnLost.STAY)(gate.pass_through).enqueue()
    worker = hire(ttl=60)
    until(lambda: gate.inside)
    worker._heart.lose(worker.session)
    gate.open()
    assert job.wait(timeout="30s") is None
    assert (gate.came, job.job.attempt) == (1, 1)


def test_a_session_tells_who_works_there(app: Stoker, hire: Hire) -> None:
    worker = hire(name="stoker 7", queues=["mail", "post-*"], concurrency=3)
    (session,) = app.desk.store.sessions()
    info = msgspec.json.decode(session.info)
    assert (session.id, session.name) == (worker.session, "stoker 7")
    assert (info["queues"], info["concurrency"]) == (["mail", "post-*"], 3)


def test_a_job_belongs_to_the_session_that_runs_it(app: Stoker, hire: Hire) -> None:
    gate = Gate()
    job = app.task(gate.pass_through).enqueue()
    worker = hire()
    until(lambda: gate.inside)
    assert [held.id for held in app.desk.store.find(Filter(session=worker.session))] == [job.id]
    gate.open()
