"""The PostgreSQL store: for many machines, and for queues beside the tables they are about.

All that Stoker keeps is in one schema of the database. Every call is one statement, or one short
transaction, on any connection; so a pooler that hands out connections by the transaction may
stand between.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from typing import Any, TypeVar

from stoker.errors import StoreError
from stoker.kernel.change import Change, Note
from stoker.kernel.job import LARGEST_ID, Job
from stoker.store import (
    MOST_AT_ONCE,
    Answer,
    Beat,
    Claim,
    Query,
    QueueView,
    Receipt,
    Session,
)
from stoker.store.clock import Clock
from stoker.store.finding import Finding
from stoker.store.lone import lone_job
from stoker.store.postgres.adopt import adopt_all
from stoker.store.postgres.arrays import adapters
from stoker.store.postgres.bell import NotifyBell, channel_of
from stoker.store.postgres.borrowed import asend, send
from stoker.store.postgres.check import findings
from stoker.store.postgres.clock import GivenClock, ServerClock, Timepiece
from stoker.store.postgres.commit import Committer
from stoker.store.postgres.document import STATEMENT, document_of, receipt_of, told
from stoker.store.postgres.driver import (
    Connection,
    NotThisWay,
    Troubles,
    connect,
    is_misunderstanding,
    read_url,
)
from stoker.store.postgres.errands import told_of
from stoker.store.postgres.line import TEXT, WHOLE, Question, ask
from stoker.store.postgres.look import Looker
from stoker.store.postgres.marks import Marks
from stoker.store.postgres.patrol import Patrol
from stoker.store.postgres.pool import Pool
from stoker.store.postgres.rows import Row
from stoker.store.postgres.schema import migrate, named, version, within
from stoker.store.postgres.texts import written
from stoker.store.rings import rings_of
from stoker.store.standing import may_start_at_once

T = TypeVar("T")

_FOLD_EVERY = 200


class PostgresStore:
    """Jobs in one schema of a PostgreSQL database.

    A call takes one of up to `connections`; they are made when they are needed, and made again
    after the server went away.

    >>> store = PostgresStore("postgresql://localhost/shop")          # doctest: +SKIP
    """

    abreast = 2
    portion = MOST_AT_ONCE

    def __init__(self, url: str, *, clock: Clock | None = None, connections: int = 8) -> None:
        self.address = read_url(url)
        self._adapters = adapters()
        self._troubles = Troubles(self.address.shown)
        self._clock: Timepiece = ServerClock() if clock is None else GivenClock(clock)
        self.now: Clock = self._clock
        self._patrol = Patrol(self.address)
        self._pool = Pool(self._connect, connections)
        self._marks = Marks()
        self._committer = Committer(self.address.schema, self._marks, self._clock)
        self._sql = named(self.address.schema, "look.sql")
        self._commits = 0
        self._seen = 0
        self.bell = NotifyBell(
            self._connect if self.address.listens else None,
            channel_of(self.address.schema),
            self._notify,
            self._queues_with_news,
        )
        try:
            self.migrated = self._use(lambda connection: migrate(connection, self.address))
            self._use(self._hear_clock)
        except BaseException:
            self._pool.close()
            raise

    def _connect(self) -> Connection:
        return self._patrol.watch(connect(self.address, self._adapters))

    def _use(self, task: Callable[[Connection], T]) -> T:
        try:
            with self._troubles, self._pool.connection() as connection:
                return task(connection)
        except StoreError as error:
            if is_misunderstanding(error):
                self._refuse_if_outgrown()
            raise

    def _refuse_if_outgrown(self) -> None:
        """A newer version may have come since this store was opened, and changed what we use."""
        with self._troubles, self._pool.connection() as connection:
            version(connection, self.address)

    def _hear_clock(self, connection: Connection) -> None:
        row = connection.execute(self._sql["moment"], [None]).fetchone()
        assert row is not None
        self._clock.hear(row[0])

    def _notify(self, message: str) -> None:
        self._use(lambda connection: ask(connection, self._notice(message)))

    def _notice(self, message: str) -> Question:
        facts = (channel_of(self.address.schema).encode(), message.encode())
        return Question(self._sql["notify"].encode(), facts, (TEXT, TEXT))

    def _queues_with_news(self) -> list[str]:
        """For those who cannot hear: has anybody enqueued since the last look?"""
        ((newest,),) = self._run("newest")
        seen, self._seen = self._seen, newest
        return self.names("*") if newest != seen else []

    # -- writing ---------------------------------------------------------------------------

    def transact(self, changes: Sequence[Change], claims: Sequence[Claim] = ()) -> Answer:
        lone = None if claims else lone_job(changes)
        if lone is not None:
            with suppress(NotThisWay):
                return self._place(lone)
        outcome = self._use(lambda connection: self._committer.commit(connection, changes, claims))
        done = [c for c, receipt in zip(changes, outcome.receipts, strict=True) if receipt.ok]
        rung = rings_of(done) | outcome.eased
        if rung:
            self.bell.ring(rung)
        self._fold_at_times()
        return Answer(outcome.receipts, outcome.grants)

    def _place(self, job: Job) -> Answer:
        """One new job and nothing else, which is what most callers bring; it may start at once, if
        somebody stands in wait who can be told right behind it."""
        ring, then, mark = self.bell.message_along(job.queue), None, None
        if ring is not None:
            if may_start_at_once(job, self.now()):
                mark = random.getrandbits(62)
            then = self._announcement(ring, job, mark)
        given, started = self._use(
            lambda connection: self._committer.place(connection, job, then, mark)
        )
        if not started:
            self.bell.ring((job.queue,), told=then is not None)
        self._fold_at_times()
        return Answer([Receipt(ids=(given,))])

    def _announcement(self, ring: str, job: Job, mark: int | None) -> Question:
        texts = (channel_of(self.address.schema), ring, written(job.queue))
        errand = (None, None) if mark is None else (mark.to_bytes(8, "big"), told_of(job))
        facts = (*(text.encode() for text in texts), *errand)
        return Question(self._sql["announce"].encode(), facts, (TEXT, TEXT, TEXT, WHOLE, TEXT))

    def adopt(self, jobs: Sequence[Job]) -> None:
        self._use(lambda connection: adopt_all(connection, self.address.schema, jobs))
        for job in jobs:
            self._marks.placed(job.queue, job.due_at)

    def commit_within(self, connection: object, change: Change) -> Receipt:
        statement, document = self._statement_within(change)
        try:
            return receipt_of(send(connection, statement, document))
        except Exception as error:
            raise told(error, self.address.shown) or error from error

    async def acommit_within(self, connection: object, change: Change) -> Receipt:
        statement, document = self._statement_within(change)
        try:
            return receipt_of(await asend(connection, statement, document))
        except Exception as error:
            raise told(error, self.address.shown) or error from error

    def _statement_within(self, change: Change) -> tuple[str, str]:
        schema = self.address.schema
        return within(schema, STATEMENT), document_of(change, schema)

    def _fold_at_times(self) -> None:
        """What commits leave for the counts must not heap up, also where nobody does the chores."""
        self._commits += 1
        if self._commits % _FOLD_EVERY == 0:
            with suppress(StoreError):  # the call itself has succeeded
                self._run("fold")

    def enrol(self, session: Session, ttl: int) -> None:
        facts = (session.id, written(session.name), written(session.info))
        self._run("enrol", *facts, self._clock.given(), ttl)

    def beat(self, session: int, ttl: int, *, watch: bool = False) -> Beat:
        rows = self._run("beat", session, self._clock.given(), ttl, watch)
        if not rows:
            return Beat(alive=False)
        moment, cancelled, troubled = rows[0]
        self._clock.hear(moment)
        return Beat(alive=True, cancelled=tuple(cancelled), troubled=troubled)

    def retire(self, session: int) -> None:
        self._run("retire", session, self._clock.given())

    def hold(self, name: str, owner: str, ttl: int) -> bool:
        return bool(self._run("hold", written(name), written(owner), self._clock.given(), ttl))

    def tidy(self) -> None:
        self._run("tidy", self._clock.given())

    def _run(self, name: str, *values: Any) -> list[Row]:
        def task(connection: Connection) -> list[Row]:
            cursor = connection.execute(self._sql[name], values)
            return cursor.fetchall() if cursor.description else []

        return self._use(task)

    # -- looking ---------------------------------------------------------------------------

    def _ask(self, question: Callable[[Looker], T]) -> T:
        return self._use(lambda connection: question(Looker(connection, self.address.schema)))

    def get(self, ids: Iterable[int]) -> dict[int, Job]:
        wanted = [job_id for job_id in ids if 0 < job_id <= LARGEST_ID]
        return self._ask(lambda looker: looker.get(wanted)) if wanted else {}

    def find(self, query: Query) -> list[Job]:
        return self._ask(lambda looker: looker.find(query, self.now()))

    def survey(self, names: Sequence[str] | None = None) -> list[QueueView]:
        return self._ask(lambda looker: looker.survey(names))

    def names(self, pattern: str) -> list[str]:
        return self._ask(lambda looker: looker.names(pattern))

    def next_due(self, queues: Sequence[str], after: int | None = None) -> int | None:
        moment = self.now() if after is None else after
        marks = self._marks.known(queues)
        return self._ask(lambda looker: looker.next_due(queues, moment, marks))

    def flows(self, queue: str, meters: Sequence[str]) -> dict[str, str]:
        return self._ask(lambda looker: looker.flows(queue, meters))

    def notes(self, keys: Sequence[str] | None = None) -> dict[str, Note]:
        return self._ask(lambda looker: looker.notes(keys, self.now()))

    def sessions(self) -> list[Session]:
        return self._ask(lambda looker: looker.sessions())

    def troubled(self) -> bool:
        ((troubled,),) = self._run("troubled", self._clock.given())
        return bool(troubled)

    def check(self) -> list[Finding]:
        hears = self.bell.comes_through() if self.address.listens else None
        return self._use(
            lambda connection: findings(connection, self.address, self.migrated, hears=hears)
        )

    @property
    def closed(self) -> bool:
        """Was it closed?"""
        return self._pool.closed

    def close(self) -> None:
        """Let go of the connections."""
        self.bell.close()
        self._pool.close()


def is_there(url: str) -> bool:
    """Whether a store was made already, where a URL says."""
    address = read_url(url)
    patrol = Patrol(address)
    pool = Pool(lambda: patrol.watch(connect(address)), 1)
    with closing(pool), Troubles(address.shown), pool.connection() as connection:
        return version(connection, address) > 0
