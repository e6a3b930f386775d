"""Nobody is hidden from a throttler, neither by jobs that are not due nor by held ones."""

from __future__ import annotations

from datetime import timedelta

import pytest

from stoker import Order, Stoker, Throttle
from stoker.desk import throttling
from stoker.desk.throttle_memory import recall
from stoker.testing import Harness
from tests.client.throttling import add_fetch, enqueue, keys, per_key, start

ORDERS = {
    "rank": {},
    "time": {"order": Order.TIME_RANK},
    "keys": {"key_capacity": 50},
    "fair": {"fair": True},
    "ageing": {"ageing": "1h"},
}


@pytest.fixture(autouse=True)
def _fetch(app: Stoker) -> None:
    add_fetch(app)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not more than five at once."""
    monkeypatch.setattr(throttling, "MOST_CANDIDATES", 5)


def _later(app: Stoker, count: int) -> None:
    app.enqueue_many([app["fetch"].options(delay="1h", rank=-9).call("later")] * count)


def test_a_thousand_jobs_that_wait_or_are_held_hide_nobody(app: Stoker, stoker: Harness) -> None:
    per_key(app, {"west": 1})
    _later(app, 1001)
    app.enqueue_many([app["fetch"].options(key="east").call("east")] * 1001)
    (west,) = enqueue(app, ["west"])
    assert stoker.drain(until_idle=False) == 1
    assert west.job.ended


def test_candidates_are_due_jobs_in_the_order_of_the_queue_so_many_at_once(
    app: Stoker, stoker: Harness, few: None
) -> None:
    asked: list[list[int]] = []

    @app.throttler("api")
    def look(throttle: Throttle) -> None:
        asked.append([job.id for job in throttle.candidates])

    _later(app, 7)
    last = [app["fetch"].options(rank=5).enqueue().id for _ in range(4)]
    first = [app["fetch"].enqueue().id for _ in range(8)]
    line = first + last
    assert start(app) == []
    assert asked == [line[:5], line[5:10], line[10:]]
    stoker.clock.advance(timedelta(seconds=1))
    start(app)
    assert asked[3:] == asked[:3]


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_held_jobs_keep_their_places_though_others_far_behind_start(
    app: Stoker, stoker: Harness, few: None, order: dict[str, object]
) -> None:
    limits = {"west": 3, "east": 0}
    per_key(app, limits)
    app.configure("api", **order)
    east = [job.id for job in enqueue(app, ["east"] * 12)]
    west = [job.id for job in enqueue(app, ["west"] * 4)]
    assert [job.id for job in start(app, 2)] == west[:2]
    stoker.clock.advance(timedelta(seconds=90))  # who stood aside has fallen due again
    limits["west"] = 5
    late = [job.id for job in enqueue(app, ["west"])]
    assert [job.id for job in start(app)] == west[2:] + late
    newcomer = [job.id for job in enqueue(app, ["east"])]
    limits["east"] = 100
    started = [job.id for _ in range(13) for job in start(app, 1)]
    assert started == east + newcomer
    assert start(app) == []
    assert recall(app.desk.store, "api")[0].aside == {}


def test_reasons_are_known_of_all_who_were_asked_about(
    app: Stoker, stoker: Harness, few: None
) -> None:
    per_key(app, {"east": 0})
    jobs = enqueue(app, ["east"] * 12)
    start(app)
    for job in (jobs[0], jobs[6], jobs[11]):
        texts = [blocker.text for blocker in job.explain().blockers]
        assert "the throttler of the queue api holds it: east is full" in texts


def test_whoever_ends_while_aside_is_forgotten_though_there_are_many(
    app: Stoker, stoker: Harness, few: None
) -> None:
    per_key(app, {"east": 0, "west": 9})
    east = enqueue(app, ["east"] * 12)
    enqueue(app, ["west"])
    assert keys(start(app)) == {"west": 1}
    assert len(recall(app.desk.store, "api")[0].aside) == 12
    for job in east[3:9]:
        job.cancel()
    stoker.clock.advance(timedelta(minutes=2))
    assert start(app) == []
    left = {job.id for job in (*east[:3], *east[9:])}
    assert recall(app.desk.store, "api")[0].aside.keys() == left
