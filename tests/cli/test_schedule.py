"""Schedules: what the desk can do with them, and `stoker schedule`."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.client import Stoker
from stoker.desk import Desk
from stoker.desk.schedules import Schedules
from stoker.errors import NotFound
from stoker.kernel.job import Job, State
from stoker.kernel.policy import Policy
from stoker.kernel.retry import failure_of
from stoker.kernel.retry_forms import fixed
from stoker.kernel.unique import schedule_key
from stoker.store import Filter, Store
from stoker.store.open import open_store
from tests.cli.conftest import Cli, lines
from tests.engines import START, VirtualClock

HOUR = 3600 * 1_000_000
HOURLY = Policy(repeat="every 1h")


@pytest.fixture
def schedules(desk: Desk) -> Schedules:
    return Schedules(desk.clerk)


def enqueue(desk: Desk, name: str = "report", policy: Policy = HOURLY) -> int:
    job = Job("reports", name, b'{"n":1}', policy=policy, unique_key=schedule_key(name))
    return desk.intake.enqueue(job).id


# --- The desk ------------------------------------------------------------------------------------


def test_every_live_job_that_repeats_is_a_schedule(desk: Desk, schedules: Schedules) -> None:
    enqueue(desk)
    desk.intake.enqueue_many([Job("mail")] * 600)
    desk.intake.enqueue(Job("mail", "pulse", policy=HOURLY))
    desk.intake.enqueue(Job("mail", "ping", policy=HOURLY, unique_key="pinger"))
    ended = enqueue(desk, "old")
    desk.control.cancel(ended)
    assert [(s.name, s.job.name) for s in schedules.all()] == [
        ("602", "pulse"),
        ("pinger", "ping"),
        ("report", "report"),
    ]


@pytest.mark.parametrize("name", ["report", "pinger", "2", "ping"])
def test_a_schedule_is_found_by_any_of_its_names(
    desk: Desk, schedules: Schedules, name: str
) -> None:
    enqueue(desk)
    desk.intake.enqueue(Job("mail", policy=HOURLY))
    desk.intake.enqueue(Job("mail", "ping", policy=HOURLY, unique_key="pinger"))
    expected = {"report": 1, "2": 2, "pinger": 3, "ping": 3}
    assert schedules.get(name).job.id == expected[name]


def test_a_schedule_that_there_is_not_is_not_found(schedules: Schedules) -> None:
    for act in (schedules.get, schedules.pause, schedules.resume, schedules.run):
        with pytest.raises(NotFound, match="there is no schedule 'report'"):
            act("report")


def test_a_paused_schedule_runs_no_more_until_it_is_resumed(
    desk: Desk, store: Store, schedules: Schedules, clock: VirtualClock
) -> None:
    enqueue(desk)
    assert schedules.pause("report").paused
    assert store.find(Filter(states=(State.QUEUED, State.WAITING))) == []
    assert [(s.name, s.paused) for s in schedules.all()] == [("report", True)]
    clock.pass_(7200)
    resumed = schedules.resume("report")
    (job,) = store.find(Filter(states=(State.QUEUED,)))
    assert (resumed.job.id, resumed.paused) == (job.id, False)
    assert (job.name, job.payload, job.policy) == ("report", b'{"n":1}', HOURLY)
    assert job.unique_key == "schedule:report"
    assert job.due_at == START + 3 * HOUR
    assert schedules.paused() == {}


def test_pausing_and_resuming_twice_is_as_good_as_once(
    desk: Desk, store: Store, schedules: Schedules
) -> None:
    enqueue(desk)
    schedules.pause("report")
    assert schedules.pause("report").paused
    schedules.resume("report")
    assert not schedules.resume("report").paused
    assert len(store.find(Filter(states=(State.QUEUED,)))) == 1


def test_a_run_that_is_going_on_may_end_but_is_the_last(
    desk: Desk, store: Store, schedules: Schedules, clock: VirtualClock
) -> None:
    job_id = enqueue(desk)
    clock.pass_(3600)
    (job,) = desk.dispatch.claim(["reports"])
    schedules.pause("report")
    assert desk.report.finish(job).state is State.FINISHED
    assert store.get([job_id])[job_id].state is State.FINISHED
    assert schedules.get("report").paused


def test_a_run_that_is_to_be_tried_again_is_tried_again(
    desk: Desk, schedules: Schedules, clock: VirtualClock
) -> None:
    enqueue(desk, policy=Policy(repeat="every 1h", retry=fixed("1s")))
    clock.pass_(3600)
    (job,) = desk.dispatch.claim(["reports"])
    desk.report.fail(job, failure_of(OSError()))
    schedules.pause("report")
    clock.pass_(1)
    (again,) = desk.dispatch.claim(["reports"])
    assert desk.report.finish(again).state is State.FINISHED


def test_a_schedule_resumed_during_its_run_repeats_after_it(
    desk: Desk, store: Store, schedules: Schedules, clock: VirtualClock
) -> None:
    job_id = enqueue(desk)
    clock.pass_(3600)
    (job,) = desk.dispatch.claim(["reports"])
    schedules.pause("report")
    assert schedules.resume("report").job.id == job_id
    assert desk.report.finish(job).state is State.QUEUED
    assert store.get([job_id])[job_id].due_at == START + 2 * HOUR


def test_a_schedule_with_overlapping_runs_is_paused_too(
    desk: Desk, store: Store, schedules: Schedules
) -> None:
    enqueue(desk, policy=Policy(repeat="every 1h; overlap=allow"))
    schedules.pause("report")
    assert store.find(Filter(states=(State.WAITING,))) == []
    assert schedules.resume("report").job.state is State.WAITING


def test_several_schedules_are_paused_side_by_side(desk: Desk, schedules: Schedules) -> None:
    enqueue(desk, "a")
    enqueue(desk, "b")
    schedules.pause("a")
    schedules.pause("b")
    schedules.resume("a")
    assert [*schedules.paused()] == ["b"]


def test_a_run_by_hand_is_a_job_of_its_own_that_does_not_repeat(
    desk: Desk, store: Store, schedules: Schedules
) -> None:
    enqueue(desk)
    placed = schedules.run("report")
    run = store.get([placed.id])[placed.id]
    assert (run.state, run.due_at) == (State.QUEUED, START)
    assert (run.payload, run.policy.repeat, run.unique_key) == (b'{"n":1}', None, None)
    assert store.get([1])[1].due_at == START + HOUR


def test_the_next_runs_are_reckoned_from_where_the_schedule_is(
    desk: Desk, schedules: Schedules, clock: VirtualClock
) -> None:
    enqueue(desk)
    assert schedules.get("report").upcoming(2, now=START) == [START + HOUR, START + 2 * HOUR]
    clock.pass_(3600)
    desk.dispatch.claim(["reports"])
    running = schedules.get("report")
    assert running.upcoming(2, now=clock.now) == [START + 2 * HOUR, START + 3 * HOUR]
    schedules.pause("report")
    now = START + HOUR + 5
    assert schedules.get("report").upcoming(1, now=now) == [now + HOUR]


def test_an_app_leaves_a_paused_schedule_alone(place: Path) -> None:
    app = Stoker("sqlite:///jobs.db")
    app.task(name="report", queue="reports", repeat="every 1h")(lambda: None)
    schedules = Schedules(app.desk.clerk)
    assert app.ensure_schedules() == ["report"]
    schedules.pause("report")
    assert app.ensure_schedules() == []
    assert app.desk.store.find(Filter(states=(State.QUEUED,))) == []
    schedules.resume("report")
    assert app.ensure_schedules() == ["report"]
    assert len(app.desk.store.find(Filter(states=(State.QUEUED,)))) == 1
    app.close()


# --- The command ---------------------------------------------------------------------------------


def test_schedules_are_listed_with_their_next_run(cli: Cli, jobs: Desk) -> None:
    enqueue(jobs)
    enqueue(jobs, "digest", Policy(repeat="DAILY"))
    cli("schedule", "pause", "report")
    head, digest, report = cli("schedule", "list").stdout.splitlines()
    columns = ["schedule", "repeats", "next", "run", "queue", "job", "state"]
    assert head.split() == columns
    assert digest.split() == ["digest", "DAILY", "now", "reports", "2", "QUEUED"]
    assert report.split() == ["report", "every", "1h", "reports", "paused"]
    _, form = lines(cli("schedule", "list", "--json"))
    assert form == {
        "name": "report",
        "repeat": "every 1h",
        "paused": True,
        "next": None,
        "queue": "reports",
        "task": "report",
        "job": None,
        "state": None,
    }


def test_a_store_without_schedules_says_so(cli: Cli, jobs: Desk) -> None:
    assert "nothing repeats here" in cli("schedule", "list").stderr


def test_a_schedule_is_stopped_and_started_by_name(cli: Cli, jobs: Desk) -> None:
    enqueue(jobs)
    assert cli("schedule", "pause", "report").stdout == "the schedule report is paused\n"
    assert cli("schedule", "run", "report").stdout == "job 2 runs report once\n"
    told = cli("schedule", "resume", "report").stdout
    assert told.startswith("the schedule report goes on; next run ")
    assert cli("schedule", "pause", "nope").exit_code == 3


def test_a_repeat_can_be_previewed_without_any_store(cli: Cli, place: Path) -> None:
    told = lines(cli("schedule", "preview", "cron 0 5 1 1 * in Europe/Berlin", "-n", "2", "--json"))
    assert [run["at"][4:] for run in told] == ["-01-01T04:00:00.000000Z"] * 2
    assert int(told[1]["at"][:4]) == int(told[0]["at"][:4]) + 1
    assert list(place.iterdir()) == []


def test_ten_runs_are_previewed_unless_another_number_is_given(cli: Cli) -> None:
    assert len(cli("schedule", "preview", "every 90m").stdout.splitlines()) == 11
    assert cli("schedule", "preview", "every 90m", "-n", "0").exit_code == 2


def test_a_schedule_can_be_previewed_by_name(cli: Cli, shop: Path) -> None:
    words = ["schedule", "preview", "shop.report", "--app", "shop:app", "-n", "2", "--json"]
    assert len(lines(cli(*words))) == 2
    assert not (shop / "jobs.db").exists()
    enqueue_at(1_893_456_000_000_000)
    assert [run["at"] for run in lines(cli(*words))] == [
        "2030-01-01T00:00:00.000000Z",
        "2030-01-01T01:00:00.000000Z",
    ]


def enqueue_at(due_at: int) -> None:
    store = open_store("sqlite:///jobs.db")
    unique_key = schedule_key("shop.report")
    job = Job("reports", policy=HOURLY, unique_key=unique_key, due_at=due_at)
    Desk(store).intake.enqueue(job)
    store.close()


def test_what_is_neither_a_repeat_nor_a_schedule_is_refused(cli: Cli, jobs: Desk) -> None:
    result = cli("schedule", "preview", "fortnightly")
    assert result.exit_code == 2
    assert "no schedule is called 'fortnightly'; and cannot read the repeat" in result.stderr
