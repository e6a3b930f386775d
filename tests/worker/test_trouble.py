"""A store in trouble: no outcome is lost, no job is forgotten, and the worker goes on."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from stoker import Job, JobHandle, State, Stoker, current
from stoker.errors import Contended, StoreError, StoreFull, StoreLocked, StoreUnavailable
from stoker.worker import ferry
from stoker.worker.context import Snoozed, StopReason
from tests.worker.conftest import Hire
from tests.worker.trouble import put_in_front_of
from tests.worker.waiting import LIMIT, Gate, until

TROUBLES = [StoreLocked("held"), StoreUnavailable("gone"), StoreFull("full"), RuntimeError("odd")]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ferry, "_TROUBLE_PAUSES", (0.01, 0.02))


def ended(job: JobHandle[Any]) -> State:
    until(lambda: job.job.ended)
    return job.state


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: type(trouble).__name__)
def test_an_outcome_waits_until_the_store_is_well_again(
    app: Stoker, hire: Hire, caplog: pytest.LogCaptureFixture, trouble: Exception
) -> None:
    store, gate, ran = put_in_front_of(app), Gate(), list[int]()

    @app.task
    def work() -> str:
        gate.pass_through()
        ran.append(1)
        return "kept"

    job = work.enqueue()
    worker = hire(chores=False, ttl=60)
    until(lambda: gate.inside)
    store.trouble = trouble
    gate.open()
    until(lambda: not worker._ferry.in_hand)
    before = store.failed
    until(lambda: store.failed > before + 3)
    assert f"the store is in trouble, trying again in 0.01 s: {trouble}" in caplog.messages
    store.trouble = None
    assert ended(job) is State.FINISHED
    assert (job.result, ran) == ("kept", [1])


def test_a_worker_that_stops_in_a_time_of_trouble_still_reports(
    app: Stoker, hire: Hire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ferry, "_TROUBLE_PAUSES", (0.01,) * 1000)
    store, gate = put_in_front_of(app), Gate()
    job = app.task(gate.pass_through).enqueue()
    worker = hire(chores=False, ttl=60)
    until(lambda: gate.inside)
    store.trouble = StoreLocked("held")
    app.desk.clerk.forget_settings("default")  # a report begins with reading them
    stopping = threading.Thread(target=worker.stop, args=(LIMIT,))
    stopping.start()
    until(lambda: not worker._ferry.accepting)
    gate.open()
    until(lambda: worker._ferry._stopping)
    before = store.failed
    until(lambda: store.failed > before + 2)
    store.trouble = None
    stopping.join(LIMIT)
    assert (job.state, gate.came) == (State.FINISHED, 1)


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: type(trouble).__name__)
def test_an_idle_worker_survives_a_time_of_trouble(
    app: Stoker, hire: Hire, trouble: Exception
) -> None:
    store = put_in_front_of(app)
    task = app.task(lambda: "well again")
    worker = hire(chores=False, ttl=60)
    until(lambda: worker._ferry._asleep)
    store.trouble = trouble
    worker._ferry.wake()
    until(lambda: store.failed > 3)
    store.trouble = None
    assert task.enqueue().wait(timeout="30s") == "well again"


def test_trouble_while_it_looks_when_to_wake_does_not_end_the_worker(
    app: Stoker, hire: Hire, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = put_in_front_of(app)
    asked: list[int] = []

    def next_due(*_: object, **__: object) -> int | None:
        asked.append(1)
        if len(asked) < 3:
            raise StoreLocked("held")
        return None

    monkeypatch.setattr(store, "next_due", next_due, raising=False)
    task = app.task(lambda: "awake")
    hire(chores=False)
    until(lambda: len(asked) >= 3)
    assert task.enqueue().wait(timeout="30s") == "awake"


@pytest.mark.parametrize("trouble", TROUBLES[2:], ids=lambda trouble: type(trouble).__name__)
def test_the_chores_survive_a_time_of_trouble(
    app: Stoker, hire: Hire, caplog: pytest.LogCaptureFixture, trouble: Exception
) -> None:
    store = put_in_front_of(app)
    task = app.task(lambda: "recovered")
    hire(ttl=1)
    store.trouble = trouble
    until(lambda: f"the chores did not get done: {trouble}" in caplog.messages)
    until(lambda: f"the heartbeat did not get through: {trouble}" in caplog.messages)
    store.trouble = None
    job = task.options(queue="elsewhere").enqueue()
    app.desk.dispatch.claim(["elsewhere"], visibility=1)
    until(lambda: job.job.crashes == 1)
    assert job.state is State.QUEUED


# -- answers that never arrive -------------------------------------------------------------


def test_jobs_that_were_granted_in_an_answer_that_got_lost_are_found_again(
    app: Stoker, hire: Hire
) -> None:
    store, ran = put_in_front_of(app), list[int]()

    @app.task
    def work(number: int) -> None:
        ran.append(number)

    store.lose_next_grant = True
    jobs = app.enqueue_many([work.call(number) for number in range(3)])
    hire(chores=False)
    assert [ended(job) for job in jobs] == [State.FINISHED] * 3
    assert sorted(ran) == [0, 1, 2]
    assert [job.job.attempt for job in jobs] == [1, 1, 1]


def test_what_is_in_hand_is_not_found_a_second_time(app: Stoker, hire: Hire) -> None:
    store, gate = put_in_front_of(app), Gate()
    hold = app.task(name="hold")(gate.pass_through)
    quick = app.task(name="quick")(lambda: "quick")
    held = hold.enqueue()
    hire(chores=False)
    until(lambda: gate.inside)
    store.lose_next_grant = True
    assert quick.enqueue().wait(timeout="30s") == "quick"
    gate.open()
    assert ended(held) is State.FINISHED
    assert gate.came == 1


def test_an_outcome_whose_receipt_got_lost_is_not_counted_twice(app: Stoker, hire: Hire) -> None:
    store, gate, ran = put_in_front_of(app), Gate(), list[int]()

    @app.task
    def work() -> int:
        gate.pass_through()
        ran.append(1)
        return len(ran)

    job = work.enqueue()
    worker = hire(chores=False)
    until(lambda: gate.inside)
    store.lose_next_receipt = True
    gate.open()
    until(lambda: worker.finished == 1)
    assert not store.lose_next_receipt
    assert (job.state, job.result, ran) == (State.FINISHED, 1, [1])


def test_an_unknown_job_found_in_a_time_of_trouble_is_put_off_in_the_end(
    app: Stoker, hire: Hire
) -> None:
    store = put_in_front_of(app)
    unknown = app.job(app.desk.intake.enqueue(Job("default", "from.elsewhere")).id)
    known = app.task(lambda: "known").enqueue()
    store.lose_next_grant = True
    hire(chores=False)
    assert known.wait(timeout="30s") == "known"
    until(lambda: unknown.state is State.QUEUED and unknown.job.error)


# -- outcomes that no store can keep -------------------------------------------------------


def test_an_outcome_that_cannot_be_stored_fails_its_job_and_no_other(
    app: Stoker, hire: Hire
) -> None:
    @app.task
    def tired() -> None:
        raise Snoozed(2**62)  # no calendar goes that far

    quick = app.task(name="quick")(lambda: "quick")
    jobs = tired.enqueue(), quick.enqueue()
    hire(concurrency=1)
    assert ended(jobs[0]) is State.FAILED
    assert str(jobs[0].job.error).startswith("its outcome cannot be stored: the moment 4")
    assert jobs[1].wait(timeout="30s") == "quick"


def test_an_outcome_that_others_keep_getting_in_the_way_of_is_reported_again(
    app: Stoker, hire: Hire, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[int] = []
    many = app.desk.report.many

    def crowded(outcomes: Any, claims: Any = ()) -> Any:
        if not outcomes or refused:
            return many(outcomes, claims)
        refused.extend(job.id for job, _ in outcomes)
        return [Contended("try again")] * len(outcomes), many([], claims)[1]

    monkeypatch.setattr(app.desk.report, "many", crowded)
    job = app.task(lambda: "in the end").enqueue()
    hire(chores=False)
    assert job.wait(timeout="30s") == "in the end"
    assert (refused, job.job.attempt) == ([job.id], 1)


# -- no heartbeat gets through -------------------------------------------------------------


def test_handlers_are_stopped_before_others_take_their_jobs_over(app: Stoker, hire: Hire) -> None:
    store, diary = put_in_front_of(app), list[Any]()

    @app.task
    async def wait() -> str:
        diary.append(("begun", current().attempt))
        if current().attempt == 1:
            try:
                await asyncio.sleep(LIMIT)
            finally:
                diary.append(current().stop_reason)
        return "the second time"

    job = wait.enqueue()
    worker = hire(ttl=1)
    first = worker.session
    until(lambda: diary)
    store.trouble = StoreUnavailable("gone")
    until(lambda: len(diary) == 2)
    store.trouble = None
    assert job.wait(timeout="30s") == "the second time"
    assert diary == [("begun", 1), StopReason.LOST, ("begun", 2)]
    assert (job.job.crashes, worker.session == first) == (1, False)


def test_a_worker_cannot_be_hired_while_the_store_is_in_trouble(app: Stoker) -> None:
    store = put_in_front_of(app)
    store.trouble = StoreLocked("held")
    with pytest.raises(StoreError, match="held"):
        app.worker()
