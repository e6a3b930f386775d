"""Would we notice? Each mutant breaks the SQLite store in one place; the walk must kill it.

A mutant that survives means that the walk no longer looks where it should.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.mutants.killers import likeliest_first
from tests.mutants.tree import one_file, run_broken

SEEDS, STEPS = 120, "200"


class Mutant(NamedTuple):
    file: str
    sound: str
    broken: str
    killer: str | None = None
    """A file of tests for what random lives do not come to by themselves."""
    lives: str = "any"


def _among_tenants(sound: str, broken: str) -> Mutant:
    return Mutant("seats.py", sound, broken, lives="tenants")


def _of_meters(sound: str, broken: str) -> Mutant:
    return Mutant("meters.py", sound, broken, killer="sqlite/test_meters.py")


MUTANTS = {
    "a late worker's report is accepted among others": Mutant(
        "commit.py",
        "some)} AND revision = ? AND token IS ?",
        "some)} AND (? OR 1) AND (? OR 1)",
    ),
    "a late worker's report is accepted alone": Mutant(
        "commit.py",
        "{_update(fields)} AND revision = ? AND token IS ?",
        "{_update(fields)} AND (? OR 1) AND (? OR 1)",
    ),
    "a run with one stale report in it is believed": Mutant(
        "commit.py", "total_changes() - before == count", "total_changes() >= before"
    ),
    "the lease token is not compared": Mutant(
        "commit.py", "found[1] == touch.token", "touch.token is not None"
    ),
    "a stale copy is not noticed": Mutant(
        "commit.py", "return bool(found == (copy.revision, copy.token))", "return found is not None"
    ),
    "a decision is no new revision": Mutant(
        "commit.py", "revision = revision + 1, bare", "revision = revision, bare"
    ),
    "a stale delete is accepted": Mutant(
        "sql/commit.sql",
        "DELETE FROM job WHERE id = ? AND revision = ? AND token IS ?",
        "DELETE FROM job WHERE id = ? AND (? OR 1) AND (? OR 1)",
    ),
    "twins are not looked for": Mutant("commit.py", "if twins else None", "if None else None"),
    "the counter of a write is forgotten": Mutant(
        "commit.py", "    tx.books.enter(after)\n", "    pass\n"
    ),
    "a released unit of capacity is forgotten": Mutant(
        "books.py", "book.used += sum(units)\n", "book.used += max(sum(units), 0)\n"
    ),
    "a key's use is forgotten": Mutant(
        "books.py", "if settings.limits_keys:", "if settings.limits_keys and min(units) > 0:"
    ),
    "a task's use is forgotten": Mutant(
        "books.py", "self.meters.move(book.id, tasks, units)", "pass"
    ),
    "what runs already is not counted when a queue is given a limit": Mutant(
        "meters.py", 'run(_SQL["count_use"], (queue, tasks, keys))', "pass"
    ),
    "a meter without room among the others is lost": _of_meters(
        "self._changed_apart.add(meter)", "pass"
    ),
    "a meter apart says nothing": _of_meters(
        "self._units if self._any_apart else", "self._units if 0 else"
    ),
    "a meter apart begins anew among the others": _of_meters(
        "if not before and len(self", "if len(self"
    ),
    "a meter apart stays when it says nothing": _of_meters("if not row[2]]\n", "if 0]\n"),
    "a meter that was read before says the same for ever": _of_meters(
        "units.copy() if text == last else", "units.copy() if last != '{}' else"
    ),
    "what was read before changes with those who read": _of_meters(
        "units.copy() if text == last else", "units if text == last else"
    ),
    "what was written changes with those who wrote": _of_meters(
        "(text, units.copy())", "(text, units)"
    ),
    "jobs stay where they are when their queue is given a limit": Mutant(
        "books.py", "if _arrangement(before) != _arrangement(settings):", "if False:"
    ),
    "a shut lane is never opened": Mutant(
        "sql/lanes.sql", "wakes_at = NULL, turn", "shut = 1, turn"
    ),
    "a lane sleeps on when its moment has come": Mutant(
        "sql/lanes.sql", "WHERE queue = ?1 AND wakes_at <= ?2", "WHERE queue = ?1 AND wakes_at < 0"
    ),
    "a lane's head is not looked up again": Mutant(
        "lanes.py", 'self._for_all("write_head", [', 'self._for_all("write_head", [] and ['
    ),
    "a lane whose head was taken has its old head": Mutant(
        "lanes.py", 'self._for_all("move_head", rows)', "pass"
    ),
    "an empty lane keeps its head": Mutant("lanes.py", 'self._for_all("drop_empty", gone)', "pass"),
    "a new job that comes before a lane's head is behind it": Mutant(
        "sql/lanes.sql",
        "WHERE (excluded.due_at, excluded.second, excluded.job) <",
        "WHERE 0 AND 1 <>",
    ),
    "nobody is brought up to the clock": Mutant(
        "sql/lanes.sql",
        "bucket = ?3 AND turn < ?4",
        "bucket = ?3 AND turn < 0",
        lives="tenants",
    ),
    "what has started under a rate is forgotten": Mutant(
        "entrances.py",
        "books.meters.remember_rates(books.queue(turnstile.name).id, turnstile)",
        "pass",
    ),
    "queues within another do not count for it": Mutant(
        "entrances.py",
        "{**self._books.members(queue), queue: book.used}",
        "{queue: book.used}",
        "conformance/test_shared_limits.py",
    ),
    "the outer queue has no say": Mutant(
        "entrances.py", "self._turnstiles.of(book.name)", "self._turnstiles._alone(book.name)"
    ),
    "jobs start before they are due": Mutant(
        "sql/claim.sql", "AND due_at <= ?7", "AND due_at <= ?7 + 3000000"
    ),
    "a job that was changed is taken for a bare one": Mutant(
        "commit.py",
        "revision = revision + 1, bare = 0",
        "revision = revision + 1, bare = bare",
        "conformance/test_edit_delete.py",
    ),
    "the rank is ignored": Mutant("rows.py", "else (rank, 0)", "else (0, rank)"),
    "paused queues are served": Mutant("entrances.py", " and not book.settings.paused", ""),
    "a dead session may claim": Mutant(
        "sql/claim.sql",
        "json_each(?)) AND expires_at > ?",
        "json_each(?)) AND expires_at > ? - 1e9",
    ),
    "a dead session is revived": Mutant(
        "sql/look.sql", "WHERE id = ?1 AND expires_at > ?2 RETURNING", "WHERE id = ?1 RETURNING"
    ),
    "leases of dead sessions are not found": Mutant(
        "look.py", 'lost |= self._column("held_by", session, limit)', "pass"
    ),
    "overdue leases of living sessions are not found": Mutant(
        "look.py", 'lost |= self._column("overdue_of", session, now, limit)', "pass"
    ),
    "waits that ran out are not found": Mutant(
        "look.py", 'lost = self._column("overdue_waits", now, limit)', "lost = set()"
    ),
    "nobody hears of jobs to be forgotten": Mutant(
        "look.py", "for kind in (Lost, Adrift, Forgettable))", "for kind in (Lost, Adrift))"
    ),
    "a parent is not told": Mutant(
        "sql/commit.sql", "open_children = open_children - 1", "open_children = open_children - 0"
    ),
    "a claim counts no try": Mutant("sql/claim.sql", "?4,\n    attempt = attempt + 1,", "?4,"),
    "a claim of one counts no try": Mutant("sql/claim.sql", "now, attempt = attempt + 1,", "now,"),
    "claims of one each share a lease": Mutant(
        "claim.py",
        "alone.append((*ids, *lease, tx.now))",
        "alone.append((*ids, *lease[:1], *alone[0][2:]) if alone else (*ids, *lease, tx.now))",
    ),
    "long payloads are dropped": Mutant(
        "commit.py", 'tx.connection.execute(_SQL["put_body"], (job_id, job.payload))', "pass"
    ),
    "a lane is shut for ever if only a few are": Mutant(
        "lanes.py", "if lane in lanes or key_of(lane) in keys}", "if lane in lanes}"
    ),
    "a lane is shut for ever if many are": Mutant(
        "lanes.py", "lanes.union(*(lanes_of(key, book.settings) for key in keys))", "lanes"
    ),
    "among jobs that are due together all heads come first": _among_tenants(
        "_ENDLESS if self._by_time else job_id)", "0)"
    ),
    "turning the order forgets the lanes": Mutant(
        "lanes.py", 'run(_SQL["drop_heads"], (book.id,))', "return"
    ),
    "a key without room is given another place": _among_tenants("if room >= weight:", "if 1:"),
    "a key has as much room as before when it has taken some": _among_tenants(
        "rooms[key] = room - weight\n", "pass\n"
    ),
    "a job that is too heavy for its key never runs": _among_tenants(
        "max(capacity, weight)  #", "capacity  #"
    ),
    "all heads come before those behind them": _among_tenants(
        "            self._offer_to_those_before(self._place(head))\n", ""
    ),
    "nobody who waits comes before a round of heads": _among_tenants(
        "if self._waiting and self._waiting[0] < last:", "if 0:"
    ),
    "nobody behind a head comes before a round of them": _among_tenants(
        "h[_NEXT_ID]) < at_most]", "h[_NEXT_ID]) < (0,)]"
    ),
    "nobody behind a head has a turn before a round of them": _among_tenants(
        "h[_WEIGHT]) <= turn]", "h[_WEIGHT]) < 0]"
    ),
    "those behind heads are not looked at": _among_tenants(
        "            self._look_behind(row, rest)\n",
        "            pass\n",
    ),
    "those behind a round of heads are not looked at": _among_tenants(
        "                self._look_behind(head, None)\n",
        "                pass\n",
    ),
    "a lane has its old head when more than that was taken": _among_tenants(
        "if row[_KEY] not in self._searched:", "if row[_HEAD] is not None:"
    ),
    "a turn has no length": _among_tenants(
        "= self._clock + self._turn_length(key, row[_WEIGHT])", "= self._clock"
    ),
    "the clock stands still while keys take turns": _among_tenants(
        "lanes.remember(book, others, self._clock)", "lanes.remember(book, others, book.clock)"
    ),
    "other ranks do not hear that their key had a turn": _among_tenants(
        "lanes.write_turns(book, self._reached)", "pass"
    ),
    "in a queue by time the rank is not looked at": _among_tenants(
        "head[_RANK] if self._by_time else 0", "0"
    ),
    "jobs without a key are forgotten beside those with keys": _among_tenants(
        "or book.laned != book.counts[0]", ""
    ),
    "jobs of weight 0 are forgotten beside those that count": _among_tenants(
        " and free is None else", " else"
    ),
    "ranks are forgotten beside the first": _among_tenants(
        "if len(found) == 1", "if len(found) > 0"
    ),
    "other limits than those of keys are forgotten": Mutant(
        "seats.py", "return not others and", "return"
    ),
    "a key that has no job left forgets its turn": _among_tenants(
        "lanes.remember(book, others, self._clock)", "lanes.remember(book, {}, self._clock)"
    ),
    "a key whose last job was taken away forgets its turn": Mutant(
        "lanes.py", "_, _, turn in heads if turn]", "_, _, turn in heads if 0]", lives="tenants"
    ),
    "turns are forgotten when a queue is given other settings": Mutant(
        "books.py", "self.lanes.keep_turns(book)", "pass", lives="tenants"
    ),
    "lanes keep the clock of a queue that is fair no more": Mutant(
        "queue_book.py", "self.clock if self.settings.fair else 0", "self.clock", lives="tenants"
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_walk_kills_the_mutant_in_which(name: str, tmp_path: Path) -> None:
    mutant = MUTANTS[name]
    seeds = map(str, likeliest_first("sqlite", name, range(SEEDS)))
    walk = ["tests.model.walk", "sqlite", ",".join(seeds), STEPS, mutant.lives]
    if mutant.killer is not None:
        walk = one_file(mutant.killer, "sqlite")
    run = run_broken(tmp_path, f"sqlite/{mutant.file}", mutant.sound, mutant.broken, walk)
    assert run.returncode == 1, f"{name}: the mutant survived ({run.stdout}{run.stderr})"
    # It must be found out, not merely fall over.
    assert "AssertionError" in run.stdout or "StoreCorrupt" in run.stdout, run.stdout + run.stderr
