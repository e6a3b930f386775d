"""Sessions: a worker lives as long as it beats, and what died stays dead."""

from __future__ import annotations

import pytest

from stoker.desk import Desk
from stoker.errors import SessionLost
from stoker.kernel.job import Job, State
from stoker.store import Beat, Session, Store
from stoker.watch.recover import recover
from tests.engines import VirtualClock
from tests.store.conformance.acts import (
    HOUR,
    MINUTE,
    SECOND,
    put,
    seen,
    snapshot,
    state,
    take,
    take_all,
)

TTL = 3 * SECOND


def known(store: Store) -> list[int]:
    return [session.id for session in store.sessions()]


def test_a_session_is_on_the_books_with_all_that_was_said(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    first = desk.dispatch.open_session("worker ☃", '{"slots": 4}', ttl=TTL)
    second = desk.dispatch.open_session(ttl=MINUTE)
    now = clock.now
    assert store.sessions() == [
        Session(first, "worker ☃", '{"slots": 4}', now, now + TTL),
        Session(second, "", "{}", now, now + MINUTE),
    ]


def test_beats_keep_a_session_alive_for_as_long_as_they_come(
    desk: Desk, clock: VirtualClock
) -> None:
    session = desk.dispatch.open_session(ttl=TTL)
    put(desk)
    job = take(desk, session=session)
    for _ in range(100):
        clock.pass_(2.9)
        assert desk.dispatch.beat(session, ttl=TTL) == Beat(alive=True)
        assert recover(desk.clerk) == 0
    assert desk.report.finish(job).state is State.FINISHED


def test_a_session_is_dead_at_the_very_moment_its_time_is_up(
    desk: Desk, clock: VirtualClock
) -> None:
    session = desk.dispatch.open_session(ttl=TTL)
    clock.now += TTL - 1
    assert desk.dispatch.beat(session, ttl=TTL).alive
    clock.now += TTL
    assert not desk.dispatch.beat(session, ttl=TTL).alive


def test_a_dead_session_cannot_be_revived_by_a_beat(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    session = desk.dispatch.open_session(ttl=TTL)
    put(desk)
    job = take(desk, session=session)
    clock.pass_(3)
    assert desk.dispatch.beat(session, ttl=HOUR) == Beat(alive=False)
    assert store.sessions()[0].expires_at == clock.now
    assert recover(desk.clerk) == 1
    assert state(desk, job.id) is State.QUEUED
    assert desk.dispatch.beat(session, ttl=HOUR) == Beat(alive=False)


@pytest.mark.parametrize("death", ["expired", "closed", "never opened"])
def test_a_session_that_is_not_alive_gets_no_jobs(
    desk: Desk, store: Store, clock: VirtualClock, death: str
) -> None:
    session = 404 if death == "never opened" else desk.dispatch.open_session(ttl=TTL)
    if death == "expired":
        clock.pass_(3)
    elif death == "closed":
        desk.dispatch.close_session(session)
    put(desk)
    before = snapshot(store)
    with pytest.raises(SessionLost, match="open a new session"):
        desk.dispatch.claim(["q"], session=session)
    assert snapshot(store) == before
    assert not desk.dispatch.beat(session, ttl=TTL).alive


@pytest.mark.parametrize("death", ["expired", "closed"])
def test_jobs_of_a_dead_session_return_and_those_of_others_stay(
    desk: Desk, clock: VirtualClock, death: str
) -> None:
    dead, alive = (desk.dispatch.open_session(ttl=ttl) for ttl in (TTL, HOUR))
    desk.intake.enqueue_many([Job("q")] * 6)
    lost = desk.dispatch.claim(["q"], 2, session=dead)
    held = desk.dispatch.claim(["q"], 2, session=alive)
    free = desk.dispatch.claim(["q"], 1)
    waiting = seen(desk, 6)
    if death == "expired":
        clock.pass_(3)
    else:
        desk.dispatch.close_session(dead)
    assert recover(desk.clerk) == 2
    assert [state(desk, job.id) for job in lost] == [State.QUEUED, State.QUEUED]
    assert [seen(desk, job.id) for job in held + free] == held + free
    assert seen(desk, 6) == waiting


def test_recovered_jobs_are_the_first_again_in_their_old_order(
    desk: Desk, clock: VirtualClock
) -> None:
    ids = [each.id for each in desk.intake.enqueue_many([Job("q")] * 5)]
    session = desk.dispatch.open_session(ttl=TTL)
    desk.dispatch.claim(["q"], 3, session=session)
    clock.pass_(10)
    recover(desk.clerk)
    assert take_all(desk) == ids


def test_a_dead_session_is_retired_once_it_holds_nothing(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    empty, holding, alive = (desk.dispatch.open_session(ttl=ttl) for ttl in (TTL, TTL, HOUR))
    put(desk)
    take(desk, session=holding)
    clock.pass_(10)
    recover(desk.clerk)
    assert known(store) == [alive]
    assert empty != holding


def test_a_dead_session_stays_on_the_books_while_it_holds_jobs(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    session = desk.dispatch.open_session(ttl=TTL)
    desk.intake.enqueue_many([Job("q")] * 600)
    desk.dispatch.claim(["q"], 600, session=session)
    clock.pass_(3)
    assert (recover(desk.clerk), known(store)) == (500, [session])
    assert (recover(desk.clerk), known(store)) == (100, [])


def test_closing_a_session_forgets_it_and_closing_it_twice_does_no_harm(
    desk: Desk, store: Store
) -> None:
    session = desk.dispatch.open_session(ttl=TTL)
    desk.dispatch.close_session(session)
    desk.dispatch.close_session(session)
    assert known(store) == []


def test_a_beat_tells_which_jobs_are_to_be_cancelled(desk: Desk) -> None:
    mine, other = (desk.dispatch.open_session(ttl=TTL) for _ in range(2))
    desk.intake.enqueue_many([Job("q"), Job("q", key="k"), Job("q"), Job("q")])
    held = desk.dispatch.claim(["q"], 3, session=mine)
    foreign = take(desk, session=other)
    for job in (held[2], held[0], foreign):
        desk.control.cancel(job.id)
    assert desk.dispatch.beat(mine, ttl=TTL).cancelled == (held[0].id, held[2].id)
    assert desk.dispatch.beat(other, ttl=TTL).cancelled == (foreign.id,)


def test_a_beat_no_longer_tells_of_jobs_that_are_over(desk: Desk) -> None:
    session = desk.dispatch.open_session(ttl=TTL)
    put(desk)
    job = take(desk, session=session)
    desk.control.cancel(job.id)
    desk.report.finish(job)
    assert desk.dispatch.beat(session, ttl=TTL) == Beat(alive=True)


def test_an_id_enrolled_again_begins_a_new_life(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    store.enrol(Session(7, "old"), TTL)
    clock.pass_(10)
    store.enrol(Session(7, "new", "[]"), TTL)
    assert store.sessions() == [Session(7, "new", "[]", clock.now, clock.now + TTL)]
    assert store.beat(7, TTL).alive
