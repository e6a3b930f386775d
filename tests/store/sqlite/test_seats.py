"""Where nothing but keys decides, a short way of choosing is taken, and comes to the same."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.kernel.job import Job
from stoker.kernel.queue import QueueSettings
from stoker.store.sqlite import SqliteStore, entrances
from stoker.store.sqlite.queue_book import QueueBook
from stoker.store.sqlite.seats import Seats, seats_in
from stoker.store.sqlite.transaction import Transaction
from tests.model.walk import walk
from tests.store.sqlite.busy_day import desk_at

SEEDS, STEPS = 12, 200


class Way:
    """Which way claims were made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, short: bool = True) -> None:
        self._short = short
        self.chosen = 0
        monkeypatch.setattr(entrances, "seats_in", self)

    def __call__(self, tx: Transaction, books: list[QueueBook], wanted: int) -> Seats | None:
        seats = seats_in(tx, books, wanted) if self._short else None
        self.chosen += seats is not None
        return seats


@pytest.mark.parametrize("short", [True, False])
def test_both_ways_agree_with_the_reference(
    *, short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    way = Way(monkeypatch, short=short)
    for seed in range(SEEDS):
        walk("sqlite", seed, STEPS, "tenants")
    assert way.chosen > SEEDS * 10 if short else way.chosen == 0


@pytest.mark.parametrize(
    ("settings", "facts", "short"),
    [
        (QueueSettings(key_capacity=2), {"key": "k"}, True),
        (QueueSettings(fair=True), {"key": "k"}, True),
        (QueueSettings(fair=True, keys={"k": 1}, turns={"k": 2}), {"key": "k"}, True),
        (QueueSettings(fair=True), {}, False),
        (QueueSettings(fair=True), {"key": "k", "weight": 0}, False),
        (QueueSettings(key_capacity=2, capacity=5), {"key": "k"}, False),
        (QueueSettings(key_capacity=2, tasks={"t": 1}), {"key": "k"}, False),
        (QueueSettings(key_capacity=2, ageing=1), {"key": "k"}, False),
        (QueueSettings(key_capacity=2, within="other"), {"key": "k"}, False),
    ],
)
def test_the_short_way_is_taken_where_keys_decide_alone(
    settings: QueueSettings,
    facts: dict[str, Any],
    store: SqliteStore,
    *,
    short: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    way = Way(monkeypatch)
    desk = desk_at(store)
    desk.control.configure("q", settings)
    desk.intake.enqueue(Job("q", **facts))
    assert len(desk.dispatch.claim(["q"], 5)) == 1
    assert way.chosen == short
