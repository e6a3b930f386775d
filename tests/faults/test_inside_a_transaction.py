"""A process is stopped or killed between the beginning of a transaction and its commit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from stoker.desk import Desk, Placement
from stoker.errors import StoreLocked
from stoker.kernel.job import Job, State
from stoker.store.sqlite import SqliteStore
from stoker.store.sqlite.gate import Gate
from tests.faults.nemesis import ROOT, environment

PATIENCE = 60.0
"""Longer than anything here takes, even on a busy machine."""

Opener = Callable[[float], SqliteStore]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def opened(file: Path) -> Iterator[Opener]:
    """Opens stores on the file, each with a gate timeout of its own, and closes them."""
    stores: list[SqliteStore] = []

    def open_with(gate_timeout: float) -> SqliteStore:
        stores.append(SqliteStore(file, gate_timeout=gate_timeout))
        return stores[-1]

    yield open_with
    for store in stores:
        store.close()


class Dawdler:
    """Another process that stands inside a transaction."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = process.pid
        self.expect("inside")

    def expect(self, word: str) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == word

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()


@contextmanager
def dawdling(file: Path) -> Iterator[Dawdler]:
    """A dawdler that is gone in the end, whatever became of it."""
    command = [sys.executable, "-m", "tests.faults.dawdler", os.fspath(file)]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Dawdler(process)
        finally:
            process.kill()


@contextmanager
def enqueuing(store: SqliteStore) -> Iterator[Future[Placement]]:
    """An enqueue on its way in another thread."""
    with ThreadPoolExecutor(1) as threads:
        yield threads.submit(Desk(store).intake.enqueue, Job("ours"))


def queued(store: SqliteStore) -> dict[str, int]:
    return {view.name: view.counts[State.QUEUED] for view in store.survey()}


def test_a_stopped_process_inside_a_transaction_is_named_and_writes_nothing_for_others(
    file: Path, opened: Opener
) -> None:
    store = opened(0.5)
    with dawdling(file) as dawdler:
        dawdler.send(signal.SIGSTOP)
        for _ in range(2):
            with pytest.raises(StoreLocked, match=rf"^process {dawdler.pid} has held .*stopped\?"):
                Desk(store).intake.enqueue(Job("ours"))
        assert queued(store) == {}, "reading goes on meanwhile"


def test_all_go_on_when_a_stopped_process_goes_on(file: Path, opened: Opener) -> None:
    hasty, patient = opened(0.5), opened(PATIENCE)
    with dawdling(file) as dawdler, enqueuing(patient) as placement:
        dawdler.send(signal.SIGSTOP)
        with pytest.raises(StoreLocked):
            Desk(hasty).intake.enqueue(Job("ours"))
        assert not placement.done()
        dawdler.send(signal.SIGCONT)
        dawdler.go_on()
        dawdler.expect("done")
        assert placement.result(PATIENCE) == (4, True)
    assert queued(hasty) == {"ours": 1, "theirs": 3}


def test_a_process_killed_inside_a_transaction_leaves_no_trace_and_blocks_nobody(
    file: Path, opened: Opener
) -> None:
    store = opened(PATIENCE)
    with dawdling(file) as dawdler, enqueuing(store) as placement:
        dawdler.send(signal.SIGKILL)
        assert placement.result(PATIENCE) == (1, True)
    assert queued(store) == {"ours": 1}


def test_the_file_is_whole_after_a_kill_inside_a_transaction(file: Path) -> None:
    with dawdling(file) as dawdler:
        dawdler.send(signal.SIGKILL)
    store = SqliteStore(file)
    assert store.survey() == []
    store.close()
    connection = apsw.Connection(os.fspath(file))
    assert connection.execute("PRAGMA integrity_check").get == "ok"
    connection.close()


def test_an_interrupted_wait_at_the_gate_keeps_nobody_out(tmp_path: Path) -> None:
    path, threads = os.fspath(tmp_path / "gate"), set(threading.enumerate())
    holder, interrupted, other = Gate(path, PATIENCE), Gate(path, PATIENCE), Gate(path, 1.0)
    with holder, interruption(after=0.05), pytest.raises(KeyboardInterrupt), interrupted:
        pytest.fail("two were behind the gate")
    for thread in set(threading.enumerate()) - threads:
        thread.join(PATIENCE)  # what still stood in the queue has had its turn
    with other:
        pass  # or StoreLocked would be raised
    for gate in (holder, interrupted, other):
        gate.close()


@contextmanager
def interruption(after: float) -> Iterator[None]:
    """What Ctrl-C does, some seconds from now."""
    waiting = threading.get_ident()
    timer = threading.Timer(after, signal.pthread_kill, [waiting, signal.SIGINT])
    timer.start()
    try:
        yield
    finally:
        timer.join()
