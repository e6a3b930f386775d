"""Would we notice? Each mutant breaks a routine in the PostgreSQL server in one place; the walk
must kill it.

A mutant that survives means that the walk no longer looks where it should.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from typing import NamedTuple

import pytest

from stoker.store.memory import MemoryStore
from stoker.store.postgres.marks import Marks
from stoker.store.postgres.schema import PACKAGE, within
from stoker.store.postgres.stage import Stage
from tests.engines import VirtualClock
from tests.model.lives import Lives, SeededChooser
from tests.model.walk import recount
from tests.servers.postgres import Stores, default_url

SEEDS, STEPS, RECOUNT_EVERY = 40, 200, 10


class Mutant(NamedTuple):
    file: str
    sound: str
    broken: str


MUTANTS = {
    "a late worker's report is accepted": Mutant(
        "settle",
        "AND job.revision = said.revision AND job.token = said.token\n",
        "\n",
    ),
    "a batch with one stale report in it is believed": Mutant(
        "settle", "IF settled IS DISTINCT FROM cardinality(jobs) THEN", "IF false THEN"
    ),
    "an end is no new revision": Mutant(
        "settle", "revision = job.revision + 1", "revision = job.revision"
    ),
    "a released unit of capacity is forgotten": Mutant(
        "settle", "-coalesce(sum(units) FILTER (WHERE source = 1), 0)", "0"
    ),
    "a claim counts no try": Mutant("claim", "attempt = attempt + 1, ", ""),
    "a dead session may claim": Mutant("claim", "AND expires_at > now)", "AND expires_at > 0)"),
    "paused queues are served": Mutant("claim", "WHERE name = line AND paused", "WHERE false"),
    "limits are not looked at": Mutant("claim", "bool_or(limited OR", "bool_or(false OR"),
    "the rank is ignored": Mutant("claim", "min(stoker.next_bucket", "max(stoker.next_bucket"),
    "jobs start before they are due": Mutant(
        "claim", "now := stoker.moment(given);", "now := stoker.moment(given) + 3000000;"
    ),
    "a job that stays is bound to a session": Mutant(
        "claim", "session = CASE WHEN NOT stays THEN holder END", "session = holder"
    ),
    "the time limit of a try is forgotten": Mutant(
        "claim", "least(now + timeout,", "least(NULL::bigint,"
    ),
    "new jobs are placed by rank in every queue": Mutant(
        "place", "CASE WHEN known.time_first THEN 0 ELSE", "CASE WHEN false THEN 0 ELSE"
    ),
    "new jobs stand in no lane": Mutant(
        "place", "CASE WHEN known.limited THEN", "CASE WHEN false THEN"
    ),
    "a shut lane is never opened": Mutant(
        "lanes", "UPDATE stoker.head SET shut = false\n", "UPDATE stoker.head SET shut = shut\n"
    ),
    "a lane's head is not looked up again": Mutant(
        "lanes", "second = excluded.second, job = excluded.job", "second = head.second"
    ),
    "what a key holds is not counted": Mutant(
        "lanes", "AND (state = 1 OR state = 2", "AND (state = 9 OR state = 2"
    ),
    "a count gets lost when it is folded": Mutant(
        "books", "used = kept.used + excluded.used", "used = kept.used"
    ),
    "turning the order forgets the lanes": Mutant(
        "books", "DELETE FROM stoker.head WHERE queue = line;", ""
    ),
    "jobs are not placed anew when the order turns": Mutant(
        "books", "second = CASE WHEN by_time THEN bucket + second ELSE 0 END", "second = second"
    ),
    "leases of dead sessions are not found": Mutant(
        "watch", "WHERE retired_at IS NOT NULL OR expires_at <= now)", "WHERE false)"
    ),
    "nobody hears of dead sessions": Mutant(
        "watch", "WHERE retired_at IS NULL AND expires_at <= now)", "WHERE false)"
    ),
    "nobody hears of jobs to be forgotten": Mutant(
        "watch", "OR EXISTS (SELECT FROM stoker.forgettable(now, 1))", ""
    ),
}


@pytest.fixture
def stores() -> Iterator[Stores]:
    """Stores of this test alone: what is done to their routines stays with them."""
    stores = Stores(default_url())
    yield stores
    stores.close()


def disagreement(stores: Stores) -> str:
    """Where lives on the reference and on these stores first come out unlike; empty if nowhere."""
    for seed in range(SEEDS):
        clock = VirtualClock()
        with stores.store(clock) as store:
            lives = Lives(SeededChooser(seed), clock, MemoryStore(clock), store)
            try:
                for step in range(1, STEPS + 1):
                    lives.step()
                    if step % RECOUNT_EVERY == 0:
                        recount(store)
            except AssertionError as error:
                return f"seed {seed}: {error}"
    return ""


@pytest.mark.parametrize("name", MUTANTS)
def test_the_walk_kills_the_mutant_in_which(name: str, stores: Stores) -> None:
    mutant = MUTANTS[name]
    text = resources.files(PACKAGE).joinpath(f"{mutant.file}.sql").read_text(encoding="utf-8")
    assert text.count(mutant.sound) == 1, f"the mutant no longer fits {mutant.file}.sql"
    broken = text.replace(mutant.sound, mutant.broken)
    with stores.store(VirtualClock()) as store:
        store._use(lambda each: each.execute(within(store.address.schema, broken)))
    assert disagreement(stores), f"{name}: the mutant survived"


def test_the_walk_notices_marks_that_overlook_jobs_which_come_back(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Marks, "placed", lambda *_: None)
    assert disagreement(stores)


def test_the_walk_notices_stale_copies_that_are_believed(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stage, "_unmoved", lambda stage, copy: copy.id in stage.jobs)
    assert disagreement(stores)
