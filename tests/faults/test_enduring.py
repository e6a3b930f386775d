"""Servers crash, restart, stick and are succeeded; workers and producers go on by themselves."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Self

import pytest
from redis.crc import key_slot

from stoker import Stoker
from stoker.errors import StoreError
from stoker.kernel.job import Job, State
from tests.faults.enduring import note, noted
from tests.faults.nemesis import ROOT, environment
from tests.servers import postgres, valkey
from tests.servers.valkey import DURABLE
from tests.servers.valkey_groups import Watched, default_cluster, until

WORKERS = 2
ROUND = 60
"""So many jobs are run before and after each trouble."""

Trouble = Callable[[], None]
Scene = tuple[str, list[Trouble]]
"""The URL of a store, and what happens to its servers, one after the other."""


@contextmanager
def restarted_postgres() -> Iterator[Scene]:
    server = postgres.Server(next(iter(postgres.binaries().values())), settings=())
    try:
        yield server.url("stoker"), restarts(server)
    finally:
        server.remove()


@contextmanager
def restarted_redis() -> Iterator[Scene]:
    with valkey.server(DURABLE) as server:
        yield server.url(), restarts(server)


def restarts(server: postgres.Server | valkey.Server) -> list[Trouble]:
    def crash() -> None:
        server.kill()
        server.start()

    def restart() -> None:
        server.stop()
        server.start()

    return [crash, restart]


@contextmanager
def watched_by_sentinels() -> Iterator[Scene]:
    group = Watched()

    def stick_and_never_return() -> None:
        group.primary.signal(signal.SIGSTOP)
        until(group.successor, "the failover")
        group.primary.kill()
        group.come_back()

    try:
        yield group.url(ack="replica"), [stick_and_never_return]
    finally:
        group.remove()


@contextmanager
def in_a_cluster() -> Iterator[Scene]:
    cluster = default_cluster()

    def leader() -> int:
        return cluster.serving(key_slot(b"{enduring.0}"))

    def crash() -> None:
        victim = leader()
        cluster.servers[victim].kill()
        until(cluster.leads, "the failover", cluster.partner(victim))
        cluster.servers[victim].start()
        until(cluster.follows, "the return of the old primary", victim)

    def stick() -> None:
        victim = leader()
        cluster.servers[victim].signal(signal.SIGSTOP)
        until(cluster.leads, "the failover", cluster.partner(victim))
        cluster.servers[victim].signal(signal.SIGCONT)
        until(cluster.follows, "the return of the old primary", victim)

    yield cluster.url("enduring", ack="replica", partitions=3), [crash, stick]


class Producer:
    """Enqueues until it is told to stop, and knows what was acknowledged."""

    def __init__(self, app: Stoker, journal: Path) -> None:
        self.acknowledged: dict[int, int] = {}
        """Numbers by the ids of their jobs."""
        self._task, self._journal = app.task(note), str(journal)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._over.wait(0.005):
            number += 1
            with suppress(StoreError):
                job = self._task.enqueue(number, self._journal)
                self.acknowledged[job.id] = number


@contextmanager
def workers(url: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    command = [sys.executable, "-m", "tests.faults.enduring", url]
    begun = [subprocess.Popen(command, cwd=ROOT, env=environment()) for _ in range(WORKERS)]
    try:
        yield begun
    finally:
        for process in begun:
            process.kill()
            process.wait()


def all_have_ended(app: Stoker, ids: list[int]) -> bool:
    jobs: dict[int, Job] = {}
    with suppress(StoreError):
        jobs = app.desk.store.get(ids)
    return [job.state for job in jobs.values()] == [State.FINISHED] * len(ids)


@pytest.mark.parametrize(
    "scene", [restarted_postgres, restarted_redis, watched_by_sentinels, in_a_cluster]
)
def test_workers_go_on_by_themselves_whatever_befalls_their_servers(
    scene: Callable[[], AbstractContextManager[Scene]], tmp_path: Path
) -> None:
    journal = tmp_path / "journal"

    def until_more_are_run() -> None:
        enough = len(noted(journal)) + ROUND
        until(lambda: len(noted(journal)) >= enough, "the next round")

    with scene() as (url, troubles), workers(url) as processes:
        app = Stoker(url)
        with Producer(app, journal) as producer:
            until(lambda: len({pid for _, pid in noted(journal)}) == WORKERS, "all workers")
            for happen in troubles:
                happen()
                until_more_are_run()
        until(lambda: all_have_ended(app, list(producer.acknowledged)), "the end of all jobs")
        assert set(producer.acknowledged.values()) <= {number for number, _ in noted(journal)}
        for process in processes:
            assert process.poll() is None
            process.send_signal(signal.SIGTERM)
        assert [process.wait(60) for process in processes] == [0] * WORKERS
        app.close()
