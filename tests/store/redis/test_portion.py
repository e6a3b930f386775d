"""As many jobs are claimed at once as the server sends in one piece."""

from __future__ import annotations

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.store import MOST_AT_ONCE
from stoker.store.redis import RedisStore
from tests.servers.valkey import Server
from tests.store.conformance.acts import put, take

ONE_PIECE = 65_536
"""What a server writes to one client before it sees to the next."""
USUAL = b"x" * 100


@pytest.fixture
def desk(store: RedisStore) -> Desk:
    return Desk(store)


def fill(desk: Desk, count: int, payload: bytes) -> None:
    jobs = [Job("q", "work", payload, key=f"tenant {number}") for number in range(count)]
    desk.intake.enqueue_many(jobs)


def sent(server: Server) -> int:
    return int(server.client().info("stats")["total_net_output_bytes"])


def test_an_answer_of_so_many_jobs_comes_in_one_piece(
    server: Server, store: RedisStore, desk: Desk
) -> None:
    fill(desk, 1000, USUAL)
    assert store.portion == MOST_AT_ONCE
    desk.dispatch.claim(["q"], 100)
    first = sent(server)
    to_be_told = sent(server) - first
    wanted = store.portion
    jobs = desk.dispatch.claim(["q"], wanted)
    answer = sent(server) - first - 2 * to_be_told
    assert len(jobs) == wanted
    assert 0.8 * ONE_PIECE < answer < ONE_PIECE


def test_jobs_may_be_so_short_that_all_of_them_fit(store: RedisStore, desk: Desk) -> None:
    desk.intake.enqueue_many([Job("q")] * 100)
    desk.dispatch.claim(["q"], 100)
    assert store.portion == MOST_AT_ONCE


def test_long_jobs_are_claimed_by_the_hundred_all_the_same(store: RedisStore, desk: Desk) -> None:
    fill(desk, 100, USUAL * 100)
    desk.dispatch.claim(["q"], 100)
    assert store.portion == 250


def test_a_few_jobs_tell_nothing(store: RedisStore, desk: Desk) -> None:
    put(desk, payload=USUAL * 100)
    take(desk)
    assert store.portion == MOST_AT_ONCE
