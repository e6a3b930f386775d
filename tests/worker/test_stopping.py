"""Handlers that are to end: cancelled, or out of time."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from stoker import JobHandle, State, Stoker, current, fixed
from stoker.worker.context import Stopped, StopReason
from tests.worker.conftest import Hire
from tests.worker.waiting import LIMIT, Gate, until


def ended(job: JobHandle[Any]) -> State:
    until(lambda: job.job.ended)
    return job.state


# -- cancelling ----------------------------------------------------------------------------


def test_a_cancelled_async_handler_sees_it_where_it_waits(app: Stoker, hire: Hire) -> None:
    seen: list[object] = []

    @app.task
    async def wait() -> None:
        seen.append("begun")
        try:
            await asyncio.sleep(LIMIT)
        except asyncio.CancelledError:
            seen.append(current().stop_reason)
            raise

    job = wait.enqueue()
    hire(ttl=400)  # only the bell can tell it in time
    until(lambda: seen)
    assert job.cancel() is State.RUNNING
    assert ended(job) is State.CANCELLED
    assert seen == ["begun", StopReason.CANCELLED]
    assert job.job.error == "cancelled on request"


def test_the_runner_of_a_cancelled_handler_takes_the_next_job(app: Stoker, hire: Hire) -> None:
    @app.task
    async def wait() -> None:
        await asyncio.sleep(LIMIT)

    @app.task
    async def quick() -> str:
        await asyncio.sleep(0.01)
        return "quick"

    hire(concurrency=1)
    for _ in range(3):
        job = wait.enqueue()
        until(lambda job=job: job.state is State.RUNNING)  # type: ignore[misc]
        job.cancel()
        assert ended(job) is State.CANCELLED
        assert quick.enqueue().wait(timeout="30s") == "quick"


def test_a_cancelled_sync_handler_sees_it_when_it_looks(app: Stoker, hire: Hire) -> None:
    begun = threading.Event()

    @app.task
    def wait() -> str:
        ctx = current()
        assert not ctx.cancelled
        begun.set()
        until(lambda: ctx.cancelled)
        return str(ctx.stop_reason)

    job = wait.enqueue()
    hire()
    until(begun.is_set)
    job.cancel()
    assert ended(job) is State.FINISHED
    assert job.result == "StopReason.CANCELLED"


def test_a_sync_handler_leaves_where_it_checks(app: Stoker, hire: Hire) -> None:
    diary: list[str] = []

    @app.task
    def work() -> None:
        diary.append("begun")
        try:
            until(current().check)
        except Exception:  # noqa: BLE001 - the very thing that must not happen
            diary.append("swallowed")
        finally:
            diary.append("cleaned up")

    job = work.enqueue()
    hire()
    until(lambda: diary)
    job.cancel()
    assert ended(job) is State.CANCELLED
    assert diary == ["begun", "cleaned up"]


def test_no_handlers_except_exception_catches_the_call_to_stop() -> None:
    assert issubclass(Stopped, BaseException)
    assert not issubclass(Stopped, Exception)


def test_a_handler_that_fails_while_it_is_cancelled_is_cancelled(app: Stoker, hire: Hire) -> None:
    begun = threading.Event()

    @app.task(retry=fixed(0))
    async def wait() -> None:
        begun.set()
        try:
            await asyncio.sleep(LIMIT)
        finally:
            raise ConnectionError("cut off")

    job = wait.enqueue()
    hire()
    until(begun.is_set)
    job.cancel()
    assert ended(job) is State.CANCELLED
    assert str(job.job.error).startswith("ConnectionError: cut off")


def test_a_handler_that_finishes_all_the_same_has_finished(app: Stoker, hire: Hire) -> None:
    begun = threading.Event()

    @app.task
    async def stubborn() -> str:
        begun.set()
        try:
            await asyncio.sleep(LIMIT)
        except asyncio.CancelledError:
            return "done all the same"
        return "never asked"

    job = stubborn.enqueue()
    hire()
    until(begun.is_set)
    job.cancel()
    assert ended(job) is State.FINISHED
    assert job.result == "done all the same"


def test_a_cancellation_of_the_handlers_own_making_is_a_failure(app: Stoker, hire: Hire) -> None:
    @app.task
    async def odd() -> None:
        raise asyncio.CancelledError("of my own")

    job = odd.enqueue()
    hire()
    assert ended(job) is State.FAILED
    assert str(job.job.error).startswith("CancelledError: of my own")


# -- time limits ---------------------------------------------------------------------------


def test_an_async_handler_is_ended_when_its_time_is_over(app: Stoker, hire: Hire) -> None:
    seen: list[object] = []

    @app.task(timeout="100ms")
    async def wait() -> None:
        try:
            await asyncio.sleep(LIMIT)
        except asyncio.CancelledError:
            seen.append(current().stop_reason)
            raise

    job = wait.enqueue()
    hire(chores=False)
    assert ended(job) is State.FAILED
    assert seen == [StopReason.TIMEOUT]
    assert job.job.error == "ran longer than its limit of 0.1 s"


def test_a_sync_handler_is_reported_for_when_its_time_is_over(app: Stoker, hire: Hire) -> None:
    gate, late = Gate(), list[str]()

    @app.task(timeout="100ms")
    def wait() -> str:
        gate.pass_through()
        late.append("said")
        return "too late"

    job = wait.enqueue()
    hire(chores=False)
    assert ended(job) is State.FAILED
    assert job.job.error == "ran longer than its limit of 0.1 s"
    gate.open()
    until(lambda: late)
    assert (job.state, job.job.result) == (State.FAILED, None)


def test_a_thread_that_runs_on_after_its_time_holds_up_nobody(app: Stoker, hire: Hire) -> None:
    gate = Gate()
    stuck = app.task(name="stuck", timeout="100ms")(gate.pass_through)
    quick = app.task(name="quick")(lambda: "quick")
    hire(concurrency=1)
    jobs = [stuck.enqueue(), stuck.enqueue()]
    assert [ended(job) for job in jobs] == [State.FAILED, State.FAILED]
    assert gate.inside == 2
    assert quick.enqueue().wait(timeout="30s") == "quick"
    gate.open()
    until(lambda: gate.inside == 0)
    assert quick.enqueue().wait(timeout="30s") == "quick"


def test_running_out_of_time_is_a_failure_like_others(app: Stoker, hire: Hire) -> None:
    attempts: list[int] = []

    @app.task(timeout="100ms", retry=fixed(0, limit=1))
    async def wait() -> str:
        attempts.append(current().attempt)
        await asyncio.sleep(LIMIT if len(attempts) == 1 else 0)
        return "quicker"

    job = wait.enqueue()
    hire()
    assert job.wait(timeout="30s") == "quicker"
    assert attempts == [1, 2]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_retry_handler_hears_of_the_lack_of_time(app: Stoker, hire: Hire, kind: str) -> None:
    said: list[str] = []
    gate = Gate()
    function = gate.pass_through if kind == "sync" else gate.pass_through_async
    task = app.task(timeout="100ms", retry=lambda job, failure: said.append(failure.message))
    job = task(function).enqueue()
    hire(chores=False)
    assert ended(job) is State.FAILED
    assert said == ["ran longer than its limit of 0.1 s"]
    gate.open()
