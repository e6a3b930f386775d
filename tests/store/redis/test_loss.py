"""The server is killed at the worst moment: what is gone then is what the page on Redis says."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from stoker import Stoker
from stoker.desk import Desk
from stoker.errors import LeaseLost
from stoker.kernel.job import State
from stoker.store import Filter
from stoker.store.redis import RedisStore
from tests.servers import valkey
from tests.servers.halted_thread import halted
from tests.servers.valkey import PATIENCE, Server
from tests.store.conformance.acts import put, take
from tests.store.redis.test_durability import EVERYSEC

SYNCS = "bio_aof"
"""The thread that brings the log to the disk once a second."""


def found(server: Server) -> list[int]:
    """Who is there for somebody who has just come."""
    store = RedisStore(server.url())
    ids = [job.id for job in store.find(Filter(limit=100_000))]
    store.close()
    return ids


@contextmanager
def killed_while_its_disk_is_slow(server: Server) -> Iterator[None]:
    """What happens in here is all that it will have done since its disk became slow."""
    with halted(server.pid, SYNCS):
        yield
        server.signal(signal.SIGKILL)
    server.stop()
    server.start()


def holds_back(server: Server) -> bool:
    """Is there something that it has acknowledged and not even written?"""
    with server.client() as client:
        return bool(client.info("persistence")["aof_buffer_length"] > 0)


# -- a log ---------------------------------------------------------------------------------


def test_a_crash_in_the_middle_of_a_sync_takes_along_what_was_acknowledged_since() -> None:
    with valkey.server(EVERYSEC) as server:
        store = RedisStore(server.url())
        desk = Desk(store)
        with killed_while_its_disk_is_slow(server):
            deadline, ids = time.monotonic() + PATIENCE, [put(desk)]
            while not holds_back(server):
                assert time.monotonic() < deadline
                ids.append(put(desk))
        kept = found(server)
        assert kept == ids[: len(kept)] != ids
        assert put(desk) == ids[-1] + 1, "a number that was given is not given again"
        store.close()


@pytest.mark.parametrize("policy", ["no", "always"])
def test_without_a_sync_in_the_background_a_crash_takes_nothing_along(policy: str) -> None:
    with valkey.server(EVERYSEC | {"appendfsync": policy}) as server:
        store = RedisStore(server.url())
        with killed_while_its_disk_is_slow(server):
            ids = [put(Desk(store)) for _ in range(5)]
        assert found(server) == ids
        store.close()


def test_a_valkey_confirms_what_it_has_not_synced() -> None:
    """Why it is refused where the disk is to be waited for. When this fails it need not be any
    more: see `durability`."""
    with valkey.server(EVERYSEC) as server, halted(server.pid, SYNCS), server.client() as client:
        confirmed = False
        for number in range(100):
            client.set("it", number)
            confirmed |= client.execute_command("WAITAOF", 1, 0, 1) == [1, 0]
    assert confirmed


# -- no log --------------------------------------------------------------------------------


def test_without_a_log_a_crash_takes_everything_along_and_all_go_on() -> None:
    with valkey.server() as server:
        app, done = Stoker(server.url()), list[int]()
        task = app.task(name="note")(done.append)
        worker = app.worker(concurrency=2)
        worker.start()
        try:
            task.enqueue(1).wait(timeout="30s")
            lost = task.options(delay="1h").enqueue(2)
            server.kill()
            server.start()
            again = task.enqueue(3)
            again.wait(timeout="30s")
            assert again.id > lost.id
            assert [job.id for job in app.desk.store.find(Filter())] == [again.id]
        finally:
            worker.stop()
            app.close()
        assert done == [1, 3]


def test_without_a_log_all_is_as_it_was_at_the_last_snapshot() -> None:
    with valkey.server() as server:
        store = RedisStore(server.url())
        desk = Desk(store)
        first, second = put(desk), put(desk)
        held = take(desk)
        with server.client() as client:
            client.save()
        desk.report.finish(held)
        last = put(desk)
        late = take(desk)
        server.kill()
        server.start()
        states = {job.id: job.state for job in store.find(Filter())}
        assert states == {first: State.RUNNING, second: State.QUEUED}
        with pytest.raises(LeaseLost):
            desk.report.finish(late)
        desk.report.finish(held)
        assert put(desk) == last + 1
        store.close()
