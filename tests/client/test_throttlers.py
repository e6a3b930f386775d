"""Throttlers: code of the user decides which jobs of a queue may start. On every engine."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

import pytest

from stoker import Context, Desk, Job, JobHandle, State, Stoker, Throttle, parse_windows
from stoker.desk import throttling
from stoker.desk.blocker import Reason
from stoker.desk.throttle_memory import recall
from stoker.errors import BadInput
from stoker.kernel.job import WHOLE_WEIGHT
from stoker.kernel.window import next_open
from stoker.store import Filter
from stoker.testing import Harness

HOUR = 3_600_000_000


@pytest.fixture(autouse=True)
def fetch(app: Stoker) -> None:
    @app.task(name="fetch", queue="api")
    def fetch(region: str = "") -> str:
        return region


def enqueue(app: Stoker, regions: Iterable[str]) -> list[JobHandle[str]]:
    return [app["fetch"].options(key=region).enqueue(region) for region in regions]


def states(jobs: Iterable[JobHandle[str]]) -> list[str]:
    return [job.state.name for job in jobs]


def start(app: Stoker, room: int = 1000) -> list[Job]:
    """Start what the throttler lets, as a worker with so much room does, and keep it running."""
    app.ensure_throttlers()
    asked = app.desk.throttling.ask("api", app.throttlers["api"], room=room, owner="me")
    return [] if asked.ruling is None else app.desk.throttling.carry_out(asked.ruling)


def keys(jobs: Iterable[Job]) -> Counter[str | None]:
    return Counter(job.key for job in jobs)


def _noting(app: Stoker, stoker: Harness) -> list[tuple[int, int]]:
    """When the jobs of the task `note` run, and in which try."""
    started: list[tuple[int, int]] = []

    @app.task(name="note", queue="api")
    def note(context: Context) -> None:
        started.append((stoker.clock(), context.job.attempt))

    return started


# -- verdicts ----------------------------------------------------------------------------------


def test_a_function_decides_which_jobs_start(app: Stoker, stoker: Harness) -> None:
    @app.throttler("api")
    def only_even(throttle: Throttle) -> None:
        for job in throttle.candidates:
            if job.id % 2 == 0:
                throttle.admit(job)

    jobs = enqueue(app, "abcdef")
    assert stoker.drain() == 3
    assert states(jobs) == ["QUEUED", "FINISHED"] * 3


def test_it_sees_the_candidates_in_order_what_runs_the_queue_the_time_and_its_state(
    app: Stoker, stoker: Harness
) -> None:
    seen: list[Throttle] = []

    @app.throttler("api")
    def look(throttle: Throttle) -> None:
        seen.append(throttle)
        throttle.state = {"asked": len(seen)}
        throttle.admit(throttle.candidates[0])

    app.configure("api", capacity=5)
    low, high = app["fetch"].options(rank=5).enqueue(), app["fetch"].options(rank=1).enqueue()
    critical = app["fetch"].options(weight=0, rank=9).enqueue()
    app["fetch"].options(delay="1h").enqueue()
    assert [job.id for job in start(app, 3)] == [high.id]
    assert [job.id for job in start(app, 3)] == [low.id]
    first, second = seen
    assert [job.id for job in first.candidates] == [high.id, low.id, critical.id]
    assert [job.weight for job in first.candidates] == [WHOLE_WEIGHT, WHOLE_WEIGHT, 0]
    assert (first.queue, first.running, first.room) == ("api", [], 3)
    assert (first.settings.capacity, first.now) == (5, stoker.clock())
    assert [job.id for job in second.running] == [high.id]
    assert recall(app.desk.store, "api")[0].state == {"asked": 2}


def test_a_job_that_is_refused_ends_with_the_reason_and_its_parent_hears_of_it(
    app: Stoker, stoker: Harness
) -> None:
    @app.throttler("api")
    def refuse(throttle: Throttle) -> None:
        for job in throttle.candidates:
            throttle.refuse(job, "the contract has ended")

    @app.task(name="parent")
    def parent(context: Context) -> None:
        if not context.job.failed_children:
            context.spawn([app["fetch"].call("east")])

    above = app["parent"].enqueue()
    stoker.drain()
    (child,) = app.desk.store.find(Filter(queue="api"))
    assert (child.state, child.attempt) == (State.FAILED, 0)
    assert child.error == "throttled: the contract has ended"
    assert (above.job.failed_children, above.job.open_children) == (1, 0)


def test_a_refused_job_that_repeats_has_lost_this_run_alone(app: Stoker, stoker: Harness) -> None:
    @app.throttler("api")
    def refuse_once(throttle: Throttle) -> None:
        for job in throttle.candidates:
            if throttle.state is None:
                throttle.refuse(job, "not today")
            else:
                throttle.admit(job)
        throttle.state = "refused once"

    app.task(name="daily", queue="api", repeat="every 1h")(lambda: None)
    app.ensure_schedules()
    assert (stoker.run_for("1h"), stoker.run_for("1h")) == (0, 1)


@pytest.mark.parametrize("as_datetime", [False, True])
def test_a_job_that_is_put_off_runs_at_the_new_time(
    app: Stoker, stoker: Harness, as_datetime: bool
) -> None:
    started = _noting(app, stoker)
    noon = stoker.clock() + 12 * HOUR
    until = datetime.fromtimestamp(noon / 1e6, UTC) if as_datetime else noon

    @app.throttler("api")
    def at_noon(throttle: Throttle) -> None:
        for job in throttle.candidates:
            if throttle.now < noon:
                throttle.defer(job, until, "after lunch")
            else:
                throttle.admit(job)

    job = app["note"].enqueue()
    stoker.run_for("1h")
    blocker = job.explain().blockers[0]
    assert (blocker.reason, blocker.until) == (Reason.NOT_DUE, noon)
    assert blocker.text == "it was put off: throttled: after lunch"
    stoker.run_for("1d")
    assert started == [(noon, 1)]


def test_jobs_that_are_held_keep_their_place(app: Stoker, stoker: Harness) -> None:
    let = {"west"}

    @app.throttler("api")
    def by_region(throttle: Throttle) -> None:
        for job in throttle.candidates:
            if job.key in let:
                throttle.admit(job)

    jobs = enqueue(app, ["east", "east", "west"])
    assert [job.id for job in start(app)] == [jobs[2].id]
    stoker.clock.advance(timedelta(seconds=10))
    jobs += enqueue(app, ["east"])
    let.add("east")
    assert [job.id for job in start(app, 1)] == [jobs[0].id]
    assert [job.id for job in start(app, 1)] == [jobs[1].id]
    assert [job.id for job in start(app, 1)] == [jobs[3].id]
    assert [job.job.attempt for job in jobs] == [1] * 4


def test_jobs_that_nobody_asks_about_any_more_are_back_in_a_minute(
    app: Stoker, stoker: Harness
) -> None:
    _per_key(app, {"east": 0, "west": 1})
    east, _ = enqueue(app, ["east", "west"])
    assert len(start(app)) == 1
    app.configure("api", throttled=False)
    stoker.clock.advance(timedelta(minutes=1))
    assert [job.id for job in app.desk.dispatch.claim(["api"])] == [east.id]


def test_a_job_that_is_moved_by_hand_while_it_is_held_goes_by_its_new_time(
    app: Stoker, stoker: Harness
) -> None:
    limits = {"east": 0, "west": 1}
    _per_key(app, limits)
    east, _ = enqueue(app, ["east", "west"])
    start(app)
    later = stoker.clock() + HOUR
    app.desk.control.edit(east.id, {"due_at": later})
    limits["east"] = 1
    assert start(app) == []
    stoker.clock.advance(timedelta(hours=1))
    assert [job.id for job in start(app)] == [east.id]


# -- limits ------------------------------------------------------------------------------------


def _per_key(app: Stoker, limits: dict[str, int]) -> None:
    @app.throttler("api")
    def per_key(throttle: Throttle) -> None:
        busy = Counter(job.key for job in throttle.running)
        for job in throttle.candidates:
            if busy[job.key] < limits.get(job.key or "", 0):
                busy[job.key] += 1
                throttle.admit(job)
            else:
                throttle.hold(job, f"{job.key} is full")


def test_so_many_per_region(app: Stoker) -> None:
    _per_key(app, {"east": 3, "west": 3})
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
    _per_key(app, {"east": 1, "west": 9})
    app.configure("api", rate="4 per minute", fair=True)
    enqueue(app, ["east"] * 5 + ["west"] * 9)
    started = [job for _ in range(5) for job in start(app)]
    assert keys(started) == {"east": 1, "west": 3}
    stoker.clock.advance(timedelta(minutes=2))
    assert keys(start(app)) == {"west": 4}


def test_windows_can_be_said_by_a_throttler(app: Stoker, stoker: Harness) -> None:
    windows = parse_windows("05:00-07:00, 22:00-23:00")
    started = _noting(app, stoker)

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


# -- trouble, and those who have no throttler --------------------------------------------------


def _broken(throttle: Throttle) -> None:
    throttle.admit(throttle.candidates[0])
    raise ZeroDivisionError("no such share")


def _unjson(throttle: Throttle) -> None:
    throttle.state = {1, object()}


def _presumptuous(throttle: Throttle) -> None:
    throttle.admit(Job("api", id=10**9))


def _unreasonable(throttle: Throttle) -> None:
    throttle.refuse(throttle.candidates[0], "")


def _timeless(throttle: Throttle) -> None:
    throttle.defer(throttle.candidates[0], "soon")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("throttler", "complaint"),
    [
        (_broken, "ZeroDivisionError: no such share"),
        (_unjson, "BadInput: the state of a throttler must be what JSON can hold"),
        (_presumptuous, "BadInput: job 1000000000 is no candidate"),
        (_unreasonable, "BadInput: a job is refused for a reason"),
        (_timeless, "BadInput: a job is put off to a datetime or to UTC microseconds, not to "),
    ],
)
def test_a_throttler_that_fails_is_shown_and_harms_nothing(
    app: Stoker, stoker: Harness, throttler: Callable[[Throttle], None], complaint: str
) -> None:
    broken = [True]

    @app.throttler("api")
    def sometimes(throttle: Throttle) -> None:
        if broken:
            throttler(throttle)
        for job in throttle.candidates:
            throttle.admit(job)

    (job,) = enqueue(app, ["east"])
    before = job.job
    assert stoker.drain() == 0
    assert job.job == before
    (failing,) = [b for b in job.explain().blockers if b.reason is Reason.THROTTLER_FAILS]
    assert complaint in failing.text
    broken.clear()
    assert stoker.run_for("1m") == 1
    assert recall(app.desk.store, "api")[0].error is None


def test_whoever_has_no_throttler_leaves_the_queue_alone(app: Stoker) -> None:
    _per_key(app, {"east": 1})
    (job,) = enqueue(app, ["east"])
    assert app.ensure_throttlers() == ["api"]
    assert app.ensure_throttlers() == []
    assert app.desk.dispatch.claim(["api"]) == []
    assert Desk(app.desk.store).dispatch.claim(["*"]) == []
    texts = [blocker.text for blocker in job.explain().blockers]
    assert texts[0] == "no live worker has the throttler of the queue api"


def test_a_ruling_that_others_have_overtaken_starts_nothing(app: Stoker) -> None:
    _per_key(app, {"east": 1})
    enqueue(app, ["east"] * 3)
    app.ensure_throttlers()
    ask, throttler = app.desk.throttling.ask, app.throttlers["api"]
    slow = ask("api", throttler, room=5, owner="slow").ruling
    assert ask("api", throttler, room=5, owner="other") == (None, 50_000)
    assert slow is not None
    app.desk.throttling.give_up(slow)  # as when its time is over
    quick = ask("api", throttler, room=5, owner="quick").ruling
    assert quick is not None
    assert len(app.desk.throttling.carry_out(quick)) == 1
    assert app.desk.throttling.carry_out(slow) == []
    assert [view.counts[State.RUNNING] for view in app.desk.store.survey(["api"])] == [1]


def test_of_very_many_jobs_those_are_found_that_go_first(
    app: Stoker, stoker: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttling, "MOST_CANDIDATES", 5)
    _per_key(app, {"east": 1, "west": 1})
    enqueue(app, ["east"] * 8)
    urgent = app["fetch"].options(rank=-1, key="west").enqueue()
    assert start(app) == []  # a stranger came in place of the one that was admitted
    assert {job.id for _ in range(2) for job in start(app)} == {urgent.id, 1}


@pytest.mark.parametrize(
    ("queues", "function", "complaint"),
    [
        ((), print, "name the queues of a throttler"),
        ((print,), print, "name the queues of a throttler"),
        (("api",), "no function", "a throttler is a plain function"),
    ],
)
def test_a_throttler_that_cannot_be_is_refused(
    queues: tuple[str, ...], function: Callable[[Throttle], object], complaint: str
) -> None:
    with pytest.raises(BadInput, match=complaint):
        Stoker("memory:").throttler(*queues)(function)


def test_a_queue_has_one_throttler(app: Stoker) -> None:
    app.throttler("api", "other")(print)
    app.throttler("other")(print)
    with pytest.raises(BadInput, match="the queue 'api' has a throttler"):
        app.throttler("api")(repr)

    async def later(throttle: Throttle) -> None: ...

    with pytest.raises(BadInput, match="plain function"):
        app.throttler("third")(later)
