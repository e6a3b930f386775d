"""A disk that fails at any moment: calls fail, but nothing acknowledged is lost."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from stoker.errors import StoreError
from stoker.kernel.change import Change
from stoker.kernel.job import Job
from stoker.kernel.policy import Policy
from stoker.store import Claim
from stoker.store.sqlite import SqliteStore
from tests.engines import VirtualClock
from tests.store.sqlite.busy_day import STEPS, desk_at
from tests.store.sqlite.cuts import Cut, cuts_that_take_all_they_may, found_after, is_whole
from tests.store.sqlite.disk import Disk, Event, Failed, Happening, Mark, Sync, Write, disk_in_use
from tests.store.sqlite.faults import Once
from tests.store.sqlite.witness import Witness


def opened(path: Path, disk: Disk, clock: VirtualClock) -> Witness:
    """The store, at the second try if the fault was there at the first."""
    for _ in range(2):
        with suppress(StoreError):
            return Witness(path, lambda held: disk.note(Mark(held)), clock=clock)
    raise AssertionError("the fault was to come once")


def a_day_with(fault: Once, path: Path) -> list[Event]:
    """A day on which calls may fail; those after them are made all the same."""
    clock = VirtualClock()
    with disk_in_use() as disk:
        disk.fault = fault
        store = opened(path, disk, clock)
        desk = desk_at(store)
        for step in STEPS:
            with suppress(StoreError):
                step(desk, clock)
        disk.fault = None
        store.close()
    return disk.tape


def cuts_after_the_fault(tape: list[Event]) -> list[Cut]:
    """Some soon after the fault, while its traces are still about, and one in the end."""
    fault = next(place for place, event in enumerate(tape) if isinstance(event, Failed))
    cuts = [cut for cut in cuts_that_take_all_they_may(tape) if cut.at > fault]
    return [*cuts[:2], cuts[-1]]


@pytest.mark.usefixtures("_checkpoints_come_often")
@pytest.mark.parametrize(
    ("kind", "error", "stride"),
    [(Sync, apsw.IOError, 1), (Write, apsw.IOError, 29), (Write, apsw.FullError, 29)],
)
def test_a_fault_at_any_moment_of_a_day_costs_nothing_that_was_acknowledged(
    kind: type[Happening],
    error: type[apsw.Error],
    stride: int,
    tmp_path: Path,
    clock: VirtualClock,
) -> None:
    days = 0
    while True:
        (tmp_path / str(days)).mkdir()
        tape = a_day_with(Once(kind, days * stride, error), tmp_path / str(days) / "jobs.db")
        if not any(isinstance(event, Failed) for event in tape):
            break
        for cut in cuts_after_the_fault(tape):
            assert is_whole(found_after(cut, tmp_path / "after", clock), cut), (days, cut.at)
        days += 1
    assert days > 15


def test_a_commit_that_cannot_be_synced_is_refused_and_leaves_no_trace(
    path: Path, tmp_path: Path, clock: VirtualClock
) -> None:
    with disk_in_use() as disk:
        store = Witness(path, lambda held: disk.note(Mark(held)), clock=clock)
        desk = desk_at(store)
        before = desk.intake.enqueue(Job("q", payload=b"before")).id
        disk.fault = Once(Sync, 0, apsw.IOError)
        with pytest.raises(StoreError, match=r"jobs\.db"):
            desk.intake.enqueue(Job("q", payload=b"refused"))
        after = desk.intake.enqueue(Job("q", payload=b"after")).id
        assert {job_id: job.payload for job_id, job in store.get([1, 2, 3]).items()} == {
            before: b"before",
            after: b"after",
        }
        store.close()
    for cut in cuts_after_the_fault(disk.tape):
        assert is_whole(found_after(cut, tmp_path / "after", clock), cut)


def test_a_queue_and_a_policy_that_were_rolled_back_are_not_mistaken_for_the_next_ones(
    path: Path, clock: VirtualClock
) -> None:
    with disk_in_use() as disk:
        store = SqliteStore(path, clock=clock)
        disk.fault = Once(Sync, 0, apsw.IOError)
        ill_fated = Job("ill-fated", policy=Policy(timeout=1))
        with pytest.raises(StoreError):
            store.transact([Change(inserts=(ill_fated,))], [Claim(("ill-fated",), 1, token=7)])
        desk = desk_at(store)
        desk.intake.enqueue(Job("next", policy=Policy(timeout=2)))
        (job,) = desk.dispatch.claim(["next"])
        assert (job.queue, job.policy) == ("next", Policy(timeout=2))
        assert [view.name for view in store.survey()] == ["next"]
        store.close()
