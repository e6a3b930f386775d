"""Statements that are not read to their end must not outlive their transaction: its connection
would go on to see that moment, and could never write again once others have."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.kernel.queue import DEFAULTS, QueueSettings
from stoker.store.sqlite import SqliteStore, claim
from stoker.store.sqlite.entrances import Entrances
from stoker.store.sqlite.library import NAMES

SETTINGS = {
    "plain": DEFAULTS,
    "limited": QueueSettings(capacity=100),
    "limited keys": QueueSettings(key_capacity=1),
    "turns": QueueSettings(fair=True),
    "limited tasks": QueueSettings(tasks={"a": 2}),
}


@pytest.fixture
def remembered(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Whatever looks for jobs is still there when the claim is over."""
    remembered: list[Any] = []

    class Kept(Entrances):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            remembered.append(self)

    monkeypatch.setattr(claim, "Entrances", Kept)
    return remembered


@pytest.mark.parametrize("library", NAMES)
@pytest.mark.parametrize("kind", SETTINGS)
def test_a_claim_that_somebody_holds_on_to_holds_nothing_open(
    kind: str, library: str, tmp_path: Path, remembered: list[Any]
) -> None:
    path = tmp_path / "jobs.db"
    with (
        closing(SqliteStore(path, library=library)) as store,
        closing(SqliteStore(path, library=library)) as other,
    ):
        desk, others = Desk(store), Desk(other)
        desk.control.configure("q", SETTINGS[kind])
        drafts = [Job("q", name="ab"[n % 2], key=f"k{n}", rank=n % 3) for n in range(60)]
        drafts += [Job("q", rank=n % 3) for n in range(60)]
        desk.intake.enqueue_many(drafts)
        started = 0
        for _ in range(5):
            started += len(desk.dispatch.claim(["q"], 3))
            others.intake.enqueue(Job("elsewhere"))
        assert (started, len(remembered)) == (15, 5)
