"""A power cut at any moment: what was acknowledged is there, whole, and nothing else is."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from stoker.kernel.job import Job
from stoker.store.sqlite import SqliteStore, driver
from tests.engines import VirtualClock
from tests.store.sqlite.busy_day import STEPS, desk_at
from tests.store.sqlite.cuts import (
    NOTHING,
    cuts_that_take_all_they_may,
    cuts_that_take_what_they_like,
    found_after,
    is_whole,
)
from tests.store.sqlite.disk import Event, Mark, disk_in_use, restored
from tests.store.sqlite.witness import Witness

SECTOR = 512

pytestmark = pytest.mark.usefixtures("_checkpoints_come_often")


def a_day_on_tape(path: Path, clock: VirtualClock, sync: driver.Sync) -> list[Event]:
    with disk_in_use() as disk:
        store = Witness(path, lambda held: disk.note(Mark(held)), sync=sync, clock=clock)
        desk = desk_at(store)
        for step in STEPS:
            step(desk, clock)
        store.close()
    return disk.tape


def torn_by(dice: random.Random) -> Callable[[bytes], bytes]:
    """A third of the writes arrives, a third does not, a third is torn between two sectors."""

    def survives(data: bytes) -> bytes:
        sectors = dice.randrange(len(data) // SECTOR + 1)
        return dice.choice((data, b"", data[: sectors * SECTOR]))

    return survives


def test_nothing_acknowledged_is_lost_in_a_power_cut_at_any_moment(
    path: Path, tmp_path: Path, clock: VirtualClock
) -> None:
    tape = a_day_on_tape(path, clock, driver.Sync.FULL)
    cuts = [*cuts_that_take_all_they_may(tape)]
    broken = [
        number
        for number, cut in enumerate(cuts)
        if not is_whole(found_after(cut, tmp_path / "after", clock), cut)
    ]
    assert broken == []
    assert len(cuts) > 50


def test_writes_that_arrive_torn_or_out_of_order_do_no_harm(
    path: Path, tmp_path: Path, clock: VirtualClock
) -> None:
    tape = a_day_on_tape(path, clock, driver.Sync.FULL)
    cuts = cuts_that_take_what_they_like(tape, torn_by(random.Random(1)))
    broken = [
        number
        for number, cut in enumerate(islice(cuts, 0, None, 2))
        if not is_whole(found_after(cut, tmp_path / "after", clock), cut)
    ]
    assert broken == []


def test_without_full_sync_the_last_moments_are_lost_but_the_file_is_intact(
    path: Path, tmp_path: Path, clock: VirtualClock
) -> None:
    tape = a_day_on_tape(path, clock, driver.Sync.NORMAL)
    lost = 0
    for cut in cuts_that_take_all_they_may(tape):
        found = found_after(cut, tmp_path / "after", clock)
        assert found in [NOTHING, *cut.past, cut.next]
        lost += not is_whole(found, cut)
    assert lost > 0


def test_the_crash_of_the_process_alone_loses_nothing_even_without_full_sync(
    path: Path, tmp_path: Path, clock: VirtualClock
) -> None:
    tape = a_day_on_tape(path, clock, driver.Sync.NORMAL)
    crashes = cuts_that_take_what_they_like(tape, lambda data: data)
    broken = [
        number
        for number, cut in enumerate(islice(crashes, 0, None, 5))
        if not is_whole(found_after(cut, tmp_path / "after", clock), cut)
    ]
    assert broken == []


def test_work_goes_on_in_a_file_that_went_through_a_power_cut(
    path: Path, tmp_path: Path, clock: VirtualClock
) -> None:
    cuts = [*cuts_that_take_all_they_may(a_day_on_tape(path, clock, driver.Sync.FULL))]
    with restored(cuts[len(cuts) // 2].files, tmp_path / "after") as found:
        store = SqliteStore(found, clock=clock)
        desk = desk_at(store)
        placed = desk.intake.enqueue(Job("afterwards"))
        assert [job.id for job in desk.dispatch.claim(["afterwards"])] == [placed.id]
        store.close()
