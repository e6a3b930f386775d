"""The vault door: the few verbs every engine has, and the values they exchange.

A store keeps jobs and commits Changes; it decides nothing about a job's life. `transact` takes
and returns batches: one round trip moves hundreds of jobs, each Change whole or not at all.
Its claims are the only step with a transition inside, because choosing must be atomic; what they
do to a job is `kernel.rules.start`, no more and no less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from stoker.kernel.change import Change, Note
from stoker.kernel.facts import check_name, check_text
from stoker.kernel.job import Job, State
from stoker.kernel.queue import QueueSettings
from stoker.store.bell import Bell


class Claim(msgspec.Struct, frozen=True, gc=False):
    """Ask for up to `limit` due jobs of these queues, in order, under one lease token.

    The lease is bound to the session (its death ends it), to `visibility` microseconds, to both
    or to neither. With a limit of 0 the session only takes back what it left standing.
    """

    queues: tuple[str, ...]
    limit: int
    token: int
    session: int | None = None
    visibility: int | None = None
    stands: str | None = None
    """Where its worker hears (`Listener.address`), if whoever brings a job is to serve it when
    there is nothing to be had now. See `standing`."""


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """What became of one Change.

    Not ok: nothing of it happened, because some job or note has moved on (`stale`, `stale_notes`)
    or would be somebody's twin. `twins` gives, for a place among the inserts (or -1 - place among
    the writes), the id of the job that is there already, or 0 for a twin in the same Change.
    """

    ok: bool = True
    ids: tuple[int, ...] = ()
    """The ids given to the inserts, in order."""
    stale: tuple[int, ...] = ()
    stale_notes: tuple[str, ...] = ()
    twins: Mapping[int, int] = {}
    parents: tuple[Job, ...] = ()
    """Parents that were told of a child's end, as they are now."""


OK = Receipt()


class Answer(msgspec.Struct, frozen=True, gc=False):
    """Receipts for the Changes and grants for the Claims, in the order asked.

    A grant is None when the claim's session is not alive: the worker must open a new one.
    """

    receipts: Sequence[Receipt]
    grants: Sequence[Sequence[Job] | None] = ()


class Session(msgspec.Struct, frozen=True):
    """A worker's life in the store: it ends for good when its beats stop."""

    id: int
    name: str = ""
    info: str = "{}"
    started_at: int = 0
    expires_at: int = 0


class Beat(msgspec.Struct, frozen=True):
    """The answer to a heartbeat: still alive? and which of its jobs are to be cancelled?"""

    alive: bool
    cancelled: tuple[int, ...] = ()
    troubled: bool = False
    """As `Store.troubled` says; only who lives and keeps watch is told."""


class QueueView(msgspec.Struct, frozen=True):
    """One queue at a glance. Costs the same whether it holds ten jobs or ten million."""

    name: str
    settings: QueueSettings
    counts: Mapping[State, int]
    used: int
    """Units of capacity held now, in thousandths."""


class Filter(msgspec.Struct, frozen=True):
    """Jobs by their facts, in order of arrival (or the newest first), a page at a time.

    `after` continues behind an id already seen.
    """

    states: tuple[State, ...] = ()
    queue: str | None = None
    name: str | None = None
    key: str | None = None
    parent_id: int | None = None
    session: int | None = None
    ref: str | None = None
    unique_key: str | None = None
    waits_for: str | None = None
    repeating: bool = False
    """Only those that repeat. Of live jobs these few are found without a look at the others."""
    after: int | None = None
    newest_first: bool = False
    limit: int = 100

    def __post_init__(self) -> None:
        for name in ("queue", "key", "ref", "unique_key", "waits_for"):
            text = getattr(self, name)
            if text is not None:
                check_name(name, text)
        if self.name is not None:  # that of many a job is empty
            check_text("name", self.name)


class InLine(msgspec.Struct, frozen=True):
    """The due jobs of a queue in its order, whatever its limits and turns would say to them.

    `after` continues behind a place already seen: the rank, due time and id of the job there.
    """

    queue: str
    after: tuple[int, int, int] | None = None
    limit: int = 100


class Lost(msgspec.Struct, frozen=True):
    """RUNNING jobs whose lease is over, and WAITING ones whose time is up."""

    limit: int = 500


class Adrift(msgspec.Struct, frozen=True):
    """Family members left behind by a crash: parents with nothing left to wait for, and held
    children whose parent no longer runs."""

    limit: int = 500


class Forgettable(msgspec.Struct, frozen=True):
    """Ended jobs that have been kept long enough."""

    limit: int = 500


Query = Filter | InLine | Lost | Adrift | Forgettable


MOST_AT_ONCE = 1000
"""A claim for more would keep others waiting."""


class Store(Protocol):
    """What an engine must offer. `stoker.store.memory` is the specification."""

    @property
    def bell(self) -> Bell:
        """Wake-ups for those who wait for work."""

    @property
    def abreast(self) -> int:
        """How many calls of one process are worth having under way at once: one where they would
        only wait for each other, more where somebody else does the work."""

    @property
    def portion(self) -> int:
        """How many jobs are best claimed at once by whoever could take any number; it may change
        with the jobs."""

    def now(self) -> int:
        """The engine's clock, in UTC microseconds; leases and due times go by it alone."""

    def transact(self, changes: Sequence[Change], claims: Sequence[Claim] = ()) -> Answer:
        """Commit the Changes, each on its own, then serve the Claims; one durable step.

        A sealed store (`stoker.store.seal`) refuses new jobs and grants nothing.
        """

    def adopt(self, jobs: Sequence[Job]) -> None:
        """Take over jobs of another store as they are, ids included, in place of what is here by
        the same id, unique key or reference. Asks no seal and rings no bell."""

    def get(self, ids: Iterable[int]) -> dict[int, Job]:
        """Jobs by id; those that are gone are missing."""

    def find(self, query: Query) -> list[Job]:
        """Jobs by what is known of them."""

    def survey(self, names: Sequence[str] | None = None) -> list[QueueView]:
        """The queues, sorted by name."""

    def names(self, pattern: str) -> list[str]:
        """Queues with queued jobs whose name matches a GLOB pattern, sorted."""

    def next_due(self, queues: Sequence[str], after: int | None = None) -> int | None:
        """When the next job of these queues falls due, after a moment (now): how long to sleep.

        A job that waits behind another of its key may be left out; it rings when its turn comes.
        """

    def flows(self, queue: str, meters: Sequence[str]) -> dict[str, str]:
        """What is remembered for rates of a queue, by meter (`kernel.admission.of_key` ...); a
        meter of which nothing is remembered, or nothing that still counts, may be missing."""

    def notes(self, keys: Sequence[str] | None = None) -> dict[str, Note]:
        """Notes that are there and not out of date; without keys all of them."""

    def enrol(self, session: Session, ttl: int) -> None:
        """Begin a worker's session."""

    def beat(self, session: int, ttl: int, *, watch: bool = False) -> Beat:
        """Keep a session alive; a dead one is not revived.

        Whoever keeps `watch` hears with the same answer whether there is any trouble.
        """

    def retire(self, session: int) -> None:
        """End a session. What it still holds is lost at once."""

    def sessions(self) -> list[Session]:
        """All sessions that are on the books, dead ones included until they are retired."""

    def troubled(self) -> bool:
        """Is there anything for the night watch: a job that is Lost, Adrift or Forgettable, or a
        session whose time is up?"""

    def hold(self, name: str, owner: str, ttl: int) -> bool:
        """Hold a named lock for a while, or prolong it; ttl 0 gives it up,
        also if the clock is put back."""

    def tidy(self) -> None:
        """Forget empty queues that nobody configured and notes out of date; give back space."""

    def close(self) -> None:
        """Let go of files and connections."""
