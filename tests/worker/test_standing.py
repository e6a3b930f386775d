"""An idle worker leaves its claim standing: a job starts by the commit that brings it."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from stoker import JobHandle, State, Stoker, Task, Worker
from stoker.kernel.job import Job
from stoker.store import Claim
from stoker.store.postgres import PostgresStore
from stoker.worker import ferry
from tests.faults.nemesis import ROOT, environment
from tests.servers import postgres, valkey
from tests.servers.urls import fresh_url
from tests.worker.conftest import Hire
from tests.worker.waiting import LIMIT, until

Warm = Callable[..., Worker]


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with fresh_url(request.param, tmp_path) as url:
        yield url


@pytest.fixture
def ran() -> list[int]:
    """The numbers of the jobs that ran, as often as they did."""
    return []


@pytest.fixture
def elsewhere(home: str, app: Stoker, ran: list[int]) -> Iterator[Task[..., Any]]:
    """The worker's task as one who enqueues knows it, over a store of his own where that can be."""
    app.task(name="work")(ran.append)
    if home == "memory:":
        yield app["work"]
    else:
        other = Stoker(home)
        yield other.task(name="work")(ran.append)
        other.close()


def waits(worker: Worker) -> bool:
    """Is the worker idle, and has it left its claim standing?"""
    return worker._ferry._asleep and worker._ferry._standing is not None


@pytest.fixture
def warm(hire: Hire, elsewhere: Task[..., Any], ran: list[int]) -> Warm:
    """Hires a worker that has had a job before, and waits for the next."""

    def warm(**settings: Any) -> Worker:
        worker = hire(**settings)
        before = len(ran)
        elsewhere.enqueue(0).wait(timeout=LIMIT)
        until(lambda: waits(worker) and len(ran) == before + 1)
        time.sleep(0.06)  # PostgreSQL starts nothing at once in a flood of rings
        ran.clear()
        return worker

    return warm


@pytest.fixture
def claims(app: Stoker, monkeypatch: pytest.MonkeyPatch) -> list[Claim]:
    """What workers ask for."""
    asked: list[Claim] = []
    transact = app.desk.store.transact

    def note(changes: Any, claims: Any = ()) -> Any:
        asked.extend(claims)
        return transact(changes, claims)

    monkeypatch.setattr(app.desk.store, "transact", note)
    return asked


def test_a_lone_job_starts_without_being_claimed(
    warm: Warm,
    elsewhere: Task[..., Any],
    ran: list[int],
    claims: list[Claim],
    no_poll: None,
) -> None:
    worker = warm()
    claims.clear()
    job = elsewhere.enqueue(7)
    job.wait(timeout=LIMIT)
    until(lambda: waits(worker))
    assert ran == [7]
    assert len(claims) == 1  # with the report, and for what comes next
    assert (job.job.attempt, job.job.crashes) == (1, 0)


def test_a_job_whose_ring_was_lost_is_found(
    warm: Warm, elsewhere: Task[..., Any], ran: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = warm()
    monkeypatch.setattr(ferry, "_LONGEST_SLEEP", 0.05)
    monkeypatch.setattr(ferry, "_STRAYS_SECONDS", 0.1)
    monkeypatch.setattr(worker._ferry, "_take_errand", lambda _: None)
    job = elsewhere.enqueue(7)
    worker._ferry.wake()
    job.wait(timeout=LIMIT)
    assert (ran, job.job.attempt) == ([7], 1)


@pytest.mark.parametrize("home", ["postgres", "redis"], indirect=True)
def test_a_job_whose_ring_was_lost_with_the_connection_is_found_as_soon_as_that_is_known(
    warm: Warm,
    app: Stoker,
    elsewhere: Task[..., Any],
    ran: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = warm()
    monkeypatch.setattr(ferry, "_LONGEST_SLEEP", 0.05)
    monkeypatch.setattr(ferry, "_STRAYS_SECONDS", 3600.0)
    lost = threading.Event()
    monkeypatch.setattr(worker._ferry, "_take_errand", lambda _: lost.set())
    job = elsewhere.enqueue(7)
    assert lost.wait(LIMIT)
    cut_off(app)
    job.wait(timeout=LIMIT / 2)
    assert (ran, job.job.attempt) == ([7], 1)


def cut_off(app: Stoker) -> None:
    """End the connection on which the app's worker listens."""
    store = app.desk.store
    if isinstance(store, PostgresStore):
        assert store.bell._ear._connection is not None
        ear = store.bell._ear._connection.info.backend_pid
        with psycopg.connect(postgres.default_url()) as connection:
            connection.execute("SELECT pg_terminate_backend(%s)", [ear])
    else:
        with valkey.default_server().client() as client:
            assert client.client_kill_filter(_type="pubsub") == 1


def test_a_ring_that_comes_late_starts_nothing_twice(
    warm: Warm, elsewhere: Task[..., Any], ran: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = warm()
    heard: list[Job] = []
    take = worker._ferry._take_errand

    def note(brought: list[Job]) -> None:
        heard.extend(brought)
        take(brought)

    monkeypatch.setattr(worker._ferry, "_take_errand", note)
    elsewhere.enqueue(7).wait(timeout=LIMIT)
    until(lambda: waits(worker))
    assert len(heard) == 1
    worker._ferry._take_errand(heard)
    elsewhere.enqueue(8).wait(timeout=LIMIT)
    assert ran == [7, 8]


def test_whoever_stops_is_not_waited_for(
    warm: Warm, elsewhere: Task[..., Any], hire: Hire, ran: list[int]
) -> None:
    warm().stop()
    job = elsewhere.enqueue(7)
    assert _untouched(job)
    hire()
    job.wait(timeout=LIMIT)
    assert (ran, job.job.attempt) == ([7], 1)


def test_what_is_started_for_a_worker_that_takes_nothing_new_goes_back(
    warm: Warm, elsewhere: Task[..., Any], ran: list[int]
) -> None:
    worker = warm()
    worker._ferry.accepting = False
    job = elsewhere.enqueue(7)
    until(lambda: worker._ferry.finished == 2)
    assert _untouched(job)
    worker._ferry.accepting = True
    worker._ferry.wake()
    job.wait(timeout=LIMIT)
    assert (ran, job.job.attempt) == ([7], 1)


def _untouched(job: JobHandle[Any]) -> bool:
    facts = job.job
    return (facts.state, facts.attempt, facts.crashes) == (State.QUEUED, 0, 0)


def test_many_who_enqueue_and_many_who_wait_do_each_job_once(
    warm: Warm, elsewhere: Task[..., Any], hire: Hire, ran: list[int]
) -> None:
    warm(concurrency=1)
    hire(concurrency=2)
    hire(concurrency=3)
    jobs: list[JobHandle[Any]] = []

    def enqueue(first: int) -> None:
        for number in range(first, first + 60):
            jobs.append(elsewhere.enqueue(number))
            time.sleep(0.002 * (number % 5))

    people = [threading.Thread(target=enqueue, args=[1000 * place]) for place in range(3)]
    for each in people:
        each.start()
    for each in people:
        each.join()
    for job in jobs:
        job.wait(timeout=LIMIT)
    assert Counter(ran) == Counter(first + n for first in (0, 1000, 2000) for n in range(60))
    assert {(job.job.attempt, job.job.crashes) for job in jobs} == {(1, 0)}


@pytest.mark.parametrize("home", ["sqlite", "postgres", "redis"], indirect=True)
def test_nothing_is_started_for_a_worker_that_was_killed(
    home: str, elsewhere: Task[..., Any]
) -> None:
    command = [sys.executable, "-m", "tests.worker.stander", home]
    with subprocess.Popen(command, cwd=ROOT, env=environment()) as process:

        def is_served_at_once() -> bool:
            served = elsewhere.enqueue(0)
            stood = served.state is not State.QUEUED
            served.wait(timeout=LIMIT)
            return stood

        try:
            until(is_served_at_once, "for a claim that stands")
            time.sleep(0.3)  # so that it stands again
        finally:
            process.kill()
    job = elsewhere.enqueue(2)
    assert _untouched(job)
