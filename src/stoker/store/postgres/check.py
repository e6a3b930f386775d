"""How the server and the tables are: sound, durable, and not held back by anybody."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stoker.store.finding import Finding, Level, size
from stoker.store.postgres.driver import DRIVER, Address, Connection
from stoker.store.postgres.schema import named
from stoker.store.postgres.texts import read

_MOST_TOLD = 5
_LONG_SECONDS = 60
_MANY_DEAD = 100_000
_DEAD_SHARE = 10
_FULL_SHARE = 0.25


def findings(
    connection: Connection, address: Address, migrated: tuple[int, int], *, hears: bool | None
) -> list[Finding]:
    """Everything there is to say about a server. `hears`: whether rings come through, if known."""
    look = _Look(connection, address)
    return [
        look.server(),
        _schema(*migrated),
        *look.books(),
        *look.durability(),
        look.rights(),
        look.oldest_snapshot(),
        look.dead_rows(),
        look.notices(),
        _wakeups(hears),
    ]


class _Look:
    def __init__(self, connection: Connection, address: Address) -> None:
        self._connection = connection
        self._address = address
        self._sql = named(address.schema, "check.sql")

    def _row(self, name: str, *values: Any) -> tuple[Any, ...] | None:
        return self._connection.execute(self._sql[name], values).fetchone()

    def server(self) -> Finding:
        version = self._connection.info.server_version
        (taken,) = self._row("size", self._address.schema) or (0,)
        text = f"{self._address.shown}: PostgreSQL {version // 10_000}.{version % 10_000}"
        return Finding("server", f"{text}, {DRIVER}, {size(taken or 0)} of tables")

    def books(self) -> Iterator[Finding]:
        rows = self._connection.execute(self._sql["unbalanced"], [_MOST_TOLD]).fetchall()
        if not rows:
            yield Finding("books", "the counts of every queue agree with its jobs")
        for (name,) in rows:
            text = f"the counts of the queue {read(name)} do not agree with its jobs"
            yield Finding("books", text, Level.PROBLEM)

    def durability(self) -> Iterator[Finding]:
        synced, whole_pages, waits, vacuums = self._row("settings") or (True,) * 4
        if synced and whole_pages and waits:
            text = "nothing acknowledged is lost when the server or its machine goes down"
            yield Finding("durability", f"{text} (as long as its disk tells the truth)")
        if not synced:
            text = "fsync is off: a crash of the machine may destroy the whole database; turn it on"
            yield Finding("durability", text, Level.WARNING)
        if not whole_pages:
            text = (
                "full_page_writes is off: a crash of the machine may leave torn pages; turn it on"
            )
            yield Finding("durability", text, Level.WARNING)
        if not waits:
            text = (
                "synchronous_commit is off: a crash of the server may take the last moments along"
            )
            yield Finding("durability", text, Level.WARNING)
        if not vacuums:
            text = "autovacuum is off: the tables will only grow; turn it on"
            yield Finding("vacuum", text, Level.WARNING)

    def rights(self) -> Finding:
        (writable,) = self._row("writable") or (False,)
        if writable:
            return Finding("rights", "the tables can be written")
        text = "the tables cannot be written: is it a standby, or has the user no rights?"
        return Finding("rights", text, Level.PROBLEM)

    def oldest_snapshot(self) -> Finding:
        pid, seconds = self._row("oldest") or (0, 0)
        if seconds > _LONG_SECONDS:
            text = (
                f"process {pid} of the server has been in one transaction for {seconds} s; until "
                "it ends no dead row can be removed, and everything gets slower"
            )
            return Finding("transactions", text, Level.WARNING)
        return Finding("transactions", "none has been open for long")

    def dead_rows(self) -> Finding:
        live, dead = self._row("dead", self._address.schema) or (0, 0)
        if dead > _MANY_DEAD and dead > _DEAD_SHARE * live:
            text = f"{dead} dead rows beside {live} live ones; what holds autovacuum back?"
            return Finding("dead rows", text, Level.WARNING)
        return Finding("dead rows", f"{dead} beside {live} live ones")

    def notices(self) -> Finding:
        (share,) = self._row("notices") or (0.0,)
        if share > _FULL_SHARE:
            text = (
                f"the server's queue of notifications is full to {share:.0%}: some listener does "
                "not read; find the session that listens inside a transaction, and end it"
            )
            return Finding("notifications", text, Level.WARNING)
        return Finding("notifications", "all are being read")


def _schema(found: int, now: int) -> Finding:
    if found == now:
        return Finding("schema", f"version {now}, up to date")
    return Finding("schema", f"version {now}, brought up from {found} just now")


def _wakeups(hears: bool | None) -> Finding:
    if hears is False:
        text = "no rings come through (a pooler?); workers look every second instead"
        return Finding("wake-ups", text, Level.WARNING)
    return Finding("wake-ups", "workers are woken by NOTIFY")
