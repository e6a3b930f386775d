"""Why a job is not running: limits, rates, shares and turns, each with what makes it so."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.desk import Desk
from stoker.desk.blocker import Blocker, Reason
from stoker.desk.explain import Explanation, explain
from stoker.kernel.hours import parse_maintenance
from stoker.kernel.job import Job
from stoker.kernel.policy import Policy
from stoker.kernel.queue import QueueSettings
from stoker.kernel.rate import parse_rate
from stoker.kernel.window import parse_windows
from stoker.store import Store
from tests.engines import SECOND, START, VirtualClock

MINUTE = 60 * SECOND
TWO = parse_rate("2 per minute, fixed")
HOUR = 60 * MINUTE
TEN = START // HOUR * HOUR
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


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"tasks": {"t": 1200}}, Reason.TASK_FULL),
        ({"key_capacity": 1200}, Reason.KEY_FULL),
        ({"capacity": 1200}, Reason.QUEUE_FULL),
        ({"capacity": 2400, "shares": {"k": 50}}, Reason.SHARE_FULL),
    ],
)
def test_all_holders_count_and_a_thousand_of_them_are_named(
    desk: Desk, store: Store, settings: dict[str, Any], reason: Reason
) -> None:
    limit(desk, **settings)
    facts: dict[str, Any] = {"name": "t", "key": "k"}
    desk.intake.enqueue_many([Job("mail", **facts)] * 1200)
    job_id = put(desk, **facts)
    held = [*desk.dispatch.claim(["mail"], 1000), *desk.dispatch.claim(["mail"], 199)]
    assert reason not in told(store, job_id)
    held += desk.dispatch.claim(["mail"], 1)
    blocker = told(store, job_id)[reason]
    assert blocker.text.endswith(" is full: 1200 of 1200 places are taken")
    assert (len(blocker.jobs), blocker.more) == (1000, True)
    assert set(blocker.jobs) < {job.id for job in held}


def test_who_holds_no_place_hides_nobody_who_does(desk: Desk, store: Store) -> None:
    limit(desk, key_capacity=1)
    put(desk, "other")
    (job,) = desk.dispatch.claim(["other"])
    desk.intake.spawn(job, [Job("mail", key="k")] * 1001)
    held = put(desk, key="k")
    desk.dispatch.claim(["mail"])
    job_id = put(desk, key="k")
    assert told(store, job_id)[Reason.KEY_FULL].jobs == (held,)


def test_a_thousand_children_are_named(desk: Desk, store: Store) -> None:
    parent = put(desk)
    (job,) = desk.dispatch.claim(["mail"])
    desk.intake.spawn(job, [Job("other")] * 1001)
    desk.report.finish(store.get([parent])[parent])
    blocker = told(store, parent)[Reason.CHILDREN]
    assert blocker.text == "it waits for 1001 of its children to end"
    assert (len(blocker.jobs), blocker.more) == (1000, True)


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


def ends(store: Store, job_id: int) -> tuple[dict[str, float | None], float | None]:
    """What stands in the way, with the hours until it ends, and until the job runs."""
    found = explain(store, job_id)
    told = {each.reason.value: hours_to(each.until) for each in found.blockers}
    return told, hours_to(found.runs_at)


def hours_to(moment: int | None) -> float | None:
    return None if moment is None else (moment - TEN) / HOUR


@pytest.fixture
def ten(clock: VirtualClock) -> None:
    """It is ten in the evening."""
    clock.now = TEN


@pytest.mark.usefixtures("ten")
def test_a_job_that_falls_due_in_closed_hours_is_expected_at_the_opening(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    limit(desk, windows=parse_windows("20:00-24:00"))
    limit(desk, "post", maintenance=(parse_maintenance("2023-11-15 00:00 to 2023-11-15 06:00"),))
    limit(desk, "inner", within="post")
    job_id, later = put(desk, due_at=TEN + 3 * HOUR), put(desk, due_at=TEN + HOUR)
    assert ends(store, job_id) == ({"not_due": 3, "queue_closed": 22}, 22)
    assert explain(store, job_id).blockers[1].text == "the queue mail is closed then"
    assert ends(store, later) == ({"not_due": 1}, 1)
    for queue in ("post", "inner"):
        job_id = put(desk, queue, due_at=TEN + 3 * HOUR)
        assert ends(store, job_id) == ({"not_due": 3, "maintenance": 8}, 8)
        text = explain(store, job_id).blockers[1].text
        assert text.startswith("the queue post is closed then for maintenance (2023-11-15")
    clock.now = TEN + 8 * HOUR - 1
    assert desk.dispatch.claim(["inner", "mail"], 10) == []
    clock.now += 1
    assert [job.queue for job in desk.dispatch.claim(["inner", "mail"], 10)] == ["inner"]


@pytest.mark.usefixtures("ten")
def test_a_job_waits_for_its_own_window_and_for_that_of_its_queue(desk: Desk, store: Store) -> None:
    night = Policy(windows=parse_windows("20:00-24:00"))
    limit(desk, windows=parse_windows("21:00-01:00"))
    job_id = put(desk, due_at=TEN + 3 * HOUR, policy=night)
    assert ends(store, job_id) == ({"not_due": 22, "queue_closed": 23}, 23)
    limit(desk, "post", rate=parse_rate("1 per hour, fixed"))
    ids = [put(desk, "post", policy=night) for _ in range(3)]
    desk.dispatch.claim(["post"], 10)
    assert ends(store, ids[1]) == ({"queue_rate": 1}, 1)
    late = explain(store, ids[2])
    text = "its time window is closed before its turn comes"
    assert late.blockers[-1] == Blocker(Reason.WINDOW_CLOSED, text, TEN + 22 * HOUR)
    assert hours_to(late.runs_at) == 22


@pytest.mark.usefixtures("ten")
def test_a_rate_goes_on_when_the_queue_is_open_again(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    limit(desk, windows=parse_windows("20:00-24:00"), rate=parse_rate("1 per hour, fixed"))
    ids = [put(desk, key="k") for _ in range(8)]
    desk.dispatch.claim(["mail"], 10)
    assert ends(store, ids[1]) == ({"queue_rate": 1}, 1)
    assert ends(store, ids[2]) == ({"queue_rate": 2, "queue_closed": 22}, 22)
    assert explain(store, ids[2]).blockers[1].text == (
        "the queue mail is closed before its turn comes"
    )
    assert ends(store, ids[7])[1] == 47
    clock.now = TEN + 47 * HOUR - 1
    for _ in range(10):
        desk.dispatch.claim(["mail"], 10)
    assert store.get([ids[7]])[ids[7]].started_at is None


@pytest.mark.usefixtures("ten")
def test_a_job_that_is_not_due_waits_for_the_rate_that_others_will_have_used_up(
    desk: Desk, store: Store
) -> None:
    limit(desk, key_rate=parse_rate("1 per hour, fixed"))
    for _ in range(5):
        put(desk, key="k")
    put(desk, key="l")
    job_id, other = (put(desk, key=key, due_at=TEN + 2 * HOUR) for key in "kl")
    assert ends(store, job_id) == ({"not_due": 2, "key_rate": 5}, 5)
    assert ends(store, other) == ({"not_due": 2}, 2)


def test_who_stands_behind_more_than_are_looked_at_is_told_no_moment(
    desk: Desk, store: Store
) -> None:
    limit(desk, rate=TWO)
    desk.intake.enqueue_many([Job("mail")] * 1001)
    job_id = put(desk, due_at=START + MINUTE)
    assert explain(store, job_id).runs_at is None


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


def test_a_rate_is_used_up_by_turns_where_keys_take_turns(desk: Desk, store: Store) -> None:
    limit(desk, fair=True, rate=TWO)
    flood = [put(desk, key="ann") for _ in range(5)]
    mine = put(desk, key="bob")
    assert list(told(store, mine)) == [Reason.TURNS]
    assert explain(store, mine).starts_at == START
    assert explain(store, flood[1]).runs_at == NEXT_MINUTE


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
