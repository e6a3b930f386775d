"""Pushing jobs to posts: one job each, whoever speaks for them."""

from __future__ import annotations

import pytest

from stoker.desk import Desk
from stoker.desk.push import Post, PostView, Sign
from stoker.errors import BadInput, LeaseLost
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Finished
from stoker.store import Session, Store
from stoker.watch.recover import recover
from tests.engines import VirtualClock
from tests.store.conformance.acts import MINUTE, SECOND, put, running, seen, state

ANN, BOB = Post("ann", "q"), Post("bob", "q")
LEASE = 9 * SECOND


def sign_in(desk: Desk, *posts: Post) -> None:
    for post in posts:
        desk.push.sign_in(post, ttl=MINUTE)


def given(desk: Desk, *posts: Post) -> list[tuple[str, int]]:
    gifts = desk.push.give(posts, lease=LEASE, mark_for=LEASE).gifts
    return [(gift.post.worker, gift.job.id) for gift in gifts]


def test_each_post_is_given_one_job_of_its_queue(desk: Desk, clock: VirtualClock) -> None:
    elsewhere = Post("ann", "other")
    sign_in(desk, ANN, BOB, elsewhere)
    ids = [put(desk) for _ in range(3)]
    assert given(desk, ANN, elsewhere, BOB) == [("ann", ids[0]), ("bob", ids[1])]
    job = seen(desk, ids[0])
    assert (job.session, job.until) == (ANN.session, clock.now + LEASE)
    assert desk.push.held(ANN) == job and desk.push.holds(ANN, job)
    assert not desk.push.holds(BOB, job)
    assert desk.push.held(elsewhere) is None


def test_a_post_that_was_given_a_job_is_taken_for_everybody_else(desk: Desk, store: Store) -> None:
    other = Desk(store)
    sign_in(desk, ANN)
    first, second = put(desk), put(desk)
    assert given(desk, ANN) == [("ann", first)]
    gifts, taken = other.push.give([ANN], lease=LEASE, mark_for=LEASE)
    assert (gifts, taken) == ([], [ANN])
    assert state(desk, second) is State.QUEUED


def test_a_post_without_a_job_is_free_at_once(desk: Desk, store: Store) -> None:
    sign_in(desk, ANN)
    assert given(desk, ANN) == []
    job = put(desk)
    assert given(Desk(store), ANN) == [("ann", job)]


def test_a_mark_lapses_by_itself(desk: Desk, clock: VirtualClock) -> None:
    sign_in(desk, ANN)
    job = put(desk)
    assert given(desk, ANN) == [("ann", job)]
    clock.pass_(9)
    assert recover(desk.clerk) == 1
    assert given(desk, ANN) == [("ann", job)]


def test_a_post_that_did_not_sign_in_is_given_nothing(desk: Desk) -> None:
    job = put(desk)
    assert given(desk, ANN) == []
    assert state(desk, job) is State.QUEUED
    sign_in(desk, ANN)
    assert given(desk, ANN) == [("ann", job)]


def test_a_post_that_reports_is_given_the_next_job_in_the_same_step(
    desk: Desk, store: Store
) -> None:
    sign_in(desk, ANN, BOB)
    ids = [put(desk) for _ in range(3)]
    given(desk, ANN, BOB)
    done = [
        (post, seen(desk, job_id), Finished()) for post, job_id in ((ANN, ids[0]), (BOB, ids[1]))
    ]
    results, gifts = desk.push.report(done, lease=LEASE)
    assert results == [None, None]
    assert [(gift.post, gift.job.id) for gift in gifts] == [(ANN, ids[2])]
    assert Desk(store).push.give([BOB], lease=LEASE, mark_for=LEASE).taken == []


def test_a_post_whose_report_is_refused_is_given_nothing(desk: Desk, clock: VirtualClock) -> None:
    sign_in(desk, ANN)
    first, second = put(desk), put(desk)
    given(desk, ANN)
    old = seen(desk, first)
    clock.pass_(9)
    recover(desk.clerk)
    (result,), gifts = desk.push.report([(ANN, old, Finished())], lease=LEASE)
    assert isinstance(result, LeaseLost) and gifts == []
    assert [state(desk, each) for each in (first, second)] == [State.QUEUED] * 2
    assert seen(desk, second).attempt == 0


def test_a_job_that_is_given_back_keeps_its_place(desk: Desk) -> None:
    sign_in(desk, ANN)
    first, _ = put(desk), put(desk)
    given(desk, ANN)
    (gift,) = desk.push.give_back(ANN, seen(desk, first), lease=LEASE)
    assert (gift.job.id, gift.job.attempt) == (first, 1)


def test_the_posts_of_a_queue_can_be_seen(desk: Desk, clock: VirtualClock) -> None:
    elsewhere = Post("ann", "other")
    sign_in(desk, ANN, BOB, elsewhere)
    desk.dispatch.open_session("ann", ttl=MINUTE)
    put(desk)
    given(desk, BOB)
    expires = clock.now + MINUTE
    views = sorted(desk.push.posts("q"))
    assert views == [PostView(ANN, expires, busy=False), PostView(BOB, expires, busy=True)]


# -- signs of life -------------------------------------------------------------------------


def test_a_remark_is_kept_with_a_later_deadline_and_progress(
    desk: Desk, clock: VirtualClock
) -> None:
    job = running(desk)
    (after,) = desk.push.hear([Sign(job, LEASE, 0.5, "well ☃")])
    assert isinstance(after, Job)
    assert after == seen(desk, job.id)
    assert (after.meta, after.progress, after.until) == ("well ☃", 0.5, clock.now + LEASE)
    assert after.revision == job.revision + 1


def test_a_sign_without_a_remark_is_no_new_revision(desk: Desk) -> None:
    job = running(desk)
    desk.push.hear([Sign(job, LEASE, 0.5)])
    assert seen(desk, job.id).revision == job.revision


def test_a_sign_about_a_job_that_was_lost_is_refused(desk: Desk, clock: VirtualClock) -> None:
    sign_in(desk, ANN, BOB)
    job_id = put(desk)
    given(desk, ANN)
    old = seen(desk, job_id)
    clock.pass_(9)
    recover(desk.clerk)
    given(desk, BOB)
    for sign in (Sign(old, LEASE), Sign(old, LEASE, meta="mine")):
        (result,) = desk.push.hear([sign])
        assert isinstance(result, LeaseLost)
    assert seen(desk, job_id).meta is None


def test_a_remark_on_an_old_copy_is_made_again(desk: Desk) -> None:
    job = running(desk)
    desk.push.hear([Sign(job, meta="first")])
    (after,) = desk.push.hear([Sign(job, meta="second")])
    assert isinstance(after, Job) and after.meta == "second"


def test_a_remark_with_an_odd_progress_is_refused(desk: Desk) -> None:
    job = running(desk)
    (result,) = desk.push.hear([Sign(job, progress=1.5, meta="x")])
    assert isinstance(result, BadInput)
    assert seen(desk, job.id) == job


# -- sessions ------------------------------------------------------------------------------


def test_a_session_that_is_enrolled_again_begins_anew(store: Store, clock: VirtualClock) -> None:
    store.enrol(Session(7, "ann", "{}"), SECOND)
    clock.pass_(0.5)
    store.enrol(Session(7, "bob", '{"a": 1}'), SECOND)
    now = clock.now
    assert store.sessions() == [Session(7, "bob", '{"a": 1}', now, now + SECOND)]
    clock.pass_(5)
    assert not store.beat(7, SECOND).alive
    store.enrol(Session(7, "bob"), SECOND)
    assert store.beat(7, SECOND).alive
    store.retire(7)
    store.enrol(Session(7, "bob"), SECOND)
    assert store.beat(7, SECOND).alive


@pytest.mark.parametrize("queue", ["q", "q[1]*?", "☃"])
def test_a_post_takes_its_queue_by_the_letter(desk: Desk, queue: str) -> None:
    post = Post("ann", queue)
    sign_in(desk, post)
    put(desk, "q1")
    job = put(desk, queue)
    assert given(desk, post) == [("ann", job)]
