"""Jobs that came together stand in line as one: what claims of several workers make of that."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.kernel.outcome import Failed, Finished
from stoker.kernel.retry import Failure
from stoker.store.postgres import PostgresStore
from stoker.store.postgres.schema import within
from tests.store.conformance.acts import seen, take_all
from tests.store.postgres.test_concurrency import CLAIMING, in_processes

TEN = [b"%d" % number for number in range(10)]
_RUNS = "SELECT first, last FROM stoker.run ORDER BY last"
_CLAIM = """
SELECT id FROM stoker.claim(NULL, '{q}', 4, 1, NULL, NULL, '{}', '{}', '{}', '{}', '{}')
WHERE id > 0
"""


class Onlooker:
    """Somebody with a connection of their own, who may take their time over a transaction."""

    def __init__(self, store: PostgresStore, connection: psycopg.Connection) -> None:
        self._schema = store.address.schema
        self.connection = connection

    def rows(self, sql: str) -> list[tuple[int, ...]]:
        return self.run(sql).fetchall()

    def run(self, sql: str) -> psycopg.RawCursor[tuple[int, ...]]:
        return psycopg.RawCursor(self.connection).execute(within(self._schema, sql))

    @contextmanager
    def in_vain(self) -> Iterator[None]:
        """What is done meanwhile is taken back."""
        with self.connection.transaction(force_rollback=True):
            yield


@pytest.fixture
def onlooker(store: PostgresStore, connection: psycopg.Connection) -> Onlooker:
    return Onlooker(store, connection)


@pytest.fixture
def desk(store: PostgresStore) -> Desk:
    return Desk(store)


def test_a_run_begins_where_somebody_stands_and_is_gone_when_all_have_left(
    desk: Desk, onlooker: Onlooker
) -> None:
    ids = desk.intake.enqueue_copies(Job("q"), TEN)
    others = desk.intake.enqueue_copies(Job("q"), TEN)
    desk.dispatch.claim(["q"], 4)
    desk.dispatch.claim(["q"], 1)
    assert onlooker.rows(_RUNS) == [(ids[4], ids[-1]), (others[0], others[-1])]
    assert take_all(desk) == [*ids[5:], *others]
    assert take_all(desk) == []
    assert onlooker.rows(_RUNS) == []


def test_a_walk_leaves_no_run_that_everybody_has_left(desk: Desk, onlooker: Onlooker) -> None:
    desk.control.adjust("limited", key_capacity=1)
    for rank in (0, -1):
        desk.intake.enqueue_copies(Job("q", rank=rank), TEN)
    assert len(take_all(desk, "limited", "q", limit=15)) == 15
    assert len(take_all(desk, "limited", "q", limit=1)) == 1
    assert len(onlooker.rows(_RUNS)) == 1
    assert len(take_all(desk, "limited", "q")) == 4
    assert take_all(desk, "limited", "q") == []
    assert onlooker.rows(_RUNS) == []


def test_a_run_whose_jobs_were_all_deleted_is_tidied_away(desk: Desk, onlooker: Onlooker) -> None:
    *most, last = desk.intake.enqueue_copies(Job("q"), TEN)
    for job_id in most:
        desk.control.delete(job_id)
    desk.store.tidy()
    assert len(onlooker.rows(_RUNS)) == 1
    desk.control.delete(last)
    desk.store.tidy()
    assert onlooker.rows(_RUNS) == []


def test_whoever_claimed_in_vain_leaves_the_run_as_it_was(desk: Desk, onlooker: Onlooker) -> None:
    ids = desk.intake.enqueue_copies(Job("q"), TEN)
    with onlooker.in_vain():
        assert [row[0] for row in onlooker.rows(_CLAIM)] == [*ids[:4]]
        assert take_all(desk) == [*ids[4:]]
        assert take_all(desk) == []
    assert take_all(desk) == [*ids[:4]]


def test_nobody_waits_for_whoever_is_at_a_run(desk: Desk, onlooker: Onlooker) -> None:
    ids = desk.intake.enqueue_copies(Job("q"), TEN)
    assert take_all(desk, limit=3) == [*ids[:3]]
    with onlooker.in_vain():
        onlooker.rows("SELECT 1 FROM stoker.run FOR UPDATE")
        assert take_all(desk, limit=3) == [*ids[3:6]]
        assert take_all(desk) == [*ids[6:]]
        assert take_all(desk) == []
        assert onlooker.rows(_RUNS) == [(ids[0], ids[-1])]


def test_who_comes_back_stands_where_it_stood(desk: Desk) -> None:
    ids = desk.intake.enqueue_copies(Job("q"), TEN)
    first, second = desk.dispatch.claim(["q"], 2)
    desk.report.release(first)
    desk.report.fail(second, Failure(("builtins.ValueError",), "spoilt"))
    desk.control.revive(second.id)
    assert take_all(desk) == [*ids]


def test_those_who_finish_or_fail_leave_nothing_behind(desk: Desk, onlooker: Onlooker) -> None:
    desk.intake.enqueue_copies(Job("q"), TEN)
    jobs = desk.dispatch.claim(["q"], 10)
    spoilt = Failed(Failure(("builtins.ValueError",), "spoilt"))
    desk.report.many([(job, spoilt if job.id % 2 else Finished()) for job in jobs])
    assert take_all(desk) == []
    assert onlooker.rows("SELECT id FROM stoker.job WHERE joined") == []


def test_processes_that_claim_from_runs_at_once_never_get_the_same_job(url: str) -> None:
    store = PostgresStore(url)
    desk = Desk(store)
    ids = [*desk.intake.enqueue_copies(Job("q"), [b"1"] * 700)]
    ids += [desk.intake.enqueue(Job("r")).id for _ in range(20)]
    ids += desk.intake.enqueue_copies(Job("r"), [b"1"] * 500)
    ids += desk.intake.enqueue_copies(Job("q", rank=-1), [b"1"] * 300)
    taken = [int(word) for said in in_processes(CLAIMING, 4, url, 7) for word in said.split()]
    assert sorted(taken) == sorted(ids)
    store.close()


@pytest.mark.parametrize("settings", [{}, {"key_capacity": 1}])
def test_of_jobs_between_whose_ids_others_came_all_ids_are_told(
    desk: Desk, onlooker: Onlooker, settings: dict[str, int]
) -> None:
    desk.control.adjust("q", **settings)
    onlooker.run("ALTER SEQUENCE stoker.job_id INCREMENT BY 3")
    ids = desk.intake.enqueue_copies(Job("q", key="k"), TEN)
    assert list(ids) == list(range(ids[0], ids[0] + 30, 3))
    assert [seen(desk, job_id).payload for job_id in ids] == TEN


def test_of_many_who_enqueue_at_once_each_is_told_the_ids_of_its_own(url: str) -> None:
    rounds, many = 20, 300
    desks = [Desk(PostgresStore(url)) for _ in range(3)]

    def enqueue(who: int) -> dict[int, bytes]:
        told: dict[int, bytes] = {}
        for number in range(rounds):
            payloads = [b"%d %d %d" % (who, number, place) for place in range(many)]
            ids = desks[who].intake.enqueue_copies(Job("q"), payloads)
            assert list(ids) == sorted(ids)
            told |= dict(zip(ids, payloads, strict=True))
        return told

    with ThreadPoolExecutor() as pool:
        told = {k: v for found in pool.map(enqueue, range(3)) for k, v in found.items()}
    assert len(told) == 3 * rounds * many
    some = sorted(told)[::50]
    there = desks[0].store.get(some)
    assert {job_id: there[job_id].payload for job_id in some} == {i: told[i] for i in some}
    for desk in desks:
        desk.store.close()
