"""A job that comes round again, carrying its payload from run to run; and what cron would do.

python examples/schedule.py
"""

from __future__ import annotations

from datetime import UTC, datetime
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

from stoker import Desk, Job, Policy, State, open_store
from stoker.kernel.repeat import parse_repeat, preview

NIGHTLY = "cron 30 2 * * * in Europe/Berlin"


def count_to_three(desk: Desk) -> None:
    """Each run hands its payload to the next; the third makes itself the last."""
    store = desk.store
    placed = desk.intake.enqueue(Job("pulse", payload=b"1", policy=Policy(repeat="every 300ms")))
    listener = store.bell.listen()
    while store.get([placed.id])[placed.id].state is State.QUEUED:
        for run in desk.dispatch.claim(["pulse"]):
            number = int(run.payload)
            print(f"run {number} of job {run.id}")
            desk.report.finish(run, payload=b"%d" % (number + 1), repeat=number < 3)
        due = store.next_due(["pulse"])
        if due is not None:
            listener.wait((due - store.now()) / 1e6)
    listener.close()


def show_nights() -> None:
    """Half past two is missing on the night when the clocks are put forward."""
    start = int(datetime(2027, 3, 26, 12, tzinfo=UTC).timestamp()) * 1_000_000
    print(NIGHTLY)
    for run in preview(parse_repeat(NIGHTLY), after=start, count=3):
        wall = datetime.fromtimestamp(run // 1_000_000, ZoneInfo("Europe/Berlin"))
        print(wall.strftime("  %a %d %B, %H:%M"))


def main() -> None:
    with TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{folder}/jobs.db")
        count_to_three(Desk(store))
        store.close()
    show_nights()


if __name__ == "__main__":
    main()
