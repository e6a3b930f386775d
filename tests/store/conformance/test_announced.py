"""What is rung out goes with its commit: heard when it is done, never when it is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stoker.desk import Desk
from stoker.desk.announced import Arrival, Ending
from stoker.errors import BadInput, Duplicate, IllegalMove, LeaseLost, NotFound
from stoker.kernel.change import Change, NoteWrite
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Finished, Released
from stoker.store import Claim, Store
from stoker.store.bell import Listener
from tests.store.conformance.acts import exists, put, running, seen, state, take


@pytest.fixture
def ear(store: Store) -> Iterator[Listener]:
    ear = store.bell.listen()
    yield ear
    ear.close()


def news(text: str) -> Change:
    return Change(rings=(f"~{text}",))


def heard(ear: Listener) -> set[str]:
    """All rings there are, of which there has to be one."""
    rings = ear.wait(10)
    while more := ear.wait(0):
        rings |= more
    return rings


def test_new_jobs_ring_for_their_queue_and_with_their_news(desk: Desk, ear: Listener) -> None:
    (ids,) = desk.announced.enqueue_each([Arrival([Job("a"), Job("a")], news("two ☃"))])
    assert isinstance(ids, tuple | range) and len(ids) == 2
    assert heard(ear) == {"a", "~two ☃"}


def test_of_many_arrivals_only_those_that_are_taken_in_are_told(desk: Desk, ear: Listener) -> None:
    job = Job("a", unique_key="k")
    results = desk.announced.enqueue_each(
        [
            Arrival([job], news("first")),
            Arrival([Job("b"), job], news("second")),
            Arrival([Job("c", rank=2**70)], news("third")),
            Arrival([Job("d")], news("fourth")),
        ]
    )
    kinds = [type(result) for result in results]
    assert kinds[1:3] == [Duplicate, BadInput]
    assert heard(ear) == {"a", "~first", "d", "~fourth"}
    assert [view.name for view in desk.store.survey() if view.counts[State.QUEUED]] == ["a", "d"]


def test_an_end_is_told_with_its_commit_and_others_are_claimed(desk: Desk, ear: Listener) -> None:
    jobs = [running(desk) for _ in range(3)]
    waiting = put(desk)
    heard(ear)
    lost = jobs[2]
    desk.report.finish(lost)
    results, grants = desk.announced.report_each(
        [
            Ending(jobs[0], Finished(b"1"), news("done")),
            Ending(jobs[1], Released(), news("back")),
            Ending(lost, Finished(), news("lost")),
        ],
        [Claim(("q",), 2, token=77)],
    )
    assert [type(result) for result in results] == [Job, Job, LeaseLost]
    assert [job.id for job in grants[0] or ()] == [jobs[1].id, waiting]
    assert heard(ear) == {"q", "~done", "~back"}


def test_cancelling_is_told_in_any_case(desk: Desk, ear: Listener) -> None:
    waiting = put(desk)
    runs = put(desk)
    session = desk.dispatch.open_session(ttl=10**9)
    taken = take(desk, session=session)
    assert taken.id == waiting
    heard(ear)
    results = desk.announced.cancel([waiting, runs, 999], news("cancel"))
    assert [type(result) for result in results] == [Job, Job, NotFound]
    assert heard(ear) == {"~cancel", f"!{session}"}
    assert seen(desk, waiting).cancel_requested
    assert state(desk, runs) is State.CANCELLED
    desk.announced.cancel([], news("nobody"))
    assert heard(ear) == {"~nobody"}


def test_deleting_is_told_in_any_case(desk: Desk, ear: Listener) -> None:
    waiting, job = put(desk), None
    job = put(desk)
    taken = take(desk)
    heard(ear)
    results = desk.announced.delete([taken.id, job], news("delete"))
    assert [type(result) for result in results] == [IllegalMove, Job]
    assert (taken.id, exists(desk, taken.id), exists(desk, job)) == (waiting, True, False)
    assert heard(ear) == {"~delete"}


def test_all_news_are_heard_also_when_there_are_many(desk: Desk, ear: Listener) -> None:
    told = [f"{number} {'☃' * 100}" for number in range(500)]
    desk.announced.enqueue_each([Arrival([Job("a")], news(text)) for text in told])
    expected, found = {"a", *(f"~{text}" for text in told)}, set[str]()
    while found != expected:
        rings = ear.wait(10)
        assert rings
        found |= rings


def test_notes_may_go_with_the_news(desk: Desk, store: Store) -> None:
    note = NoteWrite("n", b"long", until=None)
    desk.announced.enqueue_each([Arrival([Job("a")], Change(notes=(note,)))])
    assert store.notes(["n"])["n"].value == b"long"
