"""Middleware: around every handler, where the handler runs."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from stoker import Context, JobHandle, Middleware, State, Stoker, current, fixed
from stoker.kernel.outcome import Finished, Outcome
from tests.worker import apart
from tests.worker.conftest import Hire
from tests.worker.waiting import until


def ended(job: JobHandle[Any]) -> State:
    until(lambda: job.job.ended)
    return job.state


class Diary(Middleware):
    """Writes down what happens."""

    def __init__(self, name: str, pages: list[str]) -> None:
        self.name = name
        self.pages = pages

    def before(self, context: Context) -> None:
        self.pages.append(f"{self.name} before {context.job.name}")

    def after(self, context: Context, outcome: Outcome) -> None:
        self.pages.append(f"{self.name} after {type(outcome).__name__}")


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_middleware_is_called_before_and_after_every_handler(
    app: Stoker, hire: Hire, kind: str
) -> None:
    pages: list[str] = []
    app.middleware += [Diary("one", pages), Diary("two", pages)]

    @app.task(name="sync")
    def work() -> None:
        pages.append("work")

    @app.task(name="async")
    async def work_async() -> None:
        pages.append("work")

    job = app[kind].enqueue()
    hire()
    assert ended(job) is State.FINISHED
    assert pages == [
        f"one before {kind}",
        f"two before {kind}",
        "work",
        "one after Finished",
        "two after Finished",
    ]


def test_an_app_is_made_with_its_middleware() -> None:
    diary = Diary("one", [])
    assert Stoker("memory:", middleware=[diary]).middleware == [diary]


def test_middleware_sees_failures_and_every_try(app: Stoker, hire: Hire) -> None:
    pages: list[str] = []
    app.middleware.append(Diary("one", pages))

    @app.task(name="work", retry=fixed(0, limit=1))
    def work() -> None:
        raise ValueError

    job = work.enqueue()
    hire()
    assert ended(job) is State.FAILED
    assert pages == ["one before work", "one after Failed"] * 2


def test_middleware_runs_where_the_handler_runs_and_sees_its_context(
    app: Stoker, hire: Hire
) -> None:
    places: list[object] = []

    class Place(Middleware):
        def before(self, context: Context) -> None:
            places.append(threading.current_thread().name)
            places.append(current() is context)

    app.middleware.append(Place())
    job = app.task(lambda: threading.current_thread().name).enqueue()
    hire()
    assert [job.wait(timeout="30s"), True] == places


def test_middleware_of_the_worker_is_called_here_for_handlers_in_other_processes() -> None:
    apart.seen.clear()
    worker = apart.app.worker(concurrency=1)
    worker.start()
    assert apart.tell.enqueue("go").wait(timeout="30s") == ["there before tell"]
    forbidden = apart.tell.enqueue("forbidden")
    assert ended(forbidden) is State.FAILED
    worker.stop()
    assert str(forbidden.job.error).startswith("PermissionError: not today")
    before = "here before tell"
    assert apart.seen == [before, "here after Finished", before, "here after Failed"]


def test_middleware_that_fails_before_fails_the_job(app: Stoker, hire: Hire) -> None:
    ran: list[int] = []

    class Guard(Middleware):
        def before(self, context: Context) -> None:
            raise PermissionError("not today")

    app.middleware.append(Guard())
    job = app.task(lambda: ran.append(1)).enqueue()
    hire()
    assert ended(job) is State.FAILED
    assert str(job.job.error).startswith("PermissionError: not today")
    assert ran == []


@pytest.mark.parametrize("error", [ValueError("clumsy"), SystemExit(1)])
def test_middleware_that_fails_afterwards_takes_no_outcome_away(
    app: Stoker, hire: Hire, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    seen: list[Outcome] = []

    class Clumsy(Middleware):
        def after(self, context: Context, outcome: Outcome) -> None:
            raise error

    class Careful(Middleware):
        def after(self, context: Context, outcome: Outcome) -> None:
            seen.append(outcome)

    app.middleware += [Clumsy(), Careful()]
    task = app.task(lambda: 7)
    hire(concurrency=1)
    with caplog.at_level(logging.ERROR, logger="stoker.worker"):
        jobs = [task.enqueue(), task.enqueue()]
        assert [job.wait(timeout="30s") for job in jobs] == [7, 7]
    assert seen == [Finished(b"7")] * 2
    assert f"middleware failed after job {jobs[0].id}" in caplog.messages
