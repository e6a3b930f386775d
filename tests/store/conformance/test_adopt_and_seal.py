"""Taking over jobs as they are, and stores that are sealed while jobs move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from stoker.desk import Desk
from stoker.errors import StoreMoved
from stoker.kernel.change import Change, Copies, NoteWrite
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Finished
from stoker.kernel.policy import Policy
from stoker.kernel.queue import Order
from stoker.store import Store
from stoker.store.seal import UNSEALED, Seal, sealed
from tests.engines import VirtualClock
from tests.store.conformance.acts import HOUR, SECOND, put, running, seen, snapshot, take_all

REPLACE = msgspec.structs.replace

CLOSING = sealed(Seal("the jobs have moved to the moon"))
SHUT = sealed(Seal("the jobs have moved to the moon", shut=True))


def strangers(now: int) -> list[Job]:
    """Jobs in every state, as another store would hand them over."""
    common: dict[str, Any] = {"queue": "q", "created_at": now, "scheduled_at": now, "due_at": now}
    return [
        Job(**common, id=3, payload=b"x" * 5000, rank=-2, key="ann", unique_key="u", revision=4),
        Job(**common, id=4, state=State.RUNNING, token=77, started_at=now, attempt=2, revision=5),
        Job(**common, id=8, state=State.WAITING, waits_for="reply:7", until=now + HOUR, weight=500),
        Job(**common, id=9, state=State.FINISHED, ended_at=now, until=now + HOUR, result=b"9"),
        Job(
            **common, id=10, state=State.FAILED, ended_at=now, error="broken", ref="ten", crashes=1
        ),
        Job(**common, id=11, state=State.CANCELLED, ended_at=now, meta="m", progress=0.5),
        Job(**common, id=12, policy=Policy(repeat="every 5m"), weight=0, parent_id=4),
    ]


def test_adopted_jobs_are_just_what_they_were(store: Store, clock: VirtualClock) -> None:
    jobs = strangers(clock.now)
    store.adopt(jobs)
    assert store.get([job.id for job in jobs]) == {job.id: job for job in jobs}
    (view,) = store.survey(["q"])
    assert view.counts == {**dict.fromkeys(State, 1), State.QUEUED: 2}
    assert view.used == 1500


def test_adopted_jobs_live_on(desk: Desk, clock: VirtualClock) -> None:
    jobs = strangers(clock.now)
    desk.store.adopt(jobs)
    assert desk.report.finish(jobs[1], b"done").state is State.FINISHED
    assert desk.control.reply("7", b"yes").value == "delivered"
    assert take_all(desk) == [3, 8, 12]
    assert put(desk) > 12


def test_adopting_again_changes_nothing(store: Store, clock: VirtualClock) -> None:
    store.adopt(strangers(clock.now))
    before = snapshot(store)
    store.adopt(strangers(clock.now))
    assert snapshot(store) == before


@pytest.mark.parametrize("order", Order)
def test_what_is_adopted_takes_the_place_of_what_was_there(
    desk: Desk, clock: VirtualClock, order: Order
) -> None:
    desk.control.adjust("q", order=order)
    there = [put(desk, key="bob"), put(desk, unique_key="u"), put(desk, rank=5)]
    newer = REPLACE(seen(desk, there[0]), key="ann", rank=9, revision=7, payload=b"y" * 9000)
    twin = REPLACE(seen(desk, there[1]), id=40, rank=7)
    desk.store.adopt([newer, twin])
    assert desk.store.get(there) == {there[0]: newer, there[2]: seen(desk, there[2])}
    assert take_all(desk) == [there[2], 40, there[0]]
    assert put(desk) == 41


def test_a_closing_store_takes_no_jobs_and_gives_none_out(desk: Desk) -> None:
    job, waiting = running(desk), put(desk)
    desk.store.transact([CLOSING])
    with pytest.raises(StoreMoved, match=r"^the jobs have moved to the moon$"):
        put(desk)
    with pytest.raises(StoreMoved):
        desk.intake.enqueue_copies(Job("q"), [b"1", b"2"])
    assert take_all(desk) == []
    _, grants = desk.report.many([(job, Finished())], [desk.dispatch.request(["q"], 5)])
    assert list(grants[0] or ()) == []
    assert (seen(desk, job.id).state, seen(desk, waiting).state) == (State.FINISHED, State.QUEUED)


def test_what_runs_in_a_closing_store_may_have_children(desk: Desk) -> None:
    job = running(desk)
    desk.store.transact([CLOSING])
    (child,) = desk.intake.spawn(job, [Job("q")])
    assert seen(desk, child).parent_id == job.id


def test_a_refused_step_leaves_no_trace(store: Store, clock: VirtualClock) -> None:
    template = Job("q", due_at=clock.now)
    store.transact([CLOSING])
    before = snapshot(store)
    changes = [
        Change(notes=(NoteWrite("note", b"1"),)),
        Change(inserts=Copies(template, [b"1", b"2"])),
    ]
    with pytest.raises(StoreMoved):
        store.transact(changes)
    assert snapshot(store) == before
    assert store.notes(["note"]) == {}


def test_a_shut_store_does_not_change_at_all(desk: Desk, clock: VirtualClock) -> None:
    job, waiting = running(desk), put(desk)
    desk.store.transact([SHUT])
    before = snapshot(desk.store)
    acts: list[Callable[[], object]] = [
        lambda: desk.report.finish(job),
        lambda: desk.control.cancel(waiting),
        lambda: desk.control.reply("7", b"yes"),
        lambda: desk.control.adjust("q", paused=True),
        lambda: desk.intake.spawn(job, [Job("q")]),
    ]
    for act in acts:
        with pytest.raises(StoreMoved):
            act()
    assert take_all(desk) == []
    assert snapshot(desk.store) == before


def test_without_its_seal_a_store_works_again(desk: Desk) -> None:
    waiting = put(desk)
    desk.store.transact([SHUT])
    desk.store.transact([CLOSING])
    desk.store.transact([UNSEALED])
    later = put(desk)
    assert take_all(desk) == [waiting, later]


def test_all_notes_can_be_read_at_once(store: Store, clock: VirtualClock) -> None:
    writes = (
        NoteWrite("a", b"1"),
        NoteWrite("b", b"2", until=clock.now + SECOND),
        NoteWrite("c", b"3", until=clock.now + HOUR),
    )
    store.transact([Change(notes=writes)])
    clock.pass_(60)
    assert {key: note.value for key, note in store.notes().items()} == {"a": b"1", "c": b"3"}
