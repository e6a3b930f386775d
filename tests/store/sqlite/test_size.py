"""The file: as large as the work needs, and no larger for all that was done before."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from stoker.desk import Desk
from stoker.kernel.change import Change
from stoker.kernel.job import Job
from stoker.kernel.outcome import Finished
from stoker.kernel.policy import Policy
from stoker.kernel.queue import DEFAULTS
from stoker.store import Filter
from stoker.store.sqlite import SqliteStore, driver
from stoker.store.sqlite.driver import Sync
from stoker.watch import run_chores
from tests.engines import SECOND, START, VirtualClock
from tests.store.sqlite.busy_day import STEPS, desk_at

FRAME = 4096 + 24
TABLES = ["job", "body", "queue", "head", "use", "use_together", "flow", "served", "session"]
TABLES += ["lock", "note"]


def pages(store: SqliteStore) -> int:
    return int(store._writer.execute("PRAGMA page_count").get)


def rows(store: SqliteStore, table: str) -> int:
    return int(store._reader.execute(f"SELECT count(*) FROM {table}").get)  # noqa: S608


def finish_all(desk: Desk) -> None:
    while jobs := desk.dispatch.claim(["*"], 1000):
        desk.report.many([(job, Finished(b"done")) for job in jobs])


def rounds_of_work(desk: Desk, clock: VirtualClock, count: int) -> Iterator[None]:
    """Enqueue, claim, finish and forget, again and again; each half hour its own queue."""
    for number in range(count):
        long = bytes(number % 3 * 2000)
        desk.intake.enqueue_many([Job(f"q{number}", payload=long, key="k") for _ in range(100)])
        finish_all(desk)
        clock.pass_(1800)
        run_chores(desk.clerk, "watch")
        yield


def test_steady_work_does_not_make_the_file_grow(store: SqliteStore, clock: VirtualClock) -> None:
    sizes = [pages(store) for _ in rounds_of_work(desk_at(store), clock, 20)]
    assert max(sizes[6:]) <= max(sizes[:6])


def test_the_log_stays_about_as_long_as_it_may_be_before_a_checkpoint(
    path: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_CHECKPOINT_PAGES", 200)
    store = SqliteStore(path, sync=Sync.NORMAL, clock=clock)
    wal = path.with_name("jobs.db-wal")
    sizes = [wal.stat().st_size for _ in rounds_of_work(desk_at(store), clock, 20)]
    assert max(sizes) < 2 * 200 * FRAME
    store.close()


def test_readers_do_not_keep_the_log_from_being_checkpointed(
    path: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_CHECKPOINT_PAGES", 200)
    store = SqliteStore(path, sync=Sync.NORMAL, clock=clock)
    other = SqliteStore(path, sync=Sync.NORMAL, clock=clock)
    wal = path.with_name("jobs.db-wal")
    sizes = []
    for _ in rounds_of_work(desk_at(store), clock, 20):
        other.find(Filter(limit=1))
        other.survey()
        sizes.append(wal.stat().st_size)
    assert max(sizes) < 2 * 200 * FRAME
    other.close()
    store.close()


def test_after_a_burst_the_space_is_given_back_step_by_step(
    path: Path, clock: VirtualClock
) -> None:
    store = SqliteStore(path, sync=Sync.NORMAL, clock=clock)
    burst = Job("q", payload=bytes(500), due_at=START)
    for _ in range(10):
        store.transact([Change(inserts=(burst,) * 5000)])
    swollen = pages(store)
    store._writer.execute("DELETE FROM job; UPDATE queue SET queued = 0")
    sizes = [swollen]
    while not sizes[2:] or sizes[-1] < sizes[-2]:
        store.tidy()
        sizes.append(pages(store))
    steps = [before - after for before, after in pairwise(sizes)]
    assert len(steps) > 4
    assert all(0 <= step <= 520 for step in steps)
    assert sizes[-1] < 4200 < swollen
    store.close()
    assert path.stat().st_size == sizes[-1] * 4096


def test_when_all_is_done_and_forgotten_nothing_is_left(
    store: SqliteStore, clock: VirtualClock
) -> None:
    desk = desk_at(store)
    for step in STEPS:
        step(desk, clock)
    assert all(rows(store, table) for table in ("job", "body", "queue", "head"))
    for _ in range(10):
        finish_all(desk)
        clock.pass_(40 * 24 * 3600)
        run_chores(desk.clerk, "watch")
    desk.control.configure("mail", DEFAULTS)
    store.tidy()
    assert {table: rows(store, table) for table in TABLES} == dict.fromkeys(TABLES, 0)


def test_a_thousand_policies_have_numbers_and_all_further_ones_are_right_too(
    path: Path, clock: VirtualClock
) -> None:
    wanted = {f"job-{n}": Policy(timeout=(n + 1) * SECOND) for n in range(1100)}
    store = SqliteStore(path, sync=Sync.NORMAL, clock=clock)
    jobs = [Job("q", name=name, policy=policy) for name, policy in wanted.items()]
    desk_at(store).intake.enqueue_many(jobs)
    desk_at(store).intake.enqueue_many(jobs)
    assert rows(store, "policy") == 1000
    store.close()
    store = SqliteStore(path, sync=Sync.NORMAL, clock=clock)
    found = [(job.name, job.policy) for job in store.find(Filter(limit=3000))]
    assert found == [*wanted.items()] * 2
    claimed = [job for _ in range(3) for job in desk_at(store).dispatch.claim(["q"], 1000)]
    assert [(job.name, job.policy) for job in claimed] == [*wanted.items()] * 2
    assert {job.until for job in claimed} == {START + (n + 1) * SECOND for n in range(1100)}
    store.close()


def test_a_job_may_be_given_a_policy_that_has_no_number_and_back(store: SqliteStore) -> None:
    desk = desk_at(store)
    desk.intake.enqueue_many([Job("q", policy=Policy(timeout=n + 1)) for n in range(1000)])
    odd = Policy(timeout=77 * SECOND)
    job_id = desk.intake.enqueue(Job("q")).id
    desk.control.edit(job_id, {"policy": odd})
    assert store.get([job_id])[job_id].policy == odd
    desk.control.edit(job_id, {"policy": Policy(timeout=1)})
    assert store.get([job_id])[job_id].policy == Policy(timeout=1)
    assert rows(store, "policy") == 1000
