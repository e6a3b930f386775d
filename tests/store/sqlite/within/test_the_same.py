"""What others' transactions commit is the same as what any other way commits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from stoker.errors import LeaseLost
from stoker.kernel.change import Change
from stoker.store import Answer, Claim
from stoker.store.memory import MemoryStore
from stoker.store.sqlite import SqliteStore
from stoker.store.sqlite.driver import Sync
from tests.engines import VirtualClock
from tests.model.lives import Lives, SeededChooser
from tests.store.sqlite.within.connections import (
    KINDS,
    Kind,
    assert_balanced,
    plain,
)


class WithinStore(SqliteStore):
    """A store that lets every Change be committed by a connection of somebody else's."""

    def transact(self, changes: Sequence[Change], claims: Sequence[Claim] = ()) -> Answer:
        receipts = [self._committed(change) for change in changes]
        return Answer(receipts, super().transact((), claims).grants)

    def _committed(self, change: Change) -> Any:
        kind = next(kind for kind in KINDS if kind.library == self.file.library.name)
        try:
            with kind.opened(Path(self.path)) as connection:
                return self.commit_within(connection, change)
        except LeaseLost:
            return super().transact([change]).receipts[0]  # which tells what is stale


@plain
@pytest.mark.parametrize("seed", range(3))
def test_random_lives_agree_when_others_commit(seed: int, kind: Kind, path: Path) -> None:
    clock = VirtualClock()
    store = WithinStore(path, sync=Sync.NORMAL, clock=clock, library=kind.library)
    lives = Lives(SeededChooser(seed), clock, MemoryStore(clock), store)
    for step in range(1, 121):
        lives.step()
        if step % 20 == 0:
            assert_balanced(store)
    store.close()
