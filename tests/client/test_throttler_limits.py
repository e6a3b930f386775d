"""What throttlers can say: so many of a kind, shares, windows; and the limits that hold anyway."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta

import pytest

from stoker import Stoker, Throttle, parse_windows
from stoker.kernel.job import WHOLE_WEIGHT
from stoker.kernel.window import next_open
from stoker.store import Filter
from stoker.testing import Harness
from tests.client.throttling import HOUR, add_fetch, enqueue, keys, noting, per_key, start


@pytest.fixture(autouse=True)
def _fetch(app: Stoker) -> None:
    add_fetch(app)


def test_so_many_per_region(app: Stoker) -> None:
    per_key(app, {"east": 3, "west": 3})
    enqueue(app, ["east"] * 20 + ["west"] * 2)
    first = start(app)
    assert keys(first) == {"east": 3, "west": 2}
    app.desk.report.finish(first[0])
    assert keys(start(app)) == {"east": 1}


def test_so_much_percent_of_a_task(app: Stoker) -> None:
    app.task(name="report", queue="api")(lambda: None)

    @app.throttler("api")
    def a_fifth(throttle: Throttle) -> None:
        most = (throttle.settings.capacity or 0) * 20 // 100
        reports = sum(job.name == "report" for job in throttle.running)
        for job in throttle.candidates:
            reports += job.name == "report"
            if job.name != "report" or reports <= most:
                throttle.admit(job)

    app.configure("api", capacity=10)
    app.enqueue_many([app["report"].call() for _ in range(30)])
    enqueue(app, ["east"] * 30)
    assert Counter(job.name for job in start(app)) == {"report": 2, "fetch": 8}
    assert start(app) == []


def test_shares_of_forty_thirty_and_thirty_percent_by_weight(app: Stoker) -> None:
    """Region and weight are in the job: never more than its share, though others are idle."""

    @app.throttler("api")
    def shares(throttle: Throttle) -> None:
        percent = {"east": 40, "north": 30, "west": 30}
        used: Counter[str] = Counter()
        for job in throttle.running:
            used[json.loads(job.payload)["region"]] += job.weight
        for job in throttle.candidates:
            region = json.loads(job.payload)["region"]
            if region not in percent:
                throttle.hold(job, f"nobody knows the region {region}")
                continue
            share = int((throttle.settings.capacity or 0) * percent[region]) * WHOLE_WEIGHT // 100
            if used[region] + job.weight <= share:
                used[region] += job.weight
                throttle.admit(job)

    app.configure("api", capacity=100)
    regions = ["east"] * 150 + ["south"] + ["north"] * 10 + ["west"] * 40
    app.enqueue_many([app["fetch"].call(region) for region in regions])
    heavy = [app["fetch"].options(weight=8).call("north") for _ in range(5)]
    app.enqueue_many(heavy)
    running = start(app)
    by_region: Counter[str] = Counter()
    for job in running:
        by_region[json.loads(job.payload)["region"]] += job.weight // WHOLE_WEIGHT
    assert by_region == {"east": 40, "north": 26, "west": 30}
    assert start(app) == []
    (south,) = [job for job in app.desk.store.find(Filter(limit=1000)) if b"south" in job.payload]
    texts = [blocker.text for blocker in app.job(south.id).explain().blockers]
    assert "the throttler of the queue api holds it: nobody knows the region south" in texts


def test_the_limits_of_the_queue_hold_for_what_is_admitted(app: Stoker) -> None:
    @app.throttler("api")
    def admit_all(throttle: Throttle) -> None:
        for job in throttle.candidates:
            throttle.admit(job)

    app.configure("api", capacity=3, key_capacity=2)
    enqueue(app, ["east"] * 5 + ["west"] * 5)
    assert keys(start(app)) == {"east": 2, "west": 1}
    assert start(app) == []
    critical = app["fetch"].options(weight=0).enqueue()
    assert [job.id for job in start(app)] == [critical.id]


def test_held_jobs_use_up_nothing_of_a_rate_or_of_a_turn(app: Stoker, stoker: Harness) -> None:
    per_key(app, {"east": 1, "west": 9})
    app.configure("api", rate="4 per minute", fair=True)
    enqueue(app, ["east"] * 5 + ["west"] * 9)
    started = [job for _ in range(5) for job in start(app)]
    assert keys(started) == {"east": 1, "west": 3}
    stoker.clock.advance(timedelta(minutes=2))
    assert keys(start(app)) == {"west": 4}


def test_windows_can_be_said_by_a_throttler(app: Stoker, stoker: Harness) -> None:
    windows = parse_windows("05:00-07:00, 22:00-23:00")
    started = noting(app, stoker)

    @app.throttler("api")
    def hours(throttle: Throttle) -> None:
        opens = next_open(windows, throttle.now)
        for job in throttle.candidates:
            if opens > throttle.now:
                throttle.defer(job, opens, "closed")
            else:
                throttle.admit(job)

    begin = stoker.clock()
    app["note"].enqueue()
    app["note"].options(delay="8h").enqueue()
    stoker.run_for("1d")
    assert started == [(begin + 5 * HOUR, 1), (begin + 22 * HOUR, 1)]
