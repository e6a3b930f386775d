"""Many on one store: limits hold, threads and forks are apart, and waiting costs nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job, State
from stoker.kernel.queue import QueueSettings
from stoker.store import Filter
from stoker.store.open import open_store
from stoker.store.redis import RedisStore
from tests.faults.nemesis import ROOT, environment
from tests.faults.test_fork import exit_code, forked
from tests.servers import valkey
from tests.servers.valkey import Server
from tests.store.conformance.acts import put, take

PROCESSES = 3


def test_no_limit_is_ever_exceeded(server: Server, prefix: str) -> None:
    url = server.url(prefix)
    desk = Desk(open_store(url))
    desk.control.configure("narrow", QueueSettings(capacity=4))
    desk.control.configure("keyed", QueueSettings(key_capacity=1))
    desk.intake.enqueue_many([Job("narrow", weight=500 * (n % 3)) for n in range(150)])
    desk.intake.enqueue_many([Job("keyed", key=f"k{n % 5}") for n in range(150)])
    command = [sys.executable, "-m", "tests.store.redis.limited", url, "narrow", "keyed"]
    workers = [
        subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    most = [int(worker.communicate(timeout=60)[0]) for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * PROCESSES
    assert 0 < max(most) <= 5000  # four units, or one for each of five keys
    narrow, keyed = (desk.store.survey([queue])[0] for queue in ("narrow", "keyed"))
    assert (narrow.counts[State.FINISHED], keyed.counts[State.FINISHED]) == (150, 150)
    assert (narrow.used, keyed.used) == (0, 0)
    desk.store.close()


def test_threads_share_a_store_and_mix_nothing_up(server: Server, prefix: str) -> None:
    store = RedisStore(server.url(prefix))
    placed: dict[int, str] = {}

    def enqueue(thread: int) -> None:
        for number in range(30):
            name = f"{thread}/{number}"
            placed[Desk(store).intake.enqueue(Job("q", name)).id] = name

    threads = [threading.Thread(target=enqueue, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {job.id: job.name for job in store.find(Filter(limit=1000))} == placed
    assert len(placed) == 240
    store.close()


def test_a_store_that_was_open_before_a_fork_works_on_both_sides(
    server: Server, prefix: str
) -> None:
    store = RedisStore(server.url(prefix))
    desk = Desk(store)
    put(desk, name="before")

    def live() -> None:
        for _ in range(20):
            put(desk, name="child")
        assert len(store.find(Filter(limit=1000))) >= 21

    child = forked(live)
    for _ in range(20):
        put(desk, name="parent")
    assert exit_code(child) == 0
    names = Counter(job.name for job in store.find(Filter(limit=1000)))
    assert names == {"before": 1, "child": 20, "parent": 20}
    store.close()


def test_an_idle_listener_sends_nothing_at_all() -> None:
    with valkey.server() as own:
        store = RedisStore(own.url())
        ear = store.bell.listen()
        with own.client() as client:
            client.config_resetstat()
            assert ear.wait(0.3) == set()
            assert set(client.info("commandstats")) == {"cmdstat_config|resetstat"}
        ear.close()
        store.close()


def test_a_ring_wakes_a_sleeper(server: Server, prefix: str) -> None:
    store = RedisStore(server.url(prefix))
    ear = store.bell.listen()
    heard: list[set[str]] = []
    sleeper = threading.Thread(target=lambda: heard.append(ear.wait(30)))
    sleeper.start()
    put(Desk(store), "q")
    sleeper.join()
    assert heard == [{"q"}]
    ear.close()
    store.close()


def test_a_wait_can_be_interrupted(server: Server, prefix: str) -> None:
    store = RedisStore(server.url(prefix))
    ear = store.bell.listen()
    ear.interrupt()
    assert ear.wait(30) == set()
    ear.close()
    store.close()


def test_whoever_rings_by_hand_is_heard(server: Server, prefix: str) -> None:
    store = RedisStore(server.url(prefix, partitions=2))
    ear = store.bell.listen()
    store.bell.ring(["a", "b"])
    assert ear.wait(10) == {"a", "b"}
    ear.close()
    store.close()


def test_the_clock_is_the_servers_whatever_the_machine_says(
    server: Server, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = time.time_ns() + 3600 * 10**9
    monkeypatch.setattr(time, "time", lambda: wrong / 1e9)
    monkeypatch.setattr(time, "time_ns", lambda: wrong)
    store = RedisStore(server.url(prefix))
    desk = Desk(store)
    job_id = put(desk)
    job = take(desk)
    assert job.id == job_id
    with server.client() as client:
        seconds, micros = client.time()
    assert job.started_at is not None
    assert abs(seconds * 10**6 + micros - job.started_at) < 60 * 10**6
    assert job.created_at <= job.started_at <= store.now()
    store.close()
