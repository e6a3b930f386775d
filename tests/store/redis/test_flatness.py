"""What is done costs the same whether few jobs lie in the server or many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stoker.desk import Desk
from stoker.store.redis import RedisStore
from tests.engines import VirtualClock
from tests.servers import valkey
from tests.store.sqlite.test_flatness import CASES, Case

MANY = 5000


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
    "case", CASES, ids=lambda case: f"{case.fill.__name__}-{case.act.__name__}"
)
def test_it_takes_as_many_commands_with_many_jobs_as_with_few(
    case: Case, clock: VirtualClock
) -> None:
    few = commands_of(case, case.few, clock)
    many = commands_of(case, min(case.many, MANY), clock)
    assert few > 0
    # Jobs of one claim may be in several hashes, but a claim has only so many.
    assert many <= 1.5 * few + 4, f"{few} with few, {many} with many"
