"""Looking over a server's shoulder: the plans by which it goes, and the pages it touches."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any
from unittest.mock import patch

import psycopg

from stoker.errors import StoreError
from stoker.store.postgres import PostgresStore

Plan = dict[str, Any]

_WATCHED = {
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_buffers": "on",
    "auto_explain.log_timing": "off",
    "auto_explain.log_format": "json",
    "client_min_messages": "log",
}


@contextmanager
def overheard(store: PostgresStore, *, nested: bool) -> Iterator[list[Plan]]:
    """The plans of all statements that the store runs; with those inside routines, if nested."""
    heard: list[Plan] = []

    def hear(notice: Any) -> None:
        _, found, text = (notice.message_primary or "").partition("plan:")
        if found:
            heard.append(json.loads(text))

    with _one_connection(store) as connection:
        connection.execute("LOAD 'auto_explain'")
        for name, value in {**_WATCHED, "auto_explain.log_nested_statements": nested}.items():
            connection.execute(f"SET {name} = {value}")
        connection.add_notice_handler(hear)
        yield heard
        connection.remove_notice_handler(hear)
        connection.execute("RESET ALL")


@contextmanager
def _one_connection(store: PostgresStore) -> Iterator[Any]:
    """All that the store asks goes over it: one that its herald had just then must not come in
    between, and nothing is told to other processes meanwhile."""
    with (
        store._pool.connection() as connection,
        patch.object(store.bell, "_send", lambda message: None),
        patch.object(store._pool, "connection", lambda: nullcontext(connection)),
    ):
        yield connection


def nodes(plan: Plan) -> Iterator[Plan]:
    """Every step of a plan."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def pages(store: PostgresStore, act: Callable[[], object]) -> int:
    """How many pages the server looks at for it, wherever they come from.

    The store's herald may want the watched connection just then; it is asked again in that case.
    """
    for _ in range(20):
        with suppress(psycopg.Error, StoreError, OSError):
            with overheard(store, nested=False) as plans:
                act()
            assert plans, "nothing was asked"
            kinds = ("Shared Hit Blocks", "Shared Read Blocks")
            return sum(plan["Plan"][kind] for plan in plans for kind in kinds)
    raise AssertionError("the connection was never free")
