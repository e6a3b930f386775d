"""Behind Sentinels: the primary is found, and found again after a failover."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial

import pytest

from stoker.desk import Desk
from stoker.errors import StoreUnavailable
from stoker.store.redis import RedisStore
from tests.servers.valkey import HOST
from tests.servers.valkey_groups import SERVICE, Watched, until
from tests.store.conformance.acts import put
from tests.store.load import Bystander, Load


@pytest.fixture
def watched() -> Iterator[Watched]:
    group = Watched()
    yield group
    group.remove()


def test_nothing_a_replica_has_acknowledged_is_lost_in_a_failover(watched: Watched) -> None:
    with Load(watched.url(ack="replica", patience=20)) as load:
        load.wait_for(200)
        watched.primary.kill()
        # With nobody to acknowledge, the new primary would let every writer wait.
        until(watched.has_taken_over, "the failover")
        watched.come_back()
        load.wait_for(200)
        load.assert_nothing_lost()


def test_a_primary_that_is_stuck_is_left_for_its_successor(watched: Watched) -> None:
    url = partial(watched.url, "stuck")
    with Load(url(ack="replica", patience=20)) as load:
        load.wait_for(100)
        bystander = Bystander(url(patience=3))
        watched.primary.signal(signal.SIGSTOP)
        until(watched.has_taken_over, "the failover")
        bystander.enqueue()  # in one call: only a part of its patience goes to the one that sticks
        assert bystander.hears_of("news")
        watched.primary.kill()
        watched.come_back()
        load.wait_for(100)
        load.acknowledged += bystander.enqueued
        load.assert_nothing_lost()
        assert load.troubles == []
        bystander.close()


def test_a_service_nobody_knows_is_told_about(watched: Watched) -> None:
    hosts = f"{HOST}:{watched.sentinels[0].port}"
    with pytest.raises(StoreUnavailable, match="knows no service called 'other'"):
        RedisStore(f"redis+sentinel://{hosts}/other?patience=0.1")
    one_is_down = f"redis+sentinel://{HOST}:1,{hosts}/{SERVICE}"
    store = RedisStore(one_is_down)
    assert put(Desk(store)) == 1
    store.close()
