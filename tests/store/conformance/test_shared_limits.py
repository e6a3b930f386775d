"""Queues within another: one limit for several."""

from __future__ import annotations

from contextlib import closing

import pytest

from stoker.desk import Desk
from stoker.kernel.queue import QueueSettings
from stoker.kernel.rate import parse_rate
from tests.engines import VirtualClock
from tests.store.conformance.acts import put, seen, take_all


@pytest.fixture(autouse=True)
def _two_within_one(desk: Desk) -> None:
    desk.control.configure("gpu", QueueSettings(capacity=3))
    desk.control.configure("p", QueueSettings(within="gpu"))
    desk.control.configure("q", QueueSettings(within="gpu", capacity=2))


def done(desk: Desk, job_id: int) -> None:
    desk.report.finish(seen(desk, job_id))


def test_queues_share_the_capacity_of_the_one_they_are_within(desk: Desk) -> None:
    p, q = [put(desk, "p") for _ in range(3)], [put(desk, "q") for _ in range(3)]
    own = put(desk, "gpu")
    assert take_all(desk, "q") == q[:2]
    assert take_all(desk, "p") == p[:1]
    assert take_all(desk, "gpu", "p", "q") == []
    done(desk, q[0])
    assert take_all(desk, "gpu") == [own]
    done(desk, p[0])
    assert take_all(desk, "q") == q[2:]
    done(desk, own)
    assert take_all(desk, "p") == p[1:2]


def test_the_best_of_all_goes_first_in_whichever_queue_it_is(desk: Desk) -> None:
    p = [put(desk, "p", rank=rank) for rank in (5, 1)]
    q = [put(desk, "q", rank=rank) for rank in (0, 3, 2)]
    assert take_all(desk, "p", "q") == [q[0], p[1], q[2]]


def test_one_rate_for_several_queues(desk: Desk, clock: VirtualClock) -> None:
    desk.control.configure("gpu", QueueSettings(rate=parse_rate("2 per minute, fixed")))
    p, q = put(desk, "p"), [put(desk, "q") for _ in range(2)]
    assert take_all(desk, "q", limit=1) == q[:1]
    assert take_all(desk, "p", "q") == [p]
    moment = desk.store.next_due(["q"])
    assert moment is not None
    clock.now = moment
    assert take_all(desk, "q") == q[1:]


def test_a_pause_of_the_outer_queue_is_one_of_all(desk: Desk) -> None:
    p = put(desk, "p")
    desk.control.configure("gpu", QueueSettings(paused=True))
    assert take_all(desk, "p") == []
    desk.control.configure("gpu", QueueSettings())
    assert take_all(desk, "p") == [p]


def test_an_end_rings_for_all_that_are_within(desk: Desk) -> None:
    first = [put(desk, "p") for _ in range(3)]
    assert take_all(desk, "p") == first
    with closing(desk.store.bell.listen()) as ear:
        done(desk, first[0])
        assert ear.wait(10) >= {"q", "gpu", "p"}


def test_who_leaves_the_outer_queue_is_free_of_its_limit(desk: Desk) -> None:
    first = [put(desk, "p") for _ in range(3)]
    assert take_all(desk, "p") == first
    more = put(desk, "q")
    assert take_all(desk, "q") == []
    desk.control.configure("q", QueueSettings())
    assert take_all(desk, "q") == [more]
    other = put(desk, "gpu")
    assert take_all(desk, "gpu") == []
    desk.control.configure("p", QueueSettings())
    assert take_all(desk, "gpu") == [other]


def test_keys_and_tasks_have_their_limits_as_well(desk: Desk) -> None:
    desk.control.configure("q", QueueSettings(within="gpu", key_capacity=1, tasks={"t": 1}))
    ids = [put(desk, "q", key=key, name=name) for key, name in (("a", ""), ("a", ""), ("b", "t"))]
    ids += [put(desk, "q", key="c", name="t"), put(desk, "q", key="d"), put(desk, "q", key="e")]
    assert take_all(desk, "q") == [ids[0], ids[2], ids[4]]
