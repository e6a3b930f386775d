"""What is done costs the same whether few jobs lie in the server or many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stoker.desk import Desk
from stoker.kernel.change import Change
from stoker.kernel.job import Job
from stoker.kernel.queue import QueueSettings
from stoker.kernel.rate import parse_rate
from stoker.store.redis import RedisStore
from tests.engines import START, VirtualClock
from tests.servers import valkey
from tests.store.flat_acts import DAY, claim_ten, start_all
from tests.store.sqlite.test_flatness import CASES, Case, fill

MANY = 5000


def by_key(desk: Desk, count: int, **facts: Any) -> None:
    """So many jobs, each with a key of its own."""
    jobs = [Job("q", key=f"key-{n}", **{"due_at": START, **facts}) for n in range(count)]
    desk.store.transact([Change(inserts=tuple(jobs))])


def many_of_a_key_over_its_rate(desk: Desk, count: int) -> None:
    desk.control.configure("q", QueueSettings(key_rate=parse_rate("1 per hour")))
    fill(desk, 1, key="busy")
    start_all(desk)
    fill(desk, count, key="busy", rank=-1)
    by_key(desk, 100)


def many_keys_over_their_rates(desk: Desk, count: int) -> None:
    desk.control.configure("q", QueueSettings(key_rate=parse_rate("1 per hour")))
    by_key(desk, count, rank=-1)
    by_key(desk, count, rank=-1)
    start_all(desk)
    fill(desk, 100)


def many_of_a_full_task(desk: Desk, count: int) -> None:
    desk.control.configure("q", QueueSettings(tasks={"t": 1}))
    fill(desk, 1, name="t")
    start_all(desk)
    fill(desk, count, name="t", rank=-1)
    by_key(desk, count, name="t", rank=-1)
    fill(desk, 100)


def many_keys_that_take_turns(desk: Desk, count: int) -> None:
    desk.control.configure("q", QueueSettings(fair=True))
    for _ in range(3):
        by_key(desk, count)


def many_keys_with_nothing_due(desk: Desk, count: int) -> None:
    desk.control.configure("q", QueueSettings(fair=True))
    by_key(desk, count, due_at=START + DAY)
    fill(desk, 100, key="due")


WITH_CARE = [
    Case(filled, claim_ten, 20, MANY)
    for filled in (
        many_of_a_key_over_its_rate,
        many_keys_over_their_rates,
        many_of_a_full_task,
        many_keys_that_take_turns,
        many_keys_with_nothing_due,
    )
]


def commands(client: Any) -> int:
    """All that ran in the server, those inside of functions included."""
    stats = client.info("commandstats")
    return sum(figures["calls"] for figures in stats.values())


def commands_of(case: Case, count: int, clock: VirtualClock) -> int:
    """How many commands an act takes with so many jobs in the server."""
    server = valkey.default_server()
    with valkey.prefix(server) as prefix, server.client() as client:
        store = RedisStore(server.url(prefix), clock=clock)
        desk = Desk(store)
        case.fill(desk, count)
        act: Callable[[Desk], None] = case.act
        act(desk)  # whatever is done but once, is done now
        before = commands(client)
        act(desk)
        taken = commands(client) - before
        store.close()
    return taken


@pytest.mark.parametrize(
    "case", [*CASES, *WITH_CARE], ids=lambda case: f"{case.fill.__name__}-{case.act.__name__}"
)
def test_it_takes_as_many_commands_with_many_jobs_as_with_few(
    case: Case, clock: VirtualClock
) -> None:
    few = commands_of(case, case.few, clock)
    many = commands_of(case, min(case.many, MANY), clock)
    assert few > 0
    # Jobs of one claim may be in several hashes, but a claim has only so many.
    assert many <= 1.5 * few + 4, f"{few} with few, {many} with many"
