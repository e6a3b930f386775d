"""Limits by task: so many of one kind at once, whatever their keys, and the others pass."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.kernel.outcome import Awaits
from stoker.kernel.queue import Order, QueueSettings
from tests.store.conformance.acts import put, running, seen, take_all

ORDERS = pytest.mark.parametrize("order", Order, ids=[order.value for order in Order])


def limit(desk: Desk, **settings: Any) -> None:
    desk.control.configure("q", QueueSettings(**settings))


def done(desk: Desk, job_id: int) -> None:
    desk.report.finish(seen(desk, job_id))


@ORDERS
def test_never_more_of_a_task_run_than_it_may_and_others_pass(desk: Desk, order: Order) -> None:
    limit(desk, tasks={"resize": 2}, order=order)
    resize = [put(desk, name="resize") for _ in range(4)]
    mail = [put(desk, name="mail") for _ in range(2)]
    assert take_all(desk) == [*resize[:2], *mail]
    done(desk, mail[0])
    assert take_all(desk) == []
    done(desk, resize[1])
    assert take_all(desk) == resize[2:3]


def test_jobs_of_a_task_count_together_whatever_their_keys(desk: Desk) -> None:
    limit(desk, tasks={"resize": 3}, key_capacity=2)
    resize = [put(desk, name="resize", key=key) for key in ("a", "a", "a", "b", None)]
    mail = [put(desk, name="mail", key="a"), put(desk, name="mail", key="c")]
    # The third of "a" waits for its key, so does its mail; "b" has the task's third place.
    assert take_all(desk) == [*resize[:2], resize[3], mail[1]]
    done(desk, resize[0])
    assert take_all(desk) == [resize[2]]
    done(desk, resize[3])
    assert take_all(desk) == [resize[4]]
    done(desk, resize[1])
    assert take_all(desk) == [mail[0]]


def test_a_key_whose_task_is_full_may_run_its_other_jobs(desk: Desk) -> None:
    limit(desk, tasks={"resize": 1})
    resize = [put(desk, name="resize", key="a") for _ in range(3)]
    mail = put(desk, name="mail", key="a")
    assert take_all(desk) == [resize[0], mail]


def test_a_limit_that_is_set_later_holds_for_those_who_wait_and_counts_those_who_run(
    desk: Desk,
) -> None:
    ids = [put(desk, name="resize", key=key) for key in (None, "a", None, "a", None)]
    other = put(desk, name="mail", key="a")
    assert take_all(desk, limit=2) == ids[:2]
    limit(desk, tasks={"resize": 3})
    assert take_all(desk) == [ids[2], other]
    limit(desk, tasks={"resize": 4, "mail": 1})
    assert take_all(desk) == [ids[3]]
    limit(desk)
    assert take_all(desk) == [ids[4]]


def test_a_heavy_job_of_a_task_is_not_passed_by_lighter_ones_of_the_task(desk: Desk) -> None:
    limit(desk, tasks={"resize": 2})
    first = put(desk, name="resize")
    heavy = put(desk, name="resize", weight=2000)
    light = put(desk, name="resize", weight=500)
    assert take_all(desk) == [first]
    done(desk, first)
    assert take_all(desk) == [heavy]
    done(desk, heavy)
    assert take_all(desk) == [light]


def test_a_job_that_waits_for_an_answer_keeps_its_place_in_its_task(desk: Desk) -> None:
    limit(desk, tasks={"ask": 1})
    job = running(desk, name="ask")
    second = put(desk, name="ask")
    desk.report.wait(job, Awaits("k"))
    assert take_all(desk) == []
    desk.control.reply("k", b"1")
    assert take_all(desk) in ([job.id], [second])


def test_tasks_keep_the_order_of_the_queue_among_themselves(desk: Desk) -> None:
    limit(desk, tasks={"a": 2, "b": 2}, capacity=3)
    wanted = zip("abacab", (3, 1, 2, 0, 5, 4), strict=True)
    ids = [put(desk, name=name, rank=rank) for name, rank in wanted]
    assert take_all(desk) == [ids[3], ids[1], ids[2]]


def test_a_change_of_name_or_key_moves_a_job_to_where_it_belongs(desk: Desk) -> None:
    limit(desk, tasks={"resize": 1})
    first, second = put(desk, name="resize"), put(desk, name="resize", key="a")
    assert take_all(desk) == [first]
    desk.control.edit(second, {"name": "mail"})
    assert take_all(desk) == [second]


def test_many_in_one_call_find_their_places(desk: Desk) -> None:
    limit(desk, tasks={"resize": 5})
    desk.intake.enqueue_many([Job("q", "resize")] * 20)
    desk.intake.enqueue_many([Job("q", "mail")] * 3)
    assert len(take_all(desk)) == 8
