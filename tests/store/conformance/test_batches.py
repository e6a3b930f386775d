"""Batches: each Change whole or not at all, all of them in the order given, in one step."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.desk import Desk
from stoker.kernel import control, rules
from stoker.kernel.change import NOTHING, Change, Note, NoteWrite, Tally, Touch, Write
from stoker.kernel.job import Job, State
from stoker.kernel.queue import QueueSettings
from stoker.store import Claim, Receipt, Store
from tests.engines import VirtualClock
from tests.store.conformance.acts import Facts, put, running, seen, snapshot, state, take_all

# Changes of one shape may take a shorter way through an engine; the promise is the same for all.
FACTS: dict[str, Facts] = {
    "plain": {},
    "keyed": {"key": "k"},
    "free": {"weight": 0},
    "big": {"payload": b"x" * 5000},
    "unique": {"unique_key": "u"},
}
kinds = pytest.mark.parametrize("facts", FACTS.values(), ids=FACTS)


def finish(job: Job, result: bytes = b"") -> Change:
    return rules.finish(job, now=0, result=result)


def edit(job: Job, payload: bytes = b"new") -> Change:
    return control.edit(job, {"payload": payload})


def drop(job: Job) -> Change:
    return Change(deletes=(job,))


def _named(name: str) -> Facts:
    return {"queue": "q", "due_at": 1, name: "x"}


def aged(job: Job) -> Job:
    """The same job as somebody saw it earlier."""
    return msgspec.structs.replace(job, revision=job.revision - 1)


# -- all or nothing ------------------------------------------------------------------------


STALE: dict[str, Any] = {
    "a write": lambda job: Change(writes=(Write(aged(job), {"meta": "m"}),)),
    "a write with another's lease": lambda job: Change(
        writes=(Write(msgspec.structs.replace(job, token=404), {"meta": "m"}),)
    ),
    "a delete": lambda job: drop(aged(job)),
    "a touch": lambda job: Change(touches=(Touch(job.id, 404, {"progress": 0.5}),)),
    "a write of a job that is gone": lambda job: Change(
        writes=(Write(msgspec.structs.replace(job, id=404), {"meta": "m"}),)
    ),
    "a note": lambda job: Change(notes=(NoteWrite("guarded", b"", expect=7),)),
    "a twin": lambda job: Change(inserts=(Job("q", ref="taken", due_at=1),)),
}


@pytest.mark.parametrize("stale", STALE.values(), ids=STALE)
def test_nothing_of_a_change_happens_when_one_part_of_it_cannot(
    desk: Desk, store: Store, stale: Any
) -> None:
    job, other, idle = running(desk), running(desk), seen(desk, put(desk, ref="taken"))
    assert other.token is not None
    before = snapshot(store)
    good = Change(
        inserts=(Job("fresh", due_at=1),),
        writes=(Write(idle, {"meta": "changed"}),),
        touches=(Touch(other.id, other.token, {"progress": 0.9}),),
        tallies=(Tally(other.id, State.FINISHED),),
        queues=(("configured", QueueSettings(capacity=1)),),
        notes=(NoteWrite("note", b"1"),),
    )
    (receipt,) = store.transact([good | stale(job)]).receipts
    assert not receipt.ok
    assert (receipt.ids, receipt.parents) == ((), ())
    assert snapshot(store) == before
    assert store.notes(["note", "guarded"]) == {}


def test_all_of_a_change_happens_when_every_part_can(desk: Desk, store: Store) -> None:
    job, other, idle = running(desk), running(desk), seen(desk, put(desk))
    doomed = seen(desk, put(desk))
    assert other.token is not None
    desk.intake.spawn(job, [Job("child")])
    change = Change(
        inserts=(Job("fresh", due_at=1), Job("fresh", due_at=2, key="k")),
        writes=(Write(idle, {"meta": "changed"}),),
        touches=(Touch(other.id, other.token, {"progress": 0.9}),),
        tallies=(Tally(job.id, State.FAILED),),
        deletes=(doomed,),
        queues=(("configured", QueueSettings(capacity=1)),),
        notes=(NoteWrite("note", b"1"),),
    )
    (receipt,) = store.transact([change]).receipts
    assert receipt.ok
    assert [seen(desk, job_id).queue for job_id in receipt.ids] == ["fresh", "fresh"]
    assert seen(desk, idle.id).meta == "changed"
    assert (seen(desk, other.id).progress, seen(desk, other.id).revision) == (0.9, other.revision)
    assert store.get([doomed.id]) == {}
    assert receipt.parents == (seen(desk, job.id),)
    assert (receipt.parents[0].open_children, receipt.parents[0].failed_children) == (0, 1)
    assert store.survey(["configured"])[0].settings == QueueSettings(capacity=1)
    assert store.notes(["note"]) == {"note": Note("note", b"1")}


def test_no_changes_and_empty_changes_are_fine(store: Store) -> None:
    assert store.transact([]).receipts == []
    assert [receipt.ok for receipt in store.transact([NOTHING, NOTHING]).receipts] == [True, True]


# -- several changes -----------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("act", [finish, edit, drop], ids=["finish", "edit", "delete"])
def test_a_stale_change_among_others_fails_alone(
    desk: Desk, store: Store, facts: Facts, act: Any
) -> None:
    jobs = []
    for number in range(3):
        own = {"unique_key": f"u{number}"} if "unique_key" in facts else facts
        jobs.append(running(desk, **own))
    changes = [act(jobs[0]), act(aged(jobs[1])), act(jobs[2])]
    receipts = store.transact(changes).receipts
    assert [receipt.ok for receipt in receipts] == [True, False, True]
    assert receipts[1] == Receipt(ok=False, stale=(jobs[1].id,))
    assert seen(desk, jobs[1].id) == jobs[1]


@kinds
@pytest.mark.parametrize("act", [finish, edit, drop], ids=["finish", "edit", "delete"])
@pytest.mark.parametrize("first", ["stale", "true"])
def test_of_a_stale_and_a_true_copy_of_one_job_only_the_true_one_counts(
    desk: Desk, store: Store, facts: Facts, act: Any, first: str
) -> None:
    job = running(desk, **facts)
    stale, true = act(aged(job)), act(job)
    changes = [stale, true] if first == "stale" else [true, stale]
    receipts = dict(zip([first, "other"], store.transact(changes).receipts, strict=True))
    assert receipts[first].ok == (first == "true")
    assert receipts["other"].ok == (first == "stale")


@kinds
@pytest.mark.parametrize("act", [finish, edit, drop], ids=["finish", "edit", "delete"])
def test_of_two_changes_decided_on_the_same_copy_the_first_wins(
    desk: Desk, store: Store, facts: Facts, act: Any
) -> None:
    job = running(desk, **facts)
    receipts = store.transact([act(job), act(job)]).receipts
    assert [receipt.ok for receipt in receipts] == [True, False]


def test_the_second_of_two_results_decided_on_one_copy_is_not_written(
    desk: Desk, store: Store
) -> None:
    job = running(desk)
    store.transact([finish(job, b"first"), finish(job, b"second")])
    assert seen(desk, job.id).result == b"first"


def test_results_are_not_mixed_up_when_one_report_among_many_is_stale(
    desk: Desk, store: Store
) -> None:
    ids = [put(desk) for _ in range(4)]
    jobs = desk.dispatch.claim(["q"], 4)
    store.transact([finish(jobs[1], b"first")])
    answer = store.transact([finish(job, str(job.id).encode()) for job in jobs])
    assert [receipt.ok for receipt in answer.receipts] == [True, False, True, True]
    results = [seen(desk, job_id).result for job_id in ids]
    assert results == [str(ids[0]).encode(), b"first", *(str(i).encode() for i in ids[2:])]


def test_a_change_may_build_on_the_one_before_it(desk: Desk, store: Store) -> None:
    job = seen(desk, put(desk))
    later = msgspec.structs.replace(job, revision=job.revision + 1)
    changes = [
        Change(writes=(Write(job, {"meta": "1"}),)),
        Change(writes=(Write(later, {"meta": "2"}),)),
        Change(deletes=(msgspec.structs.replace(job, revision=job.revision + 2),)),
    ]
    assert [receipt.ok for receipt in store.transact(changes).receipts] == [True, True, True]
    assert store.get([job.id]) == {}


def test_ids_are_given_in_the_order_of_the_changes_and_of_their_inserts(store: Store) -> None:
    def draft(name: str, **facts: Any) -> Job:
        return Job("q", name=name, due_at=1, **facts)

    changes = [
        Change(inserts=(draft("a"), draft("b", key="k"))),
        Change(inserts=(draft("c", ref="r"),)),
        Change(inserts=(draft("d", payload=b"x" * 5000), draft("e", weight=0))),
    ]
    receipts = store.transact(changes).receipts
    ids = [job_id for receipt in receipts for job_id in receipt.ids]
    assert ids == sorted(ids)
    jobs = store.get(ids)
    assert [jobs[job_id].name for job_id in ids] == list("abcde")


@pytest.mark.parametrize("name", ["unique_key", "ref"])
def test_a_name_given_up_by_one_change_may_be_taken_by_the_next(
    desk: Desk, store: Store, name: str
) -> None:
    holder = seen(desk, put(desk, **{name: "x"}))
    taker = Change(inserts=(Job(**_named(name)),))
    first, second = store.transact([taker, drop(holder)]).receipts
    assert (first.ok, first.twins, second.ok) == (False, {0: holder.id}, True)
    assert store.transact([taker]).receipts[0].ok


@pytest.mark.parametrize("name", ["unique_key", "ref"])
def test_a_name_given_up_by_a_change_may_be_taken_within_it(
    desk: Desk, store: Store, name: str
) -> None:
    holder = seen(desk, put(desk, **{name: "x"}))
    swap = Change(deletes=(holder,), inserts=(Job(**_named(name)),))
    (receipt,) = store.transact([swap]).receipts
    assert (receipt.ok, take_all(desk)) == (True, list(receipt.ids))


def test_a_receipt_tells_every_place_that_is_a_twin(desk: Desk, store: Store) -> None:
    unique, ref = put(desk, unique_key="x"), put(desk, ref="r")
    third = seen(desk, put(desk))
    change = Change(
        inserts=(
            Job("q", due_at=1),
            Job("q", due_at=1, ref="r"),
            Job("q", due_at=1, unique_key="new"),
            Job("q", due_at=1, unique_key="new"),
        ),
        writes=(Write(third, {"unique_key": "x"}),),
    )
    (receipt,) = store.transact([change]).receipts
    assert receipt == Receipt(ok=False, twins={1: ref, 3: 0, -1: unique})


def test_twins_born_in_one_step_are_found_across_changes(store: Store) -> None:
    twin = Change(inserts=(Job("q", due_at=1, unique_key="x"),))
    first, second = store.transact([twin, twin]).receipts
    assert (first.ok, second.ok, second.twins) == (True, False, {0: first.ids[0]})


def test_settings_hold_for_the_changes_after_them(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    jobs = tuple(Job("q", due_at=1) for _ in range(3))
    changes = [
        Change(inserts=jobs[:2]),
        Change(queues=(("q", QueueSettings(capacity=1)),)),
        Change(inserts=jobs[2:]),
    ]
    store.transact(changes)
    assert len(take_all(desk)) == 1


def test_a_parent_that_is_gone_needs_no_telling(store: Store) -> None:
    (receipt,) = store.transact([Change(tallies=(Tally(404, State.FINISHED),))]).receipts
    assert receipt == Receipt()


def test_a_parent_told_twice_in_one_change_is_shown_once_as_it_is_now(
    desk: Desk, store: Store
) -> None:
    parent = running(desk)
    desk.intake.spawn(parent, [Job("child")] * 3)
    tallies = (Tally(parent.id, State.FINISHED), Tally(parent.id, State.CANCELLED))
    (receipt,) = store.transact([Change(tallies=tallies)]).receipts
    (told,) = receipt.parents
    assert told == seen(desk, parent.id)
    assert (told.open_children, told.finished_children, told.cancelled_children) == (1, 1, 1)


# -- changes and claims --------------------------------------------------------------------


def test_claims_see_what_the_changes_before_them_did(desk: Desk, store: Store) -> None:
    gone = seen(desk, put(desk))
    fresh = Change(inserts=(Job("q", due_at=1), Job("q", due_at=1, key="k")))
    answer = store.transact([drop(gone), fresh], [Claim(("q",), 10, 11)])
    (grant,) = answer.grants
    assert grant is not None
    assert tuple(job.id for job in grant) == answer.receipts[1].ids


def test_a_claim_of_a_batch_is_served_even_when_its_changes_are_stale(
    desk: Desk, store: Store
) -> None:
    job, waiting = running(desk), put(desk)
    answer = store.transact([finish(aged(job))], [Claim(("q",), 10, 11)])
    assert not answer.receipts[0].ok
    (grant,) = answer.grants
    assert grant is not None
    assert [each.id for each in grant] == [waiting]
    assert state(desk, job.id) is State.RUNNING


def test_many_changes_of_all_kinds_go_in_one_step(desk: Desk, store: Store) -> None:
    desk.intake.enqueue_many([Job("q", key=f"k{number % 5}") for number in range(100)])
    desk.intake.enqueue_many([Job("q", rank=1) for _ in range(100)])
    jobs = desk.dispatch.claim(["q"], 1000)
    changes = []
    for number, job in enumerate(jobs):
        changes.append([finish, edit, drop][number % 3](job))
        changes.append(Change(inserts=(Job("next", name=str(job.id), due_at=1),)))
    receipts = store.transact(changes).receipts
    assert all(receipt.ok for receipt in receipts)
    assert [seen(desk, receipt.ids[0]).name for receipt in receipts[1::2]] == [
        str(job.id) for job in jobs
    ]
    counts = store.survey(["q"])[0].counts
    assert (counts[State.FINISHED], counts[State.RUNNING], counts[State.QUEUED]) == (67, 67, 0)
