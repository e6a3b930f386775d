"""The supervisor: starts worker processes, beats for them, replaces those that die."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import time
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType

import msgspec

from stoker.client import Stoker
from stoker.errors import StokerError
from stoker.fleet import child
from stoker.fleet.load import load_app
from stoker.watch.recover import recover
from stoker.worker.worker import WorkerSettings

logger = logging.getLogger("stoker.fleet")

_SPAWN = multiprocessing.get_context("spawn")
_MOST_FAILED_STARTS = 5
_LONGEST_PAUSE = 30.0


class _Member:
    """One worker process and what its supervisor knows of it."""

    def __init__(self, reference: str, settings: WorkerSettings, log: child.Log) -> None:
        self._reference = reference
        self._settings = settings
        self._log = log
        self.failed_starts = 0
        self.start_after = 0.0
        self.start()

    def start(self) -> None:
        self.session: int | None = None
        self.pipe, theirs = _SPAWN.Pipe()
        self.process: SpawnProcess = _SPAWN.Process(
            target=child.main, args=(self._reference, self._settings, theirs, self._log)
        )
        self.process.start()
        theirs.close()

    def hear(self) -> None:
        """Which session it has now."""
        try:
            while self.pipe.poll():
                self.session = self.pipe.recv()
        except (EOFError, OSError):
            return

    def signal(self, number: int) -> None:
        if self.process.is_alive() and self.process.pid is not None:
            os.kill(self.process.pid, number)

    def can_beat(self) -> bool:
        """Alive, and not merely there: a stopped process must lose its session."""
        if self.session is None or not self.process.is_alive():
            return False
        try:
            stat = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii")
        except OSError:
            return True  # no such file system here
        return stat.rpartition(")")[2].split()[0] not in "Tt"


class Supervisor:
    """Runs a fleet of workers until it is told to stop.

    The first SIGTERM or SIGINT lets the workers end gracefully, the second ends them at once.
    """

    def __init__(self, reference: str, settings: WorkerSettings, processes: int = 1) -> None:
        self._reference = reference
        self._settings = settings
        self._processes = processes
        self._members: list[_Member] = []
        self._signals = 0
        self._gave_up = False

    def run(self) -> int:
        """Start, watch, and end; the exit code."""
        app = load_app(self._reference)
        app.ensure_schedules()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._heard)
        log = _log_settings()
        members = self._members
        for place in range(self._processes):
            members.append(_Member(self._reference, self._named(place), log))
        logger.info("serving %s with %d processes", ", ".join(self._settings.queues), len(members))
        told = 0
        while any(member.process.is_alive() for member in members) or not self._stopping:
            if told < self._signals:
                told = self._signals
                self._tell_to_end()
            self._watch(app, members)
            self._beat(app, members)
            wait([*(m.process.sentinel for m in members if m.process.is_alive())], self._pause)
        for member in members:
            self._bury(app, member)
        app.close()
        return 1 if self._gave_up else 0

    @property
    def _stopping(self) -> bool:
        return self._signals > 0 or self._gave_up

    @property
    def _pause(self) -> float:
        return min(self._settings.ttl / 4, 1.0) if not self._stopping else 0.2

    def _heard(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self._signals += 1
        if self._signals > 1:
            # Not in the loop: it may be waiting for the store, which a stopped worker holds up.
            self._kill_all()

    def _kill_all(self) -> None:
        # SIGTERM is not heard where a process is stopped or its handler holds the interpreter.
        for member in self._members:
            with contextlib.suppress(ProcessLookupError):
                member.signal(signal.SIGKILL)

    def _named(self, place: int) -> WorkerSettings:
        if not self._settings.name or self._processes == 1:
            return self._settings
        return msgspec.structs.replace(self._settings, name=f"{self._settings.name}-{place + 1}")

    def _tell_to_end(self) -> None:
        if self._signals > 1:
            logger.info("ending at once")
            self._kill_all()
            return
        logger.info("ending; a second signal ends at once")
        for member in self._members:
            member.signal(signal.SIGTERM)

    def _watch(self, app: Stoker, members: list[_Member]) -> None:
        for member in members:
            member.hear()
            if member.process.is_alive() or self._stopping:
                continue
            if member.session is not None or not member.start_after:
                self._plan_restart(member)
                self._bury(app, member)
            if time.monotonic() >= member.start_after and not self._stopping:
                member.start_after = 0.0
                member.start()

    def _plan_restart(self, member: _Member) -> None:
        logger.warning(
            "worker process %s ended with code %s", member.process.pid, member.process.exitcode
        )
        # Who got as far as a session was killed at work, perhaps by a job: that is no reason to
        # leave all other jobs alone.
        member.failed_starts = member.failed_starts + 1 if member.session is None else 0
        if member.failed_starts > _MOST_FAILED_STARTS and not self._gave_up:
            logger.error("worker processes keep dying at the start; giving up")
            self._gave_up = True
            self._signals += 1  # the others are to end as well
        pause = min(_LONGEST_PAUSE, 2.0**member.failed_starts - 1)
        member.start_after = time.monotonic() + pause or 1e-9

    def _bury(self, app: Stoker, member: _Member) -> None:
        """A dead worker's jobs need not wait for its session to expire."""
        if member.session is None:
            return
        try:
            app.desk.dispatch.close_session(member.session)
            recover(app.desk.clerk)
        except StokerError as error:
            logger.warning("session %d could not be closed: %s", member.session, error)
        member.session = None

    def _beat(self, app: Stoker, members: list[_Member]) -> None:
        ttl = round(self._settings.ttl * 1e6)
        for member in members:
            if member.can_beat():
                assert member.session is not None
                try:
                    app.desk.dispatch.beat(member.session, ttl=ttl)
                except StokerError as error:
                    logger.warning("could not beat for session %d: %s", member.session, error)


def _log_settings() -> child.Log:
    """How this process logs, for its workers to do the same."""
    root = logging.getLogger()
    for handler in root.handlers:
        layout = handler.formatter._fmt if handler.formatter else None  # noqa: SLF001
        return root.level, layout
    return None
