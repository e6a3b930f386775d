"""How SQLite goes about each statement: by the index that was made for it, never by looking at
every job, and without sorting."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any

import apsw
import apsw.ext
import pytest

from stoker.store.files import statements
from stoker.store.sqlite import SqliteStore
from stoker.store.sqlite.many import for_so_many
from stoker.store.sqlite.rows import BARE_COLUMNS, COLUMNS
from tests.engines import VirtualClock
from tests.store.sqlite.busy_day import STEPS, desk_at
from tests.store.sqlite.connections import reader, writer

PACKAGE = "stoker.store.sqlite.sql"

BY_ID = "SEARCH job USING INTEGER PRIMARY KEY (rowid=?)"
OPEN_HEADS = "SEARCH head USING COVERING INDEX head_open (queue=? AND kind=?"
IN_LANE = "SEARCH job USING INDEX job_laned (queue=? AND lane=? AND bucket=?"
GIVEN = ("MATERIALIZE given", "SCAN CONSTANT ROW", "SCAN given")
LISTED = ("LIST SUBQUERY 1", "SCAN json_each VIRTUAL TABLE INDEX 1:")

HOT = {
    # claiming
    "next_bucket": ["SEARCH job USING INDEX job_ready (queue=? AND bucket>?)"],
    "due_in_bucket": ["SEARCH job USING INDEX job_ready (queue=? AND bucket=? AND due_at<?)"],
    "next_bucket_of_lane": [
        "SEARCH job USING COVERING INDEX job_laned (queue=? AND lane=? AND bucket>?)"
    ],
    "due_in_lane": [f"{IN_LANE} AND (due_at,second)>(?,?) AND due_at<?)"],
    "next_bucket_of_heads": [f"{OPEN_HEADS} AND bucket>?)"],
    "heads": [
        f"{OPEN_HEADS} AND bucket=?)",
        BY_ID,
        "SEARCH next USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
        "CORRELATED SCALAR SUBQUERY 1",
        f"{IN_LANE} AND due_at>?)".replace("job USING", "behind USING COVERING"),
    ],
    "jobs": [BY_ID, *LISTED],
    "start_alike": [BY_ID, *LISTED],
    "start_each": [*GIVEN, BY_ID],
    "alive": ["SEARCH session USING INTEGER PRIMARY KEY (rowid=?)", *LISTED],
    # committing
    "take_ids": ["SEARCH counter USING PRIMARY KEY (name=?)"],
    "guard": [BY_ID],
    "holder_unique": ["SEARCH job USING INDEX job_unique (unique_key=?)"],
    "holder_ref": ["SEARCH job USING COVERING INDEX job_ref (ref=?)"],
    "drop_job_guarded": [BY_ID],
    "tally": [BY_ID],
    "note_revision": ["SEARCH note USING PRIMARY KEY (key=?)"],
    # the books
    "queue_by_name": ["SEARCH queue USING INDEX sqlite_autoindex_queue_1 (name=?)"],
    "use": ["SEARCH use USING PRIMARY KEY (queue=? AND meter=?)"],
    "served": ["SEARCH served USING PRIMARY KEY (queue=? AND party=?)"],
    "turn_of_lane": ["SEARCH head USING INDEX sqlite_autoindex_head_1 (queue=? AND lane=?)"],
    "turns_of_lanes": ["SEARCH head USING INDEX sqlite_autoindex_head_1 (queue=?)"],
    "members": ["SEARCH queue USING INDEX queue_within (within=?)"],
    "write_head": [
        "CO-ROUTINE given",
        "SCAN CONSTANT ROW",
        "SCAN given",
        BY_ID,
        "CORRELATED SCALAR SUBQUERY 2",
        f"{IN_LANE})".replace("job USING", "foremost USING COVERING"),
    ],
    "open_lane": [*GIVEN, "SEARCH head USING INDEX head_shut (queue=? AND lane=?)"],
    "wake_lanes": ["SEARCH head USING INDEX head_asleep (queue=? AND wakes_at<?)"],
    "write_turn": [*GIVEN, "SEARCH head USING INDEX sqlite_autoindex_head_1 (queue=? AND lane=?)"],
    "move_head": ["CO-ROUTINE given", *GIVEN[1:]],  # and each by its number
    "drop_empty": [
        "SEARCH head USING INTEGER PRIMARY KEY (rowid=?)",
        "LIST SUBQUERY 1",
        "SCAN CONSTANT ROW",
    ],
    "level_turns": [
        "SEARCH head USING INDEX head_open (queue=? AND kind=? AND bucket=? AND turn<?)"
    ],
    "any_shut": ["SEARCH head USING COVERING INDEX head_shut (queue=?)"],
    "shut_lanes": ["SEARCH head USING COVERING INDEX head_shut (queue=?)"],
    "forget_served": ["SEARCH served USING COVERING INDEX served_turn (queue=? AND turn<?)"],
    # looking, every few seconds
    "overdue_of": ["SEARCH job USING COVERING INDEX job_running (session=? AND until<?)"],
    "overdue_unbound": ["SEARCH job USING COVERING INDEX job_running (session=? AND until<?)"],
    "overdue_waits": ["SEARCH job USING COVERING INDEX job_waiting_until (until>? AND until<?)"],
    "forgettable": ["SEARCH job USING INDEX job_kept_until (until>? AND until<?)"],
    "cancelled": ["SEARCH job USING COVERING INDEX job_cancelling (session=?)"],
}

SEARCHES = {
    "leaseholders": {"job_running", "job_running (session>?)"},
    "next_due": {
        "job_ready (queue=?)",
        "job_ready (queue=? AND bucket>?)",
        "job_ready (queue=? AND bucket=? AND due_at>?)",
    },
}
"""Statements of several parts: how they find jobs."""

MAY_BE_SCANNED = {
    "given": "the rows that the call itself brought",
    "json_each": "the values that the call itself brought",
    "CONSTANT": "no table at all",
    "holder": "one row a session that holds leases, each found by a search",
    "rung": "one row a bucket of a queue, each found by a search",
    "held": "what runs, when a queue is given its first limit",
    "flow": "one row a meter that counts still",
    "standing": "one row an idle worker and queue that it serves",
    "served": "one row a key that has just been served",
    "family": "one row a parent with held children, each found by a search",
    "queue": "a few hundred rows with their counters",
    "policy": "a thousand rows at most",
    "session": "one row a worker",
    "lock": "one row a chore",
    "note": "kept replies, a minute each",
}

MAY_SCAN_AN_INDEX_OF_JOBS = {
    "job_adrift": "it holds none but those that are asked for",
    "job_running": "what runs, when a task is given a limit",
}

MAY_SORT = {
    "count_use": "what runs, by key, when a queue is given its first limit",
    "in_lanes": "whom a throttler is asked about, of those in lanes, which are sorted one by one",
    "aged_in_line": "the same in a queue whose jobs age: no index is in that order",
    "held_by": "what one dead session held, so that the oldest are recovered first",
}

MAY_LOOK_AT_EVERYTHING = {
    "unbalanced": "the check that an operator asks for, which recounts all",
}


def named_statements() -> dict[str, str]:
    files = [
        entry.name
        for entry in resources.files(PACKAGE).iterdir()
        if entry.name.endswith(".sql") and not entry.name[0].isdigit()
    ]
    named = {name: text for file in files for name, text in statements(PACKAGE, file).items()}
    return {name: completed(text) for name, text in named.items()}


def completed(text: str) -> str:
    """The statement as it is run: with the columns of a job where it asks for them."""
    asked = text.replace("-- COLUMNS", f"SELECT {COLUMNS}")
    asked = asked.replace("-- BARE_COLUMNS", f"SELECT {BARE_COLUMNS}")
    return f"{asked} {COLUMNS}" if asked.endswith("RETURNING") else asked


def plan(connection: apsw.Connection, sql: str, value: Any = None) -> list[str]:
    count = apsw.ext.query_info(connection, sql).bindings_count
    return explained(connection, sql, (value,) * count)


def explained(connection: apsw.Connection, sql: str, values: Any) -> list[str]:
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]


def scans(steps: list[str]) -> list[str]:
    """The steps that look at all rows of something that may be large."""
    return [
        step
        for step in steps
        if (scanned := re.match(r"SCAN (?!\d+[- ])(\w+)(?: USING COVERING INDEX (\w+))?", step))
        and scanned[1] not in MAY_BE_SCANNED
        and scanned[2] not in MAY_SCAN_AN_INDEX_OF_JOBS
    ]


def searches(steps: list[str]) -> list[str]:
    return [step for step in steps if step.startswith("SEARCH") and " USING " in step]


def sorts(steps: list[str]) -> bool:
    return any("TEMP B-TREE" in step for step in steps)


@pytest.mark.parametrize("name", HOT)
def test_a_hot_statement_goes_by_its_index(name: str, store: SqliteStore) -> None:
    assert plan(writer(store), named_statements()[name]) == HOT[name]


@pytest.mark.parametrize(
    "name", [*statements(PACKAGE, "lanes.sql"), "write_use", "drop_use", "start_each"]
)
def test_many_rows_are_gone_about_as_one_is(name: str, store: SqliteStore) -> None:
    one = named_statements()[name]
    for_one, for_many = (plan(writer(store), sql) for sql in (one, for_so_many(one, 250)))
    assert searches(for_many) == searches(for_one)
    assert scans(for_many) == []


@pytest.mark.parametrize("name", SEARCHES)
def test_every_part_of_a_hot_statement_goes_by_its_index(name: str, store: SqliteStore) -> None:
    steps = plan(reader(store), named_statements()[name])
    found = [re.match(r"SEARCH job USING (?:COVERING )?INDEX (.*)", step) for step in steps]
    assert {search[1] for search in found if search} == SEARCHES[name]


@pytest.mark.parametrize("value", [None, 0, 2**62, "text", b"bytes"])
def test_no_bound_value_changes_a_plan(value: Any, store: SqliteStore) -> None:
    for connection in (writer(store), reader(store)):
        changed = [
            name
            for name, expected in HOT.items()
            if plan(connection, named_statements()[name], value) != expected
        ]
        assert changed == []


def everyday_plans(store: SqliteStore) -> dict[str, list[str]]:
    return {
        name: plan(writer(store), sql)
        for name, sql in named_statements().items()
        if name not in MAY_LOOK_AT_EVERYTHING
    }


def test_no_named_statement_looks_at_all_jobs(store: SqliteStore) -> None:
    found = {name: scans(steps) for name, steps in everyday_plans(store).items()}
    assert {name: steps for name, steps in found.items() if steps} == {}
    assert found.keys() >= HOT.keys() | SEARCHES.keys()


def test_no_named_statement_sorts(store: SqliteStore) -> None:
    sorting = {name for name, steps in everyday_plans(store).items() if sorts(steps)}
    assert sorting == MAY_SORT.keys()


def test_the_scan_of_a_new_statement_is_noticed(store: SqliteStore) -> None:
    assert scans(plan(writer(store), "SELECT id FROM job WHERE name = ?")) == ["SCAN job"]
    aliased = "SELECT old.id FROM job AS old WHERE old.created_at < ? ORDER BY old.due_at"
    assert scans(plan(writer(store), aliased)) == ["SCAN old"]
    assert sorts(plan(writer(store), aliased))


def is_a_filter(sql: str) -> bool:
    """Filters give a page of jobs in order of arrival, whatever they were found by."""
    return sql.startswith(f"SELECT {COLUMNS} FROM job WHERE 1 AND ")  # noqa: S608


@contextmanager
def overheard(*connections: apsw.Connection) -> Iterator[dict[str, Any]]:
    """All statements that are run, each with values that it was run with."""
    heard: dict[str, Any] = {}

    def hear(_: apsw.Cursor, sql: str, values: Any) -> bool:
        heard[sql] = values
        return True

    for connection in connections:
        connection.exec_trace = hear
    yield heard
    for connection in connections:
        connection.exec_trace = None


def test_no_statement_of_a_whole_day_looks_at_all_jobs_or_sorts(
    store: SqliteStore, clock: VirtualClock
) -> None:
    with overheard(writer(store), reader(store)) as heard:
        for step in STEPS:
            step(desk_at(store), clock)
    plans = {
        sql: explained(writer(store), sql, values)
        for sql, values in heard.items()
        if re.search(r"\bjob\b", sql)
    }
    may_sort = {named_statements()[name] for name in MAY_SORT}
    sorting = {sql for sql, steps in plans.items() if sorts(steps)} - may_sort
    assert {sql: steps for sql, steps in plans.items() if scans(steps)} == {}
    assert {sql for sql in sorting if not is_a_filter(sql)} == set()
    assert len(plans) > 20
