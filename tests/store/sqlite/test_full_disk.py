"""A full disk: calls say so and change nothing, and go on when there is room again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from stoker.desk import Desk
from stoker.errors import StoreFull
from stoker.kernel.job import Job, State
from stoker.store.sqlite import SqliteStore
from tests.engines import VirtualClock
from tests.store.sqlite.busy_day import desk_at
from tests.store.sqlite.cuts import cuts_that_take_all_they_may, found_after
from tests.store.sqlite.disk import Disk, Mark, disk_in_use
from tests.store.sqlite.faults import Room
from tests.store.sqlite.witness import Witness, contents

PLENTY = 1 << 40
LITTLE = 600_000


class Shelf(NamedTuple):
    """A store with little room, and the way to make more."""

    store: SqliteStore
    desk: Desk
    make_room: Callable[[], object]

    def fill(self) -> list[int]:
        """Enqueue until nothing more fits; the ids that were acknowledged."""
        placed = []
        with suppress(StoreFull):
            for _ in range(1000):
                placed.append(self.desk.intake.enqueue(Job("q", payload=bytes(2000))).id)
        assert 10 < len(placed) < 1000
        return placed


def on_a_small_disk(store: SqliteStore, disk: Disk) -> Shelf:
    room = disk.fault = Room(LITTLE)
    return Shelf(store, desk_at(store), lambda: setattr(room, "size", PLENTY))


def in_a_small_file(store: SqliteStore, disk: Disk) -> Shelf:
    writer = store._writer
    writer.execute(f"PRAGMA max_page_count = {LITTLE // 4096}")
    return Shelf(
        store, desk_at(store), lambda: writer.execute(f"PRAGMA max_page_count = {PLENTY // 4096}")
    )


@pytest.fixture(params=[on_a_small_disk, in_a_small_file])
def shelf(request: pytest.FixtureRequest, path: Path, clock: VirtualClock) -> Iterator[Shelf]:
    with disk_in_use() as disk:
        store = SqliteStore(path, clock=clock)
        yield request.param(store, disk)
        disk.fault = None
        store.close()


def test_a_call_without_room_is_refused_and_changes_nothing(shelf: Shelf) -> None:
    placed = shelf.fill()
    held = contents(shelf.store)
    with pytest.raises(StoreFull, match=r"no room left .* what was acknowledged before is safe"):
        shelf.desk.intake.enqueue_many([Job("another", payload=bytes(5000))] * 100)
    assert contents(shelf.store) == held
    assert [job.id for job in shelf.store.get(placed).values()] == placed


def test_one_can_still_look_when_the_disk_is_full(shelf: Shelf) -> None:
    placed = shelf.fill()
    (view,) = shelf.store.survey()
    assert view.counts[State.QUEUED] == len(placed)
    assert shelf.store.names("q*") == ["q"]


def test_work_goes_on_when_there_is_room_again(shelf: Shelf) -> None:
    first, second, third, *_ = shelf.fill()
    shelf.make_room()
    fresh = shelf.desk.intake.enqueue(Job("q")).id
    (job,) = shelf.desk.dispatch.claim(["q"])
    shelf.desk.report.finish(job)
    shelf.desk.control.delete(second)
    shelf.desk.control.cancel(third)
    found = shelf.store.get([first, second, third, fresh])
    assert {job_id: job.state for job_id, job in found.items()} == {
        first: State.FINISHED,
        third: State.CANCELLED,
        fresh: State.QUEUED,
    }


def test_what_a_full_disk_holds_after_a_power_cut_is_what_was_acknowledged(
    path: Path, tmp_path: Path, clock: VirtualClock
) -> None:
    with disk_in_use() as disk:
        store = Witness(path, lambda held: disk.note(Mark(held)), clock=clock)
        on_a_small_disk(store, disk).fill()
        *_, cut = cuts_that_take_all_they_may(disk.tape)
        disk.fault = None
        store.close()
    assert found_after(cut, tmp_path / "after", clock) == cut.past[-1]


def test_a_file_for_which_there_is_no_room_is_not_made_by_halves(
    path: Path, clock: VirtualClock
) -> None:
    with disk_in_use() as disk:
        room = disk.fault = Room(20_000)
        with pytest.raises(StoreFull):
            SqliteStore(path, clock=clock)
        room.size = PLENTY
        store = SqliteStore(path, clock=clock)
        assert desk_at(store).intake.enqueue(Job("q")).id == 1
        store.close()
