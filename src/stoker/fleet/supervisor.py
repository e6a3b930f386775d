"""The supervisor: starts worker processes, beats for them, replaces those that die."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import threading
import time
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType

import msgspec

from stoker.client import Stoker
from stoker.errors import StokerError
from stoker.fleet import child
from stoker.fleet.autoscale import Autoscaler, measure
from stoker.fleet.load import load_app
from stoker.fleet.pulse import Pulse
from stoker.watch.recover import recover
from stoker.worker.worker import WorkerSettings

logger = logging.getLogger("stoker.fleet")

_SPAWN = multiprocessing.get_context("spawn")
_MOST_FAILED_STARTS = 5
_LONGEST_PAUSE = 30.0
_RESIZE_SECONDS = 2.0


class _Member:
    """One worker process and what its supervisor knows of it."""

    def __init__(self, reference: str, settings: WorkerSettings, log: child.Log) -> None:
        self._reference = reference
        self._settings = settings
        self._log = log
        self.failed_starts = 0
        self.start_after = 0.0
        self.leaving = False
        self._hearing = threading.Lock()
        self.start()

    def start(self) -> None:
        with self._hearing:
            self.session: int | None = None
            self.heard_at = 0.0
            self.pipe, theirs = _SPAWN.Pipe()
        self.process: SpawnProcess = _SPAWN.Process(
            target=child.main, args=(self._reference, self._settings, theirs, self._log)
        )
        self.process.start()
        theirs.close()

    def hear(self) -> int | None:
        """Which session it has now, if it has told. It does so with every beat."""
        with self._hearing, contextlib.suppress(EOFError, OSError):
            while self.pipe.poll():
                self.session, self.heard_at = self.pipe.recv(), time.monotonic()
        return self.session

    def signal(self, number: int) -> None:
        if self.process.is_alive() and self.process.pid is not None:
            os.kill(self.process.pid, number)

    def is_awake(self) -> bool:
        """Alive, and not merely there: a stopped process must lose its session."""
        if not self.process.is_alive():
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

    def __init__(
        self,
        reference: str,
        settings: WorkerSettings,
        processes: int = 1,
        scale: Autoscaler | None = None,
    ) -> None:
        self._reference = reference
        self._settings = settings
        self._processes = processes if scale is None else scale.least
        self._scale = scale
        self._resize_at = 0.0
        self._members: list[_Member] = []
        self._signals = 0
        self._gave_up = False

    def run(self) -> int:
        """Start, watch, and end; the exit code."""
        app = load_app(self._reference)
        app.ensure_schedules()
        app.ensure_limits()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._heard)
        log = _log_settings()
        members = self._members
        for place in range(self._processes):
            members.append(_Member(self._reference, self._named(place), log))
        many = "1 process" if len(members) == 1 else f"{len(members)} processes"
        logger.info("serving %s with %s", ", ".join(self._settings.queues), many)
        pulse = Pulse(app.desk, round(self._settings.ttl * 1e6), self._last_beats)
        pulse.start()
        told = 0
        while any(member.process.is_alive() for member in members) or not self._stopping:
            if told < self._signals:
                told = self._signals
                self._tell_to_end()
            self._watch(app, members)
            self._resize(app, log)
            wait([*(m.process.sentinel for m in members if m.process.is_alive())], self._pause)
        pulse.stop()
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
        if not self._settings.name or (self._processes == 1 and self._scale is None):
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

    def _resize(self, app: Stoker, log: child.Log) -> None:
        """Follow the load, unless the fleet has a fixed size."""
        if self._scale is None or self._stopping or time.monotonic() < self._resize_at:
            return
        self._resize_at = time.monotonic() + _RESIZE_SECONDS
        staying = [member for member in self._members if not member.leaving]
        try:
            wanted = self._scale.size(measure(app.desk.store, self._settings.queues))
        except StokerError as error:
            logger.warning("cannot tell how much there is to do: %s", error)
            return
        if wanted != len(staying):
            logger.info("from %d to %d processes, as the load wants", len(staying), wanted)
        for place in range(len(staying), wanted):
            self._members.append(_Member(self._reference, self._named(place), log))
        for member in staying[wanted:]:
            member.leaving = True
            member.signal(signal.SIGTERM)

    def _watch(self, app: Stoker, members: list[_Member]) -> None:
        for member in [each for each in members if each.leaving and not each.process.is_alive()]:
            self._bury(app, member)
            members.remove(member)
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
        session = member.hear()  # it may have died right after it told
        if session is None:
            return
        try:
            app.desk.dispatch.close_session(session)
            recover(app.desk.clerk)
        except StokerError as error:
            logger.warning("session %d could not be closed: %s", session, error)
        member.session = None

    def _last_beats(self) -> dict[int, float]:
        """The sessions of workers that are there and not stopped, and when each was heard of."""
        heard = [(member.hear(), member) for member in list(self._members)]
        return {
            session: member.heard_at
            for session, member in heard
            if session is not None and member.is_awake()
        }


def _log_settings() -> child.Log:
    """How this process logs, for its workers to do the same."""
    root = logging.getLogger()
    for handler in root.handlers:
        layout = handler.formatter._fmt if handler.formatter else None  # noqa: SLF001
        return root.level, layout
    return None
