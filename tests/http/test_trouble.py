"""When the store is in trouble, or something unexpected happens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from stoker.desk import Desk
from stoker.errors import StokerError, StoreFull, StoreUnavailable
from stoker.kernel.change import Change, Note
from stoker.kernel.job import Job
from stoker.store import Answer, Claim
from stoker.store.memory import MemoryStore
from tests.http.client import opened


class Moody(MemoryStore):
    """A store that does what it is told, unless it is told to raise."""

    mood: Exception | None = None

    def _sigh(self) -> None:
        if self.mood is not None:
            raise self.mood

    def transact(self, changes: Sequence[Change], claims: Sequence[Claim] = ()) -> Answer:
        self._sigh()
        return super().transact(changes, claims)

    def get(self, ids: Iterable[int]) -> dict[int, Job]:
        self._sigh()
        return super().get(ids)

    def notes(self, keys: Sequence[str] | None = None) -> dict[str, Note]:
        self._sigh()
        return super().notes(keys)


@pytest.mark.parametrize(
    ("mood", "status", "code"),
    [
        (StoreUnavailable("cannot be reached"), 503, "store_unavailable"),
        (StoreFull("no room"), 507, "store_full"),
        (ZeroDivisionError("a secret"), 500, "internal"),
        (StokerError("something of ours that nobody has a code for"), 500, "internal"),
    ],
)
def test_trouble_is_told_and_passes(mood: Exception, status: int, code: str) -> None:
    store = Moody()
    with opened(Desk(store)) as api:
        job_id = api.put()
        store.mood = mood
        for answer in (
            api.post("/v1/jobs", {"queue": "q"}),
            api.post("/jobber/queue", {"type": "t"}),
            api.post("/v1/jobs/batch", {"jobs": [{"queue": "q"}]}),
            api.post("/v1/claims", {"queues": ["q"], "wait": 30}),
            api.get(f"/v1/jobs/{job_id}"),
            api.post(f"/v1/jobs/{job_id}/cancel"),
            api.get("/ready"),
        ):
            assert (answer.status, answer.json["code"]) == (status, code)
            assert ("retry-after" in answer.headers) == (status == 503)
            assert b"secret" not in answer.content
        assert api.get("/health").status == 200
        store.mood = None
        assert api.get("/ready").status == 200
        assert len(api.take()) == 1
