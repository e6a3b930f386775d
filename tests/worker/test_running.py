"""Jobs run, in threads and on the loop, and what they return is kept."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from math import inf, nan
from types import SimpleNamespace
from typing import Any

import pytest

from stoker import Context, Job, JobHandle, State, Stoker, current, fixed
from stoker.worker import pace as pace_of_worker
from tests.architecture.tree import PACKAGE
from tests.worker.conftest import Hire
from tests.worker.trouble import put_in_front_of
from tests.worker.waiting import Gate, until


def ended(*jobs: JobHandle[Any]) -> None:
    for job in jobs:
        until(lambda job=job: job.job.ended)  # type: ignore[misc]


# -- handlers ------------------------------------------------------------------------------


def test_sync_and_async_handlers_run_and_their_results_are_kept(app: Stoker, hire: Hire) -> None:
    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    @app.task
    async def join(words: list[str]) -> str:
        await asyncio.sleep(0)
        return " ".join(words)

    jobs: list[JobHandle[Any]] = [add.enqueue(1, 2), join.enqueue(["a", "b"])]
    hire()
    assert [job.wait(timeout="30s") for job in jobs] == [3, "a b"]
    assert [job.job.attempt for job in jobs] == [1, 1]


def test_a_thousand_jobs_run_once_each(app: Stoker, hire: Hire) -> None:
    ran: list[int] = []

    @app.task
    async def note(number: int) -> None:
        ran.append(number)

    app.enqueue_many([note.call(number) for number in range(1000)])
    worker = hire()
    until(lambda: worker.finished == 1000)
    assert sorted(ran) == list(range(1000))
    assert app.desk.store.survey(["default"])[0].counts[State.FINISHED] == 1000


def test_sync_handlers_run_no_more_than_concurrency_at_a_time(app: Stoker, hire: Hire) -> None:
    gate = Gate()
    task = app.task(gate.pass_through)
    jobs = app.enqueue_many([task.call() for _ in range(9)])
    hire(concurrency=3)
    until(lambda: gate.inside == 3)
    gate.open()
    ended(*jobs)
    assert (gate.came, gate.peak) == (9, 3)


def test_async_handlers_run_no_more_than_concurrency_at_a_time(app: Stoker, hire: Hire) -> None:
    gate = Gate()
    task = app.task(gate.pass_through_async)
    jobs = app.enqueue_many([task.call() for _ in range(9)])
    hire(concurrency=3)
    until(lambda: gate.inside == 3)
    gate.open()
    ended(*jobs)
    assert (gate.came, gate.peak) == (9, 3)


def test_a_handler_sees_its_context_by_parameter_and_by_asking(app: Stoker, hire: Hire) -> None:
    @app.task
    def sync(ctx: Context | None = None) -> list[Any]:
        assert ctx is not None
        return [ctx is current(), ctx.job.id, ctx.attempt, ctx.token == ctx.job.token]

    @app.task
    async def on_loop() -> int:
        await asyncio.sleep(0)
        return current().job.id

    first, second = sync.enqueue(), on_loop.enqueue()
    hire()
    assert first.wait(timeout="30s") == [True, first.id, 1, True]
    assert second.wait(timeout="30s") == second.id


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_a_handler_that_wants_to_end_the_process_has_failed(
    app: Stoker, hire: Hire, error: BaseException
) -> None:
    @app.task
    def leave() -> None:
        raise error

    @app.task
    async def leave_loop() -> None:
        raise error

    jobs = [leave.enqueue(), leave_loop.enqueue()]
    after = app.task(name="after")(lambda: "still here").enqueue()
    hire(concurrency=1)
    ended(*jobs)
    assert [job.state for job in jobs] == [State.FAILED] * 2
    assert [str(job.job.error).split(":")[0] for job in jobs] == [type(error).__name__] * 2
    assert after.wait(timeout="30s") == "still here"


def test_an_error_is_kept_with_the_place_where_it_happened(app: Stoker, hire: Hire) -> None:
    @app.task
    def break_down() -> None:
        raise ValueError("no such \ud800 thing")

    job = break_down.enqueue()
    hire()
    ended(job)
    error = str(job.job.error)
    assert error.startswith("ValueError: no such \\ud800 thing\n")
    assert "in break_down" in error


@pytest.mark.parametrize(
    ("result", "complaint"),
    [
        (object(), "Encoding objects of type object is unsupported"),
        (nan, "it holds a number that is infinite or none at all"),
        ({"mean": inf}, "it holds a number that is infinite or none at all"),
    ],
)
def test_a_result_that_json_cannot_hold_fails_the_job_without_another_try(
    app: Stoker, hire: Hire, result: object, complaint: str
) -> None:
    tries = []

    @app.task(retry=fixed(0))
    def give() -> object:
        tries.append(1)
        return result

    job = give.enqueue()
    hire()
    ended(job)
    assert (job.state, len(tries)) == (State.FAILED, 1)
    assert str(job.job.error).startswith(f"its result cannot be kept as JSON: {complaint}")


# -- which jobs ----------------------------------------------------------------------------


def test_a_worker_serves_its_queues_only(app: Stoker, hire: Hire) -> None:
    task = app.task(lambda: None)
    mine, other = task.options(queue="mine").enqueue(), task.options(queue="other").enqueue()
    hire(queues=["mine"])
    ended(mine)
    assert other.state is State.QUEUED


def test_a_worker_serves_queues_by_pattern(app: Stoker, hire: Hire) -> None:
    task = app.task(lambda: None)
    hire(queues=["mail-*"])
    jobs = [task.options(queue=f"mail-{n}").enqueue() for n in range(3)]
    other = task.options(queue="post").enqueue()
    ended(*jobs)
    assert other.state is State.QUEUED


def test_a_job_of_an_unknown_task_is_put_off_with_the_reason(app: Stoker, hire: Hire) -> None:
    unknown = app.job(app.desk.intake.enqueue(Job("default", "from.elsewhere")).id)
    known = app.task(lambda: "known").enqueue()
    hire(concurrency=1)
    assert known.wait(timeout="30s") == "known"
    until(lambda: unknown.job.error)
    job = unknown.job
    assert (job.state, job.attempt) == (State.QUEUED, 0)
    assert job.error == "no task called 'from.elsewhere' is known to the worker that took it"
    assert 50_000_000 < job.due_at - app.desk.store.now() <= 60_000_000


# -- waking --------------------------------------------------------------------------------


def test_an_idle_worker_is_woken_by_a_job(app: Stoker, hire: Hire, no_poll: None) -> None:
    task = app.task(name="echo")(lambda word: word)
    worker = hire()
    for number in range(3):
        assert task.enqueue(number).wait(timeout="30s") == number
        until(lambda: worker._ferry._asleep)


def test_a_job_enqueued_right_after_the_start_is_not_overheard(
    app: Stoker, hire: Hire, no_poll: None
) -> None:
    task = app.task(lambda: "heard")
    hire()
    assert task.enqueue().wait(timeout="30s") == "heard"


@pytest.mark.parametrize("home", ["sqlite"], indirect=True)
def test_an_idle_worker_is_woken_by_a_job_of_another_process(
    app: Stoker, hire: Hire, no_poll: None
) -> None:
    app.task(name="echo")(lambda word: word)
    worker = hire()
    until(lambda: worker._ferry._asleep)
    code = f"""
from stoker import Stoker
app = Stoker({app.url!r})
print(app.task(name="echo")(lambda word: word).enqueue("from afar").id)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert app.job(int(done.stdout)).wait(timeout="30s") == "from afar"


def test_a_delayed_job_starts_at_its_time_without_a_poll(
    app: Stoker, hire: Hire, no_poll: None
) -> None:
    task = app.task(lambda: None)
    worker = hire()
    until(lambda: worker._ferry._asleep)
    job = task.options(delay="300ms").enqueue()
    ended(job)
    assert (job.job.started_at or 0) >= job.job.due_at


def test_capacity_that_becomes_free_wakes_a_worker(app: Stoker, hire: Hire, no_poll: None) -> None:
    gate = Gate()
    hold = app.task(queue="narrow")(gate.pass_through)
    app.configure("narrow", capacity=1)
    jobs = [hold.enqueue() for _ in range(3)]
    hire(queues=["narrow"])
    until(lambda: gate.came == 1)
    gate.open()
    ended(*jobs)
    assert gate.peak == 1


# -- trips ---------------------------------------------------------------------------------


def test_outcomes_that_gather_are_reported_in_one_trip(app: Stoker, hire: Hire) -> None:
    store, gate, over = put_in_front_of(app), Gate(), list[int]()

    @app.task
    def work(number: int) -> None:
        gate.pass_through()
        over.append(number)

    jobs = app.enqueue_many([work.call(number) for number in range(40)])
    worker = hire(concurrency=40, chores=False)
    until(lambda: gate.inside == 40)
    until(lambda: worker._ferry._asleep)
    store.passable.clear()
    store.trips.clear()
    gate.open()
    until(lambda: len(over) == 40 and not worker._ferry.in_hand)
    store.passable.set()
    ended(*jobs)
    reports = [changes for changes, _ in store.trips if changes]
    assert len(reports) <= 2, "one was on its way when the others gathered"


def test_jobs_are_claimed_in_one_trip(app: Stoker, hire: Hire) -> None:
    store, gate = put_in_front_of(app), Gate()
    task = app.task(gate.pass_through)
    app.enqueue_many([task.call() for _ in range(20)])
    store.trips.clear()
    hire(concurrency=20, chores=False)
    until(lambda: gate.inside == 20)
    assert sum(claims for _, claims in store.trips) <= 2, "the second one finds nothing"
    gate.open()


def test_long_jobs_keep_all_workers_busy(app: Stoker, hire: Hire) -> None:
    gate = Gate()
    task = app.task(gate.pass_through)
    workers = [hire(concurrency=2), hire(concurrency=2)]
    app.enqueue_many([task.call() for _ in range(4)])
    until(lambda: gate.inside == 4)
    assert [len(worker._ferry.in_hand) for worker in workers] == [2, 2]
    gate.open()


def test_long_jobs_behind_short_ones_are_not_held_by_a_busy_worker(app: Stoker, hire: Hire) -> None:
    gate, short = Gate(), app.task(name="short")(lambda: None)
    long = app.task(name="long")(gate.pass_through)
    first = hire(concurrency=2)
    app.enqueue_many([short.call() for _ in range(500)] + [long.call() for _ in range(4)])
    until(lambda: gate.inside == 2)
    second = hire(concurrency=2)
    until(lambda: gate.inside == 4)
    assert [len(worker._ferry.in_hand) for worker in (first, second)] == [2, 2]
    gate.open()


def test_a_worker_that_was_fast_takes_no_more_than_it_can_run_after_a_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(pace_of_worker, "time", SimpleNamespace(monotonic=lambda: now[0]))
    pace = pace_of_worker.Pace()
    for _ in range(100):
        now[0] += 0.04
        pace.count(40)
    assert 45 <= pace.ahead() <= 50
    now[0] += 5
    assert pace.ahead() == 0


def test_a_worker_whose_runners_had_nothing_to_do_was_not_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(pace_of_worker, "time", SimpleNamespace(monotonic=lambda: now[0]))
    pace = pace_of_worker.Pace()
    now[0] += 0.02
    pace.count(10, idle=0.01)
    assert 45 <= pace.ahead() <= 50
    now[0] += 5
    assert pace.ahead(idle=5) == 0


def test_runners_are_threads_of_the_worker_and_leave_with_it(app: Stoker, hire: Hire) -> None:
    task = app.task(lambda: threading.current_thread().name)
    app.desk.store.bell.listen().close()  # an engine may keep a thread of its own from here on
    before = set(threading.enumerate())
    worker = hire(concurrency=2)
    assert task.enqueue().wait(timeout="30s").startswith("stoker-runner-")
    worker.stop()
    until(lambda: not [t for t in threading.enumerate() if t not in before and t.daemon])
