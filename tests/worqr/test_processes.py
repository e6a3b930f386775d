"""Peers in processes of their own, with nothing between them but the store."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import stoker
from stoker.store import Filter
from stoker.store.open import open_store
from stoker.worqr import EventType, Worqr
from tests.worqr.playing import Ear, played

HOLDER = Path(__file__).with_name("holder.py")
LASTING = {"worker_timeout": -1, "worker_cleanup_interval": 0.2}
SOURCE = str(Path(stoker.__file__).parents[1])


class Elsewhere:
    """A peer in another process, and the tasks it tells of."""

    def __init__(self, url: str, name: str, act: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HOLDER), url, name, act],
            env=os.environ | {"PYTHONPATH": SOURCE},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.tasks: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.tasks.put(line.strip())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()


Start = Callable[[str, str], Elsewhere]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def start(url: str) -> Iterator[Start]:
    begun: list[Elsewhere] = []

    def run(name: str, act: str) -> Elsewhere:
        begun.append(Elsewhere(url, name, act))
        return begun[-1]

    yield run
    for each in begun:
        each.kill()


@played
async def test_the_task_of_a_peer_that_is_killed_is_the_next_one_for_the_others(
    url: str, start: Start
) -> None:
    async with Worqr(url, worker_id="bob", **LASTING) as bob:
        await bob.enqueue("q", ["one", "two", "three"])
        ann = start("ann", "hold")
        assert ann.tasks.get(timeout=30) == "one"
        await bob.start_worker()
        await bob.start_work("q")
        kept = await bob.start_task("q")
        assert kept is not None and kept.task == "two"
        ear = Ear(bob)
        ann.kill()
        while (await ear.until(EventType.WORK)).count != 2:
            pass
        assert await bob.get_tasks("q") == ["one", "three"]
        assert "ann" not in await bob.get_workers()
        await bob.finish_task(kept.id)


@played
async def test_a_peer_elsewhere_hears_of_work_and_does_it(url: str, start: Start) -> None:
    async with Worqr(url, worker_id="bob", **LASTING) as bob:
        await bob.start_worker()
        await bob.start_work("q")
        ear = Ear(bob)
        ann = start("ann", "drain")
        for number in range(3):
            await bob.enqueue("q", f"task {number}")
            assert ann.tasks.get(timeout=30) == f"task {number}"
            done = (await ear.until(EventType.DONE)).done
            assert (done.worker_id, done.task) == ("ann", f"task {number}")


@played
async def test_however_often_peers_are_killed_every_task_is_done(url: str, start: Start) -> None:
    kills = 0
    store = open_store(url)
    async with Worqr(store, **LASTING) as publisher:
        await publisher.enqueue("q", [f"task {number}" for number in range(500)])
        peers = [start(f"peer {number}", "drain") for number in range(2)]
        while store.find(Filter()):
            if kills < 3:
                kills += 1
                peers[kills % 2].tasks.get(timeout=30)  # it is at work
                peers[kills % 2].kill()
                peers[kills % 2] = start(f"heir {kills}", "drain")
            await publisher.cleanup_workers()
        assert kills == 3
    store.close()
