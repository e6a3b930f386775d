"""Behind Sentinels: the primary is found, and found again after a failover."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial

import pytest

from stoker.desk import Desk
from stoker.errors import StoreUnavailable
from stoker.store.redis import RedisStore
from tests.servers.valkey import HOST, Server
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
        until(watched.successor, "the failover")
        watched.come_back()
        load.wait_for(200)
        load.assert_nothing_lost()


def test_a_primary_that_is_stuck_is_left_for_its_successor(watched: Watched) -> None:
    url = partial(watched.url, "stuck")
    with Load(url(ack="replica", patience=20)) as load:
        load.wait_for(100)
        bystander = Bystander(url(patience=3))
        watched.primary.signal(signal.SIGSTOP)
        until(watched.successor, "the failover")
        bystander.enqueue()  # in one call: only a part of its patience goes to the one that sticks
        assert bystander.hears_of("news")
        watched.primary.kill()
        watched.come_back()
        load.wait_for(100)
        load.acknowledged += bystander.enqueued
        load.assert_nothing_lost()
        assert load.troubles == []
        bystander.close()


def test_an_old_primary_that_goes_on_takes_nothing_in_without_a_replica() -> None:
    group = Watched({"min-replicas-to-write": "1", "min-replicas-max-lag": "2"}, replicas=2)
    early = RedisStore(group.url(patience=20))
    ids = [put(Desk(early))]
    (finding,) = [finding for finding in early.check() if finding.subject == "failover"]
    assert "min-replicas-to-write" not in finding.text
    for replica in group.replicas:
        until(last_id, "what was written", replica)
    group.primary.signal(signal.SIGSTOP)
    until(group.all_know_the_successor, "the failover")
    group.primary.signal(signal.SIGCONT)  # it takes ten seconds until the Sentinels demote it
    late = RedisStore(group.url(patience=20))
    ids += [put(Desk(early)), put(Desk(late)), put(Desk(early))]
    assert ids == [1, 2, 3, 4]
    assert sorted(late.get(ids)) == ids
    for store in (early, late):
        store.close()
    group.remove()


def last_id(server: Server) -> object:
    with server.client() as client:
        return client.get("{stoker.0}:id")


def test_a_service_nobody_knows_is_told_about(watched: Watched) -> None:
    hosts = f"{HOST}:{watched.sentinels[0].port}"
    with pytest.raises(StoreUnavailable, match="knows no service called 'other'"):
        RedisStore(f"redis+sentinel://{hosts}/other?patience=0.1")
    one_is_down = f"redis+sentinel://{HOST}:1,{hosts}/{SERVICE}"
    store = RedisStore(one_is_down)
    assert put(Desk(store)) == 1
    (finding,) = [finding for finding in store.check() if finding.subject == "failover"]
    assert "goes on to take in (set min-replicas-to-write 1)" in finding.text
    store.close()
