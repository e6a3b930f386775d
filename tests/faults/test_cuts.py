"""Real processes whose connections are cut in the middle of whatever is said: the ledger balances.

All of them reach the store through a proxy that lets each connection live for a random number of
bytes, so that it ends within questions and answers of every kind; and that holds everything up for
longer than sessions live. STOKER_TORTURE_SECONDS sets the length, STOKER_TORTURE_SEED the dice.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from stoker.desk import Desk
from stoker.errors import StoreError
from stoker.store import Store
from stoker.store.clock import wall_clock
from stoker.store.open import open_store
from stoker.watch import run_chores
from tests.faults.cargo import QUEUES, draft
from tests.faults.evidence import Evidence
from tests.faults.figures import figures, table
from tests.faults.journal import Journal, Offer, Placed, read_journals
from tests.faults.ledger import violations
from tests.faults.nemesis import Nemesis
from tests.faults.places import BEHIND_A_PROXY, Place
from tests.faults.test_kill import SEED, all_jobs
from tests.faults.worker import TTL
from tests.servers.proxy import Proxy
from tests.worker.waiting import until

SECONDS = float(os.environ.get("STOKER_TORTURE_SECONDS", "3"))
CUTS = 100
SINGLES = 400
LONG = 1 << 30
HANG_SECONDS = TTL / 1e6 + 0.5
DRAIN_SECONDS = 60 + SECONDS


@contextmanager
def chores(store: Store) -> Iterator[None]:
    """Somebody does them, whom no cut befalls."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(0.2):
            run_chores(Desk(store).clerk, "chores")

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Flood(threading.Thread):
    """Enqueues one job after the other, each once and without a name: who knows what came of it?"""

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__()
        self._store = open_store(url)
        self._journal = Journal(folder, "flood")

    def run(self) -> None:
        with closing(self._store), closing(self._journal):
            for number in range(SINGLES):
                self._place(Desk(self._store), f"flood/{number}")

    def _place(self, desk: Desk, batch: str) -> None:
        tag = f"{batch}.0"
        self._journal.write(Offer(at=wall_clock(), batch=batch, tags=[tag], dues=[0]))
        with suppress(StoreError):
            placed = desk.intake.enqueue(draft(tag, child=True))
            self._journal.write(Placed(at=wall_clock(), batch=batch, ids=[placed.id]))


def life(dice: random.Random) -> tuple[int, int]:
    """Answers are short, so they get their share: a commit whose answer is cut has taken effect.
    Most connections live for longer than it takes to make them."""
    if dice.random() < 0.3:
        return round(10 ** dice.uniform(1.5, 5)), LONG
    return LONG, round(dice.choice([0, 400]) + 10 ** dice.uniform(1.5, 3.5))


def storm(proxy: Proxy, nemesis: Nemesis, flood: Flood) -> None:
    """Cut for a while; let everything hang in the middle of it."""
    dice = nemesis.dice
    proxy.life = lambda: life(dice)
    proxy.cut_all()
    flood.start()
    began, hung = time.monotonic(), False
    while time.monotonic() < began + SECONDS or proxy.cuts < CUTS or flood.is_alive():
        time.sleep(0.05)
        nemesis.expect_nobody_to_have_left()
        if not hung and proxy.cuts > CUTS / 2:
            hung = True
            proxy.flowing.clear()
            time.sleep(HANG_SECONDS)
            proxy.flowing.set()
    proxy.life = None
    proxy.cut_all()


def weather(place: Place, nemesis: Nemesis, store: Store) -> None:
    """Everybody begins in peace, and ends so."""
    flood = Flood(place.behind, nemesis.folder)
    try:
        nemesis.raise_curtain("producer", "worker")
        cast = [actor.name for actor in nemesis.actors]
        until(lambda: all(read_journals(nemesis.folder).get(name) for name in cast))
        with chores(store):
            storm(place.proxy, nemesis, flood)
            nemesis.dismiss("producer")
            nemesis.drained(within=DRAIN_SECONDS)
            nemesis.dismiss("worker")
    finally:
        nemesis.drop_curtain()


@pytest.mark.timeout(SECONDS * 4 + DRAIN_SECONDS + 60)
@pytest.mark.parametrize("engine", sorted(BEHIND_A_PROXY))
def test_the_ledger_balances_after_cuts_within_whatever_is_said(
    engine: str, tmp_path: Path
) -> None:
    journals = tmp_path / "journals"
    journals.mkdir()
    with BEHIND_A_PROXY[engine](tmp_path) as place, closing(open_store(place.url)) as store:
        for queue, settings in QUEUES.items():
            Desk(store).control.configure(queue, settings)
        weather(place, Nemesis(place.behind, store, journals, random.Random(SEED)), store)
        evidence = Evidence(read_journals(journals), list(all_jobs(store)), store.survey())
    found = violations(evidence)
    sys.stdout.write(table(f"{engine}, {SECONDS:g} s, seed {SEED}", evidence, found))
    assert {name: sentences for name, sentences in found.items() if sentences} == {}
    happened = figures(evidence)
    least = {"acknowledged": SINGLES // 2, "recoveries": 1, "calls the store could not serve": 1}
    assert {name: happened[name] for name in least if happened[name] < least[name]} == {}
