"""The SQLite store: one file, no server, any number of processes.

A commit is on the disk before it is acknowledged. Beside the database stand `<file>-gate` (the
write lock) and `<file>-bell` (wake-up sockets); both may be deleted while nobody uses the file.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from stoker.kernel.change import Change, Note
from stoker.kernel.job import Job
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
from stoker.store.clock import Clock, wall_clock
from stoker.store.finding import Finding
from stoker.store.forks import heed_forks
from stoker.store.rings import rings_of
from stoker.store.seal import SEAL, check_seal
from stoker.store.sqlite import schema
from stoker.store.sqlite.adopt import adopt_all
from stoker.store.sqlite.afterwards import Afterwards
from stoker.store.sqlite.bell import SocketBell
from stoker.store.sqlite.borrowed import borrowed
from stoker.store.sqlite.check import findings
from stoker.store.sqlite.claim import serve_all
from stoker.store.sqlite.commit import commit_all
from stoker.store.sqlite.driver import File, Sync, begin
from stoker.store.sqlite.gate import Gate
from stoker.store.sqlite.library import Connection, library_named
from stoker.store.sqlite.look import SQL, Looker
from stoker.store.sqlite.policies import Policies
from stoker.store.sqlite.queue_book import SettingsReader
from stoker.store.sqlite.reader import JobReader
from stoker.store.sqlite.standing import Errand, errand_for, leave_standing, stand_no_more
from stoker.store.sqlite.transaction import Transaction
from stoker.store.sqlite.within import write_within
from stoker.store.standing import newcomer_of

T = TypeVar("T")

_SPARE_PAGES = 4096
_PAGES_A_TURN = 512


class SqliteStore:
    """Jobs in one SQLite file.

    A call waits `gate_timeout` seconds for other processes of Stoker's, and `busy_timeout` for
    programs that write to the file without its gate. `library` is `apsw` or `sqlite3`.

    >>> store = SqliteStore("jobs.db")          # doctest: +SKIP
    """

    abreast = 1
    portion = MOST_AT_ONCE

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        sync: Sync = Sync.FULL,
        clock: Clock = wall_clock,
        gate_timeout: float = 30.0,
        busy_timeout: float = 10.0,
        library: str | None = None,
    ) -> None:
        self.path = os.fspath(Path(path).absolute())
        self.now = clock
        self.bell = SocketBell(self.path + "-bell")
        self.file = File(self.path, library_named(library), sync, busy_timeout)
        self._gate_timeout = gate_timeout
        self._afterwards = Afterwards(self._version, self.bell.ring)
        self._lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._put_away = False
        self._open()
        heed_forks(self)

    def before_fork(self) -> None:
        """Let go of the file: SQLite must not take memories of file locks into the child.

        Behind no gate, for a fork must neither wait nor fail; SQLite's own locks will do.
        """
        self._lock.acquire()
        self._read_lock.acquire()
        if not self._gate.closed:
            self._put_away = True
            self._let_go()

    def after_fork(self, *, in_child: bool) -> None:
        """The file is opened again when it is needed, by parent and child each for itself."""
        if in_child:
            self._lock, self._read_lock = threading.Lock(), threading.Lock()
            self._afterwards = self._afterwards.anew()
        else:
            self._read_lock.release()
            self._lock.release()

    def _open(self) -> None:
        self._read_settings = SettingsReader()
        with self.file.troubles():
            self._gate = Gate(self.path + "-gate", self._gate_timeout)
            try:
                with self._gate:
                    self._connect()
            except BaseException:
                self._gate.close()
                raise
        self._remember_nothing()
        own = JobReader(self._reader, Policies())
        self._looker = Looker(self._reader, own, SettingsReader())

    def _connect(self) -> None:
        self.file.make()
        self.file.take()
        with ExitStack() as opened:
            opened.callback(self.file.let_go)
            self._writer = opened.enter_context(closing(self.file.connect()))
            self.migrated = schema.migrate(self._writer, self.path)
            self._reader = opened.enter_context(closing(self.file.connect(read_only=True)))
            opened.pop_all()

    def _remember_nothing(self) -> None:
        """Names and policies are known by numbers, and a rollback sets numbers free again."""
        self._policies = Policies()
        self._read_job = JobReader(self._writer, self._policies)

    # -- writing ---------------------------------------------------------------------------

    def transact(self, changes: Sequence[Change], claims: Sequence[Claim] = ()) -> Answer:
        newcomer = newcomer_of(changes, claims, self.now())
        receipts, grants, eased, errand = self._write(
            partial(self._carry_out, changes, claims, newcomer)
        )
        if errand is not None:
            self.bell.bring(*errand)
            return Answer(receipts)
        done = [c for c, receipt in zip(changes, receipts, strict=True) if receipt.ok]
        rung = rings_of(done) | eased
        if rung:
            self.bell.ring(rung)
        return Answer(receipts, grants)

    def _carry_out(
        self,
        changes: Sequence[Change],
        claims: Sequence[Claim],
        newcomer: Job | None,
        connection: Connection,
    ) -> tuple[list[Receipt], list[list[Job] | None], set[str], Errand | None]:
        with self._transaction(connection) as tx:
            seal = connection.execute(SQL["seal"], (SEAL,)).get
            if seal is not None:
                check_seal(seal, changes)
            errand = None if newcomer is None else errand_for(tx, newcomer, self.bell.is_heard_by)
            if errand is not None:
                receipts = commit_all(tx, [Change(inserts=(errand.job,))])
                job = replace(errand.job, id=receipts[0].ids[0])
                return receipts, [], set(), errand._replace(job=job)
            receipts = commit_all(tx, changes)
            tx.books.lanes.settle()
            eased = set(tx.books.eased)
            grants = serve_all(tx, claims) if seal is None else [[] for _ in claims]
            leave_standing(tx, claims, grants)
        return receipts, grants, eased, None

    def adopt(self, jobs: Sequence[Job]) -> None:
        def take_in(connection: Connection) -> None:
            with self._transaction(connection) as tx:
                adopt_all(tx, jobs)

        self._write(take_in)

    def commit_within(self, connection: object, change: Change) -> Receipt:
        with self.file.troubles(), borrowed(connection, self.file) as lent:
            receipt, rings, version = write_within(lent, change, self.now(), self._version)
        if version is not None:
            self._afterwards.ring(rings, version)
        elif rings:
            self.bell.ring(rings)
        return receipt

    async def acommit_within(self, connection: object, change: Change) -> Receipt:
        return self.commit_within(connection, change)

    def _transaction(self, connection: Connection) -> Transaction:
        known = (self._read_job, self._policies, self._read_settings)
        return Transaction(connection, *known, self.now())

    def _write(self, act: Callable[[Connection], T]) -> T:
        """What `act` does is whole and on the disk when this ends, or has left no trace.

        An interrupt may come between any two lines, also on the way into a context manager of ours:
        so nothing that locks is one, but for the lock itself.
        """
        with self._lock, self.file.troubles():
            self._take_up()
            try:
                self._gate.enter()
                return self._in_transaction(act)
            finally:
                self._gate.leave()

    def _in_transaction(self, act: Callable[[Connection], T]) -> T:
        writer = self._writer
        try:
            begin(writer, "BEGIN IMMEDIATE")
            result = act(writer)
            writer.execute("COMMIT")
            self._policies.committed()
            return result
        except BaseException:
            self._remember_nothing()
            if writer.in_transaction:
                writer.execute("ROLLBACK")
            raise

    def _take_up(self) -> None:
        """Open the file again that was put away for a fork. The caller has the lock."""
        if self._put_away:
            with self._read_lock:
                self._open()
                self._put_away = False

    def enrol(self, session: Session, ttl: int) -> None:
        def note(connection: Connection) -> None:
            now = self.now()
            row = (session.id, session.name, session.info, now, now + ttl)
            connection.execute(SQL["enrol"], row)

        self._write(note)

    def beat(self, session: int, ttl: int, *, watch: bool = False) -> Beat:
        def note(connection: Connection) -> tuple[int, ...] | None:
            now = self.now()
            if connection.execute(SQL["beat"], (session, now, now + ttl)).get is None:
                return None
            return tuple(row[0] for row in connection.execute(SQL["cancelled"], (session,)))

        cancelled = self._write(note)
        if cancelled is None:
            return Beat(alive=False)
        # When the gate is open again: nobody has to wait for this look.
        return Beat(alive=True, cancelled=cancelled, troubled=watch and self.troubled())

    def retire(self, session: int) -> None:
        def end(connection: Connection) -> None:
            connection.execute(SQL["retire"], (session,))
            stand_no_more(connection, session)

        self._write(end)

    def hold(self, name: str, owner: str, ttl: int) -> bool:
        def take(connection: Connection) -> bool:
            now = self.now()
            row = (name, owner, now, now + ttl if ttl else 0)
            return connection.execute(SQL["hold"], row).get is not None

        return self._write(take)

    def tidy(self) -> None:
        self._write(self._tidy)

    def _tidy(self, connection: Connection) -> None:
        now = self.now()
        connection.execute(SQL["drop_empty_queues"])
        connection.execute(SQL["drop_old_flows"], (now,))
        connection.execute(SQL["drop_old_turns"])
        connection.execute(SQL["drop_old_notes"], (now,))
        connection.execute(SQL["drop_old_locks"], (now,))
        spare = int(connection.execute("PRAGMA freelist_count").get)
        if spare > _SPARE_PAGES:
            connection.execute(f"PRAGMA incremental_vacuum({_PAGES_A_TURN})").fetchall()

    # -- looking ---------------------------------------------------------------------------

    def _ask(self, question: Callable[[Looker], T]) -> T:
        """One snapshot for all of an answer: no job vanishes halfway."""
        if self._put_away:
            with self._lock:
                self._take_up()
        with self._read_lock, self.file.troubles():
            reader = self._reader
            try:
                begin(reader, "BEGIN")
                return question(self._looker)
            finally:
                if reader.in_transaction:
                    reader.execute("COMMIT")

    def _version(self) -> int:
        return self._ask(Looker.version)

    def get(self, ids: Iterable[int]) -> dict[int, Job]:
        return self._ask(lambda looker: looker.get(ids))

    def find(self, query: Query) -> list[Job]:
        return self._ask(lambda looker: looker.find(query, self.now()))

    def survey(self, names: Sequence[str] | None = None) -> list[QueueView]:
        return self._ask(lambda looker: looker.survey(names))

    def names(self, pattern: str) -> list[str]:
        return self._ask(lambda looker: looker.names(pattern))

    def next_due(self, queues: Sequence[str], after: int | None = None) -> int | None:
        moment = self.now() if after is None else after
        return self._ask(lambda looker: looker.next_due(queues, moment))

    def flows(self, queue: str, meters: Sequence[str]) -> dict[str, str]:
        return self._ask(lambda looker: looker.flows(queue, meters))

    def notes(self, keys: Sequence[str] | None = None) -> dict[str, Note]:
        return self._ask(lambda looker: looker.notes(keys, self.now()))

    def sessions(self) -> list[Session]:
        return self._ask(lambda looker: looker.sessions())

    def troubled(self) -> bool:
        return self._ask(lambda looker: looker.troubled(self.now()))

    def check(self) -> list[Finding]:
        # With a connection of its own: it takes long, and nobody should have to wait for it.
        with self.file.troubles(), closing(self.file.connect(read_only=True)) as connection:
            return findings(connection, self.file, self.migrated)

    def close(self) -> None:
        """Let go of the file. The last one out checkpoints it, behind the gate."""
        self._afterwards.close()
        with self._lock, self._read_lock, self.file.troubles():
            self._put_away = False
            if not self._gate.closed:
                try:
                    self._gate.enter()
                    self._let_go()
                finally:
                    self._gate.leave()

    def _let_go(self) -> None:
        self.bell.close()
        self._reader.close()
        self._writer.close()
        self.file.let_go()
        self._gate.close()
