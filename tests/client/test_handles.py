"""Handles: what became of a job, and what may be done about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest

from stoker import Context, JobFailed, State, Stoker, WaitTimeout, current, fixed
from stoker.client.task import Task
from stoker.errors import BadInput, IllegalMove, NotFound, StokerError
from stoker.testing import Harness


class Point(msgspec.Struct):
    x: int
    y: int


@dataclass
class Parcel:
    weight: Decimal
    to: list[Point]


A_UUID = UUID("12345678-1234-5678-1234-567812345678")
A_MOMENT = datetime(2030, 5, 17, 12, 30, tzinfo=UTC)


@pytest.fixture
def greet(app: Stoker) -> Task[[str], str]:
    @app.task(retry=fixed("10s", limit=1))
    def greet(name: str) -> str:
        if name == "nobody":
            raise LookupError("there is nobody")
        return f"hello {name}"

    return greet


Greet = Task[[str], str]


# -- looking -------------------------------------------------------------------------------


def test_a_handle_follows_the_state_of_its_job(stoker: Harness, greet: Greet) -> None:
    job = greet.enqueue("ann")
    seen = [job.state]
    stoker.drain()
    assert [*seen, job.state] == [State.QUEUED, State.FINISHED]


def test_a_handle_tells_its_id(app: Stoker, greet: Greet) -> None:
    job = greet.enqueue("ann")
    assert repr(job) == f"<JobHandle {job.id}>"
    assert app.job(job.id).job == job.job


def test_a_handle_on_a_job_that_never_was_says_so(app: Stoker) -> None:
    with pytest.raises(NotFound, match=r"there is no job 4711 \(any more\); is its"):
        _ = app.job(4711).state


def test_a_job_that_was_forgotten_is_not_found(stoker: Harness, app: Stoker, greet: Greet) -> None:
    job = greet.enqueue("ann")
    stoker.drain()
    stoker.clock.advance("61m")
    stoker.drain()
    with pytest.raises(NotFound, match=f"there is no job {job.id}"):
        _ = job.result


def test_progress_goes_from_nothing_to_one(stoker: Harness, app: Stoker) -> None:
    seen = []

    @app.task
    def walk(ctx: Context) -> None:
        ctx.progress(0.25)
        seen.append(handle.progress)

    handle = walk.enqueue()
    seen.append(handle.progress)
    stoker.drain()
    assert [*seen, handle.progress] == [0.0, 0.25, 1.0]


# -- results -------------------------------------------------------------------------------


def test_a_result_is_not_there_before_the_end(app: Stoker, greet: Greet) -> None:
    job = greet.enqueue("ann")
    with pytest.raises(StokerError, match=f"job {job.id} has not ended: it is QUEUED; use wait"):
        _ = job.result


def test_the_result_of_a_failed_job_is_its_failure(stoker: Harness, greet: Greet) -> None:
    job = greet.enqueue("nobody")
    stoker.run_for("10s")
    with pytest.raises(JobFailed, match=r"is FAILED: LookupError: there is nobody$") as caught:
        _ = job.result
    assert caught.value.job == job.job
    assert caught.value.job.attempt == 2


def test_a_handle_tells_why_its_job_does_not_run(app: Stoker, greet: Greet) -> None:
    job = greet.enqueue("ann")
    app.configure(job.job.queue, paused=True)
    reasons = [blocker.reason.value for blocker in job.explain().blockers]
    assert reasons == ["queue_paused", "no_worker"]
    app.desk.control.edit(job.id, {"name": "unheard-of"})
    assert job.explain().blockers[-1].text == "the app knows no task called 'unheard-of'"


def test_the_result_of_a_cancelled_job_is_that_it_was_cancelled(app: Stoker, greet: Greet) -> None:
    job = greet.enqueue("ann")
    job.cancel()
    with pytest.raises(JobFailed, match=f"job {job.id} is CANCELLED: cancelled"):
        _ = job.result


RESULTS: list[tuple[Any, Any]] = [
    (None, None),
    (int, 7),
    (str, "text"),
    (list[int], [1, 2]),
    (tuple[int, str], (1, "a")),
    (set[int], {1, 2}),
    (dict[str, float], {"a": 1.5}),
    (bytes, b"\x00\xff"),
    (datetime, A_MOMENT),
    (UUID, A_UUID),
    (Decimal, Decimal("1.10")),
    (State, State.FAILED),
    (Point, Point(1, 2)),
    (Parcel, Parcel(Decimal("0.1"), [Point(1, 2)])),
    (Point | None, None),
    (Point | None, Point(3, 4)),
]


@pytest.mark.parametrize(("hint", "value"), RESULTS, ids=[str(hint) for hint, _ in RESULTS])
def test_a_result_comes_back_as_the_type_the_function_returns(
    stoker: Harness, app: Stoker, hint: Any, value: Any
) -> None:
    def give() -> Any:
        return value

    give.__annotations__["return"] = hint
    job = app.task(give).enqueue()
    stoker.drain()
    assert job.result == value
    assert type(job.result) is type(value)


def test_a_result_without_a_hint_is_what_its_json_says(stoker: Harness, app: Stoker) -> None:
    @app.task
    def give():  # type: ignore[no-untyped-def]
        return {"point": Point(1, 2), "at": A_MOMENT}

    job = give.enqueue()
    stoker.drain()
    assert job.result == {"point": {"x": 1, "y": 2}, "at": "2030-05-17T12:30:00Z"}


def test_a_handle_made_by_id_knows_no_type(stoker: Harness, app: Stoker) -> None:
    @app.task
    def give() -> Point:
        return Point(1, 2)

    job = give.enqueue()
    stoker.drain()
    assert app.job(job.id).result == {"x": 1, "y": 2}


def test_a_result_of_another_type_than_promised_is_an_error(stoker: Harness, app: Stoker) -> None:
    @app.task
    def give() -> int:
        return "seven"  # type: ignore[return-value]

    job = give.enqueue()
    stoker.drain()
    with pytest.raises(BadInput, match=f"the result of job {job.id} is not what it should be"):
        _ = job.result


# -- waiting -------------------------------------------------------------------------------


def test_waiting_for_an_ended_job_gives_its_result_at_once(stoker: Harness, greet: Greet) -> None:
    job = greet.enqueue("ann")
    stoker.drain()
    assert job.wait() == "hello ann"


def test_waiting_ends_with_the_callers_patience_and_not_with_the_job(
    app: Stoker, greet: Greet
) -> None:
    job = greet.enqueue("ann")
    with pytest.raises(WaitTimeout, match=f"job {job.id} is still QUEUED; it goes on"):
        job.wait(timeout="10ms")
    with pytest.raises(TimeoutError):
        job.wait(timeout=0)
    assert job.state is State.QUEUED


# -- acting --------------------------------------------------------------------------------


def test_a_job_that_has_not_begun_is_cancelled_at_once(stoker: Harness, greet: Greet) -> None:
    job = greet.enqueue("ann")
    assert job.cancel() is State.CANCELLED
    assert stoker.drain() == 0


def test_a_running_job_is_asked_to_stop(stoker: Harness, app: Stoker) -> None:
    seen: list[Any] = []

    @app.task
    def run() -> None:
        seen.append(handle.cancel())
        seen.append(handle.job.cancel_requested)

    handle = run.enqueue()
    stoker.drain()
    assert seen == [State.RUNNING, True]


def test_an_ended_job_cannot_be_cancelled(stoker: Harness, greet: Greet) -> None:
    job = greet.enqueue("ann")
    stoker.drain()
    with pytest.raises(IllegalMove, match=f"cannot cancel job {job.id}: it is FINISHED"):
        job.cancel()


def test_a_failed_job_can_be_run_afresh(stoker: Harness, app: Stoker) -> None:
    weather = ["rain", "sun"]

    @app.task
    def picnic() -> str:
        today = weather.pop(0)
        if today == "rain":
            raise OSError(today)
        return today

    job = picnic.enqueue()
    stoker.drain()
    stoker.assert_failed(job, match="rain")
    job.retry()
    assert (job.state, job.job.attempt) == (State.QUEUED, 0)
    stoker.drain()
    assert job.result == "sun"


def test_a_live_job_cannot_be_run_afresh(app: Stoker, greet: Greet) -> None:
    with pytest.raises(IllegalMove, match=r"cannot revive job .*: it is QUEUED"):
        greet.enqueue("ann").retry()


def test_a_deleted_job_leaves_no_trace(stoker: Harness, greet: Greet) -> None:
    job = greet.enqueue("ann")
    job.delete()
    assert stoker.jobs() == []
    with pytest.raises(NotFound):
        job.delete()


def test_a_running_job_cannot_be_deleted(stoker: Harness, app: Stoker) -> None:
    @app.task
    def run() -> None:
        app.job(current().job.id).delete()

    job = run.enqueue()
    stoker.drain()
    stoker.assert_failed(job, match="cannot delete job .*: it is RUNNING")
