"""Answers to those who ask what waits in a queue, what is given out, what is worked on, by whom."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from stoker.desk import Desk
from stoker.doors.stdio.intents import Listing
from stoker.doors.stdio.roster import Roster
from stoker.doors.stdio.settings import Settings
from stoker.doors.stdio.wire import stamp
from stoker.doors.stdio.words import is_accepted, uuid_of
from stoker.kernel.job import QUEUED, RUNNING, Job, State, place
from stoker.store import Filter
from stoker.store.paging import every

Items = list[dict[str, Any]]


class Books(NamedTuple):
    """Where answers are looked up."""

    desk: Desk
    roster: Roster
    settings: Settings


def answer(books: Books, asked: Listing) -> bytes:
    """The payload of the answer."""
    items = LISTINGS[asked.tail](books, asked)
    head = {"queue_name": asked.queue, "reply_to": asked.asker}
    return msgspec.json.encode({**head, "count": len(items), "items": items})


def _waiting(books: Books, asked: Listing) -> Items:
    return [
        {"uuid": uuid_of(job), "priority": job.rank, "queued_at": stamp(job.created_at)}
        for job in sorted(_jobs(books, asked.queue, QUEUED), key=place)
    ]


def _dispatched(books: Books, asked: Listing) -> Items:
    workers = _names_by_session(books)
    return [
        {
            "uuid": uuid_of(job),
            "worker_uuid": workers.get(job.session),
            "dispatched_at": stamp(job.started_at or 0),
        }
        for job in _jobs(books, asked.queue, RUNNING)
        if not is_accepted(job)
    ]


def _in_work(books: Books, asked: Listing) -> Items:
    workers = _names_by_session(books)
    return [
        {
            "uuid": uuid_of(job),
            "worker_uuid": workers.get(job.session),
            "progress": job.progress,
            "last_progress_at": stamp(_last_word(books, job)),
        }
        for job in _jobs(books, asked.queue, RUNNING)
        if is_accepted(job)
    ]


def _last_word(books: Books, job: Job) -> int:
    """When the job's worker last spoke of it: from then on its lease is reckoned."""
    if job.until is None:
        return job.started_at or 0
    return job.until - books.settings.lease


def _workers(books: Books, asked: Listing) -> Items:
    now, expiry = books.desk.store.now(), books.settings.expiry
    known = []
    for view in books.desk.push.posts(asked.queue):
        told = min(now, view.expires_at - session_life(expiry))
        seen = max(told, books.roster.last_seen(view.post) or told)
        if seen > now - expiry and _between(asked, seen):
            state = "busy" if view.busy else "idle"
            known.append((seen, view.post.worker, state))
    return [
        {"uuid": worker, "state": state, "last_seen": stamp(seen)}
        for seen, worker, state in sorted(known)
    ]


def session_life(expiry: int) -> int:
    """How long a worker's session lasts after it was heard of.

    Longer than it is remembered: what becomes of its job is for the job's lease to say.
    """
    return 2 * expiry


def _between(asked: Listing, seen: int) -> bool:
    after, before = asked.after, asked.before
    return (after is None or after <= seen) and (before is None or seen <= before)


def _names_by_session(books: Books) -> dict[int | None, str]:
    return {session.id: session.name for session in books.desk.store.sessions()}


def _jobs(books: Books, queue: str, state: State) -> Iterator[Job]:
    return every(books.desk.store, Filter(states=(state,), queue=queue))


LISTINGS: Mapping[str, Callable[[Books, Listing], Items]] = {
    "list_job_queue": _waiting,
    "list_queue_jobs": _waiting,
    "list_worker_queue": _workers,
    "list_queue_workers": _workers,
    "list_leased_queue": _dispatched,
    "list_queue_dispatched": _dispatched,
    "list_progress_queue": _in_work,
    "list_queue_progress": _in_work,
}
"""By the last part of the topic: each listing has two names."""
