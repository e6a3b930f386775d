"""A worker without jobs, or with all it can take: how little it asks of the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from stoker import Stoker
from stoker.store import Store
from stoker.worker import ferry
from tests.worker.conftest import Hire
from tests.worker.waiting import Gate, until

ONCE = {"notes", "enrol", "next_due", "hold", "tidy", "survey"}
"""At the start, or at long intervals."""


class Asked(Counter[str]):
    """Counts the calls of a store's verbs."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        verbs = {name for name in vars(Store) if not name.startswith("_")}
        for name in verbs - {"abreast", "portion", "bell", "now", "close"}:
            monkeypatch.setattr(store, name, self._counted(name, getattr(store, name)))

    def _counted(self, name: str, ask: Any) -> Any:
        def counted(*args: Any, **options: Any) -> Any:
            self[name] += 1
            return ask(*args, **options)

        return counted


@pytest.fixture
def asked(app: Stoker, monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(app.desk.store, monkeypatch)


def test_an_idle_worker_beats_and_looks_for_jobs_and_asks_for_nothing_else(
    hire: Hire, asked: Asked
) -> None:
    hire(ttl=1)
    until(lambda: asked["beat"] >= 8)
    assert asked.keys() <= ONCE | {"beat", "troubled", "transact"}
    assert asked["troubled"] <= asked["beat"]  # of which it is a part here
    assert {asked[verb] for verb in ONCE} <= {0, 1}


def test_a_worker_beats_once_for_all_the_jobs_it_runs_and_asks_for_nothing_else(
    app: Stoker, hire: Hire, asked: Asked
) -> None:
    gate, jobs = Gate(), 50
    task = app.task(gate.pass_through)
    hire(ttl=1, concurrency=jobs)
    app.enqueue_many([task.call() for _ in range(jobs)])
    until(lambda: gate.came == jobs)
    before = Counter(asked)
    until(lambda: asked["beat"] >= before["beat"] + 8)
    spent = Counter(asked) - before
    gate.open()
    assert spent.keys() <= {"beat", "troubled", "hold", "tidy"}
    assert spent["beat"] < jobs


def test_looks_that_find_nothing_need_not_ask_when_the_next_job_is_due(
    hire: Hire, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ferry, "_LONGEST_SLEEP", 0.01)
    hire()
    until(lambda: asked["transact"] >= 10)
    assert asked["next_due"] == 1


@pytest.fixture
def trips(app: Stoker, hire: Hire, asked: Asked, no_poll: None) -> Callable[[int], int]:
    """How often an idle worker goes to the store for so many jobs that come together."""
    task = app.task(lambda: None)
    worker = hire()

    def trips(jobs: int) -> int:
        until(lambda: worker._ferry._asleep)
        before = asked["transact"]
        app.enqueue_many([task.call() for _ in range(jobs)])
        until(lambda: worker.finished == jobs and worker._ferry._asleep)
        return asked["transact"] - before - 1  # the first one is our own

    return trips


def test_a_job_that_an_idle_worker_stands_in_wait_for_takes_one_trip_to_report(
    trips: Callable[[int], int],
) -> None:
    assert trips(1) == 1


def test_one_of_many_jobs_takes_a_trip_to_fetch_one_to_see_that_it_was_the_last_and_one_to_report(
    trips: Callable[[int], int],
) -> None:
    assert trips(2) in (2, 3, 4)
