"""Tasks that repeat: their schedules are brought into being and kept up to date."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stoker import Job, State, Stoker, failure_of, fixed
from stoker.errors import BadInput
from stoker.testing import Harness
from tests.worker.waiting import until

MINUTE = 60_000_000


def poll() -> None:
    """Look whether there is anything new."""


def deploy(
    stoker: Harness,
    repeat: str | None = "every 10m",
    function: Callable[[], None] = poll,
    **options: Any,
) -> Stoker:
    """The app anew, as after a deployment, on the same store."""
    app = Stoker("memory:")
    app.sit_at(stoker.app.desk)
    app.task(name="poll", repeat=repeat, **options)(function)
    stoker.app = app
    return app


def only(stoker: Harness) -> Job:
    (job,) = stoker.jobs()
    return job


def test_a_schedule_is_brought_into_being_once(stoker: Harness) -> None:
    app = deploy(stoker)
    assert app.ensure_schedules() == ["poll"]
    first = only(stoker)
    assert (first.name, first.unique_key, first.payload) == ("poll", "schedule:poll", b"{}")
    assert first.due_at == stoker.clock() + 10 * MINUTE
    stoker.clock.advance("1m")
    deploy(stoker).ensure_schedules()
    assert only(stoker) == first


def test_tasks_that_do_not_repeat_get_no_schedule(stoker: Harness) -> None:
    assert deploy(stoker, repeat=None).ensure_schedules() == []
    assert stoker.jobs() == []


def test_a_worker_brings_the_schedules_into_being(stoker: Harness) -> None:
    deploy(stoker).worker()
    assert only(stoker).unique_key == "schedule:poll"


def test_a_schedule_runs_and_comes_round_again(stoker: Harness) -> None:
    deploy(stoker).ensure_schedules()
    start = stoker.clock()
    assert stoker.run_for("35m") == 3
    job = only(stoker)
    assert (job.state, job.due_at) == (State.QUEUED, start + 40 * MINUTE)


def test_a_schedule_with_overlapping_runs_makes_a_job_for_each(stoker: Harness) -> None:
    deploy(stoker, "every 10m; overlap=allow").ensure_schedules()
    assert stoker.run_for("35m") == 3
    assert len(stoker.jobs(State.FINISHED)) == 3
    assert [job.waits_for for job in stoker.jobs(State.WAITING)] == ["tick"]


@pytest.mark.parametrize(
    ("before", "after", "time", "moments"),
    [
        ("every 10m", "every 1h", "3h", ["01 01:35", "01 02:35", "01 03:35"]),
        ("every 10m", "every 1d", "50h", ["02 00:35", "03 00:35"]),
        ("every 1h", "every 10m", "30m", ["01 00:45", "01 00:55", "01 01:05"]),
        ("every 7d", "cron 0 * * * *", "2h", ["01 01:00", "01 02:00"]),
        ("cron 0 * * * *", "every 1d", "50h", ["02 00:35", "03 00:35"]),
        ("every 10m", "FINISHED, +1 DAY", "50h", ["01 00:35", "02 00:35", "03 00:35"]),
        ("every 7d", "SCHEDULED, +1 HOUR", "2h", ["01 00:35", "01 01:35", "01 02:35"]),
        ("every 7d", "every 1h; overlap=allow", "2h", ["01 01:35", "01 02:35"]),
        ("every 7d; overlap=allow", "every 1h", "2h", ["01 01:35", "01 02:35"]),
    ],
)
def test_a_changed_repeat_sets_the_schedule_anew(
    stoker: Harness, before: str, after: str, time: str, moments: list[str]
) -> None:
    ran: list[str] = []
    deploy(stoker, before).ensure_schedules()
    first = only(stoker)
    stoker.run_for("35m")
    deploy(stoker, after, lambda: ran.append(f"{stoker.clock.now:%d %H:%M}")).ensure_schedules()
    assert (only(stoker).id, only(stoker).policy.repeat) == (first.id, after)
    stoker.run_for(time)
    assert ran == moments


def test_a_schedule_may_become_one_with_overlapping_runs_and_back(stoker: Harness) -> None:
    deploy(stoker, "every 10m").ensure_schedules()
    deploy(stoker, "every 10m; overlap=allow").ensure_schedules()
    assert only(stoker).waits_for == "tick"
    deploy(stoker, "every 10m").ensure_schedules()
    assert (only(stoker).state, only(stoker).waits_for) == (State.QUEUED, None)
    assert stoker.run_for("20m") == 2


def test_another_option_leaves_the_next_run_where_it_was(stoker: Harness) -> None:
    deploy(stoker).ensure_schedules()
    before = only(stoker)
    stoker.clock.advance("5m")
    deploy(stoker, timeout="1m").ensure_schedules()
    after = only(stoker)
    assert (after.policy.timeout, after.due_at) == (MINUTE, before.due_at)


def test_a_run_that_goes_on_takes_the_new_repeat_at_its_end(stoker: Harness) -> None:
    deploy(stoker, "every 10m").ensure_schedules()
    stoker.clock.advance("10m")
    (run,) = stoker.app.desk.dispatch.claim(["default"])
    deploy(stoker, "every 1h").ensure_schedules()
    assert only(stoker).state is State.RUNNING
    done = stoker.app.desk.report.finish(run)
    assert (done.state, done.due_at) == (State.QUEUED, stoker.clock() + 60 * MINUTE)


def test_a_run_that_is_to_be_tried_again_keeps_its_time_though_the_repeat_changed(
    stoker: Harness,
) -> None:
    deploy(stoker, "every 10m", retry=fixed("1m")).ensure_schedules()
    stoker.clock.advance("10m")
    (run,) = stoker.app.desk.dispatch.claim(["default"])
    again = stoker.app.desk.report.fail(run, failure_of(OSError("no line")))
    deploy(stoker, "every 1d", retry=fixed("1m")).ensure_schedules()
    assert (only(stoker).due_at, only(stoker).policy.repeat) == (again.due_at, "every 1d")


def test_a_paused_schedule_stays_paused_and_goes_on_as_the_code_says_by_then(
    stoker: Harness,
) -> None:
    deploy(stoker).ensure_schedules()
    stoker.app.desk.schedules.pause("poll")
    app = deploy(stoker, "every 1h", queue="reports")
    assert app.ensure_schedules() == []
    assert stoker.run_for("3h") == 0
    job = app.desk.schedules.resume("poll").job
    assert (job.queue, job.policy.repeat) == ("reports", "every 1h")
    assert job.due_at == stoker.clock() + 60 * MINUTE


def test_a_schedule_that_is_resumed_while_it_learns_of_the_code_is_not_paused_again(
    stoker: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(stoker).ensure_schedules()
    schedules, store = stoker.app.desk.schedules, stoker.app.desk.store
    schedules.pause("poll")
    read = store.notes

    def read_and_be_overtaken(keys: Any = None) -> Any:
        monkeypatch.setattr(store, "notes", read)
        found = read(keys)
        schedules.resume("poll")
        return found

    monkeypatch.setattr(store, "notes", read_and_be_overtaken)
    assert deploy(stoker, "every 1h").ensure_schedules() == ["poll"]
    assert schedules.paused() == {}
    assert schedules.get("poll").job.policy.repeat == "every 1h"


@pytest.mark.parametrize("repeat", ["every 10m", "every 10m; overlap=allow"])
def test_a_schedule_moves_to_the_queue_its_task_has_now(stoker: Harness, repeat: str) -> None:
    deploy(stoker, repeat).ensure_schedules()
    before = only(stoker)
    stoker.clock.advance("5m")
    deploy(stoker, repeat, queue="reports").ensure_schedules()
    after = only(stoker)
    assert (after.id, after.queue, after.due_at) == (before.id, "reports", before.due_at)
    assert stoker.run_for("5m") == 1
    assert {job.queue for job in stoker.jobs()} == {"reports"}


def test_a_schedule_whose_run_goes_on_is_moved_by_the_worker_when_that_is_over(
    stoker: Harness,
) -> None:
    deploy(stoker).ensure_schedules()
    stoker.clock.advance("10m")
    (run,) = stoker.app.desk.dispatch.claim(["default"])
    worker = deploy(stoker, queue="reports").worker(ttl=1)
    assert only(stoker).queue == "default"
    worker.start()
    try:
        stoker.app.desk.report.finish(run)
        until(lambda: only(stoker).queue == "reports")
    finally:
        worker.stop()
    assert stoker.run_for("10m") == 1


def test_a_schedule_that_was_cancelled_is_brought_back(stoker: Harness) -> None:
    app = deploy(stoker)
    app.ensure_schedules()
    app.job(only(stoker).id).cancel()
    app.ensure_schedules()
    assert [job.state for job in stoker.jobs()] == [State.CANCELLED, State.QUEUED]


def test_a_repeating_task_must_run_without_arguments(stoker: Harness, app: Stoker) -> None:
    @app.task(repeat="every 10m", name="mail")
    def mail(to: str) -> None: ...

    with pytest.raises(BadInput, match=r"'mail' repeats, so its parameters need defaults: .* 'to'"):
        app.ensure_schedules()


def test_no_word_of_a_task_is_taken_for_a_schedule(stoker: Harness, app: Stoker) -> None:
    poll_once = app.task(name="schedule")(lambda: None)
    word = poll_once.options(unique="poll", delay="1h").enqueue()
    app.task(name="poll", repeat="every 10m")(poll)
    app.ensure_schedules()
    assert (word.job.policy.repeat, len(stoker.jobs(name="poll"))) == (None, 1)
    assert not poll_once.options(unique="poll").enqueue().fresh


def test_a_repeating_task_that_is_enqueued_runs_once_and_now_beside_its_schedule(
    stoker: Harness, app: Stoker
) -> None:
    ran: list[str] = []

    @app.task(repeat="every 10m")
    def mail(to: str = "everybody") -> None:
        ran.append(to)

    app.ensure_schedules()
    by_hand = mail.enqueue("ann")
    assert stoker.drain() == 1
    assert (ran, by_hand.state) == (["ann"], State.FINISHED)
    stoker.run_for("20m")
    assert ran == ["ann", "everybody", "everybody"]
