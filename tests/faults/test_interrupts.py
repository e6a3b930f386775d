"""Ctrl-C at any moment of a call: what was acknowledged is there, and nobody waits for ever."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.store import Filter
from stoker.store.open import open_store
from tests.faults.nemesis import ROOT, environment
from tests.faults.places import SHARED

SECONDS = 2.0
PATIENCE = 60.0
ENOUGH = 100
"""Interrupts that a run has to have, to say anything."""


@contextmanager
def with_sqlite3(folder: Path) -> Iterator[str]:
    with SHARED["sqlite"](folder) as url:
        yield f"{url}?library=sqlite3"


PLACES = {**SHARED, "sqlite3": with_sqlite3}


@pytest.mark.parametrize("place", sorted(PLACES))
def test_interrupted_calls_lock_nobody_out_and_lose_nothing(place: str, tmp_path: Path) -> None:
    with PLACES[place](tmp_path) as url:
        command = [sys.executable, "-m", "tests.faults.interrupted", url, str(SECONDS)]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
            timeout=PATIENCE,
            check=True,
        )
        told = json.loads(done.stdout)
        with closing(open_store(url)) as store:
            Desk(store).intake.enqueue(Job("q"))
            there = [job.id for job in store.find(Filter(limit=1_000_000))]
            counts = store.survey(["q"])[0].counts
        assert told["interrupts"] >= ENOUGH
        assert set(told["ids"]) <= set(there)
        assert len(told["ids"]) == len(set(told["ids"]))
        assert sum(counts.values()) == len(there)
