"""Ending jobs in transactions of the caller's own: the effect and the end together."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stoker import Context, JobFailed, Stoker
from stoker.errors import LeaseLost
from stoker.kernel.job import Job, State
from stoker.kernel.queue import QueueSettings
from stoker.store.sqlite import SqliteStore
from tests.store.outsiders import Spoilt, at_work
from tests.store.sqlite.busy_day import desk_at
from tests.store.sqlite.within.connections import (
    Kind,
    assert_balanced,
    effects,
    kinds,
    make_effects,
    of_python,
    plain,
    run,
)


@plain
def test_an_effect_and_the_end_of_its_job_are_committed_together(
    kind: Kind, app: Stoker, path: Path
) -> None:
    @app.task(retry="fixed 10ms x2")
    def work(context: Context) -> dict[str, int]:
        with kind.opened(path) as own:
            run(own, "INSERT INTO effect VALUES (1)")
            context.finish({"try": context.attempt}, within=own)
            if context.attempt == 1:
                raise Spoilt
        return {"does not count": 0}

    job = work.enqueue()
    make_effects(kind, path)
    with at_work(app):
        assert job.wait(timeout="60s") == {"try": 2}
    assert effects(kind, path) == 1
    assert_balanced(app.desk.store)


@kinds
def test_a_job_has_ended_when_the_transaction_commits(
    kind: Kind, store: SqliteStore, path: Path
) -> None:
    desk = desk_at(store)
    desk.control.configure("q", QueueSettings(key_capacity=1))
    desk.intake.enqueue_many([Job("q", key="k", payload=b"long" * 1000), Job("q", key="k")])
    (job,) = desk.dispatch.claim(["q"], 2)
    with closing(store.bell.listen()) as ear:
        with kind.opened(path) as own:
            desk.report.finish_within(own, job, b"result")
            assert store.get([job.id])[job.id].state is State.RUNNING
        assert ear.wait(10) == {"q"}, "room was made"
    assert store.get([job.id])[job.id].result == b"result"
    assert len(desk.dispatch.claim(["q"], 2)) == 1
    assert_balanced(store)


@of_python
def test_a_handler_that_does_not_commit_has_failed(kind: Kind, app: Stoker, path: Path) -> None:
    @app.task
    def work(context: Context) -> None:
        with closing(sqlite3.connect(path)) as own:
            context.finish(within=own)

    with at_work(app), pytest.raises(JobFailed, match="was not committed"):
        work.enqueue().wait(timeout="60s")


def take_effect(kind: Kind, path: Path, end: Callable[[Any], object]) -> None:
    with kind.opened(path) as own:
        run(own, "INSERT INTO effect VALUES (1)")
        end(own)


@kinds
def test_whoever_has_lost_its_lease_cannot_commit(kind: Kind, app: Stoker, path: Path) -> None:
    desk = app.desk
    desk.intake.enqueue(Job("q"))
    (job,) = desk.dispatch.claim(["q"])
    desk.report.release(job)
    (again,) = desk.dispatch.claim(["q"])
    make_effects(kind, path)
    with pytest.raises(LeaseLost, match=f"job {job.id} is no longer yours"):
        take_effect(kind, path, lambda own: desk.report.finish_within(own, job))
    with kind.opened(path) as own:
        run(own, "INSERT INTO effect VALUES (2)")
        with pytest.raises(LeaseLost):
            desk.report.finish_within(own, job)  # and goes on as if nothing had happened
    assert effects(kind, path) == 0
    assert desk.store.get([job.id])[job.id] == again
