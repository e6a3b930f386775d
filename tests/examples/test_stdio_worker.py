"""The worker in another language tells its story, too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_worker_on_node_tells_its_story(tmp_path: Path) -> None:
    stoker = tmp_path / "stoker"
    stoker.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m stoker "$@"\n', encoding="utf-8")
    stoker.chmod(0o755)
    run = subprocess.run(
        ["node", str(ROOT / "examples" / "stdio_worker.mjs")],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "STOKER": str(stoker)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.splitlines() == [
        "job_assignment: Sunrise",
        "job_assignment: Safety Last",
        "job_assignment: Metropolis",
        "3 films are cut, and the processor left with 0",
    ]
    assert list(tmp_path.iterdir()) == [stoker]
