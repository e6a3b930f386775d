"""What keys hold: of the first ones together, of the others apart, and always the truth."""

from __future__ import annotations

import pytest

from stoker.kernel.job import Job
from stoker.kernel.outcome import Finished
from stoker.kernel.queue import QueueSettings
from stoker.store.sqlite import SqliteStore, meters
from tests.model.walk import walk
from tests.store.sqlite.busy_day import desk_at

SEEDS, STEPS = 4, 100
LIMITED = QueueSettings(key_capacity=2)


@pytest.fixture(autouse=True)
def _room_for_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meters, "_TOGETHER", 2)


def places(store: SqliteStore) -> tuple[set[str], set[str]]:
    """The meters together, and those apart."""
    together = "SELECT json_each.key FROM use_together, json_each(units)"
    asked = (together, "SELECT meter FROM use")
    first, second = ({meter for (meter,) in store._reader.execute(sql)} for sql in asked)
    return first, second


@pytest.mark.parametrize("lives", ["any", "keyed"])
def test_it_does_not_matter_where_a_meter_is(lives: str) -> None:
    for seed in range(SEEDS):
        walk("sqlite", seed, STEPS, lives)


def test_a_meter_stays_in_its_place_until_it_says_nothing(store: SqliteStore) -> None:
    desk = desk_at(store)
    desk.control.configure("q", LIMITED)
    for key in ("a", "b", "c", "a", "c"):
        desk.intake.enqueue(Job("q", key=key))
    a, b, c = desk.dispatch.claim(["q"], 3)
    assert places(store) == ({"=a", "=b"}, {"=c"})
    desk.report.many([(b, Finished())])
    others = desk.dispatch.claim(["q"], 3)
    assert [job.key for job in others] == ["a", "c"]
    assert places(store) == ({"=a"}, {"=c"})
    desk.report.many([(job, Finished()) for job in (a, c, *others)])
    assert places(store) == (set(), set())


def test_one_apart_counts_against_its_key(store: SqliteStore) -> None:
    desk = desk_at(store)
    desk.control.configure("q", LIMITED)
    desk.intake.enqueue_many([Job("q", key=key) for key in "abcccc"])
    assert len(desk.dispatch.claim(["q"], 9)) == 4
    desk.control.configure("q", QueueSettings(key_capacity=3))
    assert [job.key for job in desk.dispatch.claim(["q"], 9)] == ["c"]
    assert places(store) == ({"=a", "=b"}, {"=c"})


def test_what_was_never_written_is_not_remembered(store: SqliteStore) -> None:
    first = meters.Meters(store._writer)
    first.move(1, ["=a"], [1000])
    first.settle()
    first.move(1, ["=a"], [1000])
    second = meters.Meters(store._writer)
    second.move(1, ["=a"], [1000])
    assert meters.Meters(store._writer).reading(1)("=a") == 1000
