"""Short scenes of what random lives come upon too seldom: limits that are reached, and turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoker.desk import Desk
from stoker.kernel import control
from stoker.kernel.change import Change, NoteWrite
from stoker.kernel.job import WHOLE_WEIGHT, Job, State
from stoker.kernel.queue import Order, QueueSettings
from stoker.kernel.rate import parse_rate
from stoker.store import Filter
from tests.engines import VirtualClock

Scene = Callable[[Desk, VirtualClock], list[list[int]]]
"""Tells which jobs were given out, claim by claim."""


def put(desk: Desk, count: int, queue: str = "q", **facts: Any) -> None:
    desk.intake.enqueue_many([Job(queue, **facts)] * count)


def take(desk: Desk, limit: int = 10, queue: str = "q") -> list[int]:
    return [job.id for job in desk.dispatch.claim([queue], limit)]


def finish_all(desk: Desk) -> None:
    for job in desk.store.find(Filter()):
        if job.token is not None:
            desk.report.finish(job)


def finish_of(desk: Desk, *keys: str) -> None:
    for job in desk.store.find(Filter()):
        if job.token is not None and job.key in keys:
            desk.report.finish(job)


def one_limit_for_two_queues(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("outer", QueueSettings(capacity=2))
    desk.control.configure("q", QueueSettings(within="outer"))
    put(desk, 3)
    return [take(desk), take(desk)]


def the_old_before_the_better(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(ageing=1_000_000))
    for key in (None, "k"):
        put(desk, 1, rank=2, key=key)
    clock.pass_(5)
    for key in (None, "k"):
        put(desk, 1, rank=0, key=key)
    return [take(desk, 1), take(desk, 1), take(desk, 1)]


def first_come_first_served(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(order=Order.TIME_RANK))
    put(desk, 1, rank=5)
    clock.pass_(1)
    put(desk, 1, rank=-5)
    return [take(desk, 1)]


def a_key_that_is_full_for_a_while(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(key_capacity=1))
    put(desk, 3, key="k")
    given = [take(desk), take(desk)]
    put(desk, 1, key="k", rank=-1)
    given.append(take(desk))
    finish_all(desk)
    return [*given, take(desk), take(desk)]


def a_task_that_gets_a_limit(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    put(desk, 4, name="t")
    given = [take(desk, 1)]
    desk.control.configure("q", QueueSettings(tasks={"t": 2}))
    given += [take(desk), take(desk)]
    desk.control.configure("q", QueueSettings(tasks={"other": 1}))
    return [*given, take(desk)]


def a_note_that_somebody_else_has_written(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    changes = [Change(notes=(NoteWrite("n", said, expect=0),)) for said in (b"1", b"2")]
    told = [[*desk.store.transact([change]).receipts] for change in changes]
    return [
        [receipt.ok for each in told for receipt in each],
        [int(desk.store.notes(["n"])["n"].value)],
    ]


def rates_of_all_kinds(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    given = []
    rate = parse_rate("1 per minute")
    for limit in ({"rate": rate}, {"key_rate": rate}, {"task_rates": {"": rate}}):
        desk.control.configure("q", QueueSettings(**limit))
        put(desk, 3, key="k")
        given += [take(desk), take(desk)]
        clock.pass_(100)
        given += [take(desk), take(desk)]
        clock.pass_(1000)
    return given


def one_who_has_to_miss_its_turns(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    rates = {"slow": parse_rate("1 per minute")}
    desk.control.configure("q", QueueSettings(fair=True, key_rates=rates))
    for key in ("slow", "a", "b"):
        put(desk, 6, key=key)
    given = [take(desk, 3) for _ in range(3)]
    clock.pass_(100)
    return [*given, *(take(desk, 3) for _ in range(3))]


def turns_that_a_full_key_misses(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(fair=True, key_capacity=1))
    for key in ("a", "b", "c"):
        put(desk, 5, key=key)
    given = [take(desk, 3)]
    for _ in range(2):
        finish_of(desk, "b", "c")
        given.append(take(desk, 2))
    finish_all(desk)
    return [*given, take(desk, 1)]


def turns_that_a_full_task_misses(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(fair=True, tasks={"t": 1}))
    put(desk, 2, name="t", key="a")
    put(desk, 6, name="u", key="b")
    given = [take(desk, 1) for _ in range(4)]
    finish_of(desk, "a")
    return [*given, take(desk, 1)]


def a_lane_that_is_longer_than_it_looks(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(key_capacity=2))
    for key in ("a", "a", "b", "c", "d", "a"):
        put(desk, 1, key=key)
    given = [take(desk, 4)]
    finish_all(desk)
    return [*given, take(desk, 1)]


def a_heavy_job_that_nobody_overtakes(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(key_capacity=2))
    put(desk, 1, key="k")
    given = [take(desk)]
    put(desk, 1, key="k", weight=2 * WHOLE_WEIGHT)
    put(desk, 1, key="k", rank=1)
    return [*given, take(desk), take(desk)]


def one_by_one(desk: Desk, places: int, *weights: int) -> list[list[int]]:
    """Jobs of one key come, each when the one before has been asked for."""
    desk.control.configure("q", QueueSettings(key_capacity=places))
    given = []
    for weight in weights:
        put(desk, 1, key="k", weight=weight)
        given.append(take(desk))
    return given


def one_who_comes_when_its_key_is_full(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    return one_by_one(desk, 1, WHOLE_WEIGHT, WHOLE_WEIGHT)


def one_who_is_too_heavy_for_what_is_left(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    return one_by_one(desk, 2, WHOLE_WEIGHT, 2 * WHOLE_WEIGHT)


def a_pair_of_a_key_with_one_place(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(key_capacity=1))
    put(desk, 1, key="other")
    given = [take(desk, 1)]
    put(desk, 2, key="k")
    return [*given, take(desk, 2)]


def a_heavy_job_and_one_behind_it(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(key_capacity=2))
    put(desk, 1, key="other")
    given = [take(desk, 1)]
    for weight in (2 * WHOLE_WEIGHT, WHOLE_WEIGHT):
        put(desk, 1, key="k", weight=weight)
    return [*given, take(desk, 2)]


def one_who_runs_and_two_who_come(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(key_capacity=2))
    put(desk, 1, key="k")
    given = [take(desk, 1)]
    put(desk, 2, key="k")
    return [*given, take(desk, 2)]


def heavy_jobs_between_others(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(key_capacity=2))
    for key, weight in (("other", 2), ("a", 1), ("b", 2), ("a", 1)):
        put(desk, 1, key=key, weight=weight * WHOLE_WEIGHT)
    return [take(desk, 1), take(desk, 1), take(desk, 1)]


def keys_that_take_turns(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(fair=True))
    for key in ("a", "b"):
        put(desk, 4, key=key)
    return [take(desk, 2), take(desk, 3)]


def keys_that_take_all_their_turns(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(fair=True))
    for key in ("a", "b"):
        put(desk, 3, key=key)
    return [take(desk, 2), take(desk, 3)]


def one_who_comes_back_after_its_turn(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(fair=True))
    put(desk, 1, key="a")
    put(desk, 1, key="b")
    given = [take(desk, 1)]
    put(desk, 1, key="a", rank=-1)
    return [*given, take(desk, 1)]


def turns_of_a_key_with_jobs_of_two_ranks(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(fair=True))
    for key, rank in (("a", -1), ("a", 0), ("b", 0)):
        put(desk, 1, key=key, rank=rank)
    return [take(desk, 1), take(desk, 1)]


def two_at_once_of_which_one_key_has_two_ranks(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(fair=True))
    for key, rank in (("a", -1), ("a", 0), ("b", 0)):
        put(desk, 1, key=key, rank=rank)
    return [take(desk, 2), take(desk, 1)]


def one_who_leaves_from_behind_a_heavy_job(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(key_capacity=2))
    put(desk, 1, key="k")
    given = [take(desk)]
    put(desk, 1, key="k", rank=-1, weight=2 * WHOLE_WEIGHT)
    put(desk, 2, key="k")
    given.append(take(desk))
    leaves = min(job.id for job in desk.store.find(Filter(states=(State.QUEUED,))) if job.rank == 0)
    desk.control.cancel(leaves)
    given.append(take(desk))
    finish_all(desk)
    return [*given, take(desk)]


def thirteen_turns_of_twelve_keys(desk: Desk) -> list[int]:
    desk.control.configure("q", QueueSettings(fair=True))
    for key in "abcdefghijkl":
        put(desk, 3, key=key)
    return take(desk, 13)


def turns_before_somebody_came_with_another_rank(
    desk: Desk, clock: VirtualClock
) -> list[list[int]]:
    given = [thirteen_turns_of_twelve_keys(desk)]
    put(desk, 1, key="a", rank=-1)
    return [*given, take(desk, 12)]


def turns_before_the_order_was_another(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    given = [thirteen_turns_of_twelve_keys(desk)]
    desk.control.configure("q", QueueSettings(fair=True, order=Order.TIME_RANK))
    return [*given, take(desk, 12)]


def one_who_gets_another_rank_after_its_turn(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(fair=True))
    put(desk, 2, key="a", rank=1)
    given = [take(desk, 1)]
    (queued,) = desk.store.find(Filter(states=(State.QUEUED,)))
    desk.store.transact([control.edit(queued, {"rank": 0})])
    put(desk, 1, key="b")
    return [*given, take(desk, 1)]


def keys_whose_jobs_came_by_turns(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(key_capacity=9))
    for key in ("a", "b", "a", "b"):
        put(desk, 1, key=key)
    return [take(desk, 1), take(desk, 1), take(desk, 1)]


def a_key_with_most_of_the_jobs(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(key_capacity=10))
    put(desk, 6, key="a")
    for key in ("b", "c", "d"):
        put(desk, 1, key=key)
    return [take(desk, 4)]


def a_key_with_jobs_of_two_ranks(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(key_capacity=1))
    for rank in (0, 1):
        put(desk, 1, key="k", rank=rank)
    given = [take(desk)]
    put(desk, 1)
    return [*given, take(desk)]


def turns_of_one_with_more_than_is_looked_at(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(fair=True))
    put(desk, 10, key="a")
    put(desk, 1, key="b")
    return [take(desk, 6), take(desk, 6)]


def a_lane_that_gives_more_than_was_seen(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(capacity=100, key_capacity=100))
    put(desk, 60, key="a")
    return [take(desk, 25), take(desk, 25)]


def in_a_queue_with_places(desk: Desk, places: int, *jobs: Job) -> list[list[int]]:
    """One job runs when these come, which are asked for together, and again when all have ended."""
    desk.control.configure("q", QueueSettings(capacity=places))
    put(desk, 1)
    given = [take(desk, 1)]
    desk.intake.enqueue_many(jobs)
    given.append(take(desk))
    finish_all(desk)
    return [*given, take(desk), take(desk)]


def more_than_a_queue_has_places_for(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    return in_a_queue_with_places(desk, 3, *[Job("q")] * 4)


def heavy_jobs_in_a_queue_with_places(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    heavy = Job("q", weight=2 * WHOLE_WEIGHT)
    return in_a_queue_with_places(desk, 3, heavy, heavy, Job("q"))


def one_with_a_key_in_a_queue_with_places(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    return in_a_queue_with_places(desk, 2, Job("q", key="k"), Job("q"))


def one_that_needs_none_of_the_places(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    return in_a_queue_with_places(desk, 1, Job("q"), Job("q", weight=0))


def filled(desk: Desk) -> list[int]:
    """What is remembered of the queue's own rate, and when it lets somebody in."""
    remembered = desk.store.flows("q", [""]).get("", "")
    return [*map(int, remembered.split()), desk.store.next_due(["q"]) or 0]


def a_bucket_that_is_emptied_bit_by_bit(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(rate=parse_rate("1 per minute, burst 5")))
    put(desk, 20)
    given = []
    for limit in (1, 1, 2, 1, 1):
        given += [take(desk, limit), filled(desk)]
        clock.pass_(1)
    for _ in range(3):  # what was refused has its moment, and then there is enough again
        clock.pass_(300)
        given += [take(desk, 2), filled(desk)]
    return given


def a_bucket_that_had_more_than_time_enough_to_fill(
    desk: Desk, clock: VirtualClock
) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(rate=parse_rate("1 per minute, burst 5")))
    put(desk, 20)
    given = [take(desk, 1)]
    clock.pass_(3600)
    return [*given, take(desk, 10), filled(desk)]


def a_bucket_that_was_filled_by_a_later_clock(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(rate=parse_rate("1 per minute, burst 5")))
    put(desk, 20, due_at=clock.now - 10_000_000_000)
    given = [take(desk, 1) for _ in range(4)]
    clock.pass_(-3600)
    given += [take(desk, 1) for _ in range(4)]
    return [*given, filled(desk)]


def a_bucket_and_places(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    rate = parse_rate("1 per minute, burst 6")
    desk.control.configure("q", QueueSettings(rate=rate, capacity=2))
    put(desk, 20)
    given = []
    for _ in range(4):
        given += [take(desk, 1), take(desk, 3), filled(desk)]
        finish_all(desk)
    return given


def heavy_jobs_before_a_bucket(desk: Desk, clock: VirtualClock) -> list[list[int]]:
    desk.control.configure("q", QueueSettings(rate=parse_rate("1 per minute, burst 6")))
    put(desk, 2)
    given = [take(desk, 1), take(desk, 1)]
    put(desk, 2, weight=2 * WHOLE_WEIGHT)
    return [*given, take(desk, 1), take(desk, 1), filled(desk)]


SCENES: tuple[Scene, ...] = (
    one_limit_for_two_queues,
    the_old_before_the_better,
    first_come_first_served,
    a_key_that_is_full_for_a_while,
    a_task_that_gets_a_limit,
    a_note_that_somebody_else_has_written,
    rates_of_all_kinds,
    one_who_has_to_miss_its_turns,
    turns_that_a_full_key_misses,
    turns_that_a_full_task_misses,
    a_lane_that_is_longer_than_it_looks,
    a_heavy_job_that_nobody_overtakes,
    one_who_comes_when_its_key_is_full,
    one_who_is_too_heavy_for_what_is_left,
    a_pair_of_a_key_with_one_place,
    a_heavy_job_and_one_behind_it,
    one_who_runs_and_two_who_come,
    heavy_jobs_between_others,
    keys_that_take_turns,
    keys_that_take_all_their_turns,
    one_who_comes_back_after_its_turn,
    turns_of_a_key_with_jobs_of_two_ranks,
    two_at_once_of_which_one_key_has_two_ranks,
    one_who_leaves_from_behind_a_heavy_job,
    turns_before_somebody_came_with_another_rank,
    turns_before_the_order_was_another,
    one_who_gets_another_rank_after_its_turn,
    keys_whose_jobs_came_by_turns,
    a_key_with_most_of_the_jobs,
    a_key_with_jobs_of_two_ranks,
    turns_of_one_with_more_than_is_looked_at,
    a_lane_that_gives_more_than_was_seen,
    more_than_a_queue_has_places_for,
    heavy_jobs_in_a_queue_with_places,
    one_with_a_key_in_a_queue_with_places,
    one_that_needs_none_of_the_places,
    a_bucket_that_is_emptied_bit_by_bit,
    a_bucket_that_had_more_than_time_enough_to_fill,
    a_bucket_that_was_filled_by_a_later_clock,
    a_bucket_and_places,
    heavy_jobs_before_a_bucket,
)
