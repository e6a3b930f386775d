"""Thirty processes press against one limit: it is never exceeded, and what the dead held comes
back."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job, State
from stoker.kernel.queue import QueueSettings
from stoker.store.open import open_store
from stoker.watch import run_chores
from tests.faults.crowd import FATAL
from tests.faults.nemesis import ROOT, environment
from tests.faults.places import SHARED

MEMBERS = 30
LIMIT, KEY_LIMIT = 4000, 2000
JOBS = 120
KEYS = ("ann", "bob", "eve")


class Had(NamedTuple):
    """From when until when somebody had a job."""

    began: int
    ended: int
    key: str
    weight: int


@pytest.fixture(params=sorted(SHARED))
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Desk]]:
    with SHARED[request.param](tmp_path) as url:
        desk = Desk(open_store(url))
        yield url, desk
        desk.store.close()


def test_thirty_processes_never_exceed_a_limit_and_the_dead_give_back_what_they_held(
    desk: tuple[str, Desk], tmp_path: Path
) -> None:
    jobs = [
        Job("narrow", _name(n), key=KEYS[n % 3], weight=(500, 1000, 2000)[n % 7 % 3])
        for n in range(JOBS)
    ]
    had = _worked_off(desk, QueueSettings(capacity=4, key_capacity=2), jobs, tmp_path)
    assert KEY_LIMIT < _most(had) <= LIMIT
    assert max(_most([each for each in had if each.key == key]) for key in KEYS) == KEY_LIMIT


def test_nor_do_they_where_the_queue_alone_has_a_limit(
    desk: tuple[str, Desk], tmp_path: Path
) -> None:
    jobs = [Job("narrow", _name(n)) for n in range(JOBS)]
    had = _worked_off(desk, QueueSettings(capacity=4), jobs, tmp_path)
    assert KEY_LIMIT < _most(had) <= LIMIT


def _worked_off(
    desk: tuple[str, Desk], settings: QueueSettings, jobs: list[Job], tmp_path: Path
) -> list[Had]:
    """Let the crowd do these jobs in a queue with such settings: who had which, and when."""
    url, here = desk
    here.control.configure("narrow", settings)
    here.intake.enqueue_many(jobs)
    journals = tmp_path / "journals"
    journals.mkdir()
    command = ["-m", "tests.faults.crowd", url, "narrow", str(MEMBERS), str(journals)]
    with subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True
    ) as crowd:
        while _lives(crowd):
            run_chores(here.clerk, "test")
        assert crowd.stdout is not None
        ends = Counter(crowd.stdout.read().split())
    assert ends == {"0": MEMBERS - 2, "-9": 2}
    (view,) = here.store.survey(["narrow"])
    assert (view.counts[State.FINISHED], view.used) == (JOBS, 0)
    had = _had(journals)
    assert len(had) == JOBS
    return had


def _lives(crowd: subprocess.Popen[str]) -> bool:
    with suppress(subprocess.TimeoutExpired):
        crowd.wait(0.2)
    return crowd.returncode is None


def _name(number: int) -> str:
    return FATAL if number in (20, 60) else "plain"


def _had(journals: Path) -> list[Had]:
    lines = [line.split() for file in journals.iterdir() for line in file.read_text().splitlines()]
    return [Had(int(began), int(ended), key, int(weight)) for began, ended, key, weight in lines]


def _most(had: list[Had]) -> int:
    """The most units that were ever in hand at once."""
    taken = [(each.began, each.weight) for each in had]
    given_back = [(each.ended, -each.weight) for each in had]
    held, most = 0, 0
    for _, units in sorted(taken + given_back):
        held += units
        most = max(most, held)
    return most
