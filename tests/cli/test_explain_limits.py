"""Why a job is not running: limits, rates, shares and turns, each with what makes it so."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.desk import Desk
from stoker.desk.blocker import Blocker, Reason
from stoker.desk.explain import Explanation, explain
from stoker.kernel.job import Job
from stoker.kernel.queue import QueueSettings
from stoker.kernel.rate import parse_rate
from stoker.store import Store
from tests.engines import SECOND, START, VirtualClock

MINUTE = 60 * SECOND
TWO = parse_rate("2 per minute, fixed")
NEXT_MINUTE = START // MINUTE * MINUTE + MINUTE


@pytest.fixture(autouse=True)
def worker(desk: Desk) -> int:
    """A live worker that serves everything."""
    return desk.dispatch.open_session("ann", ttl=3600 * SECOND)


def limit(desk: Desk, queue: str = "mail", **settings: Any) -> None:
    desk.control.configure(queue, QueueSettings(**settings))


def put(desk: Desk, queue: str = "mail", **facts: Any) -> int:
    return desk.intake.enqueue(Job(queue, **facts)).id


def told(store: Store, job_id: int) -> dict[Reason, Blocker]:
    return {blocker.reason: blocker for blocker in explain(store, job_id).blockers}


def test_a_full_task_names_the_holders_of_its_places(desk: Desk, store: Store) -> None:
    limit(desk, tasks={"resize": 1})
    held, other = put(desk, name="resize"), put(desk, name="crop")
    job_id = put(desk, name="resize", key="k")
    desk.dispatch.claim(["mail"], 10)
    full = Blocker(
        Reason.TASK_FULL, "the task resize is full: 1 of 1 places are taken", jobs=(held,)
    )
    assert explain(store, job_id).blockers == (full,)
    assert other not in full.jobs


def test_a_share_that_is_used_up_names_its_holders(desk: Desk, store: Store) -> None:
    limit(desk, capacity=10, shares={"east": 20})
    held = [put(desk, key="east"), put(desk, key="east")]
    job_id = put(desk, key="east")
    desk.dispatch.claim(["mail"], 10)
    text = "the share of east is full: 2 of 2 places are taken"
    assert told(store, job_id) == {
        Reason.SHARE_FULL: Blocker(Reason.SHARE_FULL, text, jobs=tuple(held))
    }


def test_a_lent_share_stops_nobody_while_nobody_else_waits(desk: Desk, store: Store) -> None:
    limit(desk, capacity=4, shares={"east": 25}, lend=True)
    put(desk, key="east")
    desk.dispatch.claim(["mail"], 1)
    job_id = put(desk, key="east")
    assert told(store, job_id) == {}
    put(desk, key="west")
    assert list(told(store, job_id)) == [Reason.SHARE_FULL]


def test_the_queue_around_a_queue_is_told_with_those_who_fill_it(desk: Desk, store: Store) -> None:
    limit(desk, "gpu", capacity=2)
    limit(desk, "train", within="gpu")
    limit(desk, "render", within="gpu")
    held = [put(desk, "train"), put(desk, "render")]
    job_id = put(desk, "render")
    desk.dispatch.claim(["train", "render"], 10)
    text = "the queue gpu, which render is within, is full: 2 of 2 places are taken"
    blocker = told(store, job_id)[Reason.OUTER_FULL]
    assert (blocker.text, sorted(blocker.jobs)) == (text, held)
    desk.control.adjust("gpu", paused=True)
    assert told(store, job_id)[Reason.OUTER_PAUSED].text == (
        "the queue gpu, which render is within, is paused"
    )


def test_a_queue_is_filled_by_those_within_it_as_well(desk: Desk, store: Store) -> None:
    limit(desk, "gpu", capacity=1)
    limit(desk, "train", within="gpu")
    held, job_id = put(desk, "train"), put(desk, "gpu")
    desk.dispatch.claim(["train"])
    assert told(store, job_id)[Reason.QUEUE_FULL].jobs == (held,)


@pytest.mark.parametrize(
    ("settings", "reason", "title"),
    [
        ({"rate": TWO}, Reason.QUEUE_RATE, "the queue mail"),
        ({"key_rate": TWO}, Reason.KEY_RATE, "the key k"),
        ({"task_rates": {"t": TWO}}, Reason.TASK_RATE, "the task t"),
        ({"within": "world"}, Reason.OUTER_RATE, "the queue world, which mail is within,"),
    ],
)
def test_a_rate_that_is_used_up_tells_when_the_job_may_start(
    desk: Desk, store: Store, settings: dict[str, Any], reason: Reason, title: str
) -> None:
    limit(desk, "world", rate=TWO)
    limit(desk, **settings)
    ids = [put(desk, key="k", name="t") for _ in range(7)]
    desk.dispatch.claim(["mail"], 10)
    found = [explain(store, job_id) for job_id in ids[2:]]
    text = f"{title} has used up its 2 per minute, fixed"
    assert found[0].blockers == (Blocker(reason, text, NEXT_MINUTE),)
    minutes = [(each.runs_at or 0) - NEXT_MINUTE for each in found]
    assert minutes == [0, 0, MINUTE, MINUTE, 2 * MINUTE]


def test_a_job_that_was_told_its_moment_starts_then(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    limit(desk, rate=parse_rate("3 per minute"), key_rate=parse_rate("1 per 10s, burst 2"))
    ids = [put(desk, key="k", weight=weight) for weight in (1000, 1000, 500, 1000, 1000)]
    desk.dispatch.claim(["mail"], 10)
    moment = explain(store, ids[-1]).runs_at
    assert moment is not None
    started: list[int] = []
    while ids[-1] not in started:
        clock.now = desk.store.next_due(["mail"]) or moment
        started += [job.id for job in desk.dispatch.claim(["mail"], 10)]
    assert clock.now == moment


def test_a_job_of_weight_0_is_stopped_by_no_limit(desk: Desk, store: Store) -> None:
    limit(desk, capacity=1, rate=TWO, tasks={"t": 1}, key_rate=TWO)
    put(desk, key="k", name="t")
    desk.dispatch.claim(["mail"])
    assert told(store, put(desk, key="k", name="t", weight=0)) == {}


def test_all_limits_that_stop_a_job_are_told(desk: Desk, store: Store) -> None:
    one = parse_rate("1 per minute")
    limit(desk, "world", capacity=1, rate=one)
    limit(
        desk,
        capacity=1,
        key_capacity=1,
        tasks={"t": 1},
        rate=one,
        key_rate=one,
        task_rates={"t": one},
        within="world",
    )
    put(desk, key="k", name="t")
    job_id = put(desk, key="k", name="t")
    desk.dispatch.claim(["mail"], 2)
    assert [*told(store, job_id)] == [
        *(Reason.TASK_FULL, Reason.TASK_RATE, Reason.KEY_FULL, Reason.KEY_RATE),
        *(Reason.QUEUE_FULL, Reason.QUEUE_RATE, Reason.OUTER_FULL, Reason.OUTER_RATE),
    ]


def test_in_a_fair_queue_a_job_waits_for_the_turns_of_others(desk: Desk, store: Store) -> None:
    limit(desk, fair=True)
    for key in ("ann", "ann", "ann", "bob", "cleo"):
        put(desk, key=key)
    mine = put(desk, key="dora")
    text = "the keys of mail take turns: about 3 jobs go before it, of 3 other keys"
    assert told(store, mine) == {Reason.TURNS: Blocker(Reason.TURNS, text)}
    second = put(desk, key="bob")
    assert told(store, second)[Reason.TURNS].text.endswith(
        "about 5 jobs go before it, of 3 other keys and its own"
    )


def test_ageing_decides_who_goes_before_whom(desk: Desk, store: Store) -> None:
    old = put(desk, rank=1, due_at=START - 30 * MINUTE)
    job_id = put(desk)
    assert told(store, job_id) == {}
    limit(desk, ageing=10 * MINUTE)
    assert told(store, job_id)[Reason.IN_LINE].text == "it waits its turn: 1 job goes before it"
    assert told(store, old) == {}


def test_more_than_can_be_looked_at_is_told_as_such(desk: Desk, store: Store) -> None:
    desk.intake.enqueue_many([Job("mail")] * 1001)
    last: Explanation = explain(store, put(desk))
    assert last.blockers[0].text == "it waits its turn: at least 1000 jobs go before it"
