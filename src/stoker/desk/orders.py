"""Taking in jobs that may be somebody's children, or there already: all of a call or none.

A job ordered *once* is made only if its queue holds no job at all, in whatever state; else the
one that is there stands for it, on the caller's terms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from stoker.desk.byhand import Terms
from stoker.desk.clerk import Clerk, twin_error
from stoker.desk.intake import Placement
from stoker.errors import Contended, NotFound, Refused, StokerError
from stoker.kernel import byhand, control, family
from stoker.kernel.change import NOTHING, Change
from stoker.kernel.job import LIVE, STATES, Job
from stoker.store import Filter, Receipt

_ROUNDS = 20


class Order(NamedTuple):
    """A job to be made. `draft` is given the parent's copy, if there is to be a parent."""

    draft: Callable[[Job | None], Job]
    parent_id: int | None = None
    once: bool = False
    terms: Terms = lambda _: {}
    """What is to be changed of the job that is there already."""


class Orders:
    """Jobs by order."""

    def __init__(self, clerk: Clerk) -> None:
        self._clerk = clerk

    def place_each(self, jobs: Sequence[Job]) -> list[int | StokerError]:
        """Jobs of many callers, each on its own, in one durable step: their ids, or what is
        wrong with them."""
        now = self._clerk.store.now()
        results: list[int | StokerError] = []
        changes: list[Change] = []
        for job in jobs:
            try:
                changes.append(control.enqueue(job, now=now, due_at=job.due_at or None))
                results.append(0)
            except StokerError as error:
                results.append(error)
        receipts = iter(self._clerk.transact(changes).receipts if changes else ())
        return [_placed(next(receipts)) if result == 0 else result for result in results]

    def place(self, orders: Sequence[Order]) -> list[Placement]:
        """Carry out the orders of one call, all or none, in one durable step."""
        for _ in range(_ROUNDS):
            book = _Book(self._clerk, orders)
            if book.change == NOTHING:
                return book.placements(())
            receipt = self._clerk.transact([book.change]).receipts[0]
            if receipt.ok:
                return book.placements(receipt.ids)
        raise Contended("the jobs that are concerned keep changing; try again")


def _placed(receipt: Receipt) -> int | StokerError:
    return receipt.ids[0] if receipt.ok else twin_error(receipt)


class _Book:
    """One attempt at a call: decided on what is there now."""

    def __init__(self, clerk: Clerk, orders: Sequence[Order]) -> None:
        self._clerk = clerk
        self._now = clerk.store.now()
        self._parents = clerk.store.get([o.parent_id for o in orders if o.parent_id is not None])
        self._fresh: dict[int | None, list[tuple[int, Job]]] = {}
        self._first: dict[str, int] = {}
        self._alias: dict[int, int] = {}
        self._known: dict[int, int] = {}
        self._amended: dict[int, Change] = {}
        self._count = len(orders)
        for place, order in enumerate(orders):
            self._enter(place, order)
        self.change = self._decided()

    def placements(self, ids: Sequence[int]) -> list[Placement]:
        """Where each order ended up, by the ids that were given to the new jobs."""
        places = [place for family_ in self._fresh.values() for place, _ in family_]
        fresh = dict(zip(places, ids, strict=True))
        found = {**fresh, **self._known}
        return [
            Placement(found[self._alias.get(place, place)], fresh=place in fresh)
            for place in range(self._count)
        ]

    def _enter(self, place: int, order: Order) -> None:
        job = self._drafted(order)
        if order.once:
            if job.queue in self._first:
                self._alias[place] = self._first[job.queue]
                return
            self._first[job.queue] = place
            there = self._there(job)
            if there is not None:
                self._known[place] = there.id
                facts = order.terms(there)
                if facts:
                    self._amended[there.id] = byhand.amend(there, facts)
                return
        self._fresh.setdefault(order.parent_id, []).append((place, job))

    def _drafted(self, order: Order) -> Job:
        if order.parent_id is None:
            job = order.draft(None)
        elif order.parent_id not in self._parents:
            raise NotFound(f"there is no job {order.parent_id} to be the parent")
        else:
            job = order.draft(self._parents[order.parent_id])
        return control.enqueue(job, now=self._now, due_at=job.due_at or None).inserts[0]

    def _there(self, job: Job) -> Job | None:
        """The job that holds the place, found without a search where that is possible."""
        store = self._clerk.store
        held = Filter(states=tuple(LIVE), unique_key=job.unique_key, limit=1)
        if job.unique_key is not None and (holders := store.find(held)):
            return holders[0]
        for view in store.survey([job.queue]):
            states = [state for state in STATES if view.counts[state]]
            found = [
                other
                for state in states
                for other in store.find(Filter(states=(state,), queue=job.queue, limit=1))
            ]
            return min(found, key=lambda other: other.id, default=None)
        return None

    def _decided(self) -> Change:
        change = NOTHING
        for parent_id, entries in self._fresh.items():
            jobs = tuple(job for _, job in entries)
            if parent_id is None:
                change |= Change(inserts=jobs)
            elif parent_id in self._amended:
                raise Refused(f"one call cannot both change job {parent_id} and give it children")
            else:
                change |= family.spawn(self._parents[parent_id], jobs)
        for amended in self._amended.values():
            change |= amended
        return change
