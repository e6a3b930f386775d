"""Time windows: outside its hours a job waits for the next opening."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stoker.desk import Desk
from stoker.kernel.job import State
from stoker.kernel.policy import Policy
from stoker.kernel.retry_forms import fixed
from stoker.kernel.window import parse_windows
from stoker.store import Store
from tests.engines import VirtualClock
from tests.store.conformance.acts import BROKEN, put, running, seen, snapshot, take, take_all

MORNING = Policy(windows=parse_windows("05:00-07:00"))
TWICE = Policy(windows=parse_windows("05:00-07:00, 22:00-23:00"))
NIGHT = Policy(windows=parse_windows("22:00-02:00"))
WEEKDAYS = Policy(windows=parse_windows("mon-fri 05:00-07:00"))


def at(clock: str, day: int = 15) -> int:
    """A time of day in November 2023; the 15th was a Wednesday."""
    hour, minute = map(int, clock.split(":"))
    return int(datetime(2023, 11, day, hour, minute, tzinfo=UTC).timestamp()) * 1_000_000


@pytest.mark.parametrize(
    ("policy", "now", "expected"),
    [
        (MORNING, at("04:59"), at("05:00")),
        (MORNING, at("05:00"), at("05:00")),
        (MORNING, at("06:30"), at("06:30")),
        (MORNING, at("07:00"), at("05:00", 16)),
        (TWICE, at("12:00"), at("22:00")),
        (TWICE, at("22:59"), at("22:59")),
        (NIGHT, at("23:30"), at("23:30")),
        (NIGHT, at("01:30"), at("01:30")),
        (NIGHT, at("02:00"), at("22:00")),
        (WEEKDAYS, at("08:00", 17), at("05:00", 20)),
    ],
)
@pytest.mark.parametrize("asked", ["now", "then"])
def test_a_job_starts_at_the_first_moment_its_windows_allow(
    desk: Desk, clock: VirtualClock, policy: Policy, now: int, expected: int, asked: str
) -> None:
    clock.now = now if asked == "now" else at("00:00", 14)
    job_id = put(desk, policy=policy, due_at=0 if asked == "now" else now)
    job = seen(desk, job_id)
    assert (job.due_at, job.scheduled_at) == (expected, now)
    clock.now = expected - 1
    assert take_all(desk) == []
    clock.now = expected
    assert take_all(desk) == [job_id]


def test_a_job_that_nobody_took_before_its_window_closed_waits_for_the_next(
    desk: Desk, clock: VirtualClock
) -> None:
    clock.now = at("06:00")
    job_id, other = put(desk, policy=TWICE), put(desk, rank=1)
    clock.now = at("07:30")
    assert take_all(desk) == [other]
    after = seen(desk, job_id)
    assert (after.state, after.due_at, after.attempt) == (State.QUEUED, at("22:00"), 0)
    assert (after.token, after.scheduled_at) == (None, at("06:00"))
    clock.now = at("22:00")
    assert take(desk).id == job_id


def test_a_job_that_runs_when_its_window_closes_may_finish(desk: Desk, clock: VirtualClock) -> None:
    clock.now = at("06:59")
    job = running(desk, policy=MORNING)
    clock.now = at("09:00")
    assert desk.report.finish(job).state is State.FINISHED


def test_a_retry_outside_the_windows_waits_for_the_next_opening(
    desk: Desk, clock: VirtualClock
) -> None:
    clock.now = at("06:30")
    job = running(desk, policy=Policy(windows=MORNING.windows, retry=fixed("1h")))
    assert desk.report.fail(job, BROKEN).due_at == at("05:00", 16)


def test_a_job_put_off_outside_its_windows_waits_for_the_next_opening(
    desk: Desk, clock: VirtualClock
) -> None:
    clock.now = at("06:30")
    job = running(desk, policy=MORNING)
    assert desk.report.release(job, due_at=at("08:00")).due_at == at("05:00", 16)


def test_a_repeat_outside_the_windows_waits_but_keeps_its_phase(
    desk: Desk, clock: VirtualClock
) -> None:
    clock.now = at("06:30")
    policy = Policy(windows=MORNING.windows, repeat="SCHEDULED, +1 HOUR")
    job = running(desk, policy=policy)
    after = desk.report.finish(job)
    assert (after.due_at, after.scheduled_at) == (at("05:00", 16), at("07:30"))


def test_a_revived_job_waits_for_its_window(desk: Desk, clock: VirtualClock) -> None:
    clock.now = at("06:30")
    job = desk.report.finish(running(desk, policy=MORNING))
    clock.now = at("08:00")
    assert desk.control.revive(job.id).due_at == at("05:00", 16)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
def test_windows_go_by_the_clock_of_their_zone(desk: Desk, clock: VirtualClock, zone: str) -> None:
    clock.now = at("12:00")
    policy = Policy(windows=parse_windows(f"05:00-07:00 in {zone}"))
    opening = {"Europe/Berlin": at("04:00", 16), "America/New_York": at("10:00", 16)}
    assert seen(desk, put(desk, policy=policy)).due_at == opening[zone]


def test_claiming_jobs_without_windows_is_one_step_only(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    clock.now = at("12:00")
    put(desk, policy=MORNING)
    before = snapshot(store)
    assert take_all(desk) == []
    assert snapshot(store) == before
