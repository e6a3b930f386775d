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

PROCESSES = Path("/proc")
BALANCE = re.compile(r"^enqueued (\d+) = finished (\d+) \+ failed (\d+) \+ cancelled (\d+): (.+)$")


@contextmanager
def demo(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The demo in a process group of its own, as a shell would start it."""
    source = str(Path(__file__).resolve().parents[1] / "src")
    process = subprocess.Popen(
        [sys.executable, "-m", "stoker.demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": source, "TMPDIR": str(folder)},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def left_behind(group: int) -> list[str]:
    """The commands of a group's processes that still run, apart from Python's own clean-up."""
    if not PROCESSES.is_dir():
        pytest.skip("which processes run is only known where there is a /proc")
    commands = []
    for stat in PROCESSES.glob("[0-9]*/stat"):
        try:
            state, _, of_group = stat.read_text().rpartition(")")[2].split()[:3]
            command = (stat.parent / "cmdline").read_text().replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(of_group) == group and state != "Z" and "resource_tracker" not in command:
            commands.append(command)
    return commands


def test_the_demo_loses_a_worker_but_no_job_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        process.wait()
        assert left_behind(process.pid) == []
        output, errors = process.communicate()
    assert errors == ""
    assert process.returncode == 0, output
    assert re.search(r"worker 2 was killed with [1-4] jobs in hand", output)
    assert "its jobs were recovered" in output
    balance = BALANCE.match(output.splitlines()[-1])
    assert balance is not None, output
    enqueued, *ends = map(int, balance.groups()[:4])
    assert enqueued == sum(ends) and min(ends) > 0
    assert balance[5] == "the books balance."
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_the_demo_and_all_its_processes(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        assert process.stdout is not None
        begun = process.stdout.readline()
        assert "two producers and three workers" in begun
        os.killpg(process.pid, signal.SIGINT)
        process.wait()
        assert left_behind(process.pid) == []
        output, errors = process.communicate()
    assert process.returncode == 130
    assert output.splitlines()[-1] == "ended early; no process is left behind."
    assert errors == ""
    assert list(tmp_path.iterdir()) == []
