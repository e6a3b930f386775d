"""The patrol: sees to calls that last, so that a server that hangs holds nobody up for ever.

A call lasts because there is much to do or somebody else holds a lock; or because no answer will
ever come: the server is frozen, the other end of the connection is gone, something in between
swallows what is sent. From here all of that looks the same. So the server is asked, on a connection
made for that, which of those calls it is at work on. If it does not answer, or knows nothing of
one, the connection is cut, and whoever waits on it hears that.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from queue import Empty, SimpleQueue
from weakref import WeakSet

import psycopg

from stoker.store.forks import heed_forks
from stoker.store.postgres.driver import Address, Call, Connection, connect
from stoker.store.postgres.schema import named

_LOOKS = 8
"""In the time for which an answer is waited."""
_DOUBT, _INQUIRE = 0.25, 0.6
"""Shares of that time: after the one a call is inquired about, the other may the answer take."""
_FROM_SERVER = "FATAL"
"""What a server says that lets nobody in, being full or about to start: so it is there."""


class Patrol:
    """Looks at all connections of a store, in a thread of its own, while there are any."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._begin()
        heed_forks(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._connections: WeakSet[Connection] = WeakSet()
        self._thread: threading.Thread | None = None
        self._since: dict[int, tuple[Call, float]] = {}

    def before_fork(self) -> None:
        """Nobody may be halfway through our list at this moment."""
        self._lock.acquire()

    def after_fork(self, *, in_child: bool) -> None:
        """The connections stay the parent's, and so does the thread."""
        if in_child:
            self._begin()
        else:
            self._lock.release()

    def watch(self, connection: Connection) -> Connection:
        """Look at this one, too, for as long as it lives."""
        with self._lock:
            self._connections.add(connection)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="stoker-patrol", daemon=True)
                self._thread.start()
        return connection

    def _run(self) -> None:
        while connections := self._there():
            self._look(connections)
            del connections  # nobody else's end may wait for us
            time.sleep(self._address.patience / _LOOKS)

    def _there(self) -> list[Connection]:
        with self._lock:
            connections = [each for each in self._connections if not each.closed]
            if not connections:
                self._thread = None
            return connections

    def _look(self, connections: Sequence[Connection]) -> None:
        now = time.monotonic()
        lasting = [(each, call) for each in connections if (call := each.call)]
        self._since = {id(call): self._since.get(id(call), (call, now)) for _, call in lasting}
        doubt = now - self._address.patience * _DOUBT
        late = [(each, call) for each, call in lasting if self._since[id(call)][1] <= doubt]
        if late:
            self._see_to(late)

    def _see_to(self, late: Sequence[tuple[Connection, Call]]) -> None:
        numbers = {each: _number(each) for each, _ in late}
        unknown = _Inquiry(self._address, numbers.values()).answer()
        for connection, call in late:
            if unknown is None:
                _cut(connection, call, f"no answer for {self._address.patience:g} s")
            elif numbers[connection] in unknown:
                _cut(connection, call, "the server knows nothing of this call")
            else:
                self._since[id(call)] = (call, time.monotonic())


@contextmanager
def under_way(connection: Connection) -> Iterator[None]:
    """What is asked meanwhile, past the pool, has an answer to come."""
    connection.call = call = [True]
    try:
        yield
    finally:
        call.clear()


class _Inquiry:
    """Asks the server, in a thread that may be left behind: even to look up its name may hang."""

    def __init__(self, address: Address, numbers: Collection[int]) -> None:
        self._address = address
        self._numbers = {*numbers} - {0}
        self._answers: SimpleQueue[set[int]] = SimpleQueue()
        self._connection: Connection | None = None
        self._given_up = False
        threading.Thread(target=self._run, name="stoker-inquiry", daemon=True).start()

    def answer(self) -> set[int] | None:
        """The numbers of those connections on which nothing is done; None: there is no answer."""
        try:
            return self._answers.get(timeout=self._address.patience * _INQUIRE)
        except Empty:
            self._given_up = True
            if self._connection is not None:
                _shut(self._connection)
            return None

    def _run(self) -> None:
        try:
            with closing(connect(self._address)) as self._connection:
                if not self._given_up:
                    self._answers.put(self._ask(self._connection))
        except psycopg.Error as error:
            if _FROM_SERVER in str(error) or error.sqlstate is not None:
                self._answers.put(set())

    def _ask(self, connection: Connection) -> set[int]:
        """Behind a pooler connections have other numbers there, so that nothing is known."""
        sql = named(self._address.schema, "look.sql")["at_work"]
        patience = round(self._address.patience * 1e6)
        row = connection.execute(sql, [[*self._numbers], patience]).fetchone()
        assert row is not None
        here, at_work = row
        return self._numbers - {*at_work} if here == _number(connection) else set()


def _number(connection: Connection) -> int:
    """By which the server knows it; 0: it is closed."""
    with suppress(psycopg.Error):
        return connection.info.backend_pid
    return 0


def _cut(connection: Connection, call: Call, verdict: str) -> None:
    """Unless its answer has come by now, if only to this machine."""
    with suppress(psycopg.Error, OSError, IndexError):
        news = select.poll()
        news.register(connection.fileno(), select.POLLIN)
        if not news.poll(0):
            call.pop()
            connection.verdict = verdict
            _shut(connection)


def _shut(connection: Connection) -> None:
    """Wake whoever waits on it. The driver may close it at any moment, and its number then be that
    of something else; so it is done by a copy, of which it is known of what it is."""
    with suppress(psycopg.Error, OSError):
        number = connection.fileno()
        with socket.socket(fileno=os.dup(number)) as copy:
            if connection.fileno() == number:
                copy.shutdown(socket.SHUT_RDWR)
