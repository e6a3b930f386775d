"""Limits in time: by queue, by key and by task; whoever is over one waits for its moment."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.kernel.queue import Order, QueueSettings
from stoker.kernel.rate import parse_rate
from tests.engines import VirtualClock
from tests.store.conformance.acts import HOUR, MINUTE, SECOND, put, running, seen, take_all

KINDS = pytest.mark.parametrize("kind", ["", ", fixed", ", burst 3"])
ORDERS = pytest.mark.parametrize("order", Order, ids=[order.value for order in Order])


def limit(desk: Desk, queue: str = "q", **settings: Any) -> None:
    desk.control.configure(queue, QueueSettings(**settings))


@KINDS
@ORDERS
def test_no_more_start_than_the_rate_allows_however_fast_they_end(
    desk: Desk, kind: str, order: Order
) -> None:
    limit(desk, rate=parse_rate("3 per minute" + kind), order=order)
    ids = [put(desk) for _ in range(10)]
    assert take_all(desk) == ids[:3]
    for job_id in ids[:3]:
        desk.report.finish(seen(desk, job_id))
    assert take_all(desk) == []


@KINDS
def test_who_was_refused_starts_at_the_moment_for_which_the_store_tells_to_wake_up(
    desk: Desk, clock: VirtualClock, kind: str
) -> None:
    limit(desk, rate=parse_rate("3 per minute" + kind))
    ids = [put(desk) for _ in range(9)]
    started = take_all(desk)
    assert started == ids[:3]
    while len(started) < len(ids):
        moment = desk.store.next_due(["q"])
        assert moment is not None
        clock.now = moment - 1
        assert take_all(desk) == []
        clock.now = moment
        now = take_all(desk)
        assert now
        started += now
    assert started == ids
    assert desk.store.next_due(["q"]) is None


@KINDS
@pytest.mark.parametrize("where", ["the queue", "the task", "the outer queue"])
def test_a_clock_that_is_put_back_stops_no_queue(
    desk: Desk, clock: VirtualClock, kind: str, where: str
) -> None:
    rate = parse_rate("3 per minute" + kind)
    limit(desk, "outer", rate=rate if where == "the outer queue" else None)
    settings: dict[str, dict[str, Any]] = {
        "the queue": {"rate": rate},
        "the task": {"task_rates": {"send": rate}},
        "the outer queue": {"within": "outer"},
    }
    limit(desk, **settings[where])
    ids = [put(desk, name="send", due_at=clock.now - 2 * HOUR) for _ in range(9)]
    assert take_all(desk) == ids[:3]
    clock.pass_(-3600)
    assert take_all(desk) == ids[3:6]
    assert take_all(desk) == []


@KINDS
def test_a_key_goes_on_when_the_clock_was_put_back_and_the_settings_are_given_again(
    desk: Desk, clock: VirtualClock, kind: str
) -> None:
    rate = parse_rate("3 per minute" + kind)
    limit(desk, key_rate=rate)
    ids = [put(desk, key="ann", due_at=clock.now - 2 * HOUR) for _ in range(9)]
    assert take_all(desk) == ids[:3]
    clock.pass_(-3600)
    limit(desk, key_rate=rate, capacity=100)
    assert take_all(desk) == ids[3:6]
    assert take_all(desk) == []


def test_a_job_counts_by_its_weight_and_one_of_weight_0_neither_counts_nor_waits(
    desk: Desk,
) -> None:
    limit(desk, rate=parse_rate("3 per minute"))
    two, half, free, heavy, light = (
        put(desk, weight=weight) for weight in (2000, 500, 0, 1000, 500)
    )
    assert take_all(desk) == [two, half, free]
    critical = put(desk, weight=0)
    assert take_all(desk) == [critical]
    assert light > heavy


def test_a_key_over_its_rate_waits_and_lets_the_others_pass(
    desk: Desk, clock: VirtualClock
) -> None:
    rates = {"big": parse_rate("3 per minute")}
    limit(desk, key_rate=parse_rate("1 per minute"), key_rates=rates)
    small = [put(desk, key="small") for _ in range(2)]
    big = [put(desk, key="big") for _ in range(4)]
    plain = put(desk)
    assert take_all(desk) == [small[0], *big[:3], plain]
    assert take_all(desk) == []
    moment = desk.store.next_due(["q"])
    assert moment is not None
    assert clock.now < moment <= clock.now + MINUTE + 4 * SECOND
    clock.now = moment
    assert take_all(desk) == [small[1], big[3]]


def test_an_end_does_not_open_what_only_time_can(desk: Desk, clock: VirtualClock) -> None:
    limit(desk, key_rate=parse_rate("1 per minute, fixed"))
    first, second = put(desk, key="k"), put(desk, key="k")
    assert take_all(desk) == [first]
    desk.report.finish(seen(desk, first))
    third = put(desk, key="k")
    assert take_all(desk) == []
    clock.now = clock.now // MINUTE * MINUTE + MINUTE
    assert take_all(desk) == [second]
    clock.now += MINUTE
    assert take_all(desk) == [third]


def test_time_does_not_open_what_only_an_end_can(desk: Desk, clock: VirtualClock) -> None:
    limit(desk, key_rate=parse_rate("2 per minute"), key_capacity=1)
    first, second = put(desk, key="k"), put(desk, key="k")
    assert take_all(desk) == [first]
    clock.pass_(600)
    assert take_all(desk) == []
    desk.report.finish(seen(desk, first))
    assert take_all(desk) == [second]


def test_a_task_over_its_rate_waits_and_lets_the_others_pass(
    desk: Desk, clock: VirtualClock
) -> None:
    limit(desk, task_rates={"mail": parse_rate("2 per minute, fixed")})
    mails = [put(desk, name="mail", key=key) for key in (None, "a", "b", None)]
    other, keyed = put(desk, name="other"), put(desk, name="other", key="a")
    assert take_all(desk) == [*mails[:2], other, keyed]
    moment = desk.store.next_due(["q"])
    assert moment == clock.now // MINUTE * MINUTE + MINUTE
    clock.now = moment
    assert take_all(desk) == mails[2:]


def test_a_rate_can_be_changed_and_lifted_at_any_time(desk: Desk) -> None:
    limit(desk, rate=parse_rate("1 per hour"))
    ids = [put(desk) for _ in range(6)]
    assert take_all(desk) == ids[:1]
    limit(desk, rate=parse_rate("3 per hour"))
    assert take_all(desk) == ids[1:3]
    limit(desk)
    assert take_all(desk) == ids[3:]


def test_a_job_that_comes_back_counts_each_time_it_starts(desk: Desk) -> None:
    limit(desk, rate=parse_rate("2 per minute"))
    job = running(desk)
    desk.report.release(job)
    (again,) = desk.dispatch.claim(["q"], 1)
    desk.report.release(again)
    assert take_all(desk) == []


def test_claims_for_few_take_from_the_same_rate_as_one_for_many(desk: Desk) -> None:
    limit(desk, rate=parse_rate("5 per minute"), key_rate=parse_rate("2 per minute"))
    desk.intake.enqueue_many([Job("q", key=key) for key in "aabbccaabbcc"])
    taken = [desk.dispatch.claim(["q"], 2) for _ in range(6)]
    assert [len(jobs) for jobs in taken] == [2, 2, 1, 0, 0, 0]
    assert [job.key for jobs in taken for job in jobs] == ["a", "a", "b", "b", "c"]


def test_two_queues_in_one_claim_have_a_rate_each(desk: Desk) -> None:
    limit(desk, "p", rate=parse_rate("1 per minute"))
    limit(desk, "q", rate=parse_rate("2 per minute"))
    p, q = [put(desk, "p") for _ in range(3)], [put(desk, "q") for _ in range(3)]
    assert take_all(desk, "p", "q") == [p[0], q[0], q[1]]
