"""The number of worker processes follows the load, by the seconds that it will take."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.desk import Desk
from stoker.errors import BadInput
from stoker.fleet.autoscale import Autoscaler, Demand, late_seconds, measure, read_range
from stoker.kernel.job import Job, State
from stoker.store.open import open_store
from tests.engines import SECOND, VirtualClock
from tests.http.client import PATIENCE, SOURCE


def demand(due: int, seconds: float, running: int = 0, capacity: float | None = None) -> Demand:
    return Demand("q", due, running, seconds, capacity)


@pytest.mark.parametrize(
    ("work", "size"),
    [
        (demand(1000, 0.001), 1),
        (demand(1000, 1.0), 10),
        (demand(100, 10.0), 10),
        (demand(30, 3600.0), 3),
        (demand(0, 1.0), 1),
        (demand(10**6, 1.0), 16),
        (demand(10**6, 1.0, capacity=25), 3),
        (demand(0, 3600.0, running=45), 5),
        (demand(0, 0.001, running=500), 1),
    ],
)
def test_the_size_goes_by_the_seconds_of_work_and_not_by_the_number_of_jobs(
    work: Demand, size: int
) -> None:
    assert Autoscaler(1, 16, concurrency=10, within=10.0).size([work]) == size


def test_the_work_of_all_queues_counts_together() -> None:
    scale = Autoscaler(1, 16, concurrency=10, within=10.0)
    assert scale.size([demand(100, 5.0), demand(100, 5.0)]) == 10


def test_a_fleet_grows_at_once_and_shrinks_when_less_has_been_enough_for_a_while() -> None:
    at = [0.0]
    scale = Autoscaler(1, 16, concurrency=1, within=1.0, calm=30.0, clock=lambda: at[0])
    sizes = []
    for moment, due in ((0, 1), (1, 9), (2, 3), (20, 3), (31, 2), (33, 2), (51, 2), (90, 0)):
        at[0] = moment
        sizes.append(scale.size([demand(due, 1.0)]))
    assert sizes == [1, 9, 9, 9, 9, 3, 2, 1]


@pytest.mark.parametrize("text", ["", "3", "0:4", "4:2", "a:b", "1:", "-1:3", "1:2:3"])
def test_a_range_that_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="1:8"):
        read_range(text)


def test_a_range_is_the_fewest_and_the_most() -> None:
    assert read_range("2:8") == (2, 8)


# -- measuring, on every engine ------------------------------------------------------------


def test_what_waits_is_weighed_by_how_long_jobs_have_lately_taken(
    desk: Desk, clock: VirtualClock
) -> None:
    desk.intake.enqueue_many([Job("q") for _ in range(10)])
    for job in desk.dispatch.claim(["q"], 2):
        clock.pass_(3)
        desk.report.finish(job)
    (found,) = measure(desk.store, ["q"])
    assert (found.due, found.running, found.run_seconds) == (8, 0, 4.5)
    assert late_seconds(desk.store, [found]) == 6.0


def test_jobs_that_run_on_and_on_are_taken_for_long_ones(desk: Desk, clock: VirtualClock) -> None:
    desk.intake.enqueue_many([Job("q"), Job("q")])
    desk.dispatch.claim(["q"])
    clock.pass_(100)
    (found,) = measure(desk.store, ["*"])
    assert (found.due, found.running, found.run_seconds) == (1, 1, 100.0)


def test_what_nobody_could_do_now_does_not_count(desk: Desk, clock: VirtualClock) -> None:
    later = clock.now + 60 * SECOND
    desk.intake.enqueue_many([Job("q", due_at=later), Job("paused"), Job("other")])
    desk.control.adjust("paused", paused=True)
    demands = measure(desk.store, ["q", "paused"])
    assert [(each.queue, each.due) for each in demands] == [("q", 0)]
    assert late_seconds(desk.store, demands) == 0.0


def test_the_room_of_a_queue_limits_what_is_wanted(desk: Desk) -> None:
    desk.control.adjust("q", capacity=3)
    desk.intake.enqueue_many([Job("q") for _ in range(100)])
    (found,) = measure(desk.store, ["q"])
    assert found.slots(within=0.1) == 3


def test_a_queue_has_no_more_room_than_the_one_that_it_is_within(desk: Desk) -> None:
    desk.control.adjust("gpu", capacity=3)
    desk.control.adjust("q", within="gpu", capacity=8)
    desk.intake.enqueue_many([Job("q") for _ in range(100)])
    (found,) = measure(desk.store, ["q"])
    assert found.slots(within=0.1) == 3
    desk.control.adjust("gpu", paused=True)
    assert measure(desk.store, ["q"]) == []


# -- processes -----------------------------------------------------------------------------

FLEET = """
import logging, time
from stoker import Stoker
from stoker.fleet.autoscale import Autoscaler
from stoker.fleet.supervisor import Supervisor
from stoker.worker.worker import WorkerSettings

app = Stoker()

@app.task(queue="slow", name="naps.nap")
def nap() -> None:
    time.sleep(0.5)

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    scale = Autoscaler(1, 3, concurrency=1, within=1.0, calm=0.5)
    raise SystemExit(Supervisor("naps:app", WorkerSettings(("slow",), 1), scale=scale).run())
"""


def test_a_fleet_follows_the_load_up_and_down(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}?sync=normal"
    (tmp_path / "naps.py").write_text(FLEET, encoding="utf-8")
    store = open_store(url)
    Desk(store).intake.enqueue_many([Job("slow", "naps.nap", b"{}") for _ in range(12)])
    fleet = subprocess.Popen(
        [sys.executable, "naps.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": SOURCE, "STOKER_STORE": url},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert fleet.stderr is not None
        resized = re.compile(r"from (\d) to (\d) processes")
        found = (match for line in fleet.stderr if (match := resized.search(line)))
        sizes = [next(found).groups()]
        while sizes[-1][1] != "1":
            sizes.append(next(found).groups())
    finally:
        fleet.send_signal(signal.SIGTERM)
        fleet.communicate(timeout=PATIENCE)
    assert sizes[0] == ("1", "3")
    assert fleet.returncode == 0
    assert store.survey()[0].counts[State.FINISHED] == 12
    store.close()


def test_the_command_line_refuses_a_range_that_cannot_be_meant(tmp_path: Path) -> None:
    (tmp_path / "naps.py").write_text(FLEET, encoding="utf-8")
    words = ("worker", "naps:app", "--store", "sqlite:///jobs.db", "--autoscale", "3")
    done = subprocess.run(
        [sys.executable, "-m", "stoker", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "as in 1:8" in done.stderr) == (2, True), done.stderr
