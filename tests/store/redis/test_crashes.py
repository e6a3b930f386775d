"""Servers that crash, restart and are halted, while producers and workers go on."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from stoker import Stoker
from stoker.desk import Desk
from stoker.errors import StoreUnavailable
from stoker.store.open import open_store
from stoker.store.redis import RedisStore
from tests.servers import valkey
from tests.servers.valkey import DURABLE, Server
from tests.store.conformance.acts import put
from tests.store.load import PATIENCE, Load


@pytest.fixture
def durable() -> Iterator[Server]:
    with valkey.server(DURABLE) as server:
        yield server


def test_nothing_acknowledged_is_lost_when_the_server_is_killed(durable: Server) -> None:
    with Load(durable.url()) as load:
        for _ in range(4):
            load.wait_for(150)
            durable.kill()
            durable.start()
        load.wait_for(150)
        load.assert_nothing_lost()


def test_a_server_that_was_halted_longer_than_patience_does_nothing_twice(durable: Server) -> None:
    with Load(durable.url(patience=0.3)) as load:
        for _ in range(2):
            load.wait_for(100)
            durable.signal(signal.SIGSTOP)
            time.sleep(1.6)  # calls are given up, made again, and wait in the server's ear
            durable.signal(signal.SIGCONT)
        load.wait_for(100)
        assert load.troubles
        load.assert_nothing_lost()


def test_a_worker_goes_on_after_a_restart_of_the_server(durable: Server) -> None:
    app = Stoker(durable.url())
    done: list[int] = []
    task = app.task(name="note")(done.append)
    worker = app.worker(concurrency=2)
    worker.start()
    try:
        task.enqueue(1).wait(timeout="30s")
        durable.kill()
        durable.start()
        task.enqueue(2).wait(timeout="30s")
        durable.stop()
        durable.start()
        task.enqueue(3).wait(timeout="30s")
    finally:
        worker.stop()
        app.close()
    assert done == [1, 2, 3]


def test_a_listener_hears_again_after_a_restart(durable: Server) -> None:
    store = open_store(durable.url())
    ear = store.bell.listen()
    durable.stop()
    durable.start()
    deadline = time.monotonic() + PATIENCE
    heard: set[str] = set()
    while heard != {"q"}:
        assert time.monotonic() < deadline
        put(Desk(store))
        heard = ear.wait(1)
    ear.close()
    store.close()


def test_opening_waits_for_a_server_that_is_just_starting(durable: Server) -> None:
    RedisStore(durable.url()).close()
    durable.stop()
    with pytest.raises(StoreUnavailable):
        RedisStore(durable.url(patience=0.05))
    durable.start()
    RedisStore(durable.url()).close()
