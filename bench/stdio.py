"""The stdio door: full cycles a second, over a pair of pipes.

The door is a process of its own; the driver plays the creator and all workers, and answers whatever
it reads in one write. A cycle is add_job, job_assignment, job_accepted, job_finished.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import count
from statistics import median

import msgspec

from bench.engines.engine import Engine
from bench.plan import Setup
from bench.result import Column, Result, Table, Target
from bench.stopwatch import race

WORKERS = (1, 50, 500)

_ADD = (
    '{"topic":"default/job_queue/add_job","payload":'
    '{"uuid":"%d","queue_name":"q","priority":5,"command":"ffmpeg","args":["-i","x"]}}\n'
)
_WORD = (
    '{"topic":"default/job_queue/workers/%s/%s","service_uuid":"%s","created_at":"%s",'
    '"payload":{"queue_name":"q"%s}}\n'
)


class Driver:
    """The creator and all workers, at the other ends of the pipes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._to, self._from = process.stdin.fileno(), process.stdout.fileno()
        self._begun = b""
        self._numbers = count(1)

    def go_round(self, workers: int, seconds: float) -> float:
        """Cycles a second of so many workers, once all of them are at work."""
        names = [f"{workers:04d}{n:04d}-0000-0000-0000-000000000000" for n in range(workers)]
        self._say([_word(name, "worker_idle", _now()) for name in names], jobs=2 * workers)
        warm, done, left = 0, 0, 2 * workers
        while warm < workers:
            warm += self._answer(jobs=True)
        start = now = time.perf_counter()
        while now - start < seconds:
            done += self._answer(jobs=True)
            now = time.perf_counter()
        while left:
            left -= self._answer(jobs=False)
        return done / (now - start)

    def _answer(self, *, jobs: bool) -> int:
        """Do all jobs that were assigned by now, and add as many; gives how many there were."""
        *lines, self._begun = (self._begun + os.read(self._from, 2**20)).split(b"\n")
        at, words = _now(), []
        for line in lines:
            message = msgspec.json.decode(line)
            worker, uuid = message["topic"].split("/")[3], message["payload"]["uuid"]
            words.append(_word(worker, "job_accepted", at, uuid, "started_at"))
            words.append(_word(worker, "job_finished", at, uuid, "finished_at"))
        self._say(words, jobs=len(lines) if jobs else 0)
        return len(lines)

    def _say(self, words: list[str], *, jobs: int) -> None:
        left = memoryview(
            "".join([*(_ADD % next(self._numbers) for _ in range(jobs)), *words]).encode()
        )
        while left:
            left = left[os.write(self._to, left) :]


def _word(worker: str, verb: str, at: str, uuid: str = "", moment: str = "") -> str:
    about = f',"uuid":"{uuid}","{moment}":"{at}","exitcode":0' if uuid else ""
    return _WORD % (worker, verb, worker, at, about)


def _now() -> str:
    return datetime.now(UTC).isoformat()


def run(engine: Engine, setup: Setup) -> Result:
    """Let few and many workers go round."""
    with engine.place(setup.folder) as place, _driver(place.url) as driver:
        turns = {
            workers: partial(driver.go_round, workers, setup.plan.seconds) for workers in WORKERS
        }
        rates = race(turns, setup.plan.rounds, setup.along, "stdio: full cycles")
    columns = (
        Column("workers"),
        Column("cycles/s, median", ",.0f"),
        Column("cycles/s, best", ",.0f"),
    )
    table = Table(
        f"Stdio door on {engine.title}: add, assign, accept, finish",
        columns,
        tuple((workers, median(found), max(found)) for workers, found in rates.items()),
        "One process of the door, one of the driver; two jobs for each worker are on their way.",
    )
    many = WORKERS[-1]
    target = Target(f"stdio cycles/s, {many} workers", 10_000, max(rates[many]), "{:,.0f}")
    return Result((table,), (target,) if engine.name == "sqlite" else ())


@contextmanager
def _driver(url: str) -> Iterator[Driver]:
    process = subprocess.Popen(  # noqa: S603 - ourselves
        [sys.executable, "-m", "stoker", "stdio", "--store", url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield Driver(process)
    finally:
        process.communicate()
