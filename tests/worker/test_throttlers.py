"""Workers and throttlers: in threads of one process, and in several processes on one store."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stoker import JobHandle, Maintenance, State, Stoker, Throttle
from stoker.desk import throttling
from stoker.desk.blocker import Reason
from stoker.desk.throttle_memory import recall
from tests.architecture.tree import PACKAGE, ROOT
from tests.servers.urls import fresh_url
from tests.worker.conftest import Hire
from tests.worker.throttled import AT_ONCE, make_app
from tests.worker.trouble import put_in_front_of
from tests.worker.waiting import Gate, until

JOBS = 60


def _ended(jobs: list[JobHandle[Any]]) -> None:
    until(lambda: all(job.job.ended for job in jobs))


def _one_at_a_time(throttle: Throttle) -> None:
    if not throttle.running:
        throttle.admit(throttle.candidates[0])
    for job in throttle.candidates[1:]:
        throttle.hold(job, "one at a time")


# -- in one process ----------------------------------------------------------------------------


def test_workers_start_what_is_admitted_and_go_on_when_something_ends(
    app: Stoker, hire: Hire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.worker.doormen.LOOK_AGAIN", 3_600_000_000)
    app.throttler("narrow")(_one_at_a_time)
    gate = Gate()
    hold = app.task(name="hold", queue="narrow")(gate.pass_through)
    jobs = [hold.enqueue() for _ in range(5)]
    hire()
    until(lambda: gate.came == 1)
    until(lambda: recall(app.desk.store, "narrow")[0].reasons)
    reasons = {blocker.reason: blocker.text for blocker in jobs[4].explain().blockers}
    assert reasons[Reason.THROTTLED] == (
        "the throttler of the queue narrow holds it: one at a time"
    )
    assert Reason.NO_THROTTLER not in reasons
    gate.open()
    _ended(jobs)
    assert gate.peak == 1
    assert [job.job.attempt for job in jobs] == [1] * 5


def test_a_throttler_that_does_not_come_back_holds_up_its_own_queue_alone(
    app: Stoker, hire: Hire
) -> None:
    asked, answer = threading.Event(), threading.Event()

    @app.throttler("stuck")
    def ponder(throttle: Throttle) -> None:
        asked.set()
        answer.wait()
        throttle.admit(throttle.candidates[0])

    app.throttler("narrow")(_one_at_a_time)
    tasks = {
        name: app.task(name=name, queue=name)(lambda: 1) for name in ("stuck", "narrow", "free")
    }
    stuck = tasks["stuck"].enqueue()
    worker = hire(concurrency=8)
    assert asked.wait(30)
    others = [tasks[name].enqueue() for name in ("narrow", "free", "narrow", "free")]
    _ended([job for job in others if job.job.queue == "narrow"])
    assert stuck.state is State.QUEUED
    answer.set()
    _ended([stuck, *others])
    assert worker.finished == 5


@pytest.mark.parametrize(
    "error",
    [
        LookupError("the books are out"),
        asyncio.CancelledError("the books are out"),
        SystemExit("the books are out"),
        KeyboardInterrupt("the books are out"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_throttler_that_fails_is_asked_again_after_a_pause(
    app: Stoker,
    hire: Hire,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: BaseException,
) -> None:
    monkeypatch.setattr(throttling, "_AFTER_FAILURE", 10_000)
    broken = True

    @app.throttler("narrow")
    def fail(throttle: Throttle) -> None:
        if broken:
            raise error
        throttle.admit(throttle.candidates[0])

    job = app.task(name="work", queue="narrow")(lambda: 1).enqueue()
    hire()
    until(lambda: recall(app.desk.store, "narrow")[0].error)
    (blocker,) = job.explain().blockers
    assert (blocker.reason, job.state) == (Reason.THROTTLER_FAILS, State.QUEUED)
    assert f"{type(error).__name__}: the books are out" in blocker.text
    assert "the throttler of the queue narrow failed" in caplog.text
    broken = False
    _ended([job])
    assert job.job.attempt == 1


def test_a_throttled_queue_gets_its_place_though_others_would_take_all(
    app: Stoker, hire: Hire
) -> None:
    app.throttler("narrow")(_one_at_a_time)
    plenty = app.task(name="plenty", queue="plenty")(lambda: None)
    app.enqueue_many([plenty.call() for _ in range(10_000)])
    job = app.task(name="work", queue="narrow")(
        lambda: app.desk.store.survey(["plenty"])[0].counts[State.QUEUED]
    ).enqueue()
    hire(concurrency=1)
    assert job.wait(timeout="30s") > 0


def test_a_ruling_whose_answer_is_lost_runs_nothing_twice(app: Stoker, hire: Hire) -> None:
    troubled = put_in_front_of(app)
    app.throttler("narrow")(_one_at_a_time)
    ran: list[int] = []
    work = app.task(name="work", queue="narrow")(ran.append)
    jobs = [work.enqueue(number) for number in range(3)]
    troubled.lose_next_grant = True
    hire()
    _ended(jobs)
    assert not troubled.lose_next_grant
    assert sorted(ran) == [0, 1, 2]
    assert [job.job.attempt for job in jobs] == [1] * 3


def test_a_queue_that_opens_wakes_a_worker(app: Stoker, hire: Hire, no_poll: None) -> None:
    end = app.desk.store.now() + 400_000
    app.configure("mail", maintenance=Maintenance(start=0, end=end))
    job = app.task(name="work", queue="mail")(lambda: None).enqueue()
    hire()
    _ended([job])
    assert (job.job.started_at or 0) >= end
    assert job.job.attempt == 1


# -- in several processes ----------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with fresh_url(request.param, tmp_path) as url:
        yield url


@pytest.fixture
def employ(url: str, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []

    def employ(*wishes: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.worker.throttled", url, str(tmp_path), *wishes]
        there = subprocess.Popen(
            command,
            cwd=ROOT,
            env={"PYTHONPATH": str(PACKAGE.parent)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(there)
        return there

    yield employ
    for process in processes:
        with process:
            process.communicate(timeout=30)


@contextmanager
def _app(url: str, folder: Path) -> Iterator[tuple[Stoker, list[JobHandle[Any]]]]:
    app = make_app(url, folder)
    try:
        yield app, app.enqueue_many([app["work"].call(number) for number in range(JOBS)])
    finally:
        app.close()


def _peak(folder: Path) -> int:
    """How many were at work at once, by the ledger."""
    inside = peak = 0
    for line in (folder / "ledger").read_text().splitlines():
        inside += 1 if line.startswith("+") else -1
        peak = max(peak, inside)
    return peak


def test_many_processes_that_ask_at_once_never_start_more_than_is_admitted(
    url: str, tmp_path: Path, employ: Callable[..., subprocess.Popen[str]]
) -> None:
    with _app(url, tmp_path) as (app, jobs):
        for _ in range(3):
            employ()
        _ended(jobs)
        assert 1 <= _peak(tmp_path) <= AT_ONCE
        assert [job.job.attempt for job in jobs] == [1] * JOBS
        assert recall(app.desk.store, "narrow")[0].state == JOBS


def test_a_worker_that_is_killed_while_it_decides_harms_nothing(
    url: str, tmp_path: Path, employ: Callable[..., subprocess.Popen[str]]
) -> None:
    with _app(url, tmp_path) as (app, jobs):
        victim = employ("die")
        assert victim.wait(30) == -signal.SIGKILL
        assert (tmp_path / "died").exists()
        assert {job.state for job in jobs} == {State.QUEUED}
        employ()
        _ended(jobs)
        assert {(job.job.attempt, job.job.crashes) for job in jobs} == {(1, 0)}
        assert recall(app.desk.store, "narrow")[0].state == JOBS
