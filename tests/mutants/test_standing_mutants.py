"""Would we notice? Each mutant breaks what an engine does about claims that stand; the tests
must kill it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.mutants.tree import one_file, run_broken


class Mutant(NamedTuple):
    engine: str
    file: str
    sound: str
    broken: str
    tests: str = "conformance/test_standing.py"


SQLITE = "sqlite and not python", "sqlite/standing.py"
REDIS = "redis and not walking and not debian", "redis/lua/standing.lua"
POSTGRES = "postgres", "postgres/sql/standing.sql"
PLACING = "postgres", "postgres/sql/place.sql"
HERALD = "redis/test_herald.py"

MUTANTS = {
    "a job that is due is overtaken": Mutant(*SQLITE, " or _is_anybody_due(tx, book)", ""),
    "limits and pauses are not heeded": Mutant(
        *SQLITE, "not lets_start_at_once(book.settings) or", ""
    ),
    "whoever was served still stands": Mutant(
        *SQLITE, "        stand_no_more(tx.connection, session)\n", ""
    ),
    "a dead worker is served on Redis": Mutant(*REDIS, "not is_alive(claim[5])", "false"),
    "whoever was served still stands on Redis": Mutant(*REDIS, "  call('HDEL', name, 'e')\n", ""),
    "whoever listens no more is served on Redis": Mutant(
        "herald", REDIS[1], ", errand) > 0", ", errand) >= 0", HERALD
    ),
    "the answer to a herald is taken for the command's": Mutant(
        "answered", "redis/connection.py", "if command.startswith(HERALD):", "if False:", HERALD
    ),
    "a herald goes ahead of whatever comes": Mutant(
        "herald", "redis/partition.py", "= number < 0", "= True", HERALD
    ),
    "a job that is due is overtaken on Redis": Mutant(
        *REDIS, "and is_anybody_due(queue, time_first)", "and false"
    ),
    "a pause is not heeded on Redis": Mutant(*REDIS, "paused == '1' or ", ""),
    "a dead worker is served on PostgreSQL": Mutant(*POSTGRES, " AND expires_at > now", ""),
    "a pause is not heeded on PostgreSQL": Mutant(
        *POSTGRES, "WHERE name = line AND paused", "WHERE false"
    ),
    "a job that is due is overtaken on PostgreSQL": Mutant(
        *POSTGRES, "wish.jobs)) > 0", "wish.jobs)) > 1"
    ),
    "whoever claims anew hears nothing of what was started for it on PostgreSQL": Mutant(
        *POSTGRES, "WHERE served IS NOT NULL", "WHERE false", "postgres/test_standing.py"
    ),
    "a lease ends with the time limit alone on PostgreSQL": Mutant(
        *PLACING, "least(now + time_limit, now + wish.visibility)", "now + time_limit"
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_tests_kill_the_mutant_in_which(name: str, tmp_path: Path) -> None:
    mutant = MUTANTS[name]
    tests = one_file(mutant.tests, mutant.engine)
    run = run_broken(tmp_path, mutant.file, mutant.sound, mutant.broken, tests)
    assert run.returncode == 1, f"{name}: the mutant survived ({run.stdout}{run.stderr})"
    assert "AssertionError" in run.stdout, run.stdout + run.stderr
