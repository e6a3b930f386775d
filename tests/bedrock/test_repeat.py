"""Jobs that repeat, and jobs that are given out again when nobody has finished them."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import pytest

from stoker.desk import Desk
from stoker.store import Store
from stoker.watch import run_chores
from tests.bedrock.teller import Teller
from tests.engines import SECOND, VirtualClock

NONE = "404 No job found"


def at(clock: VirtualClock, text: str) -> None:
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    clock.now = round(moment.timestamp()) * SECOND


@pytest.mark.parametrize(
    ("repeat", "next_run"),
    [("SCHEDULED, +1 HOUR", "14:00"), ("STARTED, +1 HOUR", "14:15"), ("hourly", "14:45")],
)
def test_a_job_repeats_and_the_next_run_has_what_the_last_one_left(
    teller: Teller, clock: VirtualClock, repeat: str, next_run: str
) -> None:
    at(clock, "2024-05-17 09:00:00")
    job_id = teller.create("foo", repeat=repeat, firstRun="2024-05-17 13:00:00")
    at(clock, "2024-05-17 13:15:00")
    teller.get("foo")
    at(clock, "2024-05-17 13:45:00")
    teller.ok("FinishJob", jobID=job_id, data={"value": 3})
    after = teller.query(job_id)
    assert (after["state"], after["nextRun"]) == ("QUEUED", f"2024-05-17 {next_run}:00")
    assert teller("GetJob", name="foo").status == NONE
    at(clock, after["nextRun"])
    job = teller.get("foo")
    assert (job["data"], job["lastRun"]) == ({"value": 3}, "2024-05-17 13:15:00")


def test_a_scheduled_repeat_catches_up_back_to_back(teller: Teller, clock: VirtualClock) -> None:
    at(clock, "2024-05-17 13:00:00")
    job_id = teller.create("foo", repeat="SCHEDULED, +1 HOUR", firstRun="2024-05-17 13:00:00")
    at(clock, "2024-05-17 16:30:00")
    runs = []
    while (answer := teller("GetJob", name="foo")).status == "200 OK":
        runs.append(answer.json["nextRun"][11:16])
        teller.ok("FinishJob", jobID=job_id)
    assert runs == ["13:00", "14:00", "15:00", "16:00"]


@pytest.mark.parametrize(
    "headers", [{"ignoreRepeat": "true"}, {"ignoreRepeat": 1}, {"data": {"delete": True}}]
)
def test_a_repeat_can_be_ignored_this_once(teller: Teller, headers: dict[str, object]) -> None:
    first, second = (teller.begun("foo", repeat="DAILY") for _ in range(2))
    teller.ok("FinishJob", jobID=first, **headers)
    assert teller.state(first) is None
    teller.ok("RetryJob", jobID=second, nextRun="2042-01-01", **headers)
    after = teller.query(second)
    assert (after["nextRun"], after["repeat"]) == ("2042-01-01 00:00:00", "DAILY")


def test_a_retry_goes_by_the_repeat_whatever_else_it_says(
    teller: Teller, clock: VirtualClock
) -> None:
    job_id = teller.begun("foo", repeat="FINISHED, +1 HOUR")
    teller.ok("RetryJob", jobID=job_id, nextRun="2042-01-01", delay=5, data={"x": 1})
    after = teller.query(job_id)
    assert (after["state"], after["nextRun"]) == ("QUEUED", "2023-11-14 23:13:20")
    assert after["data"] == {"x": 1}


def test_a_failed_job_repeats_no_more(teller: Teller) -> None:
    job_id = teller.begun("foo", repeat="DAILY")
    teller.ok("FailJob", jobID=job_id)
    assert teller.state(job_id) == "FAILED"


def test_a_failed_job_is_kept_for_ever(teller: Teller, clock: VirtualClock) -> None:
    job_id = teller.begun("foo")
    teller.ok("FailJob", jobID=job_id)
    clock.pass_(1000 * 86_400)
    run_chores(teller.desk.clerk, "me")
    assert teller.state(job_id) == "FAILED"


# -- retryAfter ----------------------------------------------------------------------------


def test_a_job_without_retry_after_is_never_given_out_again(
    teller: Teller, clock: VirtualClock
) -> None:
    job_id = teller.begun("foo")
    clock.pass_(1000 * 86_400)
    run_chores(teller.desk.clerk, "me")
    assert teller("GetJob", name="foo").status == NONE
    assert teller.state(job_id) == "RUNNING"


@pytest.mark.parametrize(
    ("retry_after", "next_run"),
    [
        ("+5 SECONDS", "2023-11-14 22:13:25"),
        ("+10 minutes", "2023-11-14 22:23:20"),
        ("+1 HOUR", "2023-11-14 23:13:20"),
        ("+2 DAYS", "2023-11-16 22:13:20"),
        ("+1 MONTH", "2023-12-14 22:13:20"),
        ("+1 YEAR", "2024-11-14 22:13:20"),
        ("WEEKDAY 5", "2023-11-17 22:13:20"),
    ],
)
def test_a_job_with_retry_after_is_given_out_again_when_its_time_is_up(
    teller: Teller, clock: VirtualClock, retry_after: str, next_run: str
) -> None:
    job_id = teller.begun("foo", retryAfter=retry_after)
    running = teller.query(job_id)
    assert (running["state"], running["nextRun"]) == ("RUNQUEUED", next_run)
    assert running["retryAfter"] == retry_after
    at(clock, next_run)
    clock.now -= 1
    assert teller("GetJob", name="foo").status == NONE
    clock.now += 1
    again = teller.get("foo")
    assert (again["jobID"], again["data"]) == (job_id, {"retryAfterCount": 1})
    teller.ok("FinishJob", jobID=job_id)
    assert teller.state(job_id) is None


@pytest.mark.parametrize("retry_after", ["-5 SECONDS", "START OF DAY", "-1 MONTH", "weekday 2"])
def test_a_time_that_has_passed_already_gives_it_out_again_at_once(
    teller: Teller, clock: VirtualClock, retry_after: str
) -> None:
    job_id = teller.begun("foo", retryAfter=retry_after)
    clock.now += 1
    assert teller.get("foo")["jobID"] == job_id


def test_the_tenth_hand_out_is_the_last(teller: Teller, clock: VirtualClock) -> None:
    job_id = teller.create("foo", retryAfter="+1 MINUTE")
    for count in range(10):
        assert teller.get("foo")["data"].get("retryAfterCount", 0) == count
        clock.pass_(60)
    assert teller("GetJob", name="foo").status == NONE
    assert teller.state(job_id) == "FAILED"


@pytest.mark.parametrize(("tries", "name"), [(None, "foo"), (3, "manual/foo")])
def test_there_may_be_no_last_one(
    store: Store, clock: VirtualClock, tries: int | None, name: str
) -> None:
    desk = Desk(store, dice=lambda: 0.0, token=itertools.count(1).__next__)
    teller = Teller(desk, tries=tries)
    teller.create(name, retryAfter="+1 MINUTE")
    for _ in range(30):
        teller.get(name)
        clock.pass_(60)


def test_an_update_may_put_off_the_end_of_the_lease(teller: Teller, clock: VirtualClock) -> None:
    job_id = teller.begun("foo", retryAfter="+1 MINUTE")
    teller.ok("UpdateJob", jobID=job_id, data={"retryAfterCount": 7}, nextRun="2023-11-14 23:00:00")
    clock.pass_(120)
    assert teller("GetJob", name="foo").status == NONE
    assert teller.query(job_id)["nextRun"] == "2023-11-14 23:00:00"
    at(clock, "2023-11-14 23:00:00")
    assert teller.get("foo")["data"] == {"retryAfterCount": 1}


# -- jobTimeout ----------------------------------------------------------------------------


def test_a_job_with_a_timeout_shows_when_it_expires(teller: Teller) -> None:
    job_id = teller.create("foo", jobTimeout=5000)
    waiting = teller.query(job_id)
    assert (waiting["timeout"], waiting["expires"]) == (5000, "")
    teller.get("foo")
    running = teller.query(job_id)
    assert (running["state"], running["expires"]) == ("RUNNING", "2023-11-14 22:13:25.000")


def test_the_chores_reset_what_has_expired_without_any_client(
    teller: Teller, clock: VirtualClock
) -> None:
    job_id = teller.begun("foo", jobTimeout=5000)
    clock.pass_(5)
    run_chores(teller.desk.clerk, "me")
    assert teller.state(job_id) == "QUEUED"


def test_a_second_delivery_can_be_told_from_the_first(teller: Teller, clock: VirtualClock) -> None:
    job_id = teller.create("foo", jobTimeout=5000)
    first = teller.get("foo")
    clock.pass_(5)
    second = teller.get("foo")
    assert (first["attempt"], second["attempt"]) == (1, 2)
    assert first["token"] != second["token"]
    late = teller("FinishJob", jobID=job_id, token=first["token"])
    assert late.status == "405 The job was handed out again, this token is no longer its own"
    for verb in ("UpdateJob", "RetryJob", "FailJob"):
        assert teller(verb, jobID=job_id, token=first["token"], data={}).status == late.status
    teller.ok("FinishJob", jobID=job_id, token=second["token"])
    assert teller.state(job_id) is None


def test_a_job_chooses_to_be_dropped_instead(teller: Teller, clock: VirtualClock) -> None:
    job_id = teller.begun("foo", jobTimeout=5000, onTimeout="drop")
    clock.pass_(5)
    assert teller("GetJob", name="foo").status == NONE
    assert teller.state(job_id) == "FAILED"


def test_a_repeating_job_that_expires_for_good_has_lost_that_run_only(
    teller: Teller, clock: VirtualClock
) -> None:
    job_id = teller.begun("foo", jobTimeout=5000, onTimeout="drop", repeat="FINISHED, +1 HOUR")
    clock.pass_(5)
    assert teller("GetJob", name="foo").status == NONE
    after = teller.query(job_id)
    assert (after["state"], after["nextRun"]) == ("QUEUED", "2023-11-14 23:13:25")
