"""The observer: watches jobs and queues for all who want to hear of them.

No store keeps a log of what happened, and none is needed: what is told is how things are. Every
change of a subject leads to an event with its present state; states that pass between two looks are
left out; nobody is told of an older state after a newer one. An id says what a client has been
told, so whoever comes back with it is told of every subject that is no longer so.

One look serves all subscriptions. It is made when the bell rings, when this process has changed
something itself, and after a short nap; nobody looks while nobody listens.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from stoker.doors.forms import job_form, queue_form
from stoker.doors.http.numbers import read_number
from stoker.errors import StoreError
from stoker.kernel.glob import glob_matches
from stoker.kernel.job import Job
from stoker.store import QueueView, Store

logger = logging.getLogger("stoker.http")

_BREATH = 0.05
_NAP = 0.25
_NAP_OF_QUEUES = 1.0
_SILENCE = 15.0
_MOST_REMEMBERED = 20_000

Subject = int | str
"""A job's id, or the name of a queue."""


class Sight(NamedTuple):
    """How a subject looks."""

    subject: Subject
    kind: str
    stamp: object
    """The same as long as there is nothing to tell."""
    form: Callable[[], object]
    last: bool
    """Is nothing more to be expected of it?"""

    def told(self) -> bytes:
        """What is told of it, in one line."""
        return msgspec.json.format(msgspec.json.encode(self.form()), indent=-1)


class Event(NamedTuple):
    """News of a subject."""

    seq: int
    kind: str
    stamp: object
    data: bytes
    last: bool


class Subscription:
    """Whom to tell about what. Who is slow gets the latest state only."""

    def __init__(self, jobs: Collection[int], queues: Sequence[str], told: int) -> None:
        self.jobs = frozenset(jobs)
        self.queues = tuple(queues)
        self.told = told
        """The last event of which it heard before."""
        self.primed = False
        self.pending: dict[Subject, Event] = {}
        self.news = asyncio.Event()

    def concerns(self, subject: Subject) -> bool:
        """Does it want to hear of this?"""
        if isinstance(subject, int):
            return subject in self.jobs
        return any(glob_matches(pattern, subject) for pattern in self.queues)

    def tell(self, subject: Subject, event: Event) -> None:
        """There is news."""
        self.pending[subject] = event
        self.news.set()

    def take(self) -> list[Event]:
        """All that is new, in order."""
        events = sorted(self.pending.values(), key=lambda event: event.seq)
        self.pending.clear()
        self.news.clear()
        return events


class Observer:
    """Looks while somebody listens. `run` does something in a thread."""

    def __init__(self, store: Store, run: Callable[..., Awaitable[list[Sight]]]) -> None:
        self._store = store
        self._run = run
        self._epoch = secrets.token_hex(4)
        self._seq = 0
        self._latest: dict[Subject, Event] = {}
        self._subscriptions: set[Subscription] = set()
        self._nudged = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.closing = False

    @property
    def count(self) -> int:
        """How many listen."""
        return len(self._subscriptions)

    def nudge(self, _: Iterable[str] = ()) -> None:
        """Something may have changed."""
        if self._subscriptions:
            self._nudged.set()

    def close(self) -> None:
        """Let everybody go."""
        self.closing = True
        self._nudged.set()
        for subscription in self._subscriptions:
            subscription.news.set()

    async def closed(self) -> None:
        """Until nobody looks any more."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def events(
        self, jobs: Collection[int], queues: Sequence[str], after: str = ""
    ) -> AsyncIterator[list[Event]]:
        """How things are, then what changes; with an id, only what is no longer as it was told.

        Nothing new for a while is an empty list.
        """
        subscription = Subscription(jobs, queues, self._seq_of(after))
        self._join(subscription)
        try:
            while not self.closing:
                await _set_within(subscription.news, _SILENCE)
                if subscription.primed:
                    yield subscription.take()
        finally:
            self._subscriptions.discard(subscription)

    async def until_over(self, job_id: int, seconds: float) -> None:
        """Until a job has ended or is gone, or the time is up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async for events in self.events([job_id], ()):
                    if any(event.last for event in events):
                        return

    def id_of(self, event: Event) -> str:
        """What a client has to show to go on behind this event."""
        return f"{self._epoch}-{event.seq}"

    def _seq_of(self, text: str) -> int:
        """The event that an id stands for; 0: for none that there was here."""
        epoch, _, digits = text.partition("-")
        seq = read_number(digits) or 0
        return seq if epoch == self._epoch and seq <= self._seq else 0

    def _join(self, subscription: Subscription) -> None:
        self._subscriptions.add(subscription)
        self._nudged.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())

    # -- looking ---------------------------------------------------------------------------

    async def _watch(self) -> None:
        while self._subscriptions and not self.closing:
            self._nudged.clear()
            here = list(self._subscriptions)
            try:
                sights = await self._run(self._look, here)
            except StoreError as error:
                logger.warning("events have to wait, the store is in trouble: %s", error)
            else:
                self._note(sights)
                for subscription in [each for each in here if not each.primed]:
                    self._prime(subscription)
            await asyncio.sleep(_BREATH)
            await self._nap()

    async def _nap(self) -> None:
        watches_jobs = any(each.jobs for each in self._subscriptions)
        await _set_within(self._nudged, _NAP if watches_jobs else _NAP_OF_QUEUES)

    def _look(self, subscriptions: Sequence[Subscription]) -> list[Sight]:
        ids = set[int]().union(*(each.jobs for each in subscriptions))
        jobs = self._store.get(ids) if ids else {}
        sights = [_job_seen(job_id, jobs.get(job_id)) for job_id in ids]
        if any(each.queues for each in subscriptions):
            views = self._store.survey()
            gone = {name for name in self._latest if isinstance(name, str)}
            gone -= {view.name for view in views}
            sights += [_queue_seen(view.name, view) for view in views]
            sights += [_queue_seen(name, None) for name in gone]
        return sights

    def _note(self, sights: Sequence[Sight]) -> None:
        for sight in sights:
            known = self._latest.get(sight.subject)
            if known is not None and known.stamp == sight.stamp:
                continue
            self._seq += 1
            event = Event(self._seq, sight.kind, sight.stamp, sight.told(), sight.last)
            self._remember(sight.subject, event)
            for each in self._subscriptions:
                if each.primed and each.concerns(sight.subject):
                    each.tell(sight.subject, event)

    def _remember(self, subject: Subject, event: Event) -> None:
        self._latest.pop(subject, None)
        self._latest[subject] = event
        if len(self._latest) > _MOST_REMEMBERED:
            del self._latest[next(iter(self._latest))]

    def _prime(self, subscription: Subscription) -> None:
        """Tell how things are, as far as it has not been told."""
        subscription.primed = True
        for subject, event in self._latest.items():
            if event.seq > subscription.told and subscription.concerns(subject):
                subscription.tell(subject, event)
        subscription.news.set()


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _job_seen(job_id: int, job: Job | None) -> Sight:
    if job is None:
        return Sight(job_id, "gone", None, lambda: {"job": job_id}, last=True)
    stamp = (job.revision, job.progress)
    return Sight(job_id, "job", stamp, lambda: job_form(job), last=job.ended)


def _queue_seen(name: str, view: QueueView | None) -> Sight:
    if view is None:
        return Sight(name, "gone", None, lambda: {"queue": name}, last=False)
    return Sight(name, "queue", view, lambda: queue_form(view), last=False)
