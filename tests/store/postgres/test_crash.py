"""The server itself is killed while jobs are in flight: the ledger must balance afterwards."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from pathlib import Path

import pytest

from stoker.desk import Desk
from stoker.errors import StoreError
from stoker.kernel.job import State
from stoker.store import Store
from stoker.store.postgres import PostgresStore
from tests.faults.cargo import QUEUES
from tests.faults.evidence import Evidence
from tests.faults.figures import figures
from tests.faults.journal import read_journals
from tests.faults.ledger import violations
from tests.faults.nemesis import Nemesis
from tests.faults.test_kill import all_jobs
from tests.servers.postgres import PATIENCE, Server

CRASHES = 3


def finished(store: Store) -> int:
    return sum(view.counts[State.FINISHED] for view in store.survey())


def until_more_is_done(store: Store) -> None:
    """Wait until work goes on, whatever has happened before."""
    deadline, before = time.monotonic() + PATIENCE, None
    while before is None or finished(store) < before + 50:
        assert time.monotonic() < deadline
        try:
            before = finished(store) if before is None else before
            time.sleep(0.05)
        except StoreError:
            continue


def until_all_have_come(nemesis: Nemesis) -> None:
    """Wait until every actor has a connection: nobody could begin without a server."""
    deadline = time.monotonic() + PATIENCE
    while not all(_has_a_socket(actor.process.pid) for actor in nemesis.actors):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _has_a_socket(pid: int) -> bool:
    with suppress(FileNotFoundError):  # some file was closed while we looked
        files = Path(f"/proc/{pid}/fd").iterdir()
        return any(str(file.readlink()).startswith("socket:") for file in files)
    return False


@pytest.mark.timeout(300)
def test_the_ledger_balances_after_crashes_of_the_server(
    own_server: Server, tmp_path: Path
) -> None:
    url = own_server.url("stoker")
    store = PostgresStore(url)
    for queue, settings in QUEUES.items():
        Desk(store).control.configure(queue, settings)
    nemesis = Nemesis(url, store, tmp_path, random.Random(1))
    try:
        nemesis.raise_curtain()
        until_all_have_come(nemesis)
        for _ in range(CRASHES):
            until_more_is_done(store)
            own_server.kill()
            own_server.start()
        until_more_is_done(store)
        nemesis.dismiss("producer")
        assert nemesis.drained(within=PATIENCE)
        nemesis.dismiss("worker", "chores")
    finally:
        nemesis.drop_curtain()
    evidence = Evidence(read_journals(tmp_path), list(all_jobs(store)), store.survey())
    store.close()
    assert {name: found for name, found in violations(evidence).items() if found} == {}
    assert figures(evidence)["acknowledged"] > 50 * CRASHES
