"""The chores: done by one of several workers, and by another when that one leaves."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from stoker import State, Stoker
from stoker.desk.clerk import Clerk
from stoker.watch import run_chores
from stoker.worker import worker as worker_module
from tests.worker.conftest import Hire
from tests.worker.waiting import until


class Rota:
    """Who has asked for the turn, and who has had it."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.had: Counter[str] = Counter()

    def run(self, clerk: Clerk, owner: str, **how: Any) -> dict[str, int] | None:
        done = run_chores(clerk, owner, **how)
        self.asked[owner] += 1
        if done is not None:
            self.had[owner] += 1
        return done


@pytest.fixture
def rota(monkeypatch: pytest.MonkeyPatch) -> Rota:
    rota = Rota()
    monkeypatch.setattr(worker_module, "run_chores", rota.run)
    return rota


def test_exactly_one_of_several_workers_does_the_chores(
    app: Stoker, hire: Hire, rota: Rota
) -> None:
    for _ in range(3):
        hire(ttl=1)
    until(lambda: len(rota.asked) == 3 and min(rota.asked.values()) >= 3)
    (owner,) = rota.had
    assert rota.had[owner] >= 3


def test_another_does_the_chores_when_that_worker_stops(
    app: Stoker, hire: Hire, rota: Rota
) -> None:
    workers = [hire(ttl=1), hire(ttl=1)]
    until(lambda: rota.had)
    (first,) = rota.had
    (leaving,) = [worker for worker in workers if worker._owner == first]
    leaving.stop()
    until(lambda: len(rota.had) == 2)
    assert set(rota.had) == {worker._owner for worker in workers}


def test_a_worker_without_chores_does_none(app: Stoker, hire: Hire, rota: Rota) -> None:
    hire(ttl=1, chores=False)
    hire(ttl=1)
    until(lambda: sum(rota.asked.values()) >= 3)
    assert len(rota.asked) == 1


def test_the_job_of_a_dead_worker_is_recovered_and_run(app: Stoker, hire: Hire) -> None:
    job = app.task(lambda: "recovered").enqueue()
    dead = app.desk.dispatch.open_session("dead", ttl=1)
    claimed: list[Any] = app.desk.dispatch.claim(["default"], visibility=1)
    assert (len(claimed), job.state) == (1, State.RUNNING)
    hire(ttl=1)
    assert job.wait(timeout="30s") == "recovered"
    assert (job.job.attempt, job.job.crashes) == (2, 1)
    until(lambda: dead not in {session.id for session in app.desk.store.sessions()})


def test_schedules_tick_with_the_chores(app: Stoker, hire: Hire) -> None:
    @app.task(repeat="every 200ms; overlap=allow")
    def tick() -> None: ...

    hire(ttl=1)
    until(lambda: app.desk.store.survey(["default"])[0].counts[State.FINISHED] >= 2)
