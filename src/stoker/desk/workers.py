"""Who is at work: the sessions in the store, as people think of them."""

from __future__ import annotations

import msgspec

from stoker.kernel.glob import glob_matches
from stoker.store import Filter, Session, Store

MOST_COUNTED = 1000
"""Jobs in one worker's hands are not counted any further."""


class WorkerInfo(msgspec.Struct, frozen=True):
    """What a worker says of itself when it opens its session. All of it may be missing."""

    host: str = ""
    pid: int | None = None
    queues: tuple[str, ...] | None = None
    concurrency: int | None = None
    throttlers: tuple[str, ...] = ()
    """The queues whose throttlers it has."""
    tasks: str | None = None
    """The mark of the list of the tasks it knows (`known_tasks`), if it has told them."""


class WorkerView(msgspec.Struct, frozen=True):
    """One worker at a glance."""

    session: int
    name: str
    info: WorkerInfo
    alive: bool
    held: int
    """Jobs in its hands, up to `MOST_COUNTED`."""
    started_at: int
    expires_at: int

    def serves(self, queue: str) -> bool:
        """Whether it takes jobs of this queue, as far as it has said."""
        named = self.info.queues
        return named is None or any(glob_matches(pattern, queue) for pattern in named)

    @property
    def busy(self) -> bool:
        """Has it as many jobs in hand as it runs at once?"""
        return self.info.concurrency is not None and self.held >= self.info.concurrency


def survey_workers(store: Store) -> list[WorkerView]:
    """All workers on the books, the dead ones included until their jobs are recovered."""
    now = store.now()
    return [_view(store, session, now) for session in store.sessions()]


def _view(store: Store, session: Session, now: int) -> WorkerView:
    held = store.find(Filter(session=session.id, limit=MOST_COUNTED))
    return WorkerView(
        session.id,
        session.name,
        _info(session.info),
        alive=session.expires_at > now,
        held=len(held),
        started_at=session.started_at,
        expires_at=session.expires_at,
    )


def _info(text: str) -> WorkerInfo:
    try:
        return msgspec.json.decode(text, type=WorkerInfo)
    except msgspec.MsgspecError:
        return WorkerInfo()  # free text is allowed, and tells us nothing
