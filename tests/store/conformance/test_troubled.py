"""Is there anything for the night watch? One question, and what a heartbeat says along the way."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stoker.desk import Desk
from stoker.kernel import rules
from stoker.kernel.job import Job
from stoker.kernel.outcome import Awaits
from stoker.kernel.policy import Policy
from stoker.kernel.queue import QueueSettings, Retention
from stoker.store import Beat, Store
from stoker.watch import run_chores
from tests.engines import VirtualClock
from tests.store.conformance.acts import DAY, HOUR, SECOND, put, running, take
from tests.store.conformance.kin import family_of

Trouble = Callable[[Desk], object]


def a_lease_without_a_session(desk: Desk) -> None:
    put(desk)
    take(desk, visibility=SECOND)


def a_lease_of_a_living_session(desk: Desk) -> None:
    put(desk)
    take(desk, session=desk.dispatch.open_session(ttl=DAY), visibility=SECOND)


def a_job_out_of_time(desk: Desk) -> None:
    running(desk, policy=Policy(timeout=SECOND))


def a_dead_session(desk: Desk) -> None:
    desk.dispatch.open_session(ttl=SECOND)


def a_wait_for_an_answer(desk: Desk) -> None:
    desk.report.wait(running(desk), Awaits("answer", timeout=SECOND))


def an_old_job(desk: Desk) -> None:
    desk.control.configure("q", QueueSettings(retention=Retention(finished=SECOND)))
    desk.report.finish(running(desk))


SOON = [
    a_lease_without_a_session,
    a_lease_of_a_living_session,
    a_job_out_of_time,
    a_dead_session,
    a_wait_for_an_answer,
    an_old_job,
]


def a_lease_of_a_session_that_was_ended(desk: Desk) -> None:
    put(desk)
    session = desk.dispatch.open_session(ttl=HOUR)
    take(desk, session=session)
    desk.dispatch.close_session(session)


def a_child_nobody_lets_go(desk: Desk) -> None:
    parent, _ = family_of(desk)
    desk.store.transact([rules.finish(_fresh(desk, parent), now=desk.store.now())])


def _fresh(desk: Desk, job: Job) -> Job:
    return desk.store.get([job.id])[job.id]


AT_ONCE = [a_lease_of_a_session_that_was_ended, a_child_nobody_lets_go]


@pytest.fixture
def watcher(desk: Desk) -> int:
    """A session that keeps watch."""
    return desk.dispatch.open_session("watcher", ttl=HOUR)


def heard(desk: Desk, watcher: int) -> bool:
    """What is told, with a beat and when asked; it had better be the same."""
    beat = desk.dispatch.beat(watcher, ttl=HOUR, watch=True)
    assert beat.alive
    assert beat.troubled == desk.store.troubled()
    assert desk.dispatch.beat(watcher, ttl=HOUR) == Beat(alive=True)
    return beat.troubled


@pytest.mark.parametrize("trouble", SOON)
def test_trouble_is_told_from_the_moment_on_when_it_begins_until_it_is_seen_to(
    desk: Desk, clock: VirtualClock, watcher: int, trouble: Trouble
) -> None:
    trouble(desk)
    clock.pass_(0.999999)
    assert not heard(desk, watcher)
    clock.pass_(0.000001)
    assert heard(desk, watcher)
    run_chores(desk.clerk, "me")
    assert not heard(desk, watcher)


@pytest.mark.parametrize("trouble", AT_ONCE)
def test_trouble_that_is_there_at_once_is_told_at_once(
    desk: Desk, watcher: int, trouble: Trouble
) -> None:
    trouble(desk)
    assert heard(desk, watcher)
    run_chores(desk.clerk, "me")
    assert not heard(desk, watcher)


def test_a_store_at_work_is_not_troubled(desk: Desk, clock: VirtualClock, watcher: int) -> None:
    family_of(desk)
    put(desk, due_at=clock.now + HOUR)
    desk.report.finish(running(desk))
    put(desk)
    take(desk, session=watcher, visibility=HOUR)
    put(desk, "paused")
    desk.control.configure("paused", QueueSettings(paused=True))
    clock.pass_(60)
    assert not heard(desk, watcher)


def test_who_is_dead_is_told_only_that(desk: Desk, store: Store, clock: VirtualClock) -> None:
    dead = desk.dispatch.open_session(ttl=SECOND)
    clock.pass_(1)
    assert store.troubled()
    assert desk.dispatch.beat(dead, ttl=HOUR, watch=True) == Beat(alive=False)
