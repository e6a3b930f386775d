"""Processes that use one store until they are killed: producers, workers and chore runners.

python -m tests.faults.actors <role> <store URL> <folder of journals> <slot> <life>

A slot's first process has life 0; when it is killed its successor has life 1, and so on.
SIGTERM asks an actor to come to an end in good order.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from stoker.desk import Desk, Twin
from stoker.errors import Refused, StoreError
from stoker.kernel.job import State
from stoker.store.clock import wall_clock
from stoker.store.open import open_store
from stoker.watch import run_chores
from tests.faults.cargo import draft
from tests.faults.journal import Declined, Journal, Mishap, Offer, Placed, read_journal
from tests.faults.worker import Worker

_BACKLOG = 1500
"""Producers wait while so many jobs do, so that the end can be reached soon after the storm."""


class Actor:
    """What all roles have: a desk, a journal, dice, and an ear for SIGTERM."""

    def __init__(self, url: str, folder: Path, name: str) -> None:
        self.name = name
        self.journal = Journal(folder, name)
        self.dice = random.Random(name)
        self.leave = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: self.leave.set())
        self.desk = Desk(open_store(url))

    def now(self) -> int:
        return wall_clock()  # the same for all on one machine, and no reckoning like a store's

    @contextmanager
    def minding_mishaps(self) -> Iterator[None]:
        """A store that cannot work at the moment is no reason to give up."""
        try:
            yield
        except StoreError as error:
            self.journal.write(Mishap(at=self.now(), error=f"{error.code}: {error}"))

    def pause(self, most: float) -> None:
        self.leave.wait(self.dice.uniform(0, most))


class Producer:
    """Enqueues alone and in batches, now and later, with and without names."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._batches = 0

    def run(self, unanswered: list[Offer]) -> None:
        for offer in unanswered:
            self._place(offer)
        while not self._actor.leave.is_set():
            with self._actor.minding_mishaps():
                if self._is_full():
                    self._actor.pause(0.2)
                else:
                    self._place(self._next())

    def _is_full(self) -> bool:
        views = self._actor.desk.store.survey()
        return sum(view.counts[State.QUEUED] for view in views) > _BACKLOG

    def _next(self) -> Offer:
        self._batches += 1
        dice, now = self._actor.dice, self._actor.now()
        batch = f"{self._actor.name}/{self._batches}"
        size = dice.choices([1, dice.randint(2, 20), dice.randint(50, 200)], [30, 67, 3])[0]
        delays = [dice.randint(1, 1_500_000) if dice.random() < 0.15 else 0 for _ in range(size)]
        return Offer(
            at=now,
            batch=batch,
            tags=[f"{batch}.{i}" for i in range(size)],
            dues=[now + delay if delay else 0 for delay in delays],
            refs=dice.random() < 0.5,
        )

    def _place(self, offer: Offer) -> None:
        journal, intake = self._actor.journal, self._actor.desk.intake
        tagged = zip(offer.tags, offer.dues, strict=True)
        jobs = [draft(tag, due_at=due_at, ref=offer.refs) for tag, due_at in tagged]
        twin = Twin.RETURN if offer.refs else Twin.REJECT
        journal.write(offer)
        try:
            if len(jobs) == 1:
                placements = [intake.enqueue(jobs[0], twin=twin)]
            else:
                placements = intake.enqueue_many(jobs, twin=twin)
        except Refused:
            journal.write(Declined(at=self._actor.now(), batch=offer.batch))
            return
        ids = [placement.id for placement in placements]
        self._actor.pause(0.03)  # an answer takes its time, and many a kill comes before it
        journal.write(Placed(at=self._actor.now(), batch=offer.batch, ids=ids))


def unanswered_offers(folder: Path, actor: str) -> list[Offer]:
    """What a killed producer may or may not have placed and what may be offered again."""
    entries = read_journal(folder, actor)
    answered = {entry.batch for entry in entries if isinstance(entry, Placed | Declined)}
    offers = [entry for entry in entries if isinstance(entry, Offer) and entry.refs]
    return [offer for offer in offers if offer.batch not in answered]


def produce(actor: Actor, folder: Path, predecessor: str) -> None:
    Producer(actor).run(unanswered_offers(folder, predecessor))


def work(actor: Actor, folder: Path, predecessor: str) -> None:
    worker = Worker(actor.desk, actor.journal, actor.dice, actor.name)
    while not actor.leave.is_set():
        with actor.minding_mishaps():
            worker.step()
    with actor.minding_mishaps():
        worker.end()


def chores(actor: Actor, folder: Path, predecessor: str) -> None:
    while not actor.leave.is_set():
        with actor.minding_mishaps():
            run_chores(actor.desk.clerk, actor.name)
        actor.pause(0.3)


ROLES: dict[str, Callable[[Actor, Path, str], None]] = {
    "producer": produce,
    "worker": work,
    "chores": chores,
}


def name_of(role: str, slot: int, life: int) -> str:
    """How an actor signs."""
    return f"{role}-{slot}-{life:04}"


def main(role: str, url: str, folder: str, slot: str, life: str) -> None:
    """One actor's life."""
    actor = Actor(url, Path(folder), name_of(role, int(slot), int(life)))
    ROLES[role](actor, Path(folder), name_of(role, int(slot), int(life) - 1))
    actor.desk.store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
