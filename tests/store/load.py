"""Producers and workers on one store, who note what they were told; and what must hold of it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from stoker.desk import Desk
from stoker.errors import StokerError, StoreError
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Finished
from stoker.store import Filter
from stoker.store.open import open_store
from stoker.watch import run_chores
from tests.engines import SECOND

PATIENCE = 60.0
TTL = 3 * SECOND


class Load:
    """Two producers and two workers, until they are told to stop."""

    def __init__(self, url: str) -> None:
        self.acknowledged: list[int] = []
        self.accepted: Counter[int] = Counter()
        self.troubles: list[str] = []
        self._stopping = threading.Event()
        self._url = url
        self.desk = Desk(open_store(url))
        roles: list[Callable[[], None]] = [self._produce, self._work]
        self._threads = [threading.Thread(target=role) for role in roles * 2]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.desk.store.close()

    def _produce(self) -> None:
        number = 0
        while not self._stopping.is_set():
            number += 1
            jobs = [Job("q", rank=number % 3)] * (number % 7 + 1)
            with self._minding_troubles():
                placed = self.desk.intake.enqueue_many(jobs)
                self.acknowledged += [each.id for each in placed]
            time.sleep(0.002)

    def _work(self) -> None:
        session, held = None, list[Job]()
        while not self._stopping.is_set() or held:
            with self._minding_troubles():
                if session is None:
                    session = self.desk.dispatch.open_session("w", ttl=TTL)
                if not self.desk.dispatch.beat(session, ttl=TTL).alive:
                    session, held = None, []
                    continue
                held = self._exchange(session, held)

    def _exchange(self, session: int, held: list[Job]) -> list[Job]:
        dispatch = self.desk.dispatch
        claims = [] if self._stopping.is_set() else [dispatch.request(["q"], 8, session=session)]
        results, grants = self.desk.report.many([(job, Finished(b"1")) for job in held], claims)
        for job, result in zip(held, results, strict=True):
            if not isinstance(result, StokerError):
                self.accepted[job.id] += 1
        return list(grants[0] or ()) if grants else []

    @contextmanager
    def _minding_troubles(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            self.troubles.append(str(error))

    def wait_for(self, more: int, patience: float = PATIENCE) -> None:
        """Until so many further jobs were acknowledged and as many finished."""
        enqueued, finished = len(self.acknowledged) + more, self.accepted.total() + more
        deadline = time.monotonic() + patience
        while len(self.acknowledged) < enqueued or self.accepted.total() < finished:
            assert time.monotonic() < deadline, self.troubles[-3:]
            time.sleep(0.01)

    def stop(self) -> None:
        """Come to an end in good order."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(PATIENCE)

    def drain(self) -> None:
        """Have everything done that is left, whoever began it."""
        self.stop()
        deadline = time.monotonic() + PATIENCE
        while self._is_left():
            assert time.monotonic() < deadline
            run_chores(self.desk.clerk, "drain")
            for job in self.desk.dispatch.claim(["q"], 500):
                self.desk.report.finish(job, b"2")
            time.sleep(0.02)

    def _is_left(self) -> bool:
        (view,) = self.desk.store.survey(["q"])
        return bool(view.counts[State.QUEUED] + view.counts[State.RUNNING])

    def assert_nothing_lost(self) -> None:
        """All that was acknowledged is there and done, and nothing was accepted twice."""
        self.drain()
        finished = set(all_ids(self.desk, State.FINISHED))
        assert set(self.acknowledged) - finished == set()
        assert [job_id for job_id, times in self.accepted.items() if times > 1] == []
        assert len(set(self.acknowledged)) == len(self.acknowledged)


class Bystander:
    """One who wrote to a server before it stuck, and writes again while it does."""

    def __init__(self, url: str) -> None:
        self._desk = Desk(open_store(url))
        self._ear = self._desk.store.bell.listen()
        self.enqueued: list[int] = []
        self.enqueue()
        self._ear.wait(PATIENCE)

    def enqueue(self) -> None:
        """One job, by one call."""
        self.enqueued.append(self._desk.intake.enqueue(Job("q")).id)

    def hears_of(self, name: str) -> bool:
        """Does the next ring reach somebody who sleeps?"""
        heard = self._ear.wait(0.0)  # what was missed meanwhile
        self._desk.store.bell.ring([name])
        while heard and name not in heard:
            heard = self._ear.wait(10)
        return name in heard

    def close(self) -> None:
        """Leave."""
        self._ear.close()
        self._desk.store.close()


def all_ids(desk: Desk, state: State) -> Iterator[int]:
    """Every job in a state, page by page."""
    after = None
    while page := desk.store.find(Filter(states=(state,), after=after, limit=1000)):
        yield from (job.id for job in page)
        after = page[-1].id
