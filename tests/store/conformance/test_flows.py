"""What rates remember can be read, so that somebody may be told when a job will start."""

from __future__ import annotations

from stoker.desk import Desk
from stoker.kernel.admission import of_key, of_task
from stoker.kernel.queue import QueueSettings
from stoker.kernel.rate import Flow, parse_rate
from tests.engines import VirtualClock
from tests.store.conformance.acts import MINUTE, put, take_all

RATE = parse_rate("2 per minute, fixed")
METERS = ["", of_key("k"), of_task("t")]


def free_at(desk: Desk, meter: str) -> int | None:
    """When a job could start, as far as this meter is concerned."""
    return Flow(RATE, desk.store.flows("q", METERS).get(meter, ""), desk.store.now()).free_at(1000)


def test_what_started_is_remembered_by_queue_by_key_and_by_task(
    desk: Desk, clock: VirtualClock
) -> None:
    limited = QueueSettings(rate=RATE, key_rate=RATE, task_rates={"t": RATE})
    desk.control.configure("q", limited)
    put(desk, key="k", name="t")
    put(desk, key="k")
    put(desk, key="other")
    assert len(take_all(desk)) == 2
    later = clock.now // MINUTE * MINUTE + MINUTE
    assert [free_at(desk, meter) for meter in METERS] == [later, later, None]
    clock.now = later
    assert [free_at(desk, meter) for meter in METERS] == [None] * 3


def test_nothing_is_remembered_where_nothing_started(desk: Desk) -> None:
    assert desk.store.flows("nowhere", METERS) == {}
    desk.control.configure("q", QueueSettings(rate=RATE, key_rate=RATE))
    put(desk, key="k")
    assert desk.store.flows("q", METERS) == {}
