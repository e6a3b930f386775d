"""Connections, as many as there are callers at once, made when they are needed.

One that a server's restart or a cut line has spoilt is noticed before it is used, if that can be
seen at all, and replaced. None is ever used on both sides of a fork.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Callable
from queue import SimpleQueue
from weakref import WeakSet, ref

import psycopg

from stoker.errors import StoreUnavailable
from stoker.store.forks import heed_forks
from stoker.store.postgres.driver import Connection, is_idle, is_of_no_more_use


class Pool:
    """At most `most` connections; who comes when all are in use waits for one."""

    def __init__(self, connect: Callable[[], Connection], most: int) -> None:
        self._connect = connect
        self._most = most
        # Weakly: one that an interrupt has taken from its caller ends with the last who knows it.
        self._all: WeakSet[Connection] = WeakSet()
        self.closed = False
        self._begin()
        heed_forks(self)

    def _begin(self) -> None:
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self._free: SimpleQueue[_Place] = SimpleQueue()
        for _ in range(self._most):
            self._free.put(_Place(ref(self._free)))

    def connection(self) -> Lent:
        """A connection for this caller alone. One that fails in the middle is not used again."""
        return Lent(self)

    def wait(self) -> object:
        """Wait until fewer than the most are in use: who has what this gives may take one, until it
        lets go of it."""
        return self._free.get()

    def take(self) -> Connection:
        """A connection that works, as far as can be told."""
        while True:
            with self._lock:
                if self.closed:
                    raise StoreUnavailable("this store was closed; open it again")
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self._add(self._connect())
            if not _is_cut(connection):
                return connection
            self._drop(connection)

    def _add(self, connection: Connection) -> Connection:
        with self._lock:
            self._all.add(connection)
        return connection

    def give_back(self, connection: Connection, *, spoilt: bool = False) -> None:
        """The caller needs it no more."""
        if spoilt or not is_idle(connection) or self.closed:
            self._drop(connection)
            return
        with self._lock:
            self._idle.append(connection)

    def give_up(self, connection: Connection) -> None:
        """It got no answer. What befell this one has befallen them all."""
        with self._lock:
            idle, self._idle = self._idle, []
        for each in (connection, *idle):
            self._drop(each)

    def _drop(self, connection: Connection) -> None:
        with self._lock:
            self._all.discard(connection)
        connection.close()

    def close(self) -> None:
        """Close what is idle; what is in use is closed when it comes back."""
        with self._lock:
            self.closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            self._drop(connection)

    def before_fork(self) -> None:
        """Nobody may be halfway through our lists at this moment."""
        self._lock.acquire()

    def after_fork(self, *, in_child: bool) -> None:
        """The connections stay the parent's; the child makes its own."""
        if not in_child:
            self._lock.release()
            return
        inherited, self._all = list(self._all), WeakSet()
        self._begin()
        for connection in inherited:
            sever(connection)


class _Place:
    """The right to one connection. Its end puts another in its place: so none is lost, at whatever
    moment an interrupt comes."""

    __slots__ = ("_free",)

    def __init__(self, free: ref[SimpleQueue[_Place]]) -> None:
        self._free = free

    def __del__(self) -> None:
        free = self._free()
        if free is not None:
            free.put(_Place(self._free))


class Lent:
    """A connection of a pool's, while it is in use."""

    __slots__ = ("_call", "_connection", "_place", "_pool")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._place: object | None = None

    def __enter__(self) -> Connection:
        self._place = self._pool.wait()
        try:
            self._connection = self._pool.take()
        except BaseException:
            self._place = None  # the error may be kept for long, and we with it
            raise
        self._connection.call = self._call = [True]
        return self._connection

    def __exit__(self, _kind: object, error: BaseException | None, _where: object) -> None:
        try:
            self._call.pop()
        except IndexError:
            self._lament(error)
        else:
            self._pool.give_back(self._connection, spoilt=is_of_no_more_use(error))
        finally:
            self._place = None

    def _lament(self, error: BaseException | None) -> None:
        """The call was given up by somebody else, though its answer may have come all the same."""
        self._pool.give_up(self._connection)
        if isinstance(error, psycopg.Error):
            raise psycopg.OperationalError(self._connection.verdict) from error


def sever(connection: Connection) -> None:
    """Let go of a connection that belongs to the parent process, without a word to the server:
    a farewell would end the parent's session."""
    with contextlib.suppress(Exception):
        nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        os.dup2(nowhere, connection.fileno(), inheritable=False)
        os.close(nowhere)
        connection.close()


def _is_cut(connection: Connection) -> bool:
    """Has the server something to say to a connection nobody uses? It can only be a farewell."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
