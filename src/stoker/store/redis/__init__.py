"""The Redis store: Redis 7.0 or Valkey 7.2 and newer, alone, behind Sentinels or as a Cluster.

All that is committed together is committed by one function inside the server (`lua/`), in keys
that share a slot. How safe an acknowledged write is depends on the server; `check` says it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import chain

from stoker.errors import BadInput, StoreTooNew
from stoker.kernel.change import Change, Note
from stoker.kernel.glob import glob_matches, literal_prefix
from stoker.kernel.job import Job
from stoker.store import Answer, Beat, Claim, Query, QueueView, Session
from stoker.store.clock import Clock
from stoker.store.finding import Finding, Level
from stoker.store.forks import heed_forks
from stoker.store.redis.bell import RedisBell
from stoker.store.redis.clock import ServerClock
from stoker.store.redis.durability import (
    ServerFacts,
    facts_of,
    findings,
    needs_waitaof,
    refuse_if_unsafe,
    without_disk,
)
from stoker.store.redis.options import Options, read_options
from stoker.store.redis.partition import Partition
from stoker.store.redis.portion import Portion
from stoker.store.redis.spread import Spread
from stoker.store.redis.wire import Wire

logger = logging.getLogger(__name__)

LAYOUT = 1
"""The form in which jobs are kept. A store with a newer one is not touched."""


def is_there(url: str) -> bool:
    """Whether somebody has moved in at this URL; raises if nobody can be asked."""
    wire = Wire(read_options(url))
    try:
        return Partition(wire, 0, ServerClock(None), Portion()).is_inhabited()
    finally:
        wire.hang_up()


class RedisStore:
    """Jobs on Redis or Valkey servers; `docs/storage-redis.md` lists what the URL may say.

    Without a clock of their own the jobs go by that of the server.

    >>> store = RedisStore("redis://localhost/0")          # doctest: +SKIP
    """

    abreast = 2

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        self.options = read_options(url)
        self.now = ServerClock(clock)
        self._wire = Wire(self.options)
        numbers = range(self.options.partitions)
        self._portion = Portion()
        self._parts = [Partition(self._wire, number, self.now, self._portion) for number in numbers]
        try:
            self._settle_in()
        except BaseException:
            self._wire.hang_up()
            raise
        spread = Spread(self._parts, self.now) if len(self._parts) > 1 else None
        self._jobs: Partition | Spread = spread or self._parts[0]
        self.bell = RedisBell(self._wire, self._parts, spread.rung if spread else None)
        heed_forks(self)

    @property
    def portion(self) -> int:
        """As many jobs as come in one piece."""
        return self._portion.jobs

    def _settle_in(self) -> None:
        servers = self._servers()
        for facts in servers:
            refuse_if_unsafe(self.options, facts)
        if not any(needs_waitaof(self.options.ack, facts) for facts in servers):
            self._wire.ack = without_disk(self.options.ack)
        wished = (LAYOUT, self.options.partitions)
        layout, partitions, is_new = self._parts[0].call("settle_in", *wished)
        _check_layout(self.options, int(layout), int(partitions))
        self.migrated = (0 if is_new else int(layout), LAYOUT)
        for facts in servers:
            for finding in findings(self.options, facts):
                if finding.level is not Level.FINE:
                    logger.warning("%s at %s: %s", facts.product, facts.address, finding.text)

    def _servers(self) -> list[ServerFacts]:
        """All servers that hold a partition."""
        return self._wire.patiently(self._facts)

    def _facts(self) -> list[ServerFacts]:
        where = self._wire.topology.where
        addresses = dict.fromkeys([where(part.slot) for part in self._parts])
        return [facts_of(self._wire, address) for address in addresses]

    def before_fork(self) -> None:
        """Nothing has to be put away."""

    def after_fork(self, *, in_child: bool) -> None:
        """The child has connections of its own, and is another caller."""
        if in_child:
            self._wire.hang_up()
            for part in self._parts:
                part.begin_anew()

    # -- writing ---------------------------------------------------------------------------

    def transact(self, changes: Sequence[Change], claims: Sequence[Claim] = ()) -> Answer:
        return self._jobs.transact(changes, claims)

    def adopt(self, jobs: Sequence[Job]) -> None:
        self._jobs.adopt(jobs)

    def enrol(self, session: Session, ttl: int) -> None:
        self._jobs.enrol(session, ttl)

    def beat(self, session: int, ttl: int, *, watch: bool = False) -> Beat:
        return self._jobs.beat(session, ttl, watch=watch)

    def retire(self, session: int) -> None:
        self._jobs.retire(session)

    def hold(self, name: str, owner: str, ttl: int) -> bool:
        return self._jobs.hold(name, owner, ttl)

    def tidy(self) -> None:
        self._jobs.tidy()

    # -- looking ---------------------------------------------------------------------------

    def get(self, ids: Iterable[int]) -> dict[int, Job]:
        return self._jobs.get(ids)

    def find(self, query: Query) -> list[Job]:
        return self._jobs.find(query)

    def survey(self, names: Sequence[str] | None = None) -> list[QueueView]:
        return sorted(self._jobs.survey(names), key=lambda view: view.name)

    def names(self, pattern: str) -> list[str]:
        found = self._jobs.listed("lines", literal_prefix(pattern))
        return [name for name in found if glob_matches(pattern, name)]

    def next_due(self, queues: Sequence[str], after: int | None = None) -> int | None:
        return self._jobs.next_due(queues, after) if queues else None

    def flows(self, queue: str, meters: Sequence[str]) -> dict[str, str]:
        return self._jobs.flows(queue, meters)

    def notes(self, keys: Sequence[str] | None = None) -> dict[str, Note]:
        return self._jobs.notes(keys)

    def sessions(self) -> list[Session]:
        return sorted(self._jobs.sessions(), key=lambda session: session.id)

    def troubled(self) -> bool:
        return self._jobs.troubled()

    def check(self) -> list[Finding]:
        about = f"layout {LAYOUT}, {self.options.partitions} partition(s)"
        keys = f"all keys begin with {{{self.options.prefix}."
        servers = [findings(self.options, facts) for facts in self._servers()]
        return [Finding("schema", about), Finding("keys", keys), *chain.from_iterable(servers)]

    def close(self) -> None:
        """Hang up."""
        self._wire.hang_up()


def _check_layout(options: Options, layout: int, partitions: int) -> None:
    where = f"the store {options.prefix!r} on Redis at {options}"
    if layout > LAYOUT:
        raise StoreTooNew(
            f"{where} has layout {layout}, this version of Stoker knows up to {LAYOUT}; upgrade "
            "Stoker, or use another prefix"
        )
    if partitions != options.partitions:
        raise BadInput(
            f"{where} has {partitions} partition(s), and its jobs' ids go by that: say "
            f"?partitions={partitions}, or use another prefix"
        )
