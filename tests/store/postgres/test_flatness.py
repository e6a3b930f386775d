"""What a call costs does not grow with what lies in the tables. It is counted in pages that the
server looks at, which are the same on every computer and at every hour."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

import psycopg
import pytest

from stoker.desk import Desk
from stoker.kernel.change import Change, Copies
from stoker.kernel.job import Job
from stoker.kernel.outcome import Finished
from stoker.kernel.queue import QueueSettings
from stoker.kernel.rate import parse_rate
from stoker.store.postgres import PostgresStore
from tests.engines import START
from tests.servers.postgres import Server
from tests.store.flat_acts import (
    DAY,
    ask_for_the_next_due,
    beat_for_all,
    claim_and_finish,
    claim_ten,
    enqueue_ten,
    look_for_the_adrift,
    look_for_the_lost,
    look_for_the_old,
    look_for_trouble,
    start_all,
    survey,
)
from tests.store.postgres.watching import pages
from tests.store.sqlite.busy_day import desk_at

FEW, MANY = 200, 10_000


def fill(desk: Desk, count: int, **facts: Any) -> None:
    """So many jobs, all alike."""
    job = Job("q", **{"due_at": START, **facts})
    desk.store.transact([Change(inserts=Copies(job, [b"null"] * count))])


# -- what lies in the tables ---------------------------------------------------------------


def many_queued(desk: Desk, count: int) -> None:
    fill(desk, count)


def many_delayed_in_front(desk: Desk, count: int) -> None:
    fill(desk, count, rank=-1, due_at=START + DAY)
    fill(desk, 200)


def many_behind_a_full_key(desk: Desk, count: int) -> None:
    desk.control.configure("q", QueueSettings(key_capacity=1))
    fill(desk, 1, key="full")
    start_all(desk)
    fill(desk, count, key="full", rank=-1)
    fill(desk, 200)
    assert len(desk.dispatch.claim(["q"], 10)) == 10  # who shuts the lane


def many_behind_a_full_queue(desk: Desk, count: int) -> None:
    desk.control.configure("q", QueueSettings(capacity=1))
    fill(desk, 1)
    start_all(desk)
    fill(desk, count)
    fill(desk, 200, weight=0)


def many_running(desk: Desk, count: int) -> None:
    session = desk.dispatch.open_session(ttl=DAY)
    fill(desk, count)
    start_all(desk, session=session, visibility=DAY)
    fill(desk, 200)


def many_kept(desk: Desk, count: int) -> None:
    fill(desk, count)
    while jobs := desk.dispatch.claim(["q"], 1000):
        desk.report.many([(job, Finished()) for job in jobs])
    fill(desk, 200)


def fill_keys(desk: Desk, count: int, **facts: Any) -> None:
    """So many jobs, each of another key."""
    desk.intake.enqueue_many(
        [Job("q", **{"due_at": START, "key": f"{n}", **facts}) for n in range(count)]
    )


def hear_the_news(desk: Desk) -> None:
    """Claims hear of so many lanes at once, and no more."""
    for _ in range(3):
        assert len(desk.dispatch.claim(["q"], 1)) == 1


def many_keys(desk: Desk, count: int) -> None:
    desk.control.configure("q", QueueSettings(key_capacity=1000))
    fill_keys(desk, count)
    hear_the_news(desk)


def many_full_keys(desk: Desk, count: int) -> None:
    desk.control.configure("q", QueueSettings(key_capacity=1))
    fill_keys(desk, count)
    start_all(desk)
    fill_keys(desk, count, rank=-1)
    assert desk.dispatch.claim(["q"], 10) == []  # who shuts the lanes
    fill(desk, 200)
    hear_the_news(desk)


def many_keys_over_their_rate(desk: Desk, count: int) -> None:
    desk.control.configure("q", QueueSettings(key_rate=parse_rate("1 per 30d")))
    fill_keys(desk, count)
    start_all(desk)
    fill_keys(desk, count, rank=-1)
    assert desk.dispatch.claim(["q"], 10) == []  # who puts the lanes to sleep
    fill(desk, 200)
    hear_the_news(desk)


def many_who_take_turns(desk: Desk, count: int) -> None:
    desk.control.configure("q", QueueSettings(fair=True))
    fill_keys(desk, count)
    hear_the_news(desk)


def many_turns_that_are_not_due(desk: Desk, count: int) -> None:
    desk.control.configure("q", QueueSettings(fair=True))
    fill_keys(desk, count, due_at=START + DAY)
    fill(desk, 200)
    hear_the_news(desk)


def many_of_a_full_task(desk: Desk, count: int) -> None:
    desk.control.configure("q", QueueSettings(tasks={"t": 1}))
    fill_keys(desk, count, name="t", rank=-1)
    fill(desk, 200)
    hear_the_news(desk)


class Case(NamedTuple):
    """Something done twice: with a few and with many of something in the tables."""

    fill: Callable[[Desk, int], None]
    acts: tuple[Callable[[Desk], None], ...]


CASES = [
    Case(many_queued, (claim_ten, enqueue_ten, claim_and_finish, ask_for_the_next_due, survey)),
    Case(many_delayed_in_front, (claim_ten, ask_for_the_next_due)),
    Case(many_behind_a_full_key, (claim_ten,)),
    Case(many_behind_a_full_queue, (claim_ten,)),
    Case(many_keys, (claim_ten, claim_and_finish, ask_for_the_next_due)),
    Case(many_full_keys, (claim_ten,)),
    Case(many_keys_over_their_rate, (claim_ten,)),
    Case(many_who_take_turns, (claim_ten, claim_and_finish)),
    Case(many_turns_that_are_not_due, (claim_ten, ask_for_the_next_due)),
    Case(many_of_a_full_task, (claim_ten,)),
    Case(many_running, (beat_for_all, look_for_the_lost, look_for_trouble, claim_and_finish)),
    Case(many_kept, (look_for_the_old, look_for_the_adrift, look_for_trouble)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.fill.__name__)
def test_a_call_costs_the_same_however_much_there_is_that_does_not_concern_it(
    case: Case, store: PostgresStore, connection: psycopg.Connection
) -> None:
    desk = desk_at(store)
    case.fill(desk, FEW)
    few = costs(store, case, connection)
    case.fill(desk, MANY)
    many = costs(store, case, connection)
    # A tree with more rows has one storey more, and pages are not always filled alike.
    assert {name: many[name] for name in many if many[name] > 2 * few[name] + 50} == {}


def costs(store: PostgresStore, case: Case, connection: psycopg.Connection) -> dict[str, int]:
    vacuum(store, connection)
    desk = desk_at(store)
    for act in case.acts:
        act(desk)  # once before, so that nothing is looked up for the first time
    return {act.__name__: pages(store, partial(act, desk)) for act in case.acts}


def vacuum(store: PostgresStore, connection: psycopg.Connection) -> None:
    """Have the tables tidied and counted, if need be again: the server may be at it by itself."""
    for _ in range(100):
        with suppress(psycopg.errors.InternalError_):
            for table in ("job", "head", "news", "room"):
                connection.execute(f'VACUUM ANALYZE "{store.address.schema}".{table}')
            return
    raise AssertionError("the server's own vacuum never ends")


def test_the_measure_notices_a_cost_that_grows(store: PostgresStore) -> None:
    desk, counts = desk_at(store), []
    for count in (FEW, MANY):
        fill(desk, count)
        counts.append(pages(store, lambda: _look_at_all(store)))
    assert counts[1] > 3 * counts[0]


def _look_at_all(store: PostgresStore) -> object:
    count = f'SELECT count(payload) FROM "{store.address.schema}".job'  # noqa: S608
    return store._use(lambda connection: connection.execute(count).fetchall())


# -- while somebody holds an old snapshot --------------------------------------------------


@contextmanager
def an_old_snapshot(server: Server) -> Iterator[None]:
    """A transaction that keeps every dead row from being removed."""
    with psycopg.connect(server.url()) as other:
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT count(*) FROM pg_class")
        yield


def drained(desk: Desk, count: int) -> int:
    """The pages of the last of many claims, each with the reports of the jobs before."""
    store = desk.store
    assert isinstance(store, PostgresStore)
    jobs: list[Job] = []
    for _ in range(count // 50):
        request = desk.dispatch.request(["q"], 50)
        _, grants = desk.report.many([(job, Finished()) for job in jobs], [request])
        jobs = list(grants[0] or ())
        assert len(jobs) == 50
    return pages(store, lambda: desk.dispatch.claim(["q"], 3))


@pytest.mark.parametrize("places", [None, 1])
def test_claims_do_not_pass_the_dead_while_a_snapshot_keeps_them(
    url: str, server: Server, monkeypatch: pytest.MonkeyPatch, places: int | None
) -> None:
    # The looks at the whole, once a second, are not what is measured here.
    monkeypatch.setattr("stoker.store.postgres.marks._LOOK_EVERY", DAY)
    store = PostgresStore(url)
    desk = Desk(store)
    desk.control.configure("q", QueueSettings(key_capacity=places))
    due_at = store.now() - 60_000_000
    keys = [None if places is None else f"{n}" for n in range(6000)]
    desk.intake.enqueue_many([Job("q", due_at=due_at, key=key) for key in keys])
    with an_old_snapshot(server):
        early, late = drained(desk, 500), drained(desk, 4000)
        assert late < 1.5 * early
        store._marks.forget("q")
        assert pages(store, lambda: desk.dispatch.claim(["q"], 3)) > 2 * late
    store.close()
