"""The demo, run as a user would run it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.architecture.tree import PACKAGE

PROCESSES = Path("/proc")
BALANCE = re.compile(r"^enqueued (\d+) = finished (\d+) \+ failed (\d+) \+ cancelled (\d+): (.+)$")
SCENES = (
    r"two producers and a fleet of three workers share one SQLite file",
    r"cancel (Metropolis|The General|Safety Last): its handler is told to stop",
    r"kill -9 \d+: worker-[123] dies with \d+ jobs? in hand",
    r"all that it held is back in line, \d+\.\d s after it died",
    r"the supervisor has started a new worker-[123]",
)


@contextmanager
def demo(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The demo in a session of its own, as a terminal would start it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "stoker.demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent), "TMPDIR": str(folder)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def left_behind(session: int) -> list[str]:
    """The commands of a session's processes that still run, apart from Python's own clean-up."""
    if not PROCESSES.is_dir():
        pytest.skip("which processes run is only known where there is a /proc")
    commands = []
    for stat in PROCESSES.glob("[0-9]*/stat"):
        try:
            of_session = int(stat.read_text().rpartition(")")[2].split()[3])
            command = (stat.parent / "cmdline").read_text().replace("\0", " ").strip()
        except (FileNotFoundError, ProcessLookupError):
            continue
        # A process that has ended has no command any more.
        if of_session == session and command and "resource_tracker" not in command:
            commands.append(command)
    return commands


def test_the_demo_loses_a_worker_but_no_job_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        process.wait()
        assert left_behind(process.pid) == []
        output, errors = process.communicate()
    assert errors == ""
    assert process.returncode == 0, output
    told = [scene for line in output.splitlines() for scene in SCENES if re.search(scene, line)]
    assert tuple(told) == SCENES, output
    balance = BALANCE.match(output.splitlines()[-1])
    assert balance is not None, output
    enqueued, *ends = map(int, balance.groups()[:4])
    assert enqueued == sum(ends) and min(ends) > 0
    assert balance[5] == "the books balance."
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_demo_and_all_its_processes(how: signal.Signals, tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        assert process.stdout is not None
        assert SCENES[0] in process.stdout.readline()
        os.killpg(process.pid, how)
        process.wait()
        assert left_behind(process.pid) == []
        output, errors = process.communicate()
    assert process.returncode == 130
    assert output.splitlines()[-1] == "ended early; no process is left behind."
    assert errors == ""
    assert list(tmp_path.iterdir()) == []
