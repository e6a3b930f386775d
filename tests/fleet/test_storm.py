"""Real workers in a storm of signals: whatever was acknowledged is done, and done once.

STOKER_TORTURE_SECONDS sets the length of the storm, STOKER_TORTURE_SEED the nemesis's dice.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

from stoker import Stoker
from stoker.client.task import Call
from stoker.errors import StoreError
from stoker.kernel.job import LIVE, Job, State
from stoker.store import Filter, Session
from stoker.watch.recover import recover
from tests.fleet.fleet import Fleet, app_in, pids, running

SECONDS = float(os.environ.get("STOKER_TORTURE_SECONDS", "20"))
SEED = int(os.environ.get("STOKER_TORTURE_SEED", "1"))
CALM_SECONDS = 60.0
JOBS_A_SECOND = 75
BATCH = 25
LEAST_KILLS, LEAST_STOPS = 20, 5
KEY_CAPACITY = 2

TASKS = """
import asyncio, os, time
from pathlib import Path
from stoker import Context, Stoker

HERE = Path(__file__).parent
app = Stoker(f"sqlite:///{HERE / 'jobs.db'}")
log = os.open(HERE / f"runs-{os.getpid()}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def note(ctx):
    run = [ctx.job.id, ctx.token, ctx.attempt]
    os.write(log, (" ".join(map(str, run)) + "\\n").encode())
    return run

@app.task(name="quick", crash_limit=None)
def quick(ctx: Context) -> list[int]:
    return note(ctx)

@app.task(name="quick_async", crash_limit=None)
async def quick_async(ctx: Context) -> list[int]:
    return note(ctx)

@app.task(name="sleeper", crash_limit=None)
async def sleeper(ctx: Context) -> list[int]:
    await asyncio.sleep(0.02)
    return note(ctx)

@app.task(name="flaky", crash_limit=None, retry="fixed 50ms x1000")
def flaky(ctx: Context) -> list[int]:
    run = note(ctx)
    if ctx.job.failures < 3:
        raise ConnectionError("not yet")
    return run

@app.task(name="child", crash_limit=None)
def child(ctx: Context) -> list[int]:
    return note(ctx)

@app.task(name="parent", crash_limit=None)
def parent(ctx: Context) -> list[int]:
    if not ctx.job.open_children + ctx.job.finished_children:
        ctx.spawn([child.call(), child.call()])
    return note(ctx)

@app.task(name="keyed", queue="keyed", crash_limit=None)
def keyed(ctx: Context) -> list[int]:
    time.sleep(0.01)
    return note(ctx)
"""
NAMES = ("quick", "quick_async", "sleeper", "flaky", "parent", "keyed")


class Nemesis(threading.Thread):
    """Kills, stops and ends worker processes of one fleet, and no others."""

    def __init__(self, fleet: Fleet, app: Stoker) -> None:
        super().__init__(name="nemesis")
        self._fleet = fleet
        self._app = app
        self._dice = random.Random(SEED)
        self._over = threading.Event()
        self._suspended: dict[int, threading.Timer] = {}
        self.acts: Counter[str] = Counter()

    def run(self) -> None:
        acts = ("kill", "stop", "term")
        while not self._over.wait(self._dice.uniform(0.1, 0.5)):
            (act,) = self._dice.choices(acts, weights=(6, 2, 1))
            victims = [pid for pid in sorted(pids(self._app)) if self._fleet.has(pid)]
            if victims:
                self._strike(act, self._dice.choice(victims))

    def _strike(self, act: str, pid: int) -> None:
        if act == "stop":
            self._suspend(pid)
        else:
            self._send(pid, signal.SIGKILL if act == "kill" else signal.SIGTERM)
        self.acts[act] += 1

    def _suspend(self, pid: int) -> None:
        self._send(pid, signal.SIGSTOP)
        seconds = self._dice.uniform(0.5, 3.0)
        timer = threading.Timer(seconds, self._send, (pid, signal.SIGCONT))
        timer.start()
        self._suspended[pid] = timer

    def _send(self, pid: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self._fleet.has(pid):
                os.kill(pid, number)

    @property
    def satisfied(self) -> bool:
        return self.acts["kill"] >= LEAST_KILLS and self.acts["stop"] >= LEAST_STOPS

    def end(self) -> None:
        """Strike no more; whoever was stopped goes on in the end."""
        self._over.set()
        self.join()
        for timer in self._suspended.values():
            timer.join()


class Producer:
    """Enqueues through the storm and remembers what was acknowledged."""

    def __init__(self, app: Stoker) -> None:
        self._app = app
        self._dice = random.Random(SEED + 1)
        self.acknowledged: dict[int, str] = {}
        self.refused = 0
        self.crowded: list[dict[str, int]] = []
        self.samples = 0

    def work(self, nemesis: Nemesis) -> None:
        """Until the storm is over; longer, up to twice, if too little has happened in it."""
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < SECONDS or not nemesis.satisfied:
            if passed > 2 * SECONDS:
                return
            if len(self.acknowledged) < min(passed, SECONDS) * JOBS_A_SECOND:
                self._enqueue()
            self.look_at_keys()
            time.sleep(0.02)

    def _enqueue(self) -> None:
        calls = [self._call(self._dice.choice(NAMES)) for _ in range(BATCH)]
        try:
            handles = self._app.enqueue_many(calls)
        except StoreError:
            self.refused += len(calls)  # never acknowledged, whatever became of them
            return
        for call, handle in zip(calls, handles, strict=True):
            self.acknowledged[handle.id] = call.task.name

    def _call(self, name: str) -> Call:
        task = self._app[name]
        return (task.options(key=self._dice.choice("abc")) if name == "keyed" else task).call()

    def look_at_keys(self) -> None:
        """Take a sample of how many jobs run under each key."""
        at_work = Filter(states=(State.RUNNING,), queue="keyed", limit=1000)
        held = Counter(job.key or "" for job in self._app.desk.store.find(at_work))
        self.samples += bool(held)
        if any(count > KEY_CAPACITY for count in held.values()):
            self.crowded.append(dict(held))


def wait_for_calm(app: Stoker, producer: Producer) -> None:
    """Wait until nothing is left to do; what is left then shows up in the ledger."""
    deadline = time.monotonic() + CALM_SECONDS
    unfinished = Filter(states=tuple(LIVE), limit=1)
    while app.desk.store.find(unfinished) and time.monotonic() < deadline:
        producer.look_at_keys()
        time.sleep(0.02)


def all_jobs(app: Stoker) -> dict[int, Job]:
    jobs: dict[int, Job] = {}
    while page := app.desk.store.find(Filter(after=max(jobs, default=None), limit=1000)):
        jobs.update((job.id, job) for job in page)
    return jobs


def logged_runs(folder: Path) -> set[bytes]:
    """Every run that came to its end, as the job's result would say it."""
    lines = [line for log in folder.glob("runs-*.log") for line in log.read_bytes().splitlines()]
    return {b"[" + line.replace(b" ", b",") + b"]" for line in lines}


def show(jobs: dict[int, Job], runs: set[bytes], nemesis: Nemesis, producer: Producer) -> None:
    print(f"\n{'task':<12}{'jobs':>6}{'finished':>10}{'attempts':>10}{'crashes':>9}")
    for name in (*NAMES, "child"):
        of = [job for job in jobs.values() if job.name == name]
        finished = sum(job.state is State.FINISHED for job in of)
        attempts, crashes = sum(job.attempt for job in of), sum(job.crashes for job in of)
        print(f"{name:<12}{len(of):>6}{finished:>10}{attempts:>10}{crashes:>9}")
    print(f"acknowledged {len(producer.acknowledged)}, refused {producer.refused}", end=", ")
    print(f"runs {len(runs)}, samples of keys {producer.samples}, {dict(nemesis.acts)}")


def test_no_acknowledged_job_is_lost_or_done_twice_in_a_storm_of_signals(tmp_path: Path) -> None:
    app = app_in(tmp_path, TASKS)
    app.configure("keyed", key_capacity=KEY_CAPACITY)
    producer = Producer(app)
    try:
        with running(tmp_path, app, "--grace", "1", processes=3) as fleet:
            nemesis = Nemesis(fleet, app)
            nemesis.start()
            try:
                producer.work(nemesis)
            finally:
                nemesis.end()
            wait_for_calm(app, producer)
            fleet.supervisor.terminate()
            assert fleet.supervisor.wait(30) == 0
        check_the_books(tmp_path, app, nemesis, producer)
    finally:
        app.close()


def check_the_books(folder: Path, app: Stoker, nemesis: Nemesis, producer: Producer) -> None:
    jobs, runs = all_jobs(app), logged_runs(folder)
    show(jobs, runs, nemesis, producer)
    assert nemesis.satisfied, nemesis.acts
    assert len(producer.acknowledged) >= SECONDS * JOBS_A_SECOND * 0.8
    assert producer.acknowledged.keys() - jobs.keys() == set()
    assert {job.id: job.state for job in jobs.values() if job.state is not State.FINISHED} == {}
    assert [job.id for job in jobs.values() if job.result not in runs] == []
    assert len({job.result for job in jobs.values()}) == len(jobs)
    assert sum(job.crashes for job in jobs.values()) > 0
    check_families(jobs)
    counted = {view.name: dict(view.counts) for view in app.desk.store.survey()}
    found: defaultdict[str, Counter[State]] = defaultdict(Counter)
    for job in jobs.values():
        found[job.queue][job.state] += 1
    assert {name: +Counter(counts) for name, counts in counted.items()} == found
    assert {view.name: view.used for view in app.desk.store.survey() if view.used} == {}
    assert producer.samples > 0
    assert producer.crowded == []
    assert sessions_left(app) == []


def sessions_left(app: Stoker) -> list[Session]:
    """A worker that was killed before it told its supervisor of a session leaves it to the chores,
    which retire it when it has expired."""
    deadline = time.monotonic() + CALM_SECONDS
    while app.desk.store.sessions() and time.monotonic() < deadline:
        recover(app.desk.clerk)
        time.sleep(0.02)
    return app.desk.store.sessions()


def check_families(jobs: dict[int, Job]) -> None:
    """Every parent has its two children, though its first handler may have died in between."""
    children = Counter(job.parent_id for job in jobs.values() if job.name == "child")
    parents = {job.id for job in jobs.values() if job.name == "parent"}
    assert children == dict.fromkeys(parents, 2)
    assert {jobs[parent].finished_children for parent in parents} == {2}
