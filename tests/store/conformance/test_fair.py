"""Fair queues: keys take turns, and nobody's flood keeps the others waiting."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.kernel.queue import Order, QueueSettings
from stoker.kernel.rate import parse_rate
from tests.engines import VirtualClock
from tests.store.conformance.acts import MINUTE, SECOND, put, seen, take_all

ORDERS = pytest.mark.parametrize("order", Order, ids=[order.value for order in Order])


def make_fair(desk: Desk, **settings: Any) -> None:
    desk.control.configure("q", QueueSettings(fair=True, **settings))


def keys(desk: Desk, limit: int = 1000) -> str:
    """The keys of the jobs given out, in order; - for none."""
    return "".join(job.key or "-" for job in desk.dispatch.claim(["q"], limit))


def flood(desk: Desk, text: str) -> None:
    desk.intake.enqueue_many([Job("q", key=None if key == "-" else key) for key in text])


@ORDERS
def test_keys_take_turns_whoever_came_first(desk: Desk, order: Order) -> None:
    make_fair(desk, order=order)
    flood(desk, "aaaaaa" + "bbb" + "c")
    assert keys(desk) == "abcababaaa"


def test_turns_go_on_from_claim_to_claim(desk: Desk) -> None:
    make_fair(desk)
    flood(desk, "aaaabbbbcccc")
    assert "".join(keys(desk, limit) for limit in (1, 1, 2, 3, 1, 4)) == "abcabcabcabc"


def test_jobs_without_a_key_are_one_party_among_the_others(desk: Desk) -> None:
    make_fair(desk)
    flood(desk, "----aa")
    assert keys(desk) == "-a-a--"


def test_who_comes_late_has_the_next_turn_and_not_all_those_it_missed(desk: Desk) -> None:
    make_fair(desk)
    flood(desk, "a" * 12 + "b" * 12)
    assert keys(desk, 10) == "ababababab"
    flood(desk, "cccc")
    assert keys(desk, 6) == "cabcab"


def test_who_leaves_and_comes_back_has_no_more_turns_than_if_it_had_stayed(desk: Desk) -> None:
    make_fair(desk)
    flood(desk, "aaaabbbbcccc")
    got = ""
    for _ in range(8):
        put(desk, key="x")
        got += keys(desk, 1)
    assert Counter(got) == {"a": 2, "b": 2, "c": 2, "x": 2}


def test_a_key_may_have_more_turns_than_others(desk: Desk) -> None:
    make_fair(desk, turns={"a": 2, "b": 0.5})
    flood(desk, "a" * 20 + "b" * 20 + "c" * 20)
    assert Counter(keys(desk, 14)) == {"a": 8, "c": 4, "b": 2}


def test_a_heavy_job_takes_as_many_turns_as_it_weighs(desk: Desk) -> None:
    make_fair(desk)
    desk.intake.enqueue_many([Job("q", key="a", weight=3000)] * 3)
    flood(desk, "b" * 9)
    assert Counter(keys(desk, 8)) == {"a": 2, "b": 6}


def test_within_a_key_the_order_of_the_queue_holds(desk: Desk) -> None:
    make_fair(desk)
    a = [put(desk, key="a", rank=rank) for rank in (3, 1, 2)]
    b = [put(desk, key="b", rank=rank) for rank in (9, 8)]
    assert take_all(desk) == [a[1], b[1], a[2], b[0], a[0]]


def test_a_turn_counts_for_a_keys_jobs_of_every_rank_and_task(desk: Desk) -> None:
    make_fair(desk, tasks={"t": 9})
    a = [put(desk, key="a", rank=rank, name=name) for rank, name in ((0, ""), (5, ""), (5, "t"))]
    b = [put(desk, key="b", rank=5) for _ in range(2)]
    taken = [take_all(desk, limit=1)[0] for _ in range(5)]
    assert taken == [a[0], b[0], a[1], b[1], a[2]]


def test_critical_jobs_wait_for_no_turn_and_use_none(desk: Desk) -> None:
    make_fair(desk)
    flood(desk, "aaabbb")
    critical = put(desk, key="b", weight=0, rank=7)
    assert take_all(desk, limit=1) == [critical]
    assert keys(desk) == "ababab"


def test_a_key_that_has_nothing_due_does_not_hold_up_the_others(
    desk: Desk, clock: VirtualClock
) -> None:
    make_fair(desk)
    later = [put(desk, key="z", due_at=clock.now + 5 * SECOND) for _ in range(2)]
    flood(desk, "aabb")
    assert keys(desk) == "abab"
    assert desk.store.next_due(["q"]) == clock.now + 5 * SECOND
    clock.pass_(5)
    flood(desk, "ab")
    assert take_all(desk, limit=1) == later[:1]


def test_a_better_job_that_is_not_due_does_not_hide_a_due_one_of_its_key(
    desk: Desk, clock: VirtualClock
) -> None:
    make_fair(desk)
    put(desk, key="a", rank=-5, due_at=clock.now + MINUTE)
    due = put(desk, key="a", rank=3)
    assert take_all(desk) == [due]


def test_capacity_and_keys_hold_in_a_fair_queue_and_blocked_keys_lose_no_turn(desk: Desk) -> None:
    make_fair(desk, capacity=4, key_capacity=2)
    flood(desk, "aaaabbbb")
    first = desk.dispatch.claim(["q"], 10)
    assert "".join(job.key or "-" for job in first) == "abab"
    flood(desk, "c")
    desk.report.finish(seen(desk, first[0].id))
    assert keys(desk) == "c"
    desk.report.finish(seen(desk, first[2].id))
    assert keys(desk) == "a"


def test_a_key_over_its_rate_gives_its_turn_away_and_is_next_when_it_may(
    desk: Desk, clock: VirtualClock
) -> None:
    make_fair(desk, key_rates={"a": parse_rate("1 per minute, fixed")})
    flood(desk, "aaabbbbbb")
    assert keys(desk, 4) == "abbb"
    clock.now = clock.now // MINUTE * MINUTE + MINUTE
    assert keys(desk, 3) in ("bab", "abb", "bba")


def test_tasks_have_their_limits_in_a_fair_queue(desk: Desk) -> None:
    make_fair(desk, tasks={"t": 1})
    a = [put(desk, key="a", name="t") for _ in range(2)]
    b = [put(desk, key="b", name=name) for name in ("t", "u")]
    c = put(desk, key="c", name="t")
    assert take_all(desk) == [a[0], b[1]]
    desk.report.finish(seen(desk, a[0]))
    assert take_all(desk, limit=1) in ([b[0]], [c], [a[1]])


def test_fairness_can_be_switched_on_and_off_while_jobs_wait(desk: Desk) -> None:
    flood(desk, "aaaabbbb")
    assert keys(desk, 2) == "aa"
    make_fair(desk)
    assert keys(desk, 3) == "aba"
    desk.control.configure("q", QueueSettings())
    assert keys(desk) == "bbb"


def test_turns_mean_nothing_any_more_when_fairness_was_switched_off(
    desk: Desk, clock: VirtualClock
) -> None:
    make_fair(desk)
    flood(desk, "aaa")
    assert keys(desk) == "aaa"
    desk.control.configure("q", QueueSettings(key_capacity=5))
    desk.intake.enqueue(Job("q", key="b", due_at=clock.now + SECOND))
    clock.pass_(2)
    flood(desk, "c")
    assert keys(desk) == "bc"


def test_turns_are_remembered_while_fairness_is_switched_off(desk: Desk) -> None:
    make_fair(desk)
    flood(desk, "aabb")
    assert keys(desk, 1) == "a"
    desk.control.configure("q", QueueSettings(key_capacity=5))
    make_fair(desk)
    assert keys(desk) == "bab"


def test_a_key_whose_last_job_is_gone_has_had_its_turn(desk: Desk) -> None:
    make_fair(desk)
    flood(desk, "ab")
    last = put(desk, key="a")
    assert keys(desk, 1) == "a"
    desk.control.delete(last)
    flood(desk, "ab")
    assert keys(desk) == "bab"


def test_nobody_waits_longer_than_a_round_whatever_the_others_bring(desk: Desk) -> None:
    dice = random.Random(7)
    make_fair(desk)
    flood(desk, "abcd" * 10)
    since: Counter[str] = Counter()
    for _ in range(60):
        flood(desk, dice.choice(("aaaaa", "bb", "c", "dab")))
        key = keys(desk, 1)
        since += Counter("abcd")
        del since[key]
        assert max(since.values()) <= 6
