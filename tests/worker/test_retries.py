"""Failed tries: the policy's word, the retry handler's word, and the handler's own wish."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from stoker import (
    Again,
    Failure,
    GiveUp,
    Job,
    JobHandle,
    Policy,
    Retry,
    State,
    Stoker,
    by_error,
    current,
    custom,
    fixed,
    never,
)
from stoker.kernel.policy import DAY
from stoker.testing import harness
from stoker.watch import run_chores
from stoker.worker.tasks import RetryHandler
from tests.worker.conftest import Hire
from tests.worker.waiting import until

SECOND = 1_000_000


def ended(job: JobHandle[Any]) -> Job:
    until(lambda: job.job.ended)
    return job.job


def failing(app: Stoker, retry: Any, times: int = 10**6) -> tuple[Any, list[int]]:
    """A task that fails so many times, and the tries it has had."""
    tries: list[int] = []

    @app.task(name="fail", retry=retry)
    def fail(word: str = "old") -> str:
        tries.append(current().attempt)
        if len(tries) <= times:
            raise ConnectionError("the server hung up")
        return word

    return fail, tries


# -- by policy -----------------------------------------------------------------------------


def test_a_failed_try_is_repeated_until_one_succeeds(app: Stoker, hire: Hire) -> None:
    fail, tries = failing(app, fixed("10ms"), times=2)
    job = fail.enqueue()
    hire()
    assert job.wait(timeout="30s") == "old"
    assert tries == [1, 2, 3]
    assert job.job.error is None


def test_a_job_whose_retries_are_spent_has_failed(app: Stoker, hire: Hire) -> None:
    fail, tries = failing(app, "fixed 10ms x2")
    hire()
    job = ended(fail.enqueue())
    assert (job.state, tries) == (State.FAILED, [1, 2, 3])
    assert str(job.error).startswith("ConnectionError: the server hung up\nTraceback")


def test_the_kind_of_error_chooses_the_policy(app: Stoker, hire: Hire) -> None:
    @app.task(retry=by_error({OSError: fixed("10ms", limit=2)}, otherwise=never()))
    def fail(kind: str) -> None:
        raise {"os": ConnectionError, "value": ValueError}[kind]("oh")

    hire()
    assert [ended(fail.enqueue(kind)).attempt for kind in ("os", "value")] == [3, 1]


# -- by handler ----------------------------------------------------------------------------


def test_a_retry_handler_gets_a_copy_of_the_job_and_the_failure(app: Stoker, hire: Hire) -> None:
    seen: list[tuple[Job, Failure]] = []

    def ask(job: Job, failure: Failure) -> None:
        seen.append((job, failure))

    fail, _ = failing(app, ask)
    job = fail.enqueue("a")
    hire()
    ended(job)
    ((copy, failure),) = seen
    assert (copy.id, copy.attempt, copy.payload) == (job.id, 1, b'{"word":"a"}')
    assert failure.kinds[:2] == ("builtins.ConnectionError", "builtins.OSError")
    assert failure.message.startswith("ConnectionError: the server hung up")
    with pytest.raises(AttributeError):
        copy.payload = b"scribbled"  # type: ignore[misc]
    assert job.job.payload == b'{"word":"a"}'


def test_a_retry_handler_changes_time_and_payload(app: Stoker, hire: Hire) -> None:
    times = []

    def ask(job: Job, failure: Failure) -> Again:
        times.append(app.desk.store.now() + 200_000)
        return Again(times[0], payload=b'{"word": "new"}', rank=3)

    fail, tries = failing(app, ask, times=1)
    job = fail.enqueue("old")
    hire()
    assert job.wait(timeout="30s") == "new"
    assert (tries, job.job.rank) == ([1, 2], 3)
    assert (job.job.started_at or 0) >= times[0]


@pytest.mark.parametrize("delay", [True, 0.01, timedelta(milliseconds=10)])
def test_a_retry_handler_may_name_a_delay(app: Stoker, hire: Hire, delay: object) -> None:
    fail, tries = failing(app, lambda job, failure: delay if job.attempt < 3 else None)
    hire()
    assert ended(fail.enqueue()).state is State.FAILED
    assert tries == [1, 2, 3]


@pytest.mark.parametrize("verdict", [None, False, GiveUp()])
def test_a_retry_handler_may_give_the_job_up(app: Stoker, hire: Hire, verdict: object) -> None:
    fail, tries = failing(app, lambda job, failure: verdict)
    hire()
    job = ended(fail.enqueue())
    assert (job.state, tries) == (State.FAILED, [1])
    assert str(job.error).startswith("ConnectionError: the server hung up")


def test_a_retry_handler_may_give_a_reason(app: Stoker, hire: Hire) -> None:
    fail, _ = failing(app, lambda job, failure: GiveUp("the server was sold"))
    hire()
    assert ended(fail.enqueue()).error == "the server was sold"


def raising(job: Job, failure: Failure) -> None:
    raise LookupError("no opinion")


def says(**what: Any) -> RetryHandler:
    return lambda job, failure: Again(**what)


@pytest.mark.parametrize(
    ("handler", "complaint"),
    [
        (raising, "given up, for the retry handler raised LookupError: no opinion"),
        (lambda job, failure: "soon", "the retry handler returned 'soon', which is no verdict"),
        (lambda job, failure: -1, "the retry handler returned a bad delay"),
        (says(at=1.5), "the moment 1.5 (µs) lies outside"),
        (says(at=0, payload="text"), "said: payload must be bytes, not str"),
        (says(at=0, rank="high"), "raised BadInput: rank must be a whole number"),
        (lambda job, failure: GiveUp("\ud800"), "holds half a character"),
    ],
)
def test_a_retry_handler_that_cannot_be_understood_has_given_the_job_up(
    app: Stoker, hire: Hire, handler: RetryHandler, complaint: str
) -> None:
    fail, tries = failing(app, handler)
    hire()
    job = ended(fail.enqueue())
    assert (job.state, tries) == (State.FAILED, [1])
    assert complaint in str(job.error)
    assert "the server hung up" in str(job.error)


# -- decided elsewhere ---------------------------------------------------------------------


def lose_to_a_timeout(app: Stoker, job: JobHandle[Any]) -> None:
    """Let a job run out of its millisecond where nobody has its code; then it has all day."""
    assert job.job.policy.timeout == 1000
    app.desk.dispatch.claim(["default"])
    until(lambda: run_chores(app.desk.clerk, "watch") and job.job.undecided)
    app.desk.control.edit(job.id, {"policy": msgspec.structs.replace(job.job.policy, timeout=DAY)})


def test_a_job_that_failed_elsewhere_is_decided_before_it_runs(app: Stoker, hire: Hire) -> None:
    diary: list[Any] = []

    def ask(job: Job, failure: Failure) -> Again:
        diary.append(("asked", job.attempt, failure.message))
        return Again(job.due_at, payload=b'{"word": "new"}')

    @app.task(retry=ask, timeout="1ms")
    def work(word: str) -> None:
        diary.append(("ran", current().attempt, word))

    job = work.enqueue("old")
    lose_to_a_timeout(app, job)
    hire()
    assert ended(job).state is State.FINISHED
    assert diary == [("asked", 1, "ran longer than its limit of 0.001 s"), ("ran", 2, "new")]


def test_a_job_that_failed_elsewhere_may_be_given_up_without_running(
    app: Stoker, hire: Hire
) -> None:
    ran: list[int] = []
    task = app.task(retry=lambda job, failure: GiveUp("enough"), timeout="1ms")
    job = task(lambda: ran.append(1)).enqueue()
    lose_to_a_timeout(app, job)
    hire()
    assert (ended(job).state, job.job.error, job.job.attempt) == (State.FAILED, "enough", 1)
    assert ran == []


def test_each_failure_elsewhere_counts_as_a_try() -> None:
    app, asked, ran = Stoker("memory:"), list[int](), list[int]()

    def ask(job: Job, failure: Failure) -> bool:
        asked.append(job.attempt)
        return job.attempt < 3

    @app.task(retry=ask, timeout="1m")
    def work() -> None:
        ran.append(current().attempt)
        stoker.clock.advance("1m")

    with harness(app) as stoker:
        job = work.enqueue()
        stoker.drain()
        assert job.state is State.FAILED
    assert (ran, asked) == ([1, 2, 3], [1, 2, 3])


def test_a_job_whose_retry_handler_is_not_known_here_is_put_off(app: Stoker, hire: Hire) -> None:
    ran: list[int] = []
    app.task(name="work")(lambda: ran.append(1))
    policy = Policy(retry=custom("somebody"), timeout=1000)
    job = app.job(app.desk.intake.enqueue(Job("default", "work", policy=policy)).id)
    lose_to_a_timeout(app, job)
    hire()
    until(lambda: job.job.due_at > app.desk.store.now() + 30 * SECOND)
    assert (job.state, ran) == (State.QUEUED, [])
    assert (job.job.undecided, job.job.error) == (True, "ran longer than its limit of 0.001 s")


# -- by the handler's own wish -------------------------------------------------------------


def test_a_handler_may_ask_to_be_tried_again_in_its_own_time(app: Stoker, hire: Hire) -> None:
    started: list[float] = []

    @app.task
    def busy() -> str:
        started.append(time.time())
        if current().attempt == 1:
            raise Retry("200ms", "the line is engaged")
        return str(current().job.error)

    job = busy.enqueue()
    hire()
    assert job.wait(timeout="30s").startswith("Retry: the line is engaged")
    assert started[1] - started[0] >= 0.2


def test_asking_to_be_tried_again_goes_before_the_policy(app: Stoker, hire: Hire) -> None:
    attempts: list[int] = []

    @app.task(retry=never())
    async def busy() -> None:
        attempts.append(current().attempt)
        if len(attempts) < 4:
            raise Retry(0)

    hire()
    assert ended(busy.enqueue()).state is State.FINISHED
    assert attempts == [1, 2, 3, 4]
