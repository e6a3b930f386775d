"""One write transaction: its connection, its books and its moment."""

from __future__ import annotations

from typing import Self

from stoker.store.sqlite.books import Books
from stoker.store.sqlite.library import Connection, Cursor
from stoker.store.sqlite.policies import Policies
from stoker.store.sqlite.queue_book import SettingsReader
from stoker.store.sqlite.reader import JobReader
from stoker.store.sqlite.rows import Row


class Transaction:
    """What the committer and the claimer share."""

    def __init__(
        self,
        connection: Connection,
        read_job: JobReader,
        policies: Policies,
        read_settings: SettingsReader,
        now: int,
    ) -> None:
        self.connection = connection
        self.read_job = read_job
        self.policies = policies
        self.books = Books(connection, read_settings, now)
        self.now = now
        self._reading: list[Cursor] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _where: object) -> None:
        """Write the books, if all went well, and read no more."""
        try:
            if error is None:
                self.books.close()
        finally:
            self._let_go()

    def rows(self, sql: str, values: Row) -> Cursor:
        """Rows that need not be read to their end."""
        cursor = self.connection.execute(sql, values)
        self._reading.append(cursor)
        return cursor

    def _let_go(self) -> None:
        """A statement that is left open keeps the transaction from ending: what its connection
        reads from then on is of that moment, and it can write no more."""
        for cursor in self._reading:
            cursor.close()
