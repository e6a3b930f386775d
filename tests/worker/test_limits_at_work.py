"""Workers that are at work, or asleep, when an operator changes limits; and those over a rate."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from stoker import Stoker
from stoker.doors.cli.root import root
from stoker.store import Filter
from tests.servers.urls import fresh_url
from tests.worker.conftest import Hire
from tests.worker.test_idle import Asked
from tests.worker.waiting import Gate, until

PERIOD = 300_000


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where operators can come as well."""
    with fresh_url(request.param, tmp_path) as url:
        yield url


def test_what_an_operator_sets_holds_at_once_and_reaches_workers_that_sleep(
    app: Stoker, hire: Hire, home: str, no_poll: None
) -> None:
    def operator(*words: str) -> None:
        told = CliRunner(catch_exceptions=False).invoke(root, ["queues", *words, "--store", home])
        assert told.exit_code == 0, told.output

    gate = Gate()
    held = app.task(name="held", queue="q")(gate.pass_through)
    app.configure("q", paused=True)
    worker = hire()
    app.enqueue_many([held.call() for _ in range(4)])
    until(lambda: worker._ferry._asleep)
    assert gate.came == 0
    operator("set", "q", "capacity=1", "paused=no")
    until(lambda: gate.came == 1 and worker._ferry._asleep)
    operator("set", "q", "capacity=none", "rate=2 per day, burst 1")
    until(lambda: gate.came == 2 and worker._ferry._asleep)
    operator("set", "q", "rate=none", "capacity=3")
    until(lambda: gate.came == 3 and worker._ferry._asleep)
    operator("set", "q", "capacity=none")
    until(lambda: gate.came == 4)
    gate.open()
    until(lambda: worker.finished == 4)


def test_a_worker_over_a_rate_wakes_when_it_opens_and_asks_for_nothing_meanwhile(
    app: Stoker, hire: Hire, no_poll: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.configure("q", rate=f"1 per {PERIOD // 1000}ms, burst 1")
    task = app.task(name="quick", queue="q")(lambda: None)
    worker = hire()
    until(lambda: worker._ferry._asleep)
    asked = Asked(app.desk.store, monkeypatch)
    app.enqueue_many([task.call() for _ in range(4)])
    until(lambda: worker.finished == 4)
    starts = sorted(job.started_at or 0 for job in app.desk.store.find(Filter(queue="q")))
    assert min(after - before for before, after in pairwise(starts)) >= PERIOD
    # For each job: to report it, to be refused, to ask when to come again, and to fetch the next.
    assert asked["transact"] <= 1 + 3 * 4
    assert asked["next_due"] <= 2 * 4
