"""Stoker's own loops: through the Store protocol, and through the Desk as workers use it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bench.plan import portions
from bench.raw import PAYLOAD, Ending, result_of
from stoker.desk import Desk
from stoker.kernel import rules
from stoker.kernel.change import Change
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Finished, Outcome
from stoker.kernel.queue import DEFAULTS, QueueSettings, Retention
from stoker.store import Claim, Store
from stoker.store.sqlite import SqliteStore
from stoker.store.sqlite.driver import Sync

QUEUE = "work"
_DAY = 24 * 3600 * 1_000_000
AT_ONCE_FORGOTTEN = QueueSettings(retention=Retention(finished=0))
_OPEN = (State.QUEUED, State.RUNNING)
_NO_KEYS: Iterator[str | None] = itertools.repeat(None)


class AnyStoreLoop:
    """Jobs in and out through the Store protocol and the rules, for so many keys by turns."""

    def __init__(self, store: Store, ending: Ending = Ending.KEPT, *, keys: int = 0) -> None:
        self.store = store
        self._keys = cycle(keys)
        self._settings = AT_ONCE_FORGOTTEN if ending is Ending.DELETED else DEFAULTS
        self._answers = ending is Ending.ANSWERED
        self._tokens = itertools.count(1)

    def fill(self, count: int) -> None:
        """One Change with a thousand inserts a commit."""
        fill(self.store, count, self._keys)

    def claim(self, batch: int) -> Sequence[Job]:
        """One Claim, no Changes."""
        (grant,) = self.store.transact((), [self._request(batch)]).grants
        return _granted(grant)

    def finish(self, held: Sequence[Job]) -> None:
        """One Change a job, no Claim."""
        self.store.transact(self._finished(held))

    def swap(self, held: Sequence[Job], batch: int) -> Sequence[Job]:
        """One Change a job and one Claim."""
        (grant,) = self.store.transact(self._finished(held), [self._request(batch)]).grants
        return _granted(grant)

    def unfinished(self) -> int:
        """By the store's own counters."""
        return unfinished(self.store)

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()

    def _request(self, batch: int) -> Claim:
        return Claim((QUEUE,), batch, next(self._tokens))

    def _finished(self, held: Iterable[Job]) -> list[Change]:
        now, settings = self.store.now(), self._settings
        if self._answers:
            return [rules.finish(job, now=now, result=result_of(job.id)) for job in held]
        return [rules.finish(job, now=now, settings=settings) for job in held]


class StoreLoop(AnyStoreLoop):
    """The same on a file."""

    store: SqliteStore

    def __init__(self, path: Path, sync: Sync, ending: Ending = Ending.KEPT) -> None:
        self.path = path
        super().__init__(SqliteStore(path, sync=sync), ending)


class DeskLoop:
    """Jobs in and out as a worker with a session does it."""

    def __init__(self, path: Path, sync: Sync, ending: Ending = Ending.KEPT) -> None:
        self.path = path
        self.store = SqliteStore(path, sync=sync)
        self._answers = ending is Ending.ANSWERED
        self._desk = Desk(self.store)
        self._session = self._desk.dispatch.open_session("bench", ttl=_DAY)

    def fill(self, count: int) -> None:
        """A thousand enqueued at once."""
        for portion in portions(count):
            self._desk.intake.enqueue_many([Job(QUEUE, "bench", PAYLOAD) for _ in range(portion)])

    def claim(self, batch: int) -> Sequence[Job]:
        """Under the worker's session."""
        return self._desk.dispatch.claim([QUEUE], batch, session=self._session)

    def finish(self, held: Sequence[Job]) -> None:
        """Many outcomes reported at once."""
        self._desk.report.many(self._outcomes(held))

    def swap(self, held: Sequence[Job], batch: int) -> Sequence[Job]:
        """Many outcomes reported, and the next jobs claimed with them."""
        request = self._desk.dispatch.request([QUEUE], batch, session=self._session)
        _, grants = self._desk.report.many(self._outcomes(held), [request])
        return self._desk.dispatch.granted(grants[0])

    def unfinished(self) -> int:
        """By the store's own counters."""
        return unfinished(self.store)

    def close(self) -> None:
        """Let go of the file."""
        self.store.close()

    def _outcomes(self, held: Sequence[Job]) -> list[tuple[Job, Outcome]]:
        if self._answers:
            return [(job, Finished(result_of(job.id))) for job in held]
        return [(job, Finished()) for job in held]


def fill(store: Store, count: int, keys: Iterator[str | None] = _NO_KEYS) -> None:
    """Insert jobs, a thousand a commit."""
    for portion in portions(count):
        now = store.now()
        jobs = (
            Job(QUEUE, "bench", PAYLOAD, due_at=now, created_at=now, scheduled_at=now, key=key)
            for key in itertools.islice(keys, portion)
        )
        store.transact([Change(inserts=tuple(jobs))])


def configure(store: Store, settings: QueueSettings) -> None:
    """Give the queue its settings."""
    store.transact([Change(queues=((QUEUE, settings),))])


def cycle(keys: int) -> Iterator[str | None]:
    """So many keys, over and over; none at all if there are to be none."""
    return itertools.cycle([f"tenant {number}" for number in range(keys)]) if keys else _NO_KEYS


def unfinished(store: Store) -> int:
    """How many jobs have not ended."""
    return sum(view.counts[state] for view in store.survey() for state in _OPEN)


def _granted(grant: Sequence[Job] | None) -> Sequence[Job]:
    assert grant is not None, "a claim without a session is always answered"
    return grant
