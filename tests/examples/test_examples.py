"""Every example runs by itself, in any folder, and tells the story it is there for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

STORIES = {
    "enqueue_and_work.py": [
        "5 letters are on the disk",
        "letter 1 goes to ann",
        "letter 5 goes to emil",
        "queued 0, finished 5",
    ],
    "retries.py": [
        "page, try 1: QUEUED the server is down",
        "typo, try 1: FAILED htp is no protocol",
        "page, try 2: QUEUED the server is down",
        "page, try 3: FINISHED",
    ],
    "schedule.py": [
        "run 1 of job 1",
        "run 3 of job 1",
        "  Sun 28 March, 03:00",
        "  Mon 29 March, 02:30",
    ],
    "family.py": [
        "the report made pages [2, 3, 4] and is WAITING for children",
        "page 2: FAILED",
        "2 pages are done and 1 is not: page 1, page 3",
        "the report is FINISHED",
    ],
    "tenant_limits.py": [
        "claim 1: 1 ann's, 2 bob's, 1 cleo's",
        "claim 2: 1 alarm, 1 ann's, 1 bob's, 1 cleo's",
        "claim 3: 1 ann's, 1 cleo's",
    ],
    "answer_from_outside.py": [
        "order 4711 is WAITING reply:payment 4711",
        "the bank has an answer for order 4711: delivered",
        "order 4711 was paid with 11 coins",
        "order 4712 is QUEUED",
        "order 4712 was paid with 12 coins",
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


def test_every_example_has_a_story() -> None:
    assert sorted(path.name for path in (ROOT / "examples").glob("*.py")) == sorted(STORIES)
