"""Shares of a capacity by key, in percent; what is not wanted may be lent."""

from __future__ import annotations

from collections import Counter
from typing import Any

from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.kernel.queue import QueueSettings
from tests.store.conformance.acts import put, seen, take_all

REGIONS = {"east": 40, "north": 30, "west": 30}


def share(desk: Desk, **settings: Any) -> None:
    desk.control.configure("q", QueueSettings(**{"shares": REGIONS, "capacity": 10, **settings}))


def keys(desk: Desk, limit: int = 1000) -> Counter[str | None]:
    return Counter(job.key for job in desk.dispatch.claim(["q"], limit))


def test_a_flood_of_one_region_takes_no_more_than_its_share_even_if_the_others_are_idle(
    desk: Desk,
) -> None:
    share(desk, capacity=100)
    desk.intake.enqueue_many([Job("q", key="east")] * 200)
    assert keys(desk) == {"east": 40}
    desk.intake.enqueue_many([Job("q", key=key) for key in ("north", "west") for _ in range(50)])
    assert keys(desk) == {"north": 30, "west": 30}


def test_shares_count_weight_and_are_rounded_down(desk: Desk) -> None:
    share(desk, capacity=1.5, shares={"east": 33.3})
    ids = [put(desk, key="east", weight=weight) for weight in (400, 99, 1)]
    assert take_all(desk) == ids[:2]


def test_a_share_that_nobody_else_wants_is_lent(desk: Desk) -> None:
    share(desk, lend=True)
    desk.intake.enqueue_many([Job("q", key="east")] * 20)
    assert keys(desk) == {"east": 10}


def test_who_is_within_its_share_comes_before_those_who_borrow(desk: Desk) -> None:
    share(desk, lend=True)
    east = [put(desk, key="east") for _ in range(20)]
    north = [put(desk, key="north") for _ in range(2)]
    other = put(desk, key="elsewhere")
    assert take_all(desk) == [*east[:4], *north, other, *east[4:7]]
    desk.report.finish(seen(desk, east[0]))
    late = put(desk, key="west")
    assert take_all(desk) == [late]
    desk.report.finish(seen(desk, east[1]))
    assert take_all(desk) == east[7:8]


def test_no_more_is_lent_than_the_claim_asks_for_and_in_order(desk: Desk) -> None:
    share(desk, lend=True)
    east = [put(desk, key="east", rank=rank) for rank in (2, 1, 3, 0, 5, 4, 6)]
    assert take_all(desk, limit=4) == [east[i] for i in (3, 1, 0, 2)]
    assert take_all(desk, limit=2) == [east[5], east[4]]


def test_a_limit_of_the_key_holds_also_where_shares_are_lent(desk: Desk) -> None:
    share(desk, lend=True, keys={"east": 5})
    desk.intake.enqueue_many([Job("q", key="east")] * 20)
    assert keys(desk) == {"east": 5}
