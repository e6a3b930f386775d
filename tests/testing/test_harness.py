"""The harness: an app in memory, its clock in the test's hand, its jobs run on demand."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from stoker import Context, Job, Middleware, State, Stoker, current, exponential, fixed
from stoker.errors import BadInput, StokerError
from stoker.kernel.outcome import Outcome
from stoker.testing import Harness, VirtualClock, harness

NEW_YEAR = datetime(2030, 1, 1, tzinfo=UTC)
MINUTE = 60_000_000


@pytest.fixture
def app() -> Stoker:
    return Stoker("memory:")


@pytest.fixture
def stoker(app: Stoker) -> Iterator[Harness]:
    with harness(app, start=NEW_YEAR) as stoker:
        yield stoker


# -- the clock -----------------------------------------------------------------------------


def test_a_clock_stands_until_it_is_moved() -> None:
    clock = VirtualClock(NEW_YEAR)
    assert clock() == clock() == 1_893_456_000_000_000
    clock.advance("1d")
    clock.advance(timedelta(microseconds=7))
    assert clock.now == datetime(2030, 1, 2, microsecond=7, tzinfo=UTC)
    clock.move_to(datetime(2031, 1, 1, tzinfo=UTC))
    assert clock.now == datetime(2031, 1, 1, tzinfo=UTC)


def test_a_clock_starts_now_if_nothing_is_said() -> None:
    before = datetime.now(UTC)
    assert before <= VirtualClock().now <= datetime.now(UTC)


def test_a_clock_does_not_go_back() -> None:
    clock = VirtualClock(NEW_YEAR)
    with pytest.raises(BadInput, match="cannot go back to 2029-12-31"):
        clock.move_to(datetime(2029, 12, 31, tzinfo=UTC))
    with pytest.raises(BadInput, match="is negative"):
        clock.advance(-1)


def test_a_moment_needs_a_time_zone() -> None:
    with pytest.raises(BadInput, match="a moment needs a time zone"):
        VirtualClock(datetime(2030, 1, 1))  # noqa: DTZ001


# -- the swap ------------------------------------------------------------------------------


def test_an_app_under_test_touches_no_store_of_its_own(tmp_path: Path) -> None:
    app = Stoker(f"sqlite:///{tmp_path}/jobs.db")
    task = app.task(lambda: "done")
    with harness(app) as stoker:
        job = task.enqueue()
        stoker.drain()
        assert job.result == "done"
    assert list(tmp_path.iterdir()) == []


def test_afterwards_the_app_has_its_own_store_again(app: Stoker) -> None:
    task = app.task(lambda: None)
    own = task.enqueue()

    def test_of_a_user() -> None:
        with harness(app):
            task.enqueue()
            task.enqueue()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        test_of_a_user()
    assert own.state is State.QUEUED
    assert len(Harness(app, VirtualClock()).jobs()) == 1


def test_every_harness_begins_empty(app: Stoker) -> None:
    task = app.task(lambda: None)
    for _ in range(2):
        with harness(app) as stoker:
            assert task.enqueue().id == 1
            assert len(stoker.jobs()) == 1


# -- draining ------------------------------------------------------------------------------


def test_due_jobs_run_in_order_in_this_thread(app: Stoker, stoker: Harness) -> None:
    ran: list[Any] = []

    @app.task
    def sync(number: int) -> None:
        ran.append((number, threading.current_thread()))

    @app.task
    async def on_loop(number: int) -> None:
        await asyncio.sleep(0)
        ran.append((number, threading.current_thread()))

    sync.enqueue(2)
    on_loop.enqueue(3)
    sync.options(rank=-1).enqueue(1)
    assert stoker.drain() == 3
    here = threading.current_thread()
    assert ran == [(1, here), (2, here), (3, here)]


def test_async_handlers_share_a_loop(app: Stoker, stoker: Harness) -> None:
    loops: list[object] = []

    @app.task
    async def note() -> None:
        loops.append(asyncio.get_running_loop())

    note.enqueue()
    stoker.drain()
    note.enqueue()
    stoker.drain()
    assert len(loops) == 2
    assert loops[0] is loops[1]


def test_draining_goes_on_with_what_handlers_enqueue(app: Stoker, stoker: Harness) -> None:
    @app.task
    def countdown(number: int) -> None:
        if number:
            countdown.enqueue(number - 1)

    countdown.enqueue(5)
    assert stoker.drain(until_idle=False) == 1
    assert stoker.drain(until_idle=False) == 1
    assert stoker.drain() == 4
    assert stoker.drain() == 0


def test_one_round_runs_what_is_due_now_as_far_as_there_is_room(
    app: Stoker, stoker: Harness
) -> None:
    task = app.task(queue="narrow")(lambda: None)
    app.configure("narrow", capacity=2)
    for _ in range(5):
        task.enqueue()
    assert [stoker.drain(until_idle=False) for _ in range(4)] == [2, 2, 1, 0]


def test_a_job_that_never_leaves_the_queue_idle_is_an_error(app: Stoker, stoker: Harness) -> None:
    @app.task
    def restless() -> None:
        restless.enqueue()

    restless.enqueue()
    with pytest.raises(StokerError, match="not idle after 10,000 tries: does a job enqueue itself"):
        stoker.drain()


def test_retries_come_when_their_time_has_come(app: Stoker, stoker: Harness) -> None:
    attempts: list[int] = []

    @app.task(retry=exponential(3, base="10s"))
    def fail() -> None:
        attempts.append(current().attempt)
        raise OSError("no luck")

    job = fail.enqueue()
    assert stoker.drain() == 1
    stoker.clock.advance("9s")
    assert stoker.drain() == 0
    stoker.clock.advance("1s")
    assert stoker.drain() == 1
    assert (job.state, attempts) == (State.QUEUED, [1, 2])


def test_time_may_pass_with_everything_running_at_its_moment(app: Stoker, stoker: Harness) -> None:
    moments: list[datetime] = []

    @app.task(retry=fixed("10m", limit=2))
    def fail() -> None:
        moments.append(stoker.clock.now)
        raise OSError("no luck")

    fail.options(delay="5m").enqueue()
    assert stoker.run_for("20m") == 2
    assert stoker.clock.now == NEW_YEAR + timedelta(minutes=20)
    assert stoker.run_for("20m") == 1
    assert moments == [NEW_YEAR + timedelta(minutes=minutes) for minutes in (5, 15, 25)]


def test_the_chores_are_done(app: Stoker, stoker: Harness) -> None:
    @app.task(repeat="every 10m; overlap=allow")
    def tick() -> None: ...

    @app.task
    def ask() -> None:
        current().wait_for_reply("nobody", timeout="5m")

    app.ensure_schedules()
    waiting = ask.enqueue()
    assert stoker.run_for("30m") == 4
    stoker.assert_failed(waiting, match="no reply for 'nobody' came in time")
    assert len(stoker.jobs(State.FINISHED, tick)) == 3


def test_what_falls_due_while_a_handler_runs_is_seen_to(app: Stoker, stoker: Harness) -> None:
    @app.task
    def ask() -> None:
        current().wait_for_reply("nobody", timeout="1m")

    slow = app.task(lambda: stoker.clock.advance("2m"))
    waiting = ask.enqueue()
    slow.enqueue()
    assert stoker.drain() == 2
    stoker.assert_failed(waiting, match="no reply for 'nobody' came in time")


def test_a_handler_that_takes_longer_than_it_may_has_run_out_of_time(
    app: Stoker, stoker: Harness
) -> None:
    @app.task(timeout="1m")
    def dawdle() -> str:
        stoker.clock.advance("1m")
        return "done at last"

    job = dawdle.enqueue()
    stoker.drain()
    stoker.assert_failed(job, match="ran longer than its limit of 60 s")


def test_middleware_is_called(app: Stoker, stoker: Harness) -> None:
    seen: list[str] = []

    class Witness(Middleware):
        def before(self, context: Context) -> None:
            seen.append(context.job.name)

        def after(self, context: Context, outcome: Outcome) -> None:
            seen.append(type(outcome).__name__)

    app.middleware.append(Witness())
    app.task(name="work")(lambda: None).enqueue()
    stoker.drain()
    assert seen == ["work", "Finished"]


def test_no_job_is_current_outside_of_a_handler(app: Stoker, stoker: Harness) -> None:
    @app.task
    def sync() -> int:
        return current().job.id

    @app.task
    async def on_loop() -> int:
        return current().job.id

    jobs = [sync.enqueue(), on_loop.enqueue()]
    stoker.drain()
    assert [job.result for job in jobs] == [job.id for job in jobs]
    with pytest.raises(StokerError, match="no job runs here"):
        current()


def test_a_job_of_an_unknown_task_is_put_off(app: Stoker, stoker: Harness) -> None:
    app.desk.intake.enqueue(Job("default", "gone"))
    assert stoker.drain() == 0
    (job,) = stoker.jobs()
    assert (job.due_at, job.error) == (stoker.clock() + MINUTE, "the app has no task called 'gone'")


def test_a_task_for_processes_runs_here(app: Stoker, stoker: Harness) -> None:
    where = app.task(place="process")(os.getpid)
    job = where.enqueue()
    stoker.drain()
    assert job.result == os.getpid()


class Interruption(BaseException):
    """As Ctrl-C, or the way in which pytest.fail() leaves a test."""


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, Interruption])
def test_what_is_meant_for_the_test_goes_through(
    app: Stoker, stoker: Harness, interruption: type[BaseException]
) -> None:
    @app.task(retry=fixed(0))
    def sync() -> None:
        raise interruption

    @app.task(retry=fixed(0))
    async def on_loop() -> None:
        raise interruption

    for task in (sync, on_loop):
        task.enqueue()
        with pytest.raises(interruption):
            stoker.drain()


def test_a_handler_that_leaves_the_program_has_failed(app: Stoker, stoker: Harness) -> None:
    @app.task
    def leave() -> None:
        sys.exit("no more")

    job = leave.enqueue()
    assert stoker.drain() == 1
    stoker.assert_failed(job, match="^SystemExit: no more")


# -- tests that are coroutines -------------------------------------------------------------


def test_a_coroutine_drains_on_its_own_loop(app: Stoker, stoker: Harness) -> None:
    loops: list[object] = []

    @app.task
    async def on_loop() -> None:
        loops.append(asyncio.get_running_loop())
        current()

    @app.task
    def sync() -> None:
        asyncio.run(asyncio.sleep(0))

    async def main() -> int:
        on_loop.enqueue()
        sync.enqueue()
        tries = await stoker.drain_async()
        loops.append(asyncio.get_running_loop())
        with pytest.raises(StokerError, match="no job runs here"):
            current()
        return tries

    assert asyncio.run(main()) == 2
    assert len(loops) == 2
    assert loops[0] is loops[1]
    stoker.assert_nothing_left()


def test_a_coroutine_that_drains_in_the_wrong_way_is_told(app: Stoker, stoker: Harness) -> None:
    @app.task
    async def on_loop() -> None: ...

    async def main() -> None:
        on_loop.enqueue()
        stoker.drain()

    with pytest.raises(StokerError, match="in a coroutine, await drain_async"):
        asyncio.run(main())


def test_a_coroutine_lets_time_pass_with_everything_running_at_its_moment(
    app: Stoker, stoker: Harness
) -> None:
    moments: list[datetime] = []

    @app.task(retry=fixed("10m", limit=2))
    async def fail() -> None:
        moments.append(stoker.clock.now)
        raise OSError("no luck")

    async def main() -> int:
        await fail.options(delay="5m").aenqueue()
        return await stoker.run_for_async("20m")

    assert asyncio.run(main()) == 2
    assert moments == [NEW_YEAR + timedelta(minutes=minutes) for minutes in (5, 15)]
    assert stoker.clock.now == NEW_YEAR + timedelta(minutes=20)
