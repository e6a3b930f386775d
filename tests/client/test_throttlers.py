"""Throttlers: code of the user decides which jobs of a queue may start. On every engine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from stoker import Context, State, Stoker, Throttle
from stoker.desk.blocker import Reason
from stoker.desk.throttle_memory import recall
from stoker.kernel.job import WHOLE_WEIGHT
from stoker.store import Filter
from stoker.testing import Harness
from tests.client.throttling import HOUR, add_fetch, enqueue, noting, per_key, start, states


@pytest.fixture(autouse=True)
def _fetch(app: Stoker) -> None:
    add_fetch(app)


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


def test_who_runs_and_who_waits_for_an_answer_are_told_but_not_who_waits_for_children(
    app: Stoker, stoker: Harness
) -> None:
    running: list[set[tuple[int, State]]] = []

    @app.throttler("api")
    def look(throttle: Throttle) -> None:
        running.append({(job.id, job.state) for job in throttle.running})
        throttle.admit(throttle.candidates[0])

    @app.task(name="ask", queue="api")
    def ask(context: Context) -> None:
        context.wait_for_reply("answer")

    @app.task(name="parent", queue="api")
    def parent(context: Context) -> None:
        context.spawn([app["fetch"].options(queue="elsewhere", delay="1d").call("east")])

    asking, parenting = app["ask"].enqueue(), app["parent"].enqueue()
    stoker.drain()
    assert states([asking, parenting]) == ["WAITING", "WAITING"]
    (third, _) = enqueue(app, ["east", "west"])
    start(app, 1)
    start(app, 1)
    assert running[-1] == {(asking.id, State.WAITING), (third.id, State.RUNNING)}


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
    started = noting(app, stoker)
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
    per_key(app, {"east": 0, "west": 1})
    east, _ = enqueue(app, ["east", "west"])
    assert len(start(app)) == 1
    app.configure("api", throttled=False)
    stoker.clock.advance(timedelta(minutes=1))
    assert [job.id for job in app.desk.dispatch.claim(["api"])] == [east.id]


def test_a_job_that_is_moved_by_hand_while_it_is_held_goes_by_its_new_time(
    app: Stoker, stoker: Harness
) -> None:
    limits = {"east": 0, "west": 1}
    per_key(app, limits)
    east, _ = enqueue(app, ["east", "west"])
    start(app)
    later = stoker.clock() + HOUR
    app.desk.control.edit(east.id, {"due_at": later})
    limits["east"] = 1
    assert start(app) == []
    stoker.clock.advance(timedelta(hours=1))
    assert [job.id for job in start(app)] == [east.id]
