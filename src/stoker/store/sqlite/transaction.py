"""One write transaction: its connection, its books and its moment."""

from __future__ import annotations

from stoker.store.sqlite.books import Books
from stoker.store.sqlite.library import Connection
from stoker.store.sqlite.policies import Policies
from stoker.store.sqlite.queue_book import SettingsReader
from stoker.store.sqlite.reader import JobReader


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
