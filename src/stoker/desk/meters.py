"""The limits that a job has to pass, with what is on their books, and which of them stop it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

import msgspec

from stoker.desk.blocker import Blocker, Reason
from stoker.desk.forecast import Start
from stoker.kernel.admission import fits, of_key, of_task
from stoker.kernel.amount import amount_text
from stoker.kernel.job import WHOLE_WEIGHT, Job, State, load
from stoker.kernel.queue import DEFAULTS, QueueSettings
from stoker.kernel.rate import Flow, Rate
from stoker.store import Filter, QueueView, Store
from stoker.store.paging import every

MOST_NAMED = 1000
"""Holders of places, or a job's children, that are named."""


class Meter(msgspec.Struct, frozen=True):
    """One limit, and what is on its books."""

    title: str
    full: Reason
    fast: Reason
    """What to call it if too much has started of late."""
    capacity: int | None = None
    used: int = 0
    holders: tuple[int, ...] = ()
    more: bool = False
    """Are there holders that are not named?"""
    rate: Rate | None = None
    flow: str = ""
    before: tuple[tuple[int, int], ...] = ()
    """The weights of those that take from it before the job does, and when."""


class Around(NamedTuple):
    """The queues that have a say in when a job starts."""

    queue: QueueView
    inner: Sequence[QueueView] = ()
    """Queues within its own."""
    outer: QueueView | None = None
    beside: Sequence[QueueView] = ()
    """Queues that are within the same one, its own included."""


def around(store: Store, queue: str) -> Around:
    """A queue and those that share limits with it."""
    views = {view.name: view for view in store.survey([queue])}
    own = views.get(queue) or QueueView(queue, DEFAULTS, {}, 0)
    if not own.settings.limited:
        return Around(own)
    views = {view.name: view for view in store.survey()}
    within = own.settings.within
    outer = None if within is None else views.get(within)
    return Around(
        own,
        [view for view in views.values() if view.settings.within == queue],
        outer,
        [view for view in views.values() if within is not None and view.settings.within == within],
    )


# -- gathering -----------------------------------------------------------------------------


def meters(store: Store, job: Job, place: Around, starts: Sequence[Start]) -> list[Meter]:
    """All limits that a job has to pass, those of its task first; `starts` are those before it."""
    settings = place.queue.settings
    if job.weight == 0 or not settings.limited:
        return []
    found = [*_of_task(store, job, settings, starts), *_of_key(store, job, settings, starts)]
    members = [place.queue, *place.inner]
    title = f"the queue {job.queue}"
    found.append(_of_queue(store, members, (title, Reason.QUEUE_FULL, Reason.QUEUE_RATE), starts))
    if place.outer is not None:
        members = [place.outer, *place.beside]
        title = f"the queue {place.outer.name}, which {job.queue} is within,"
        found.append(
            _of_queue(store, members, (title, Reason.OUTER_FULL, Reason.OUTER_RATE), starts)
        )
    return found


def _of_task(
    store: Store, job: Job, settings: QueueSettings, starts: Sequence[Start]
) -> Iterator[Meter]:
    if not settings.limits_task(job.name):
        return
    meter = of_task(job.name)
    yield _counted(
        Meter(
            f"the task {job.name}",
            Reason.TASK_FULL,
            Reason.TASK_RATE,
            settings.task_units(job.name),
            rate=settings.task_rates.get(job.name),
            flow=store.flows(job.queue, [meter]).get(meter, ""),
            before=_weights(each for each in starts if each.job.name == job.name),
        ),
        store,
        Filter(queue=job.queue, name=job.name),
    )


def _of_key(
    store: Store, job: Job, settings: QueueSettings, starts: Sequence[Start]
) -> Iterator[Meter]:
    if job.key is None:
        return
    meter, wanted = of_key(job.key), Filter(queue=job.queue, key=job.key)
    plain = msgspec.structs.replace(settings, shares={}).key_units(job.key)
    capacity, lent = settings.key_units(job.key), settings.lent_units(job.key)
    by_key = Meter(
        f"the key {job.key}",
        Reason.KEY_FULL,
        Reason.KEY_RATE,
        plain,
        rate=settings.key_rates.get(job.key, settings.key_rate),
        flow=store.flows(job.queue, [meter]).get(meter, ""),
        before=_weights(each for each in starts if each.job.key == job.key),
    )
    yield _counted(by_key, store, wanted)
    if capacity != plain or (lent is not None and _others_wait(store, job)):
        title = f"the share of {job.key}"
        units = capacity if lent is None else lent
        share = Meter(title, Reason.SHARE_FULL, Reason.KEY_RATE, units)
        yield _counted(share, store, wanted)


def _others_wait(store: Store, job: Job) -> bool:
    """Would anybody else have what a key could borrow?"""
    queued = every(store, Filter(states=(State.QUEUED,), queue=job.queue))
    now = store.now()
    return any(each.key != job.key and each.due_at <= now for each in queued)


def _of_queue(
    store: Store,
    members: Sequence[QueueView],
    words: tuple[str, Reason, Reason],
    starts: Sequence[Start],
) -> Meter:
    name, settings = members[0].name, members[0].settings
    used = sum(member.used for member in members)
    holders: list[Job] = []
    if settings.capacity is not None:
        found = (_holders(store, Filter(queue=member.name)) for member in members if member.used)
        holders = list(islice(chain.from_iterable(found), MOST_NAMED))
    return Meter(
        *words,
        settings.units(),
        used,
        tuple(job.id for job in holders),
        sum(load(job) for job in holders) < used,
        settings.rate,
        store.flows(name, [""]).get("", ""),
        _weights(starts),
    )


def _counted(meter: Meter, store: Store, wanted: Filter) -> Meter:
    """The meter, with what is on its books. All holders are counted, some are named."""
    used, more = 0, False
    holders: list[int] = []
    for holder in _holders(store, wanted) if meter.capacity is not None else ():
        used += load(holder)
        more = len(holders) == MOST_NAMED
        if not more:
            holders.append(holder.id)
    return msgspec.structs.replace(meter, used=used, holders=tuple(holders), more=more)


def _holders(store: Store, wanted: Filter) -> Iterator[Job]:
    states = (State.RUNNING, State.WAITING)
    found = every(store, msgspec.structs.replace(wanted, states=states))
    return (job for job in found if load(job))


def _weights(starts: Iterable[Start]) -> tuple[tuple[int, int], ...]:
    return tuple((start.job.weight, start.at) for start in starts if start.job.weight)


# -- judging -------------------------------------------------------------------------------


def stops(job: Job, meter: Meter, now: int) -> Iterator[Blocker]:
    """How a limit stands in a job's way, if it does."""
    if not fits(meter.used, job.weight, meter.capacity):
        text = f"{meter.title} is full: {_places(job, meter)}"
        yield Blocker(meter.full, text, jobs=meter.holders, more=meter.more)
    opening = None if meter.rate is None else _opening(job, meter, meter.rate, now)
    if opening is not None:
        yield Blocker(meter.fast, f"{meter.title} has used up its {meter.rate}", opening)


def _opening(job: Job, meter: Meter, rate: Rate, now: int) -> int | None:
    """The last moment until which a rate will refuse a job, with those that start before it; None:
    it never does."""
    moment = max(now, job.due_at)
    openings = [Flow(rate, meter.flow, moment).free_at(job.weight)]
    state = meter.flow
    for weight, at in meter.before:
        flow = Flow(rate, state, at)
        flow.take(weight)
        state = flow.state
        openings.append(Flow(rate, state, max(at, moment)).free_at(job.weight))
    return max((each for each in openings if each is not None and each > moment), default=None)


def _places(job: Job, meter: Meter) -> str:
    used, limit, needed = (
        amount_text(units / WHOLE_WEIGHT) for units in (meter.used, meter.capacity or 0, job.weight)
    )
    taken = f"{used} of {limit} places are taken"
    return taken if job.weight == WHOLE_WEIGHT else f"{taken}, it needs {needed}"
