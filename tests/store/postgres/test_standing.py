"""A claim that stands is served in one transaction, and its holder told of it in the next."""

from __future__ import annotations

import time
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job, State
from stoker.store import Claim, Filter, Session
from stoker.store.bell import Listener
from stoker.store.postgres import PostgresStore
from stoker.store.rings import errand_ring

WORKER, HOUR = 7, 3_600_000_000
TOLD_TO_NOBODY = """
CREATE OR REPLACE FUNCTION {schema}.announce(
    everybody text, ring text, line text, mark bigint, about text
) RETURNS void LANGUAGE sql AS ''
"""


@pytest.fixture
def ear(store: PostgresStore) -> Iterator[Listener]:
    ear = store.bell.listen()
    assert store.bell.comes_through()
    yield ear
    ear.close()


def _claim(ear: Listener, token: int, *, stands: bool) -> Claim:
    return Claim(("q",), 1, token, WORKER, HOUR, stands=ear.address if stands else None)


@pytest.mark.parametrize("stands", [True, False], ids=["stands-again", "stands-no-more"])
def test_whoever_claims_anew_before_it_was_told_is_told_at_once(
    store: PostgresStore, ear: Listener, connection: psycopg.Connection, url: str, stands: bool
) -> None:
    desk = Desk(store)
    store.enrol(Session(WORKER), HOUR)
    desk.intake.enqueue(Job("q"))
    (first,) = desk.dispatch.claim(["q"], 1)
    desk.report.finish(first)
    store.transact([], [_claim(ear, 1, stands=True)])
    schema = parse_qs(urlsplit(url).query)["schema"][0]
    connection.execute(TOLD_TO_NOBODY.format(schema=schema))
    time.sleep(0.06)  # in a flood of rings nothing is started at once
    ear.wait(0.05)
    desk.intake.enqueue(Job("q"))
    (held,) = store.find(Filter(states=(State.RUNNING,), session=WORKER))
    assert held.token == 1
    assert ear.wait(0.1) == set()
    store.transact([], [_claim(ear, 2, stands=stands)])
    assert ear.wait(10) == {errand_ring(WORKER)}
    assert ear.brought() == []
