"""A store's own connections, as what they are over apsw."""

from __future__ import annotations

import apsw

from stoker.store.sqlite import SqliteStore


def writer(store: SqliteStore) -> apsw.Connection:
    assert isinstance(store._writer, apsw.Connection)
    return store._writer


def reader(store: SqliteStore) -> apsw.Connection:
    assert isinstance(store._reader, apsw.Connection)
    return store._reader
