"""Every example runs by itself, in any folder, and tells the story it is there for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

STORIES = {
    "tasks_quickstart.py": [
        "job 1 is on the disk",
        "Welcome, ann, in try 2!",
        "13",
        "job 3 is FAILED: ZeroDivisionError: division by zero",
    ],
    "retries.py": [
        "http://down, try 3",
        "http://down is 200 OK",
        "htp://typo, try 1",
        "job 2 is FAILED: ValueError: htp is no protocol after try 1",
        "http://busy, try 3",
        "http://busy is 200 OK",
    ],
    "schedule.py": [
        "beat 1 of job 1",
        "beat 3 of job 1",
        "pulse is paused: True; its workers leave it alone",
        "  Sun 28 March, 03:00",
        "  Mon 29 March, 02:30",
    ],
    "progress_and_cancel.py": [
        "the desk on which Safety Last was cut is cleared",
        "Safety Last has 20 frames",
        "somebody does not want it any more; it is still RUNNING",
        "the desk on which Metropolis was cut is cleared",
        "now it is CANCELLED",
    ],
    "batch_import.py": [
        "300 rows are on the disk, in one commit",
        "300 rows are imported, each once: True",
        "of ann's rows at most 1 at a time",
        "of cleo's rows at most 1 at a time",
    ],
    "family.py": [
        "the report has made 3 pages and lets them run",
        "2 pages are done and 1 is not",
        "page 1, page 3",
    ],
    "webhook_reply.py": [
        "order 4711 is WAITING, and waits for reply:payment 4711",
        "the bank tells of order 4711: delivered",
        "order 4711 was paid with 11 coins and is on its way",
        "the bank tells of order 4712: kept",
        "order 4712 was paid with 12 coins and is on its way",
    ],
    "worqr_pair.py": [
        "there is work for 3",
        "ann begins letter 1",
        "ann is dead; letter 1 is the next again",
        "bob begins letter 1",
        "letter 1 is sent",
        "bob begins letter 2",
        "letter 2 is sent",
        "bob begins letter 3",
        "letter 3 is sent",
        "waiting: 0",
    ],
    "desk_worker.py": [
        "5 letters are on the disk",
        "letter 1 goes to ann",
        "letter 5 goes to emil",
        "queued 0, finished 5",
    ],
    "tenants.py": [
        "16 calls wait, ann's first",
        "bob waits: the keys of partner take turns: about 1 job goes before it, of 1 other key",
        "of the task no more may start than 10 per second, burst 6",
        "the first eight: ann, bob, gold, gold, ann, bob, gold, gold",
    ],
    "desk_limits.py": [
        "claim 1: 1 ann's, 2 bob's, 1 cleo's",
        "claim 2: 1 alarm, 1 ann's, 1 bob's, 1 cleo's",
        "claim 3: 1 ann's, 1 cleo's",
    ],
}


@pytest.mark.parametrize("name", STORIES)
def test_the_example_tells_its_story(name: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / name)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, ""), run.stdout
    told = run.stdout.splitlines()
    assert [line for line in told if line in STORIES[name]] == STORIES[name], run.stdout
    assert list(tmp_path.iterdir()) == []


# These need a server, and are run where there is one: tests/bridges/test_command.py
ELSEWHERE = ("hipq_nats.py",)


def test_every_example_has_a_story() -> None:
    examples = sorted(path.name for path in (ROOT / "examples").glob("*.py"))
    assert examples == sorted([*STORIES, *ELSEWHERE])
