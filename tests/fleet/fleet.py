"""A fleet started as a user would start it, and what can be seen and done from outside."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import stoker
from stoker import Stoker
from stoker.desk.workers import survey_workers
from tests.worker.waiting import until

SOURCE = str(Path(stoker.__file__).parents[1])


class Fleet:
    """The supervisor's process, its workers' pids and all that they said."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        self._folder = folder
        self._log = folder / "stderr.log"
        kept = {name: text for name, text in os.environ.items() if not name.startswith("STOKER_")}
        with self._log.open("wb") as stderr:
            self.supervisor = subprocess.Popen(
                [sys.executable, *command],
                cwd=folder,
                env={**kept, "PYTHONPATH": SOURCE},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
            )

    def said(self) -> str:
        """All that the fleet has logged so far."""
        return self._log.read_text(encoding="utf-8")

    def processes(self) -> set[int]:
        """Every living process of the fleet: supervisor, workers and their helpers."""
        ours = set()
        for path in Path("/proc").glob("[0-9]*/stat"):
            state, _, _, session = facts(path)
            if session == self.supervisor.pid and state not in ("Z", "X"):
                ours.add(int(path.parent.name))
        return ours

    def has(self, pid: int) -> bool:
        """Is this one of its worker processes, still?"""
        state, parent, *_ = facts(Path(f"/proc/{pid}/stat"))
        return parent == self.supervisor.pid and state not in ("Z", "X")

    def end(self) -> None:
        """Whatever still runs is killed."""
        self.supervisor.kill()
        while left := self.processes():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.supervisor.wait()


def facts(stat: Path) -> tuple[str, int, int, int]:
    """State, parent, group and session of a process; of one that is gone, nothing."""
    try:
        state, parent, group, session = stat.read_text().rpartition(")")[2].split()[:4]
    except (OSError, ValueError):
        return "X", 0, 0, 0
    return state, int(parent), int(group), int(session)


@contextlib.contextmanager
def running(folder: Path, app: Stoker, *options: str, processes: int = 2) -> Iterator[Fleet]:
    """A fleet of `tasks:app`, all of it at work."""
    words = ["worker", "tasks:app", "--processes", str(processes), "--ttl", "2", *options]
    fleet = Fleet(folder, ["-m", "stoker", *words])
    try:
        until(lambda: len(pids(app)) == processes, "for the workers' sessions")
        yield fleet
    finally:
        fleet.end()


def pids(app: Stoker) -> dict[int, int]:
    """The living workers' processes, and their sessions."""
    views = survey_workers(app.desk.store)
    return {view.info.pid: view.session for view in views if view.alive and view.info.pid}


def app_in(folder: Path, source: str) -> Stoker:
    """The app of a module `tasks` written to the folder, for use in this process."""
    path = folder / "tasks.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("tasks", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    app = module.app
    assert isinstance(app, Stoker)
    return app
