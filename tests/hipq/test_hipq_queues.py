"""Queues and types of Hipq: limits, order, hours, throttlers, and what they say of their jobs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from stoker.desk import Desk
from stoker.desk.throttle import Throttle
from stoker.errors import BadInput
from stoker.hipq import Final, Hipq, HipqJob
from stoker.kernel.queue import Order
from stoker.testing import harness
from tests.engines import VirtualClock
from tests.hipq.house import House

DAY = 86_400


def test_jobs_that_wait_for_their_answers_count_against_the_limit(house: House) -> None:
    house.hipq.createQueue("orders", {"throttle_limit": 4})
    house.handle()
    heavy = [house.put(throttle_factor=2) for _ in range(3)]
    alarm = house.put(critical=True)
    house.stage.drain()
    assert [house.state(each) for each in heavy] == ["running", "running", "initial"]
    assert house.state(alarm) == "running"
    house.hipq.end_job("orders", "charge", heavy[0], None)
    house.stage.drain()
    assert [house.state(each) for each in heavy] == ["final", "running", "running"]


def test_time_comes_before_priority_unless_the_queue_says_otherwise(
    house: House, desk: Desk, clock: VirtualClock
) -> None:
    def note(job: HipqJob) -> Final:
        house.ask(job)
        return Final()

    house.handle(note)
    (view,) = desk.store.survey(["hipq_orders"])
    assert (view.settings.order, view.settings.capacity) == (Order.TIME_RANK, None)

    def put_all() -> list[str]:
        house.asked.clear()
        for key, priority in (("old", 700), ("late", 100), ("soon", 50)):
            house.put(job_key=key, priority=priority)
            clock.pass_(0 if key == "late" else 1)
        house.stage.drain()
        return [key for key, _ in house.asked]

    assert put_all() == ["old", "soon", "late"]
    house.hipq.create_queue("orders", {"sort_order": "priority_time"})
    assert put_all() == ["soon", "late", "old"]


def test_a_queue_may_have_a_throttler_that_knows_its_limit_and_the_weight_of_its_jobs(
    house: House,
) -> None:
    house.hipq.create_queue("orders", {"throttle_limit": 10})
    house.handle()

    @house.hipq.throttler("orders")
    def four_tenths(throttle: Throttle) -> None:
        used = sum(job.weight for job in throttle.running if job.key == "east")
        for job in throttle.candidates:
            if job.key == "east" and used + job.weight > (throttle.settings.capacity or 0) * 400:
                throttle.hold(job, "the east has its four tenths")
                continue
            used += job.weight if job.key == "east" else 0
            throttle.admit(job)

    east = [house.put(throttle_key="east", throttle_factor=1.5) for _ in range(4)]
    west = [house.put(throttle_key="west") for _ in range(9)]
    house.stage.drain()
    assert [house.state(each) for each in east] == ["running"] * 2 + ["initial"] * 2
    assert [house.state(each) for each in west] == ["running"] * 7 + ["initial"] * 2
    house.hipq.end_job("orders", "charge", east[0], "done")
    house.stage.drain()
    assert [house.state(each) for each in east] == ["final", "running", "running", "initial"]


def test_the_limit_of_a_queue_also_holds_in_a_rehearsal() -> None:
    hipq = Hipq("memory:")
    hipq.create_queue("orders", {"throttle_limit": 2})
    hipq.set_handlers("orders", "charge", lambda job: None)
    for _ in range(2):
        with harness(hipq.app) as stage:
            for _ in range(3):
                hipq.queue_job("orders", {"job_type": "charge"})
            stage.drain()
            assert len(hipq.running_jobs("orders")) == 2


def test_a_queue_that_is_not_there_has_no_throttler(house: House) -> None:
    with pytest.raises(BadInput, match="there is no queue 'others' here"):
        house.hipq.throttler("orders", "others")


def test_a_queue_may_have_hours(house: House, clock: VirtualClock) -> None:
    now = datetime.fromtimestamp(clock.now / 1e6, UTC)
    opens, closes = now + timedelta(hours=1), now + timedelta(hours=2)
    hours = f"{opens:%H:%M}-{closes:%H:%M}"
    house.hipq.create_queue("orders", {"settings": {"windows": hours}})
    house.handle()
    job = house.put()
    house.stage.drain()
    assert house.state(job) == "initial"
    clock.pass_(3600)
    house.stage.drain()
    assert house.state(job) == "running"


def test_a_type_says_what_its_jobs_are_like_and_a_job_may_say_otherwise(house: House) -> None:
    kind = {
        "job_type": "charge",
        "default_timeout": 60,
        "default_priority": 7,
        "default_throttle_factor": 0.5,
        "default_time_windows": [["05:00", "07:00"], ["22:00", "23:00"]],
    }
    house.hipq.create_queue("orders", {"job_types": [kind]})
    usual = house.hipq.job(house.put())
    assert (usual.timeout, usual.priority, usual.throttle_factor) == (60, 7, 0.5)
    assert usual.time_windows == "05:00-07:00, 22:00-23:00"
    assert usual.scheduled_run_time.hour in (5, 6, 22)
    other = house.hipq.job(house.put(timeout=5, priority=1, throttle_factor=2, time_windows=""))
    assert (other.timeout, other.priority, other.throttle_factor) == (5, 1, 2)
    assert other.time_windows == ""


def test_a_type_comes_into_being_with_its_first_job_and_has_the_usual_defaults(
    house: House, clock: VirtualClock
) -> None:
    at = datetime.fromtimestamp(clock.now / 1e6, UTC) + timedelta(hours=1)
    job = house.hipq.job(house.put(scheduled_run_time=at))
    assert (job.job_type, job.timeout, job.priority, job.attempt) == ("charge", DAY, 100, 0)
    assert (job.scheduled_run_time, job.job_key, job.error) == (at, str(job.id), "NONE")
    assert house.hipq.validate() == ["the job type 'charge' has no handlers in this process"]
    house.handle()
    assert house.hipq.validate() == []


def test_async_functions_will_do_and_may_be_mixed_with_others(house: House) -> None:
    async def response(job: HipqJob, answer: int) -> list[int]:
        return [answer, job.job_data]

    house.handle(response=response)
    job = house.put(job_key="k", job_data=2)
    house.stage.drain()
    house.hipq.respond("charge", "k", 40)
    house.stage.drain()
    assert house.hipq.app.job(job).result == [40, 2]


def test_what_cannot_be_meant_is_refused(house: House) -> None:
    with pytest.raises(BadInput, match="lower-case letters and underscores, not 'Orders'"):
        house.hipq.create_queue("Orders")
    with pytest.raises(BadInput, match="lower-case letters and underscores, not 7"):
        house.hipq.create_queue(7)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="the queue definition cannot be read"):
        house.hipq.create_queue("halves", {"job_types": "\ud800"})
    with pytest.raises(BadInput, match="a job_key must be text, not int"):
        house.hipq.respond("charge", 4711, {})  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="no queue 'nowhere' here; call create_queue"):
        house.hipq.queue_job("nowhere", {"job_type": "charge"})
    with pytest.raises(BadInput, match="unknown field `prio`"):
        house.put(prio=1)
    with pytest.raises(BadInput, match="cannot travel as JSON"):
        house.put(job_data=object())
    with pytest.raises(BadInput, match="job_key cannot be empty"):
        house.put(job_key="")
    with pytest.raises(BadInput, match="needs a zone"):
        house.put(scheduled_run_time=datetime(2030, 1, 1))  # noqa: DTZ001
    house.put()
    house.hipq.create_queue("others")
    with pytest.raises(BadInput, match="'charge' belongs to the queue 'orders'"):
        house.hipq.queue_job("others", {"job_type": "charge"})
    with pytest.raises(BadInput, match="'charge' belongs to the queue 'orders'"):
        house.hipq.create_queue("third", {"job_types": [{"job_type": "charge"}]})
    with pytest.raises(BadInput, match="no queue 'third' here"):
        house.hipq.queue_job("third", {"job_type": "refund"})
