"""Would we notice? Each mutant breaks a routine in the PostgreSQL server in one place; the walk
or one of a few scenes must kill it.

A mutant that survives means that the walk no longer looks where it should.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from itertools import product
from typing import Any, NamedTuple

import pytest

from stoker.desk import Desk
from stoker.kernel.change import Change
from stoker.kernel.job import Job
from stoker.store import Receipt
from stoker.store.memory import MemoryStore
from stoker.store.postgres.marks import Marks
from stoker.store.postgres.schema import PACKAGE, within
from stoker.store.postgres.traces import traces
from stoker.store.staging import refusal
from tests.engines import VirtualClock
from tests.model.lives import SeededChooser
from tests.model.walk import LIVES, recount
from tests.mutants.killers import likeliest_first
from tests.mutants.scenes import SCENES
from tests.servers.postgres import Stores, default_url

SEEDS, STEPS, RECOUNT_EVERY = 40, 200, 10
KINDS = ("any", "keyed", "even", "tenants", "flocks")


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
        "settle", "IF settled IS DISTINCT FROM wanted THEN", "IF false THEN"
    ),
    "an end is no new revision": Mutant(
        "settle", "revision = job.revision + 1", "revision = job.revision"
    ),
    "a released unit of capacity is not counted": Mutant(
        "settle", "failed, cancelled, -units", "failed, cancelled, 0"
    ),
    "a unit of a job that is forgotten is not released": Mutant(
        "settle", "-cancelled, -units", "-cancelled, 0"
    ),
    "what few jobs have is not told when they begin": Mutant(
        "claim", "CASE WHEN unique_key IS NULL", "CASE WHEN true OR unique_key IS NULL"
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
    "new jobs stand in no lane": Mutant("place", "CASE WHEN known.limited\n", "CASE WHEN false\n"),
    "a shut lane is never opened": Mutant(
        "lanes",
        "        shut_until = CASE WHEN due_at > now THEN due_at END\n",
        "        shut_until = head.shut_until\n",
    ),
    "a lane's head is not looked up again": Mutant("lanes", "job = new.id, due_at", "due_at"),
    "nobody follows the head of a lane": Mutant("traces", "job = new.job,", ""),
    "an empty lane keeps its head": Mutant("traces", "WHERE job IS NULL));", "WHERE false));"),
    "those behind a job that does not fit overtake it": Mutant(
        "traces", "AND (major, minor, job) >= (", "AND (major, minor, job) = ("
    ),
    "what a key holds is not counted": Mutant(
        "lanes",
        "key = substr(party, 2) AND counted\n                    AND (state = 1 OR",
        "key = substr(party, 2) AND counted\n                    AND (state = 9 OR",
    ),
    "what a task holds is not counted": Mutant(
        "lanes", "AND lane = kind AND lane >= '~'", "AND lane = kind AND lane > '~~~'"
    ),
    "new jobs are in no lane of their task": Mutant(
        "common", "WHEN '~' || name = ANY (kinds) THEN '~' || name", "WHEN false THEN ''"
    ),
    "what queues within another hold is not counted": Mutant(
        "lanes", "FROM stoker.queue WHERE within = line AND", "FROM stoker.queue WHERE false AND"
    ),
    "what has started of a key is forgotten": Mutant(
        "lanes", "CASE WHEN known.rates_keys AND party <> ''", "CASE WHEN false"
    ),
    "what has started of a queue or a task is forgotten": Mutant(
        "lanes", "AND (meter = '' OR meter >= '~')", "AND meter = '?'"
    ),
    "a lane that sleeps is never woken": Mutant(
        "lanes", "WHERE queue = line AND shut_until <= now", "WHERE queue = line AND false"
    ),
    "nobody has had a turn yet": Mutant(
        "lanes", "AND served.reached > clock.reached), 0)", "AND false), 0)"
    ),
    "who has had a turn is not seen again": Mutant(
        "lanes", "IF clock IS NOT NULL THEN", "IF false THEN"
    ),
    "keys have as many places as they like": Mutant(
        "lanewise", "due AND row_number() OVER mine <= places AS fits", "due AS fits"
    ),
    "a key has all its turns at once": Mutant(
        "lanewise", "1000 * (row_number() OVER mine - 1)", "0 * (row_number() OVER mine - 1)"
    ),
    "a heavy job is taken for one of weight one": Mutant("lanewise", "is_odd OR places", "places"),
    "a lane ends where it was not looked at any further": Mutant(
        "lanewise", " OR many = seen AND seen = least(few, places + 1)", ""
    ),
    "nobody in the line is ever without room": Mutant(
        "lanewise", "bool_or(many > stoker.places(", "bool_or(many < stoker.places("
    ),
    "who runs does not count for those in the line": Mutant(
        "lanewise",
        "key = mine.key AND counted\n                AND (state = 1 OR",
        "key = mine.key AND counted\n                AND (state = 9 OR",
    ),
    "the heavy in the line are taken for others": Mutant(
        "lanewise", "count(*) < most OR bool_or(weight <> 1000) OR (", "count(*) < most OR ("
    ),
    "nobody hears of those who were taken from the line": Mutant(
        "lanewise",
        "VALUES (line, '', seats.bucket, seats.served);",
        "SELECT line, '', 0, '{}' WHERE false;",
    ),
    "the second of a lane is never before the head of another": Mutant(
        "lanewise", "OR places > 1 AND due_at <= now", "OR false AND due_at <= now"
    ),
    "a key has as many turns as it has ranks": Mutant(
        "lanewise", "OR min(bucket) < max(bucket)", ""
    ),
    "a heavy head is taken for one of weight one": Mutant(
        "lanewise", "bool_or(weight <> 1000 OR places", "bool_or(places"
    ),
    "who joins before those known to follow a head is overlooked": Mutant(
        "lanes", "shut_until = new.shut_until, behind = NULL", "shut_until = new.shut_until"
    ),
    "a head that gave way knows who followed the old one": Mutant(
        "traces", "shut_until = new.shut_until, behind = NULL", "shut_until = new.shut_until"
    ),
    "who follows a head follows the next one, too": Mutant(
        "lanewise", "behind[2:] AS behind", "behind AS behind"
    ),
    "who came together is overlooked": Mutant("claim", "RETURN any_there;", "RETURN false;"),
    "a run is gone when one has left": Mutant("claim", "IF FOUND AND foremost IS NULL", "IF FOUND"),
    "a run begins behind the foremost": Mutant(
        "claim", "SET first = foremost WHERE", "SET first = foremost + 1 WHERE"
    ),
    "single jobs come before all who came together": Mutant(
        "claim",
        "ORDER BY due_at, id LIMIT most\n    )",
        "ORDER BY in_run, due_at, id LIMIT most\n    )",
    ),
    "who came together is overlooked by a walk": Mutant(
        "lanes", "mark.second, mark.job) LIMIT most)", "mark.second, mark.job) LIMIT 0)"
    ),
    "who came together has no place when the order turns": Mutant(
        "books", "AND job.queue = line AND joined", "AND job.queue = line AND false"
    ),
    "a head is taken whose key has no room": Mutant(
        "lanewise", "weight <> 1000 OR places < 1\n", "weight <> 1000\n"
    ),
    "jobs without a key are overlooked": Mutant(
        "lanewise", "stoker.line(line, now, 1,", "stoker.line(line, now, 0,"
    ),
    "a queue has as many places as it likes": Mutant(
        "lanewise", "most := least(most, stoker.places(", "PERFORM least(most, stoker.places("
    ),
    "the heavy of a queue with places are taken for others": Mutant(
        "lanewise", "ctid = ANY (seats.picked) AND weight <> 1000", "false"
    ),
    "those with a key are overlooked in a queue with places": Mutant(
        "lanewise", "lane <> '!')\n        OR EXISTS (", "false)\n        OR EXISTS ("
    ),
    "those of weight 0 are overlooked in a queue with places": Mutant(
        "lanewise", "lane = '!')\n        OR known.opens_at", "false)\n        OR known.opens_at"
    ),
    "a bucket has more than was filled in": Mutant(
        "lanewise", "OR most > (known.fill_whole", "OR most > 1000 * (known.fill_whole"
    ),
    "what was taken from a bucket is forgotten": Mutant(
        "lanewise", "+ cardinality(seats.picked) * known.fill_step", ""
    ),
    "a bucket is never filled again": Mutant(
        "lanewise", "RETURN greatest(remembered[2]::bigint, now);", "RETURN remembered[2]::bigint;"
    ),
    "turns that were reached are not levelled": Mutant(
        "traces", "AND turn >= greatest(clock.since, 1) AND turn < clock.reached", "AND turn < 0"
    ),
    "turns are not levelled when a lane opens": Mutant(
        "lanes", "CASE WHEN turn > 0 AND turn >= (", "CASE WHEN turn > 0 OR turn >= ("
    ),
    "only the lane that was served has had a turn": Mutant(
        "traces", "AND served.turn <> served.reached;", "AND false;"
    ),
    "heads stand in the order of ranks whatever their age": Mutant(
        "lanes", "CASE WHEN ageing IS NOT NULL THEN", "CASE WHEN false THEN"
    ),
    "jobs without a lane do not age": Mutant(
        "lanes", "ORDER BY stoker.aged(bucket, step, due_at), due_at", "ORDER BY bucket, due_at"
    ),
    "lanes stay as they are when other tasks have limits": Mutant(
        "books", "(limits, by_time, lanes, counting)", "(limits, by_time, before.kinds, counting)"
    ),
    "who runs is not counted when its task gets a limit": Mutant(
        "books", "WHERE queue = line AND state = 1\n", "WHERE queue = line AND state = 9\n"
    ),
    "a count gets lost when it is folded": Mutant(
        "books", "used = kept.used + excluded.used", "used = kept.used"
    ),
    "turning the order forgets the lanes": Mutant(
        "books", "DELETE FROM stoker.head WHERE queue = line;", ""
    ),
    "jobs are not placed anew when the order turns": Mutant(
        "books", "CASE WHEN by_time THEN bucket + second ELSE 0 END AS second", "second AS second"
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


def other_scene(stores: Stores) -> str:
    """The first scene that comes out unlike the reference; empty if none does."""
    for scene in SCENES:
        clocks = VirtualClock(), VirtualClock()
        with stores.store(clocks[1]) as store:
            desks = Desk(MemoryStore(clocks[0])), Desk(store)
            told = [scene(desk, clock) for desk, clock in zip(desks, clocks, strict=True)]
        if told[0] != told[1]:
            return scene.__name__
    return ""


def disagreement(stores: Stores, mutant: str) -> str:
    """Where scenes or lives on the reference and on these stores come out unlike; empty if
    nowhere."""
    return other_scene(stores) or other_life(stores, mutant)


def other_life(stores: Stores, mutant: str) -> str:
    """Where a life comes out unlike; empty if nowhere."""
    stories = [*product(range(SEEDS), KINDS)]
    for seed, kind in likeliest_first("postgres", mutant, stories):
        clock = VirtualClock()
        with stores.store(clock) as store:
            lives = LIVES[kind](SeededChooser(seed), clock, MemoryStore(clock), store)
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
    assert disagreement(stores, name), f"{name}: the mutant survived"


def test_the_walk_notices_marks_that_overlook_jobs_which_come_back(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Marks, "placed", lambda *_: None)
    assert disagreement(stores, "marks overlook jobs which come back")


@pytest.mark.parametrize("word", ["move_heads", "take_turns", "look_again", "write_flows"])
def test_the_walk_notices_a_claim_that_leaves_out(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    def fewer(*told: Any) -> list[tuple[str, Sequence[Any]]]:
        return [each for each in traces(*told) if each[0] != word]

    monkeypatch.setattr("stoker.store.postgres.walk.traces", fewer)
    assert disagreement(stores, f"a claim leaves out {word}")


def test_the_walk_notices_stale_copies_that_are_believed(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    def believing(
        change: Change, jobs: Mapping[int, Job], revision: Callable[[str], int]
    ) -> Receipt | None:
        decided_on = [*(write.job for write in change.writes), *change.deletes]
        copies = {copy.id: copy for copy in decided_on if copy.id in jobs}
        return refusal(change, {**jobs, **copies}, revision)

    monkeypatch.setattr("stoker.store.postgres.stage.refusal", believing)
    assert disagreement(stores, "stale copies are believed")


def test_the_scenes_come_out_alike_where_nothing_is_broken(stores: Stores) -> None:
    assert other_scene(stores) == ""
