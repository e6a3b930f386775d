"""What is done to see that its cost does not grow with what lies around."""

from __future__ import annotations

from typing import Any

from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.store import Adrift, Forgettable, Lost
from tests.engines import START

DAY = 24 * 3600 * 1_000_000


def start_all(desk: Desk, **lease: Any) -> None:
    """Claim until nothing is left."""
    while desk.dispatch.claim(["q"], 1000, **lease):
        pass


def claim_ten(desk: Desk) -> None:
    assert len(desk.dispatch.claim(["q"], 10)) == 10


def enqueue_ten(desk: Desk) -> None:
    assert len(desk.intake.enqueue_many([Job("q") for _ in range(10)])) == 10


def claim_and_finish(desk: Desk) -> None:
    (job,) = desk.dispatch.claim(["q"])
    desk.report.finish(job)


def look_for_the_lost(desk: Desk) -> None:
    assert desk.store.find(Lost()) == []


def look_for_the_adrift(desk: Desk) -> None:
    assert desk.store.find(Adrift()) == []


def look_for_the_old(desk: Desk) -> None:
    assert desk.store.find(Forgettable()) == []


def look_for_trouble(desk: Desk) -> None:
    assert not desk.store.troubled()


def beat_for_all(desk: Desk) -> None:
    """One beat for each worker, whatever it runs."""
    for session in desk.store.sessions():
        beat = desk.dispatch.beat(session.id, ttl=DAY, watch=True)
        assert (beat.alive, beat.cancelled, beat.troubled) == (True, (), False)


def ask_for_the_next_due(desk: Desk) -> None:
    assert desk.store.next_due(["q"]) in (None, START + DAY)


def list_the_schedules(desk: Desk) -> None:
    assert desk.schedules.all() == []


def survey(desk: Desk) -> None:
    assert [view.name for view in desk.store.survey(["q"])] == ["q"]
