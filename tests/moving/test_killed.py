"""A move from engine to engine that is killed, again and again, and run again: nothing is lost and
nothing is doubled."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest

from stoker.desk import Desk
from stoker.desk.moving import DESTINATION, ORIGIN
from stoker.kernel.job import Job
from stoker.kernel.outcome import Finished
from stoker.store import Store
from stoker.store.open import open_store
from tests.faults.nemesis import ROOT, environment
from tests.moving.test_moving import busy_store, contents
from tests.servers import postgres
from tests.servers.urls import fresh_url
from tests.servers.valkey_groups import default_cluster, until

MANY, LATE = 2500, 3
Place = Callable[[Path], AbstractContextManager[str]]


def sqlite(folder: Path) -> AbstractContextManager[str]:
    return fresh_url("sqlite", folder)


def postgresql(_: Path) -> AbstractContextManager[str]:
    return postgres.stores().schema()


@contextmanager
def cluster(_: Path) -> Iterator[str]:
    yield default_cluster().url("moved", partitions=3)


def begin(source: str, target: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "stoker", "move", source, target, "--json", "--grace", "10m"]
    return subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL)


def killed(source: str, target: str, when: Callable[[], object]) -> None:
    """A move that gets as far as that, and no further."""
    process = begin(source, target)
    try:
        until(lambda: process.poll() is not None or when(), "the moment to kill it")
    finally:
        process.kill()
    assert process.wait() == -signal.SIGKILL


def size(store: Store) -> int:
    return sum(sum(view.counts.values()) for view in store.survey())


def run_all(desk: Desk) -> set[int]:
    """Whatever the new store gives out."""
    ran: list[int] = []
    while jobs := desk.dispatch.claim(["many"], 1000):
        ran += [job.id for job in jobs]
        desk.report.many([(job, Finished(b"")) for job in jobs], [])
    assert len(ran) == len(set(ran))
    return set(ran)


@pytest.mark.parametrize(("origin", "destination"), [(sqlite, postgresql), (postgresql, cluster)])
def test_a_move_that_is_killed_is_run_again_and_moves_everything_once(
    origin: Place, destination: Place, tmp_path: Path
) -> None:
    with (
        origin(tmp_path) as there,
        destination(tmp_path) as here,
        closing(open_store(there)) as source,
        closing(open_store(here)) as target,
    ):
        desk = Desk(source)
        busy_store(source)
        desk.intake.enqueue_copies(Job("many"), [b"%d" % n for n in range(MANY)])
        held, *others = desk.dispatch.claim(["many"], 300)

        killed(there, here, lambda: size(target))  # as soon as the first have arrived
        # What was copied is not as it was any more.
        desk.report.many([(job, Finished(b"meanwhile")) for job in others], [])
        desk.intake.enqueue_copies(Job("many"), [b"late"] * LATE)

        killed(there, here, lambda: source.notes([DESTINATION]))
        assert target.notes([ORIGIN])
        desk.report.finish(held, b"done after it closed")
        before = contents(source)

        assert begin(there, here).wait(60) == 0
        assert contents(target) == before
        assert len(run_all(Desk(target))) == MANY - len(others) - 1 + LATE
