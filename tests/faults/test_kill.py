"""Real processes on one store, killed and stopped hundreds of times: the ledger must balance.

STOKER_TORTURE_SECONDS sets the length of the storm, STOKER_TORTURE_SEED the nemesis's dice.
"""

from __future__ import annotations

import atexit
import os
import random
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import apsw
import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.store import Filter, Store
from stoker.store.finding import Level
from stoker.store.open import open_store
from stoker.store.postgres import PostgresStore
from tests.faults.cargo import QUEUES
from tests.faults.evidence import Evidence
from tests.faults.figures import figures, table
from tests.faults.journal import read_journals
from tests.faults.ledger import violations
from tests.faults.nemesis import Nemesis
from tests.servers import postgres
from tests.servers.valkey import DURABLE, Server

SECONDS = float(os.environ.get("STOKER_TORTURE_SECONDS", "45"))
SEED = int(os.environ.get("STOKER_TORTURE_SEED", "1"))
KILLS = max(150, int(SECONDS * 3.4))
STOPS = max(40, int(SECONDS * 0.6))
DRAIN_SECONDS = 120 + SECONDS / 2


def sqlite_faults(folder: Path) -> list[str]:
    """What a closed file says about itself."""
    connection = apsw.Connection(os.fspath(folder / "jobs.db"))
    try:
        faults = [row[0] for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
        for book in ("use", "use_together", "head"):
            left = connection.execute(f"SELECT count(*) FROM {book}").get  # noqa: S608
            faults += [f"{left} rows are left in {book}, though no job is alive"] if left else []
    finally:
        connection.close()
    return faults


@cache
def valkey_in(folder: Path) -> Server:
    """A server that syncs every write; it ends with the test run."""
    server = Server(DURABLE)
    atexit.register(server.remove)
    return server


def redis_faults(folder: Path) -> list[str]:
    """What is left in lines and indexes of jobs that live."""
    with valkey_in(folder).client() as client:
        names = [key.decode(errors="replace").partition("}:")[2] for key in client.scan_iter()]
    valkey_in(folder).remove()
    left = [name for name in names if name.partition(":")[0] in _OF_LIVING_JOBS]
    return [f"{name} is left, though no job is alive" for name in left]


_OF_LIVING_JOBS = frozenset(("r", "f", "k", "h", "o", "z", "u", "s", "x", "w", "held", "until"))


@cache
def postgres_in(folder: Path) -> postgres.Server:
    """A server that syncs every commit; it ends with the test run."""
    server = postgres.Server(next(iter(postgres.binaries().values())), settings=())
    atexit.register(server.remove)
    return server


def postgres_faults(folder: Path) -> list[str]:
    """What the books say that is not so, or that is left though no job is alive."""
    server = postgres_in(folder)
    store = PostgresStore(server.url("stoker"))
    faults = [each.text for each in store.check() if each.level is Level.PROBLEM]
    store.close()
    server.remove()
    return faults


STORES: dict[str, tuple[Callable[[Path], str], Callable[[Path], list[str]]]] = {
    "sqlite": (lambda folder: f"sqlite:///{folder / 'jobs.db'}", sqlite_faults),
    "postgres": (lambda folder: postgres_in(folder).url("stoker"), postgres_faults),
    "redis": (lambda folder: valkey_in(folder).url(), redis_faults),
}
"""By engine: the URL of a fresh store, and what can be said about it when all have left."""


def all_jobs(store: Store) -> Iterator[Job]:
    """Everything the store holds, page by page."""
    after = 0
    while page := store.find(Filter(after=after, limit=1000)):
        yield from page
        after = page[-1].id


def weather(nemesis: Nemesis) -> None:
    """The storm, the calm after it, and an end in good order."""
    try:
        nemesis.raise_curtain()
        nemesis.storm(SECONDS, kills=KILLS, stops=STOPS)
        nemesis.calm()
        nemesis.dismiss("producer")
        nemesis.drained(within=DRAIN_SECONDS)
        nemesis.dismiss("worker", "chores")
    finally:
        nemesis.drop_curtain()


@pytest.mark.timeout(SECONDS * 4 + DRAIN_SECONDS + 120)
@pytest.mark.parametrize("engine", sorted(STORES))
def test_the_ledger_balances_after_hundreds_of_kills_and_stops(engine: str, tmp_path: Path) -> None:
    url_in, faults_in = STORES[engine]
    journals = tmp_path / "journals"
    journals.mkdir()
    store = open_store(url_in(tmp_path))
    for queue, settings in QUEUES.items():
        Desk(store).control.configure(queue, settings)

    weather(Nemesis(url_in(tmp_path), store, journals, random.Random(SEED)))

    evidence = Evidence(read_journals(journals), list(all_jobs(store)), store.survey())
    store.close()
    found = {**violations(evidence), "faults of the file": faults_in(tmp_path)}
    sys.stdout.write(table(f"{engine}, {SECONDS:g} s, seed {SEED}", evidence, found))
    assert {name: sentences for name, sentences in found.items() if sentences} == {}
    happened = figures(evidence)
    least = {"kills": KILLS, "stops": STOPS, "acknowledged": 3000, "recoveries": 50}
    least |= {"stale reports refused": 1, "there without an answer": 1, "parked": 1}
    assert {name: happened[name] for name in least if happened[name] < least[name]} == {}
