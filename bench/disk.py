"""What jobs take on the disk, and whether the file stays as it is while jobs come and go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bench.loop import FileLoop
from bench.ours import QUEUE, StoreLoop
from bench.plan import Setup, fill_up, portions
from bench.raw import PAYLOAD, RawLoop
from bench.result import Cell, Column, Result, Table
from bench.stopwatch import clear_log
from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.kernel.outcome import Finished
from stoker.kernel.queue import QueueSettings, Retention
from stoker.store.sqlite import SqliteStore
from stoker.store.sqlite.driver import Sync
from stoker.watch.sweep import sweep

_LOOPS: dict[str, Callable[[Path, Sync], FileLoop]] = {"raw": RawLoop, "store": StoreLoop}
_BATCH = 100
_LOOKS = 10
_KEPT = 0.05
"""The share of all jobs that retention keeps on the file at any time."""

_MEGABYTE = 1e6


class Hours:
    """Time that passes by a microsecond a job, so that retention is counted in jobs."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000

    def read(self) -> int:
        """What the clock shows."""
        return self.now


def run(setup: Setup) -> Result:
    """Weigh queued jobs, then watch a file through which jobs pass."""
    return Result((_weights(setup), _growth(setup)))


def _weights(setup: Setup) -> Table:
    count = setup.plan.stored
    weights = {}
    for name, make in _LOOPS.items():
        loop = make(setup.folder / f"disk {name}.db", Sync.NORMAL)
        fill_up(loop.fill, count, setup.along, f"disk: storing {count:,} jobs, {name}")
        loop.close()
        weights[name] = loop.path.stat().st_size / count
    columns = (Column("loop"), Column("bytes a job", ",.0f"), Column("÷ raw", ".2f"))
    rows = tuple((name, weight, weight / weights["raw"]) for name, weight in weights.items())
    title = f"Queued jobs on the disk, {len(PAYLOAD)} bytes of payload each"
    return Table(title, columns, rows, f"{count:,} jobs, their indexes included.")


def _growth(setup: Setup) -> Table:
    path, hours, total = setup.folder / "disk churn.db", Hours(), setup.plan.churn
    store = SqliteStore(path, sync=Sync.NORMAL, clock=hours.read)
    desk = Desk(store)
    kept = Retention(finished=round(total * _KEPT))
    desk.control.configure(QUEUE, QueueSettings(retention=kept))
    looks: list[tuple[Cell, ...]] = []
    for portion in setup.along(portions(total, total // _LOOKS), "disk: jobs come and go"):
        _churn(desk, hours, portion)
        looks.append((portion * (len(looks) + 1), *_sizes(store)))
    hours.now += total
    _sweep(desk)
    looks.append(("all swept", *_sizes(store)))
    store.close()
    columns = (
        Column("jobs passed"),
        Column("jobs on file"),
        Column("file, MB", ",.2f"),
        Column("log, MB", ",.2f"),
    )
    note = f"Finished jobs are kept until {kept.finished:,} others have come."
    return Table("A file through which jobs pass", columns, tuple(looks), note)


def _churn(desk: Desk, hours: Hours, count: int) -> None:
    for portion in portions(count, _BATCH):
        desk.intake.enqueue_many([Job(QUEUE, "bench", PAYLOAD) for _ in range(portion)])
        held = desk.dispatch.claim([QUEUE], portion)
        desk.report.many([(job, Finished()) for job in held])
        hours.now += portion
    _sweep(desk)


def _sweep(desk: Desk) -> None:
    while sweep(desk.clerk):
        pass


def _sizes(store: SqliteStore) -> tuple[Cell, ...]:
    clear_log(Path(store.path))
    (view,) = store.survey([QUEUE])
    log = Path(store.path + "-wal")
    sizes = (Path(store.path).stat().st_size, log.stat().st_size)
    return (sum(view.counts.values()), *(size / _MEGABYTE for size in sizes))
