"""Ageing: who has waited long enough goes before newer jobs of a better rank."""

from __future__ import annotations

from stoker.desk import Desk
from stoker.kernel.queue import QueueSettings
from tests.engines import VirtualClock
from tests.store.conformance.acts import SECOND, put, take_all


def age(desk: Desk, seconds: int, **settings: object) -> None:
    settings |= {"ageing": seconds * SECOND}
    desk.control.configure("q", QueueSettings(**settings))  # type: ignore[arg-type]


def test_a_job_gains_a_rank_with_every_step_of_time(desk: Desk, clock: VirtualClock) -> None:
    age(desk, 10)
    slow = put(desk, rank=2)
    clock.pass_(19)
    quick = put(desk, rank=0)
    clock.pass_(2)
    late = put(desk, rank=0)
    assert take_all(desk) == [quick, slow, late]


def test_without_ageing_the_better_rank_always_wins(desk: Desk, clock: VirtualClock) -> None:
    slow = put(desk, rank=1)
    clock.pass_(1_000_000)
    quick = put(desk, rank=0)
    assert take_all(desk) == [quick, slow]


def test_nobody_starves_behind_a_steady_stream_of_better_jobs(
    desk: Desk, clock: VirtualClock
) -> None:
    age(desk, 10)
    low = put(desk, rank=5)
    taken: list[int] = []
    while low not in taken and len(taken) < 100:
        clock.pass_(1)
        put(desk, rank=0)
        taken += take_all(desk, limit=1)
    assert 45 <= len(taken) <= 55


def test_ageing_goes_by_the_time_for_which_a_job_was_due(desk: Desk, clock: VirtualClock) -> None:
    age(desk, 10)
    later = put(desk, rank=0, due_at=clock.now + 30 * SECOND)
    low = put(desk, rank=2)
    clock.pass_(29)
    assert take_all(desk) == [low]
    clock.pass_(1)
    assert take_all(desk) == [later]


def test_ageing_goes_on_among_keys_and_tasks_with_limits(desk: Desk, clock: VirtualClock) -> None:
    age(desk, 10, key_capacity=1, tasks={"t": 1})
    old = [put(desk, rank=2, key=key, name=name) for key, name in (("a", ""), (None, "t"))]
    clock.pass_(25)
    new = [put(desk, rank=0, key=key, name=name) for key, name in (("a", ""), (None, "t"))]
    other = put(desk, rank=0, key="b")
    assert take_all(desk) == [*old, other]
    assert take_all(desk) == []
    assert new


def test_ageing_can_be_switched_on_and_off_while_jobs_wait(desk: Desk, clock: VirtualClock) -> None:
    low = put(desk, rank=1, key="k")
    clock.pass_(30)
    high = [put(desk, rank=0) for _ in range(2)]
    assert take_all(desk, limit=1) == high[:1]
    age(desk, 10)
    assert take_all(desk, limit=1) == [low]
    desk.control.configure("q", QueueSettings())
    assert take_all(desk) == high[1:]
