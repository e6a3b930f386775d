"""Looking: counts that are right at any moment, and jobs found by any of their facts."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from stoker.desk import Desk
from stoker.errors import Refused
from stoker.kernel import rules
from stoker.kernel.job import STATES, Job, State
from stoker.kernel.outcome import Awaits, Finished
from stoker.kernel.policy import OnLost, Policy
from stoker.kernel.queue import Order, QueueSettings, Retention
from stoker.kernel.retry_forms import fixed
from stoker.store import Adrift, Filter, Forgettable, Lost, QueueView, Store
from stoker.watch import run_chores
from tests.engines import VirtualClock
from tests.store.conformance.acts import (
    BROKEN,
    HOUR,
    SECOND,
    Facts,
    counted,
    put,
    running,
    seen,
    surveyed,
    take,
)

# -- survey --------------------------------------------------------------------------------


def test_a_queue_is_seen_with_its_settings_counts_and_burden(desk: Desk, store: Store) -> None:
    settings = QueueSettings(capacity=5, keys={"k": 2})
    desk.control.configure("q", settings)
    desk.report.finish(running(desk))
    running(desk, weight=1500)
    put(desk, key="k")
    put(desk)
    nothing = dict.fromkeys(STATES, 0)
    counts = {**nothing, State.QUEUED: 2, State.RUNNING: 1, State.FINISHED: 1}
    assert store.survey() == [QueueView("q", settings, counts, 1500)]


def test_queues_are_seen_in_the_order_of_their_names(desk: Desk, store: Store) -> None:
    for name in ("b", "ä", "a", "B", "a b"):
        put(desk, name)
    assert [view.name for view in store.survey()] == ["B", "a", "a b", "b", "ä"]


def test_some_queues_can_be_seen_alone(desk: Desk, store: Store) -> None:
    for name in ("a", "b", "it's"):
        put(desk, name)
    assert [view.name for view in store.survey(["it's", "a", "unknown", "a"])] == ["a", "it's"]
    assert store.survey([]) == []


@pytest.mark.parametrize(
    "settings",
    [
        QueueSettings(capacity=0.001, key_capacity=2.5, keys={"a": 1, "ü ☃": 0.5}),
        QueueSettings(order=Order.TIME_RANK, paused=True),
        QueueSettings(retention=Retention(finished=0, failed=None, cancelled=5)),
    ],
    ids=range(3),
)
def test_settings_are_kept_exactly(desk: Desk, store: Store, settings: QueueSettings) -> None:
    desk.control.configure("q", settings)
    assert store.survey()[0].settings == settings


def test_settings_can_be_adjusted_one_by_one(desk: Desk, store: Store) -> None:
    desk.control.configure("q", QueueSettings(capacity=3, paused=True))
    assert desk.control.adjust("q", capacity=4) == QueueSettings(capacity=4, paused=True)
    assert store.survey()[0].settings == QueueSettings(capacity=4, paused=True)


def test_new_settings_hold_at_once_at_the_desk_that_gave_them(desk: Desk) -> None:
    kept = desk.report.finish(running(desk))
    desk.control.configure("q", QueueSettings(retention=Retention(finished=0)))
    gone = running(desk)
    desk.report.finish(gone)
    assert desk.store.get([kept.id, gone.id]).keys() == {kept.id}


def test_new_settings_hold_within_a_second_at_every_other_desk(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    other = Desk(store)
    other.report.finish(running(other))
    desk.control.configure("q", QueueSettings(retention=Retention(finished=0)))
    clock.pass_(1)
    gone = running(other)
    other.report.finish(gone)
    assert gone.id not in store.get([gone.id])


# -- counts after random lives -------------------------------------------------------------


def _randomly(desk: Desk, clock: VirtualClock, dice: random.Random) -> None:
    """One random step of one random job, if it is allowed."""
    jobs = desk.store.find(Filter(limit=1000))
    job = dice.choice(jobs) if jobs else None
    steps = ["put", "put many", "claim", "claim", "pass", "chores", "configure"]
    if job is not None:
        steps += ["finish", "fail", "release", "wait", "spawn", "cancel", "revive", "delete"]
        steps += ["edit", "reply"]
    step = dice.choice(steps)
    facts: Facts = {
        "key": dice.choice([None, None, "a", "b"]),
        "weight": dice.choice([0, 500, 1000]),
        "rank": dice.randrange(3),
        "payload": b"x" * dice.choice([0, 3000]),
        "policy": dice.choice(_POLICIES),
    }
    queue = dice.choice(["q", "r"])
    if step == "put":
        put(desk, queue, **facts)
    elif step == "put many":
        desk.intake.enqueue_many([Job(queue, **facts), Job("q"), Job("r", key="a")])
    elif step == "claim":
        desk.dispatch.claim(["q", "r"], dice.randrange(1, 5), visibility=5 * SECOND)
    elif step == "pass":
        clock.pass_(dice.choice([1, 10, 4000]))
    elif step == "chores":
        run_chores(desk.clerk, "me")
    elif step == "configure":
        desk.control.configure(queue, dice.choice(_SETTINGS))
    elif job is not None:
        _to_job(desk, job, step, {**facts, "queue": queue})


def _to_job(desk: Desk, job: Job, step: str, facts: Facts) -> None:
    acts: dict[str, Callable[[], object]] = {
        "finish": lambda: desk.report.finish(job),
        "fail": lambda: desk.report.fail(job, BROKEN),
        "release": lambda: desk.report.release(job),
        "wait": lambda: desk.report.wait(job, Awaits("k")),
        "spawn": lambda: desk.intake.spawn(job, [Job(**facts), Job("q")]),
        "cancel": lambda: desk.control.cancel(job.id),
        "revive": lambda: desk.control.revive(job.id),
        "delete": lambda: desk.control.delete(job.id),
        "edit": lambda: desk.control.edit(job.id, facts),
        "reply": lambda: desk.control.reply("k", b"1"),
    }
    with suppress(Refused):  # not every job can do everything
        acts[step]()


_POLICIES = [
    Policy(),
    Policy(retry=fixed(0, limit=2)),
    Policy(on_lost=OnLost.FAIL),
    Policy(repeat="FINISHED, +1 HOUR"),
]
_SETTINGS = [
    QueueSettings(),
    QueueSettings(capacity=2),
    QueueSettings(key_capacity=1, order=Order.TIME_RANK),
    QueueSettings(retention=Retention(0, 0, 0)),
]


@pytest.mark.parametrize("seed", range(6))
def test_the_counts_of_a_survey_are_right_after_whatever_happened(
    desk: Desk, store: Store, clock: VirtualClock, seed: int
) -> None:
    dice = random.Random(seed)
    for _ in range(120):
        _randomly(desk, clock, dice)
        assert surveyed(store) == counted(store)


# -- find ----------------------------------------------------------------------------------


@pytest.fixture
def crowd(desk: Desk) -> list[Job]:
    """Jobs that differ in every fact one can ask for."""
    parent = running(desk, "parent", name="p")
    desk.intake.spawn(parent, [Job("child", name="c")])
    session = desk.dispatch.open_session(ttl=HOUR)
    put(desk, "q", name="n", key="k", ref="r", unique_key="u")
    take(desk, "q", session=session)
    desk.report.wait(running(desk, "asking", key="k"), Awaits("x"))
    desk.report.finish(running(desk, "q", name="n"))
    desk.report.fail(running(desk, "q"), BROKEN)
    desk.control.cancel(put(desk, "q", key="k"))
    put(desk, "q", name="n")
    return desk.store.find(Filter())


@pytest.mark.parametrize(
    "facts",
    [
        {"queue": "q"},
        {"queue": "nowhere"},
        {"name": "n"},
        {"name": ""},
        {"key": "k"},
        {"parent_id": 1},
        {"ref": "r"},
        {"unique_key": "u"},
        {"waits_for": "parent"},
        {"waits_for": "reply:x"},
        {"queue": "q", "name": "n", "key": "k"},
        {"queue": "q", "name": "n", "key": "other"},
    ],
    ids=str,
)
def test_jobs_are_found_by_their_facts(store: Store, crowd: list[Job], facts: Facts) -> None:
    wanted = [job for job in crowd if all(getattr(job, f) == v for f, v in facts.items())]
    assert store.find(Filter(**facts)) == wanted


def ids_of(store: Store, **facts: Any) -> list[int]:
    return [job.id for job in store.find(Filter(**facts))]


def test_jobs_are_found_by_the_session_that_holds_them(store: Store, crowd: list[Job]) -> None:
    (session,) = store.sessions()
    (held,) = store.find(Filter(session=session.id))
    assert (held.ref, held.session) == ("r", session.id)


@pytest.mark.parametrize("state", State)
def test_jobs_are_found_by_their_state(store: Store, crowd: list[Job], state: State) -> None:
    wanted = [job for job in crowd if job.state is state]
    assert wanted
    assert store.find(Filter(states=(state,))) == wanted


def test_several_states_can_be_asked_for_at_once(store: Store, crowd: list[Job]) -> None:
    ended = (State.FINISHED, State.FAILED, State.CANCELLED)
    assert store.find(Filter(states=ended, queue="q")) == [job for job in crowd if job.ended]


def test_jobs_that_repeat_are_found_among_all_others(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    hourly = Policy(repeat="every 1h", timeout=HOUR)
    ids = [put(desk, queue, policy=hourly) for queue in ("running", "q", "q", "ended")]
    put(desk, policy=Policy(timeout=HOUR))
    put(desk)
    clock.pass_(3600)
    take(desk, "running")
    desk.control.cancel(ids[3])
    live = (State.QUEUED, State.RUNNING, State.WAITING)
    assert ids_of(store, repeating=True) == ids
    assert ids_of(store, repeating=True, states=live) == ids[:3]
    assert ids_of(store, repeating=True, states=live, queue="q") == ids[1:3]
    assert ids_of(store, repeating=True, states=live, newest_first=True, limit=2) == ids[2:0:-1]
    assert ids_of(store, repeating=True, states=live, after=ids[1]) == ids[2:3]


def test_a_job_is_found_by_whether_it_repeats_now(desk: Desk, store: Store) -> None:
    hourly = Policy(repeat="every 1h")
    first, second = put(desk, policy=hourly), put(desk)
    desk.control.edit(first, {"policy": Policy()})
    desk.control.edit(second, {"policy": hourly})
    assert ids_of(store, repeating=True, states=(State.QUEUED,)) == [second]
    desk.report.finish(take(desk))
    assert ids_of(store, repeating=True) == [second]


@pytest.mark.parametrize("newest_first", [False, True], ids=["oldest first", "newest first"])
@pytest.mark.parametrize("page", [1, 3, 7, 10, 100])
def test_all_jobs_are_seen_once_page_by_page(
    desk: Desk, store: Store, newest_first: bool, page: int
) -> None:
    ids = [each.id for each in desk.intake.enqueue_many([Job("q"), Job("r")] * 5)]
    wanted = [job_id for job_id in ids if job_id % 2]
    seen_ids: list[int] = []
    after: int | None = None
    while True:
        query = Filter(queue="q", after=after, newest_first=newest_first, limit=page)
        found = [job.id for job in store.find(query)]
        assert len(found) <= page
        if not found:
            break
        seen_ids += found
        after = found[-1]
    assert seen_ids == (wanted[::-1] if newest_first else wanted)


def test_a_page_holds_a_hundred_jobs_unless_told_otherwise(desk: Desk, store: Store) -> None:
    desk.intake.enqueue_many([Job("q")] * 101)
    assert len(store.find(Filter())) == 100


def test_get_gives_what_is_there_and_leaves_out_what_is_not(desk: Desk, store: Store) -> None:
    first, second = put(desk), put(desk)
    desk.control.delete(first)
    assert store.get([first, second, 404, second]) == {second: seen(desk, second)}
    assert store.get([]) == {}
    assert store.get(job_id for job_id in (second,)) == {second: seen(desk, second)}


@pytest.mark.parametrize("kind", [Lost, Adrift, Forgettable])
def test_what_the_watch_looks_for_comes_in_order_and_within_the_limit(
    desk: Desk, store: Store, clock: VirtualClock, kind: type[Lost | Adrift | Forgettable]
) -> None:
    desk.intake.enqueue_many([Job("q", rank=-number) for number in range(6)])
    jobs = desk.dispatch.claim(["q"], 6, visibility=SECOND)
    if kind is Adrift:
        for job in jobs:
            (child,) = desk.intake.spawn(job, [Job("child")])
            store.transact([rules.finish(seen(desk, job.id), now=clock.now)])
            desk.control.edit(child, {"meta": "held"})
    elif kind is Forgettable:
        desk.report.many([(job, Finished()) for job in jobs])
    clock.pass_(2 * 3600)
    found = [job.id for job in store.find(kind(limit=6))]
    assert found == sorted(found)
    assert len(found) == 6
    assert len(store.find(kind(limit=4))) == 4


# -- when to look again --------------------------------------------------------------------


def test_the_next_due_moment_is_the_earliest_that_is_still_to_come(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    now = clock.now
    put(desk, due_at=now + 30)
    put(desk, rank=-9, due_at=now + 50)
    put(desk, "r", key="k", due_at=now + 20)
    put(desk, "r", weight=0, due_at=now + 10)
    put(desk, "s", due_at=now + 1)
    assert store.next_due(["q"]) == now + 30
    assert store.next_due(["q", "r"]) == now + 10
    clock.now = now + 10
    assert store.next_due(["r", "q"]) == now + 20
    clock.now = now + 30
    assert store.next_due(["q", "r"]) == now + 50


def test_nothing_is_due_next_where_nothing_is_to_come(desk: Desk, store: Store) -> None:
    put(desk)
    put(desk, "held")
    take(desk, "held")
    assert store.next_due(["q", "held", "unknown"]) is None
    assert store.next_due([]) is None


@pytest.mark.parametrize("facts", [{}, {"key": "k"}, {"weight": 0}], ids=["plain", "keyed", "free"])
def test_whoever_found_nothing_learns_when_to_come_back(
    desk: Desk, store: Store, clock: VirtualClock, facts: Facts
) -> None:
    moments = [clock.now + offset for offset in (5, 9, 9, 14)]
    for number, due in enumerate(moments):
        put(desk, rank=-number, due_at=due, **facts)
    slept = []
    while (moment := store.next_due(["q"])) is not None:
        assert desk.dispatch.claim(["q"], 10) == []
        clock.now = moment
        slept.append((moment, len(desk.dispatch.claim(["q"], 10))))
    assert slept == [(moments[0], 1), (moments[1], 2), (moments[3], 1)]
