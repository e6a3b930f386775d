"""Worker processes of one app: killed, stopped, told to end, blocked and orphaned."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stoker import Stoker
from stoker.kernel.job import Job, State
from tests.fleet.fleet import Fleet, app_in, facts, pids, running
from tests.worker.waiting import until

TASKS = """
import asyncio, ctypes, os, time
from pathlib import Path
from stoker import Context, Stoker, fixed

HERE = Path(__file__).parent
if (HERE / "slow").exists():
    time.sleep(3)
app = Stoker(f"sqlite:///{HERE / 'jobs.db'}")

def note(ctx):
    with (HERE / "runs.log").open("a") as log:
        log.write(f"{ctx.job.id} {ctx.attempt} {os.getpid()}\\n")

@app.task(name="where")
def where() -> int:
    return os.getpid()

@app.task(name="gated")
def gated(ctx: Context) -> list[int]:
    note(ctx)
    while not (HERE / f"open-{ctx.attempt}").exists():
        time.sleep(0.01)
    return [ctx.attempt, os.getpid()]

@app.task(name="endless")
async def endless(ctx: Context) -> None:
    note(ctx)
    await asyncio.sleep(600)

@app.task(name="block_loop")
async def block_loop(ctx: Context, seconds: int) -> int:
    note(ctx)
    time.sleep(seconds)
    return os.getpid()

@app.task(name="hold_interpreter")
def hold_interpreter(ctx: Context, seconds: int) -> int:
    note(ctx)
    with app.desk.store._lock:  # a process that is held while it writes lets nobody else write
        ctypes.PyDLL(None).sleep(seconds)  # unlike CDLL, it keeps the GIL
    return os.getpid()

@app.task(name="apart", place="process")
def apart() -> int:
    return os.getpid()

@app.task(name="hurried", place="process", timeout="1s", retry=fixed("100ms", limit=100))
def hurried() -> int:
    return os.getpid()

@app.task(name="spin", place="process", timeout="2s")
def spin(ctx: Context) -> None:
    note(ctx)
    while True:
        pass

@app.task(name="segfault", place="process", crash_limit=3)
def segfault(ctx: Context) -> None:
    note(ctx)
    ctypes.string_at(0)
"""
TTL = 2
TOO_LONG = TTL + 1
"""For a session that nobody beats for."""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Stoker]:
    app = app_in(tmp_path, TASKS)
    yield app
    app.close()


def runs(folder: Path, job: int) -> dict[int, int]:
    """Where a job ran: the process of each attempt."""
    log = folder / "runs.log"
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    entries = [[int(word) for word in line.split()] for line in lines]
    return {attempt: pid for of, attempt, pid in entries if of == job}


def begun(folder: Path, job: int, attempt: int = 1) -> int:
    """Wait until an attempt has begun; the process it runs in."""
    until(lambda: attempt in runs(folder, job), f"for attempt {attempt} of job {job}")
    return runs(folder, job)[attempt]


def works_again(app: Stoker, pid: int) -> None:
    """Wait until a process does jobs."""

    def did_one() -> bool:
        jobs = app.enqueue_many([app["where"].call() for _ in range(10)])
        return pid in {job.wait(timeout="30s") for job in jobs}

    until(did_one, f"for process {pid} to do a job")


def test_a_killed_workers_job_runs_again_in_another_process(tmp_path: Path, app: Stoker) -> None:
    with running(tmp_path, app) as fleet:
        job = app["gated"].enqueue()
        first = begun(tmp_path, job.id)
        (tmp_path / "open-2").touch()
        os.kill(first, signal.SIGKILL)
        attempt, second = job.wait(timeout="30s")
        assert (attempt, job.job.attempt, job.job.crashes) == (2, 2, 1)
        assert second != first
        until(lambda: len(pids(app)) == 2, "for the dead worker to be replaced")
        assert first not in pids(app)
        assert f"worker process {first} ended with code -9" in fleet.said()


def test_a_stopped_worker_loses_its_job_and_comes_back_as_somebody_new(
    tmp_path: Path, app: Stoker
) -> None:
    with running(tmp_path, app) as fleet:
        job = app["gated"].enqueue()
        first = begun(tmp_path, job.id)
        before = pids(app)[first]
        stop_while_it_does_not_write(tmp_path, first)
        second = begun(tmp_path, job.id, attempt=2)
        assert second != first
        (tmp_path / "open-2").touch()
        assert job.wait(timeout="30s") == [2, second]
        (tmp_path / "open-1").touch()  # now the first attempt would end well, too
        os.kill(first, signal.SIGCONT)
        works_again(app, first)
        assert pids(app)[first] != before
        assert job.result == [2, second]
        assert (job.job.attempt, job.job.crashes) == (2, 1)
        assert f"this worker's session {before} is over; its jobs will run elsewhere" in (
            fleet.said()
        )


def test_told_to_end_it_lets_short_jobs_finish_and_gives_long_ones_back(
    tmp_path: Path, app: Stoker
) -> None:
    with running(tmp_path, app, "--grace", "2") as fleet:
        short, long = app["gated"].enqueue(), app["endless"].enqueue()
        begun(tmp_path, short.id)
        begun(tmp_path, long.id)
        fleet.supervisor.terminate()
        until(lambda: "ending; a second signal ends at once" in fleet.said())
        (tmp_path / "open-1").touch()
        assert fleet.supervisor.wait(30) == 0
        until(lambda: not fleet.processes(), "for all processes to end")
        assert (short.state, short.result[0]) == (State.FINISHED, 1)
        assert (long.state, long.job.attempt, long.job.crashes) == (State.QUEUED, 0, 0)
        assert app.desk.store.sessions() == []


def test_a_second_signal_ends_it_at_once(tmp_path: Path, app: Stoker) -> None:
    with running(tmp_path, app, "--grace", "600") as fleet:
        gated = app["gated"].enqueue()
        begun(tmp_path, gated.id)
        deaf = app["hold_interpreter"].enqueue(600)
        begun(tmp_path, deaf.id)
        fleet.supervisor.terminate()
        until(lambda: "ending; a second signal ends at once" in fleet.said())
        fleet.supervisor.terminate()
        assert fleet.supervisor.wait(30) == 0
        until(lambda: not fleet.processes(), "for all processes to end")
        assert (gated.state, gated.job.crashes) == (State.QUEUED, 1)
        assert (deaf.state, deaf.job.crashes) == (State.QUEUED, 1)
        assert app.desk.store.sessions() == []


def test_a_second_signal_ends_the_workers_even_while_the_store_is_held_up(
    tmp_path: Path, app: Stoker
) -> None:
    with running(tmp_path, app, "--grace", "600") as fleet:
        workers = pids(app).keys()
        job = app["gated"].enqueue()
        begun(tmp_path, job.id)
        fleet.supervisor.terminate()
        until(lambda: "ending; a second signal ends at once" in fleet.said())
        with (tmp_path / "jobs.db-gate").open("rb") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            until(lambda: waits_for_a_lock(fleet.supervisor.pid), "for the supervisor to wait")
            fleet.supervisor.terminate()
            until(lambda: not workers & fleet.processes(), "for the workers to end")
        assert fleet.supervisor.wait(30) == 0
        assert (job.state, job.job.crashes) == (State.QUEUED, 1)


def stop_while_it_does_not_write(folder: Path, pid: int) -> None:
    """Whoever is stopped behind the gate would let nobody else write."""
    with (folder / "jobs.db-gate").open("rb") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        os.kill(pid, signal.SIGSTOP)
        until(lambda: facts(Path(f"/proc/{pid}/stat"))[0] == "T", "for the process to stop")


def waits_for_a_lock(pid: int) -> bool:
    lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    return any("->" in line and str(pid) in line.split() for line in lines)


def test_workers_whose_supervisor_is_killed_end_by_themselves(tmp_path: Path, app: Stoker) -> None:
    with running(tmp_path, app, "--grace", "1") as fleet:
        job = app["endless"].enqueue()
        begun(tmp_path, job.id)
        fleet.supervisor.kill()
        fleet.supervisor.wait()
        until(lambda: not fleet.processes(), "for the orphans to end")
        assert (job.state, job.job.attempt, job.job.crashes) == (State.QUEUED, 0, 0)
        assert app.desk.store.sessions() == []


@pytest.mark.parametrize("task", ["block_loop", "hold_interpreter"])
def test_a_handler_that_blocks_its_process_for_long_keeps_the_session(
    tmp_path: Path, app: Stoker, task: str
) -> None:
    with running(tmp_path, app) as fleet:
        before = pids(app)
        job = app[task].enqueue(TOO_LONG)
        pid = job.wait(timeout="30s")
        assert (job.job.attempt, job.job.crashes) == (1, 0)
        assert pids(app) == before
        assert pid in before
        assert "is over" not in fleet.said()


SLOW_BURIALS = """
import multiprocessing, sys

def bury_slowly(session, retire=app.desk.store.retire):
    (HERE / "burying").touch()
    while not (HERE / "buried").exists():
        time.sleep(0.01)
    retire(session)

if sys.argv[1:2] == ["worker"] and multiprocessing.parent_process() is None:
    app.desk.store.retire = bury_slowly  # in the supervisor
"""


def test_a_slow_call_of_the_supervisor_delays_none_of_its_beats(tmp_path: Path) -> None:
    slow = app_in(tmp_path, TASKS + SLOW_BURIALS)
    with closing(slow) as app, running(tmp_path, app) as fleet:
        before = pids(app)
        killed, busy = before
        works_again(app, killed)  # then its supervisor knows its session
        os.kill(killed, signal.SIGKILL)
        until((tmp_path / "burying").exists, "for the supervisor to be held up")
        job = app["hold_interpreter"].enqueue(TOO_LONG)
        assert job.wait(timeout="30s") == busy
        assert (job.job.attempt, job.job.crashes) == (1, 0)
        assert pids(app)[busy] == before[busy]
        assert "is over" not in fleet.said()
        (tmp_path / "buried").touch()


def test_a_busy_loop_in_a_process_of_its_own_is_stopped_when_its_time_is_up(
    tmp_path: Path, app: Stoker
) -> None:
    with running(tmp_path, app, "--concurrency", "1", processes=1) as fleet:
        before = pids(app)
        ready = app["apart"].enqueue().wait(timeout="30s")
        job = app["spin"].enqueue()
        spinner = begun(tmp_path, job.id)
        assert spinner == ready
        assert spinner in fleet.processes() - before.keys()
        until(lambda: job.state is State.FAILED, "for the time limit")
        assert job.job.error == "ran longer than its limit of 2 s"
        until(lambda: spinner not in fleet.processes(), "for the busy loop to be ended")
        assert app["where"].enqueue().wait(timeout="30s") in before
        assert pids(app) == before


def test_a_process_that_starts_for_longer_than_its_job_may_run_is_there_for_the_next(
    tmp_path: Path, app: Stoker
) -> None:
    with running(tmp_path, app, "--concurrency", "1", processes=1) as fleet:
        (tmp_path / "slow").touch()
        job = app["hurried"].enqueue()
        assert job.wait(timeout="30s") in fleet.processes()
        assert job.job.attempt > 1
        assert job.job.crashes == 0


def test_a_handler_that_crashes_its_own_process_is_parked_and_the_worker_lives(
    tmp_path: Path, app: Stoker
) -> None:
    with running(tmp_path, app, processes=1):
        before = pids(app)
        job = app["segfault"].enqueue()
        until(lambda: job.state is State.FAILED, "for the third crash")
        assert (job.job.attempt, job.job.crashes) == (3, 3)
        assert "parked after losing 3 workers" in (job.job.error or "")
        assert f"its process ended with code {-signal.SIGSEGV}" in (job.job.error or "")
        assert len(set(runs(tmp_path, job.id).values())) == 3
        assert app["where"].enqueue().wait(timeout="30s") in before
        assert pids(app) == before


def test_workers_killed_again_and_again_are_replaced_at_once(tmp_path: Path, app: Stoker) -> None:
    with running(tmp_path, app, processes=1) as fleet:
        killed: set[int] = set()
        for _ in range(7):
            pid = app["where"].enqueue().wait(timeout="30s")
            assert pid not in killed
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)
        assert "giving up" not in fleet.said()
        assert app["where"].enqueue().wait(timeout="30s") in pids(app)


def test_a_fleet_whose_workers_cannot_even_start_gives_up(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(
        "import multiprocessing\nfrom stoker import Stoker\n"
        "assert multiprocessing.parent_process() is None, 'not in a worker'\n"
        "app = Stoker('sqlite:///jobs.db')\n",
        encoding="utf-8",
    )
    script = (
        "import logging, sys\n"
        "from stoker.fleet import supervisor\n"
        "from stoker.worker.worker import WorkerSettings\n"
        "logging.basicConfig(level=logging.INFO)\n"
        "supervisor._MOST_FAILED_STARTS = 1\n"
        "sys.exit(supervisor.Supervisor('tasks:app', WorkerSettings(('q',)), 2).run())\n"
    )
    fleet = Fleet(tmp_path, ["-c", script])
    try:
        assert fleet.supervisor.wait(30) == 1
        assert "AssertionError: not in a worker" in fleet.said()
        assert "worker processes keep dying at the start; giving up" in fleet.said()
        until(lambda: not fleet.processes(), "for all processes to end")
    finally:
        fleet.end()


def test_an_app_that_cannot_be_imported_is_an_error_in_one_line(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, ["-m", "stoker", "worker", "missing:app"])
    try:
        assert fleet.supervisor.wait(30) == 2
        assert fleet.said() == (
            f"stoker: error: there is no module 'missing' in {tmp_path} or on sys.path\n"
        )
    finally:
        fleet.end()


def test_what_workers_log_appears_beside_what_the_supervisor_logs(
    tmp_path: Path, app: Stoker
) -> None:
    with running(tmp_path, app, processes=1) as fleet:
        app.desk.intake.enqueue(Job("default", "unheard-of"))
        until(lambda: "is put off for a minute" in fleet.said(), "for the worker's line")
        lines = fleet.said().splitlines()
        assert any(" INFO    stoker.fleet: serving default with 1 process" in at for at in lines)
        assert any(" WARNING stoker.worker: job 1 is put off for a minute" in at for at in lines)
