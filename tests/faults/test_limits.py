"""Many processes press against limits: none is ever exceeded, and what the dead held comes back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.kernel.queue import QueueSettings
from stoker.kernel.rate import parse_rate
from stoker.store.open import open_store
from stoker.watch import run_chores
from tests.faults.cargo import Cargo
from tests.faults.evidence import Evidence
from tests.faults.journal import Journal, Offer, Placed, read_journals
from tests.faults.ledger import violations
from tests.faults.limits import paces, peaks
from tests.faults.nemesis import ROOT, environment
from tests.faults.places import SHARED
from tests.faults.test_kill import all_jobs

MEMBERS = 30
LIMIT, KEY_LIMIT = 4000, 2000
JOBS = 120
KEYS = ("ann", "bob", "eve")

POLICIES = {
    "house": QueueSettings(capacity=6, rate=parse_rate("60 per second")),
    "saws": QueueSettings(within="house", tasks={"cut": 1, "glue": 2}),
    "desks": QueueSettings(within="house", capacity=5, key_capacity=2, keys={"bob": 1}),
    "shop": QueueSettings(capacity=4, shares={"ann": 50, "bob": 25}),
    "post": QueueSettings(
        rate=parse_rate("24 per second"),
        key_rates={"ann": parse_rate("5 per second, burst 3"), "bob": parse_rate("4 per 800ms")},
        task_rates={"cut": parse_rate("5 per second, fixed")},
    ),
    "fair": QueueSettings(fair=True, key_capacity=1, within="shop", ageing=1_000_000),
}
"""Every kind of limit, some of them within others."""
FULL = {"task glue of saws": 2000, "key ann of desks": 2000, "key ann of shop": 2000}
"""Of these so much is held at some moment, and never more: many want them."""
USED_UP = {"key bob of post": 4000, "task cut of post": 5000}
"""Of these so much starts in some period, and never more."""


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
        Job("narrow", key=KEYS[n % 3], weight=(500, 1000, 2000)[n % 7 % 3]) for n in range(JOBS)
    ]
    settings = {"narrow": QueueSettings(capacity=4, key_capacity=2)}
    held = peaks(_worked_off(desk, settings, jobs, tmp_path))
    assert KEY_LIMIT < held.pop("narrow") <= LIMIT
    assert max(held.values()) == KEY_LIMIT


def test_nor_do_they_where_the_queue_alone_has_a_limit(
    desk: tuple[str, Desk], tmp_path: Path
) -> None:
    settings = {"narrow": QueueSettings(capacity=4)}
    held = peaks(_worked_off(desk, settings, [Job("narrow")] * JOBS, tmp_path))
    assert KEY_LIMIT < held["narrow"] <= LIMIT


def test_twelve_processes_keep_to_limits_of_tasks_keys_shares_and_outer_queues_and_to_rates(
    desk: tuple[str, Desk], tmp_path: Path
) -> None:
    inner = [queue for queue in POLICIES if queue != "house"]
    jobs = [
        Job(inner[n % 5], name=("cut", "glue")[n // 20 % 2], key=KEYS[n // 40 % 3])
        for n in range(2 * JOBS)
    ]
    evidence = _worked_off(desk, POLICIES, jobs, tmp_path, members=12, limit=3)
    held, started = peaks(evidence), paces(evidence)
    assert {name: held[name] for name in FULL} == FULL
    assert {name: started[name] for name in USED_UP} == USED_UP
    assert 3000 < held["house"] <= 6000


def _worked_off(
    desk: tuple[str, Desk],
    policies: dict[str, QueueSettings],
    jobs: Sequence[Job],
    tmp_path: Path,
    *,
    members: int = MEMBERS,
    limit: int = 1,
) -> Evidence:
    """Let the crowd do these jobs in queues with such settings. Two members die of it, and the
    account balances all the same: every job has ended, and has ended once."""
    url, here = desk
    for queue, settings in policies.items():
        here.control.configure(queue, settings)
    journals = tmp_path / "journals"
    journals.mkdir()
    _enqueue(here, journals, jobs)
    command = ["-m", "tests.faults.crowd", url, ",".join(policies)]
    command += [str(members), str(limit), os.fspath(journals)]
    with subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True
    ) as crowd:
        while _lives(crowd):
            run_chores(here.clerk, "test")
        assert crowd.stdout is not None
        ends = Counter(crowd.stdout.read().split())
    assert ends == {"0": members - 2, "-9": 2}
    evidence = Evidence(read_journals(journals), list(all_jobs(here.store)), here.store.survey())
    assert {name: found for name, found in violations(evidence).items() if found} == {}
    ended = [run.final for runs in evidence.runs.values() for run in runs if run.final]
    assert len(ended) == len(jobs)
    return evidence


def _enqueue(desk: Desk, journals: Path, jobs: Sequence[Job]) -> None:
    tags = [f"fatal {n}" if n in (20, 60) else f"plain {n}" for n in range(len(jobs))]
    cargoes = [msgspec.json.encode(Cargo(tag, padding=tag.split()[0])) for tag in tags]
    drafts = [
        msgspec.structs.replace(job, payload=cargo)
        for job, cargo in zip(jobs, cargoes, strict=True)
    ]
    journal = Journal(journals, "test")
    journal.write(Offer(at=0, batch="jobs", tags=tags, dues=[0] * len(jobs)))
    ids = [placement.id for placement in desk.intake.enqueue_many(drafts)]
    journal.write(Placed(at=1, batch="jobs", ids=ids))
    journal.close()


def _lives(crowd: subprocess.Popen[str]) -> bool:
    with suppress(subprocess.TimeoutExpired):
        crowd.wait(0.2)
    return crowd.returncode is None
