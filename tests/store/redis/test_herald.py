"""News for whoever waits leave the server before the caller's answer, and only to who listens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stoker import State
from stoker.desk import Desk
from stoker.store import Claim, Session
from stoker.store.bell import Listener
from stoker.store.redis import RedisStore
from stoker.store.redis.connection import HERALD, connect, packed
from stoker.store.redis.options import read_options
from stoker.store.redis.partition import Partition
from stoker.store.rings import errand_ring
from tests.servers import valkey
from tests.servers.valkey import Server
from tests.store.conformance.acts import SECOND, put, state, take
from tests.worker.waiting import until

WORKER = 7


@pytest.fixture
def desk(store: RedisStore) -> Desk:
    desk = Desk(store)
    store.enrol(Session(WORKER), 10 * SECOND)
    put(desk)
    desk.report.finish(take(desk))
    return desk


@pytest.fixture
def ear(store: RedisStore) -> Iterator[Listener]:
    ear = store.bell.listen()
    yield ear
    ear.close()


def stand(store: RedisStore, ear: Listener) -> None:
    claim = Claim(("q",), 1, 2**61 + 1, WORKER, None, stands=ear.address)
    assert store.transact([], [claim]).grants == [[]]


def is_heralded(store: RedisStore) -> bool:
    partition = store._jobs
    assert isinstance(partition, Partition)
    return partition._is_awaited


def test_a_herald_goes_ahead_as_long_as_somebody_waits(
    store: RedisStore, desk: Desk, ear: Listener
) -> None:
    ids = []
    for _ in range(3):
        stand(store, ear)
        ids.append(put(desk))
        assert is_heralded(store)
        assert errand_ring(WORKER) in ear.wait(10)
        assert [job.id for job in ear.brought()] == ids[-1:]
    assert state(desk, put(desk)) is State.QUEUED
    assert not is_heralded(store)
    assert len({*ids}) == 3


def test_whoever_listens_no_more_is_not_served(
    server: Server, store: RedisStore, desk: Desk
) -> None:
    ear = store.bell.listen()
    stand(store, ear)
    channels = ("PUBSUB", "SHARDCHANNELS", f"*:bell:{ear.address}")
    with server.client() as client:
        assert client.execute_command(*channels)
        ear.close()
        until(lambda: not client.execute_command(*channels), "for the server to notice")
    assert state(desk, put(desk)) is State.QUEUED


def test_what_a_herald_is_answered_does_not_matter() -> None:
    with valkey.server() as server:
        with server.client() as client:
            client.execute_command("ACL", "SETUSER", "mute", "on", "nopass", "-@all", "+echo")
        for user in ("", "mute:any@"):
            options = read_options(f"unix://{user}{server.socket}")
            line = connect(options, options.addresses[0])
            assert line.exchange(HERALD + packed("ECHO", "a")) == b"a"
            assert line.exchange(packed("ECHO", "b")) == b"b"
            line.disconnect()
