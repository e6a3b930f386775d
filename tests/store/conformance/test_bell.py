"""Wake-ups: a hint to look, for those whom a committed Change concerns."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.kernel.queue import QueueSettings
from stoker.kernel.rate import parse_rate
from stoker.store import Store
from stoker.store.bell import Listener
from tests.engines import VirtualClock
from tests.store.conformance.acts import BROKEN, HOUR, SECOND, put, running, take


@pytest.fixture
def ear(store: Store) -> Iterator[Listener]:
    ear = store.bell.listen()
    yield ear
    ear.close()


def test_silence_is_an_empty_set(ear: Listener) -> None:
    assert ear.wait(0) == set()


def test_a_new_job_rings_for_its_queue(desk: Desk, ear: Listener, clock: VirtualClock) -> None:
    put(desk, "now")
    assert ear.wait(10) == {"now"}
    put(desk, "later ☃", due_at=clock.now + HOUR)
    assert ear.wait(10) == {"later ☃"}


def test_one_call_rings_for_all_its_queues(desk: Desk, ear: Listener) -> None:
    desk.intake.enqueue_many([Job("a"), Job("b", key="k"), Job("a")])
    assert ear.wait(10) == {"a", "b"}


def test_rings_that_came_before_the_wait_are_not_missed(desk: Desk, ear: Listener) -> None:
    for queue in ("a", "b", "c"):
        put(desk, queue)
    heard: set[str] = set()
    while heard != {"a", "b", "c"}:
        news = ear.wait(10)
        assert news
        heard |= news
    assert ear.wait(0) == set()


def test_a_job_that_comes_back_rings_for_its_queue(desk: Desk, ear: Listener) -> None:
    job = running(desk)
    ear.wait(10)
    desk.report.release(job)
    assert ear.wait(10) == {"q"}


def test_a_job_moved_to_another_queue_rings_there(desk: Desk, ear: Listener) -> None:
    job_id = put(desk)
    ear.wait(10)
    desk.control.edit(job_id, {"queue": "other"})
    assert ear.wait(10) == {"other"}


def heard_until_now(desk: Desk, ear: Listener) -> set[str]:
    """All rings so far; the last of them is our own."""
    put(desk, "the last one")
    heard: set[str] = set()
    while "the last one" not in heard:
        heard |= ear.wait(10)
    return heard - {"the last one"}


@pytest.mark.parametrize(
    "settings",
    [
        QueueSettings(capacity=1),
        QueueSettings(key_capacity=1),
        QueueSettings(keys={"k": 1}, fair=True),
        QueueSettings(capacity=1, shares={"k": 100}, lend=True),
        QueueSettings(tasks={"t": 1}),
        QueueSettings(within="outer"),
    ],
)
def test_room_for_somebody_who_waits_rings_for_the_queue(
    desk: Desk, ear: Listener, settings: QueueSettings
) -> None:
    desk.control.configure("outer", QueueSettings(capacity=1))
    desk.control.configure("q", settings)
    first, _ = put(desk, key="k", name="t"), put(desk, key="k", name="t")
    (job,) = desk.dispatch.claim(["q"], 5)
    assert job.id == first
    heard_until_now(desk, ear)
    desk.report.finish(job)
    assert "q" in heard_until_now(desk, ear)


@pytest.mark.parametrize(
    "settings",
    [
        QueueSettings(fair=True),
        QueueSettings(ageing=SECOND),
        QueueSettings(rate=parse_rate("1 per 1h")),
        QueueSettings(key_rate=parse_rate("1 per 1h")),
    ],
)
def test_the_end_of_a_job_rings_for_nobody_where_that_makes_no_room(
    desk: Desk, ear: Listener, settings: QueueSettings
) -> None:
    desk.control.configure("q", settings)
    put(desk, key="k")
    put(desk, key="k")
    job = take(desk)
    heard_until_now(desk, ear)
    desk.report.finish(job)
    assert heard_until_now(desk, ear) == set()


def test_the_end_of_a_job_in_a_queue_without_limits_rings_for_nobody(
    desk: Desk, ear: Listener
) -> None:
    jobs = [running(desk), running(desk)]
    ear.wait(10)
    desk.report.finish(jobs[0])
    desk.report.fail(jobs[1], BROKEN)
    assert ear.wait(0) == set()


def test_new_settings_ring_for_their_queue(desk: Desk, ear: Listener) -> None:
    desk.control.configure("q", QueueSettings(paused=False, capacity=3))
    assert ear.wait(10) == {"q"}


def test_a_request_to_cancel_rings_for_the_worker(desk: Desk, ear: Listener) -> None:
    session = desk.dispatch.open_session(ttl=SECOND)
    put(desk)
    job = take(desk, session=session)
    ear.wait(10)
    desk.control.cancel(job.id)
    assert ear.wait(10) == {f"!{session}"}


def test_a_request_to_cancel_rings_for_nobody_when_the_lease_has_no_session(
    desk: Desk, ear: Listener
) -> None:
    job = running(desk)
    ear.wait(10)
    desk.control.cancel(job.id)
    assert ear.wait(0) == set()


def test_every_listener_hears_every_ring_and_none_after_it_closed(
    desk: Desk, store: Store, ear: Listener
) -> None:
    other = store.bell.listen()
    put(desk)
    assert (ear.wait(10), other.wait(10)) == ({"q"}, {"q"})
    other.close()
    put(desk)
    assert ear.wait(10) == {"q"}


def test_a_claim_rings_for_nobody(desk: Desk, ear: Listener) -> None:
    put(desk)
    ear.wait(10)
    take(desk)
    assert ear.wait(0) == set()


# -- interrupting --------------------------------------------------------------------------


def test_a_wait_that_is_interrupted_ends_without_a_ring(ear: Listener) -> None:
    heard: list[set[str]] = []
    waiter = threading.Thread(target=lambda: heard.append(ear.wait(10)))
    waiter.start()
    ear.interrupt()
    waiter.join()
    assert heard == [set()]


def test_an_interrupt_before_the_wait_counts_once(ear: Listener) -> None:
    ear.interrupt()
    ear.interrupt()
    assert ear.wait(10) == set()
    assert ear.wait(0) == set()


def test_an_interrupt_loses_no_ring(ear: Listener, desk: Desk) -> None:
    ear.interrupt()
    desk.intake.enqueue(Job("q"))
    heard = ear.wait(10) | ear.wait(0)
    while "q" not in heard:
        heard |= ear.wait(10)
    assert heard == {"q"}
