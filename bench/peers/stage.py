"""Starting a contestant's processes, hearing what they tell, and ending them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple

from bench.engines.engine import Place, Places
from bench.peers.cast import Contestant, Fleet
from bench.peers.drivers.tally import GO, POLL, URL

PATIENCE = 60.0
_LONG_PATIENCE = 600.0
_GRACE = 10.0
_MARK = "bench "


class Trouble(Exception):
    """A contestant did not do what it was told."""


class Word(NamedTuple):
    """One line that a process told."""

    name: str
    figures: tuple[float, ...]


class Enqueued(NamedTuple):
    """How many jobs were enqueued, and how many a second."""

    jobs: int
    rate: float


class Stage(NamedTuple):
    """A contestant, the place of its jobs, and a folder for what else there is."""

    contestant: Contestant
    place: Place
    folder: Path
    look: float | None = None

    @property
    def go(self) -> Path:
        """The file that starts a drain."""
        return self.folder / "go"

    def environment(self) -> Mapping[str, str]:
        """What its processes must know."""
        told = {URL: self.place.url, GO: str(self.go)}
        if self.look is not None:
            told[POLL] = str(self.look)
        return {**self.contestant.environment, **told}


@contextlib.contextmanager
def staged(
    contestant: Contestant, places: Places, parent: Path, look: float | None = None
) -> Iterator[Stage]:
    """A new place for a contestant, gone with the block."""
    with tempfile.TemporaryDirectory(dir=parent) as name, places.place(Path(name)) as place:
        yield Stage(contestant, place, Path(name), look)


class Company:
    """Processes of one contestant, heard through one pipe."""

    def __init__(self, stage: Stage, orders: Sequence[Sequence[str]]) -> None:
        self._name = stage.contestant.name
        self._log = stage.folder / "errors.log"
        self._words: SimpleQueue[Word | None] = SimpleQueue()
        ear, mouth = os.pipe()
        with self._log.open("ab") as log:
            self.processes = [
                subprocess.Popen(  # noqa: S603 - our own words only
                    [*stage.contestant.command, *order],
                    stdin=subprocess.PIPE,
                    stdout=mouth,
                    stderr=log,
                    env=stage.environment(),
                    start_new_session=True,
                )
                for order in orders
            ]
        os.close(mouth)
        threading.Thread(target=self._listen, args=(ear,), daemon=True).start()

    def _listen(self, ear: int) -> None:
        try:
            with os.fdopen(ear, encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    if line.startswith(_MARK):
                        _, name, *figures = line.split()
                        self._words.put(Word(name, tuple(map(float, figures))))
        finally:
            self._words.put(None)

    def hear(self, name: str, patience: float = PATIENCE) -> Word:
        """The next word of that name; others before it are passed over."""
        deadline = time.monotonic() + patience
        while (word := self.next_word(deadline - time.monotonic())) is not None:
            if word.name == name:
                return word
        raise Trouble(f"{self._name} did not say {name!r} within {patience:g} s{self._evidence()}")

    def next_word(self, patience: float) -> Word | None:
        """The next word, or None if none came in time."""
        try:
            word = self._words.get(timeout=max(patience, 0.0))
        except Empty:
            return None
        if word is None:
            raise Trouble(f"{self._name} ended before it should{self._evidence()}")
        return word

    def _evidence(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f": {lines[-1].strip()[:200]}" if lines else ""

    def order(self, words: str) -> tuple[float, ...]:
        """Tell the first process what to do, and wait until it is done; what it tells of it."""
        mouth = self.processes[0].stdin
        assert mouth is not None
        try:
            mouth.write(f"{words}\n".encode())
            mouth.flush()
        except BrokenPipeError:
            raise Trouble(f"{self._name} ended before it should{self._evidence()}") from None
        return self.hear("done", _LONG_PATIENCE).figures

    def enqueue(self, how: str, count: int, seconds: float = _LONG_PATIENCE) -> Enqueued:
        """Have jobs enqueued, `single` or `many`, for at most so many seconds."""
        spent, jobs = self.order(f"{how} {count} {seconds}")
        return Enqueued(int(jobs), jobs / spent)

    def end(self) -> None:
        """Ask the processes to end; those that will not are killed with their groups."""
        for process in self.processes:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            process.terminate()
        deadline = time.monotonic() + _GRACE
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def enqueuer(stage: Stage) -> Iterator[Company]:
    """A process that enqueues what it is told to."""
    company = Company(stage, [["enqueue"]])
    try:
        company.hear("open")
        yield company
    finally:
        company.end()


@contextlib.contextmanager
def workers(stage: Stage, processes: int = 1) -> Iterator[Company]:
    """So many worker processes."""
    stage.go.unlink(missing_ok=True)
    copies = stage.contestant.fleet is Fleet.COPIES
    orders = [["work", "1"]] * processes if copies else [["work", str(processes)]]
    company = Company(stage, orders)
    try:
        yield company
    finally:
        company.end()
