"""Copies: many jobs taken in as one must be just what they would be one by one."""

from __future__ import annotations

from itertools import chain
from typing import Any

import msgspec
import pytest

from stoker.desk import Desk
from stoker.errors import BadInput
from stoker.kernel.change import Change, Copies
from stoker.kernel.job import Format, Job, State
from stoker.kernel.policy import OnLost, Policy
from stoker.kernel.queue import Order
from stoker.store import Store
from tests.engines import VirtualClock
from tests.store.conformance.acts import SECOND, seen, take_all

TEMPLATES: dict[str, dict[str, Any]] = {
    "plain": {},
    "named": {"name": "greet", "format": Format.TEXT, "rank": -3},
    "of another policy": {"policy": Policy(on_lost=OnLost.FAIL, timeout=None)},
    "keyed": {"key": "ann"},
    "heavy": {"weight": 2500},
    "critical": {"weight": 0},
    "with a note": {"meta": "from the old system"},
}


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize("order", Order)
def test_copies_are_jobs_like_any_other(
    desk: Desk, clock: VirtualClock, kind: str, order: Order
) -> None:
    desk.control.adjust("q", order=order)
    template = Job("q", **TEMPLATES[kind])
    payloads = [b"%d" % number for number in range(7)]
    ids = desk.intake.enqueue_copies(template, payloads)
    singly = [desk.intake.enqueue(msgspec.structs.replace(template, payload=b"x")).id]
    assert [seen(desk, job_id).payload for job_id in ids] == payloads
    one_of_many = msgspec.structs.replace(seen(desk, ids[3]), id=0, payload=b"x")
    assert one_of_many == msgspec.structs.replace(seen(desk, singly[0]), id=0)
    (view,) = desk.store.survey(["q"])
    assert view.counts[State.QUEUED] == 8
    assert take_all(desk) == [*ids, *singly]


def test_copies_wait_for_room_like_any_other(desk: Desk) -> None:
    desk.control.adjust("q", key_capacity=1)
    ids = desk.intake.enqueue_copies(Job("q", key="ann"), [b"1", b"2", b"3"])
    assert take_all(desk) == [ids[0]]
    assert desk.store.survey(["q"])[0].counts[State.QUEUED] == 2


def test_copies_take_turns_like_any_other(desk: Desk) -> None:
    desk.control.adjust("q", fair=True)
    ann = desk.intake.enqueue_copies(Job("q", key="ann"), [b"1", b"2", b"3"])
    bob = desk.intake.enqueue_copies(Job("q", key="bob"), [b"1", b"2", b"3"])
    assert take_all(desk) == [*chain.from_iterable(zip(ann, bob, strict=True))]


def test_where_time_comes_first_a_rank_does_not_help_copies(
    desk: Desk, clock: VirtualClock
) -> None:
    desk.control.adjust("q", order=Order.TIME_RANK)
    earlier = desk.intake.enqueue(Job("q")).id
    clock.pass_(1)
    later = desk.intake.enqueue_copies(Job("q", rank=-3), [b"1", b"2"])
    assert take_all(desk) == [earlier, *later]


def test_a_copy_with_a_long_payload_keeps_it(desk: Desk) -> None:
    payloads = [b"short", b"x" * 100_000, b""]
    ids = desk.intake.enqueue_copies(Job("q"), payloads)
    assert [seen(desk, job_id).payload for job_id in ids] == payloads


def test_hundreds_of_copies_keep_their_order(desk: Desk) -> None:
    payloads = [b"%d" % number for number in range(1234)]
    ids = desk.intake.enqueue_copies(Job("q"), payloads)
    assert list(ids) == sorted(ids)
    claimed = [*desk.dispatch.claim(["q"], 1000), *desk.dispatch.claim(["q"], 1000)]
    assert [job.payload for job in claimed] == payloads


def test_copies_go_in_together_with_other_changes(store: Store) -> None:
    now = store.now()
    template = Job("q", due_at=now, created_at=now, scheduled_at=now)
    changes = [
        Change(inserts=Copies(template, [b"1", b"2"])),
        Change(inserts=(msgspec.structs.replace(template, payload=b"3", ref="three"),)),
        Change(inserts=Copies(template, [b"4"])),
    ]
    receipts = store.transact(changes).receipts
    ids = [job_id for receipt in receipts for job_id in receipt.ids]
    assert [store.get([job_id])[job_id].payload for job_id in ids] == [b"1", b"2", b"3", b"4"]


def test_copies_and_single_jobs_stand_in_one_line(desk: Desk, clock: VirtualClock) -> None:
    first = [desk.intake.enqueue(Job("q")).id]
    early = [*desk.intake.enqueue_copies(Job("q"), [b"1"] * 6)]
    between = [desk.intake.enqueue(Job("q")).id]
    urgent = [*desk.intake.enqueue_copies(Job("q", rank=-2), [b"1"] * 5)]
    elsewhere = [*desk.intake.enqueue_copies(Job("r"), [b"1"] * 6)]
    clock.pass_(1)
    late = [*desk.intake.enqueue_copies(Job("q"), [b"1"] * 6), desk.intake.enqueue(Job("r")).id]
    taken: list[int] = []
    while claimed := desk.dispatch.claim(["q", "r"], 4):
        taken += [job.id for job in claimed]
    assert taken == [*urgent, *first, *early, *between, *elsewhere, *late]


def test_copies_that_are_changed_stand_where_they_belong(desk: Desk, clock: VirtualClock) -> None:
    ids = [*desk.intake.enqueue_copies(Job("q"), [b"%d" % number for number in range(8)])]
    desk.control.delete(ids[0])
    desk.control.cancel(ids[1])
    desk.control.edit(ids[4], {"rank": -1})
    desk.control.edit(ids[5], {"queue": "r"})
    desk.control.edit(ids[6], {"payload": b"new"})
    assert take_all(desk) == [ids[4], ids[2], ids[3], ids[6], ids[7]]
    assert take_all(desk, "r") == [ids[5]]


@pytest.mark.parametrize("settings", [{"order": Order.TIME_RANK}, {"capacity": 9}, {"fair": True}])
def test_copies_stay_in_line_when_their_queue_gets_other_settings(
    desk: Desk, settings: dict[str, Any]
) -> None:
    ids = [*desk.intake.enqueue_copies(Job("q"), [b"1"] * 5)]
    desk.control.adjust("q", **settings)
    ids += desk.intake.enqueue_copies(Job("q"), [b"2"] * 5)
    assert take_all(desk, limit=2) == ids[:2]
    desk.control.adjust("q", order=Order.RANK_TIME, capacity=None, fair=False)
    ids += desk.intake.enqueue_copies(Job("q"), [b"3"] * 5)
    assert take_all(desk) == ids[2:]


def test_copies_are_due_when_they_were_told_to_be(desk: Desk, clock: VirtualClock) -> None:
    due = clock.now + 5 * SECOND
    ids = [*desk.intake.enqueue_copies(Job("q", due_at=due), [b"1"] * 5)]
    assert (take_all(desk), desk.store.next_due(["q"])) == ([], due)
    desk.control.delete(ids[0])
    assert desk.store.next_due(["q"]) == due
    clock.pass_(5)
    assert (take_all(desk), desk.store.next_due(["q"])) == (ids[1:], None)


def test_copies_that_are_all_gone_are_not_waited_for(desk: Desk, clock: VirtualClock) -> None:
    due = clock.now + 5 * SECOND
    for job_id in desk.intake.enqueue_copies(Job("q", due_at=due), [b"1"] * 5):
        desk.control.delete(job_id)
    assert desk.store.next_due(["q"]) is None


def test_copies_of_nothing_are_nothing(desk: Desk) -> None:
    assert list(desk.intake.enqueue_copies(Job("q"), [])) == []


@pytest.mark.parametrize("name", [{"unique_key": "ann"}, {"ref": "order 7"}])
def test_a_job_with_a_name_of_its_own_cannot_be_copied(desk: Desk, name: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="copies of a job cannot all have"):
        desk.intake.enqueue_copies(Job("q", **name), [b"1", b"2"])


def test_a_copy_whose_payload_is_no_bytes_is_refused(desk: Desk) -> None:
    text: Any = "1"
    with pytest.raises(BadInput, match="a payload must be bytes"):
        desk.intake.enqueue_copies(Job("q"), [b"1", text])
    assert desk.store.survey() == []
