"""A copy of the source in which one thing is broken, and what a process makes of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_broken(
    folder: Path, file: str, sound: str, broken: str, module: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    """Run a module, with its arguments, on a source in which one file of a store says something
    else."""
    # What others have compiled comes and goes while they run.
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    changed = folder / "src" / "stoker" / "store" / file
    text = changed.read_text(encoding="utf-8")
    assert text.count(sound) == 1, f"the mutant no longer fits {file}"
    changed.write_text(text.replace(sound, broken), encoding="utf-8")
    path = os.pathsep.join((str(folder / "src"), str(ROOT)))
    return subprocess.run(
        [sys.executable, "-m", *module],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def one_file(file: str, engine: str) -> list[str]:
    """The tests of one file on one engine, up to the first that fails."""
    return ["pytest", "-x", "-q", "-o", "pythonpath=", "-k", engine, f"tests/store/{file}"]
