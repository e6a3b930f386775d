"""A task that comes round again, carrying its count from run to run; and what cron would do.

python examples/schedule.py
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from stoker import Stoker, current
from stoker.kernel.repeat import parse_repeat, preview

NIGHTLY = "cron 30 2 * * * in Europe/Berlin"

app = Stoker("memory:")
three = threading.Event()


@app.task(name="pulse", repeat="every 200ms")
def pulse(beat: int = 1) -> None:
    print(f"beat {beat} of job {current().job.id}")
    current().update({"beat": beat + 1})
    if beat == 3:
        three.set()


def show_nights() -> None:
    """Half past two is missing on the night when the clocks are put forward."""
    start = int(datetime(2027, 3, 26, 12, tzinfo=UTC).timestamp()) * 1_000_000
    print(NIGHTLY)
    for run in preview(parse_repeat(NIGHTLY), after=start, count=3):
        wall = datetime.fromtimestamp(run // 1_000_000, ZoneInfo("Europe/Berlin"))
        print(wall.strftime("  %a %d %B, %H:%M"))


def main() -> None:
    worker = app.worker()  # makes the schedules of all tasks that repeat
    worker.start()
    three.wait(timeout=30)
    paused = app.desk.schedules.pause("pulse")
    print(f"{paused.name} is paused: {paused.paused}; its workers leave it alone")
    worker.stop()
    app.close()
    show_nights()


if __name__ == "__main__":
    main()
