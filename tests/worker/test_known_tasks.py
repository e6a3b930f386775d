"""Workers tell which tasks they know, so that one can hear why a job will never run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from stoker import Stoker, Worker
from stoker.desk import known_tasks
from stoker.desk.blocker import Blocker, Reason
from stoker.desk.explain import explain
from stoker.desk.workers import survey_workers
from stoker.kernel.change import Note
from stoker.kernel.job import Job
from tests.servers.urls import fresh_url
from tests.worker.conftest import Hire
from tests.worker.waiting import until

MINUTE = 60_000_000


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Every engine: here the store itself is meant."""
    with fresh_url(request.param, tmp_path) as url:
        yield url


def nothing() -> None: ...


@pytest.fixture
def app(home: str) -> Iterator[Stoker]:
    with closing(Stoker(home)) as app:
        app.task(name="known", queue="mail")(nothing)
        yield app


def put(app: Stoker, name: str) -> int:
    """A job that stays where it is, so that nobody comes upon it."""
    due_at = app.desk.store.now() + MINUTE
    return app.desk.intake.enqueue(Job("mail", name, due_at=due_at)).id


def unknown(app: Stoker, job_id: int) -> list[str]:
    found = explain(app.desk.store, job_id).blockers
    return [blocker.text for blocker in found if blocker.reason is Reason.UNKNOWN_TASK]


def elder(app: Stoker, info: str = '{"queues": ["mail"]}') -> int:
    """A worker of an older version, or of another language: it tells no tasks."""
    return app.desk.dispatch.open_session("elder", info, ttl=MINUTE)


def test_a_task_that_no_worker_of_the_queue_knows_is_told_with_the_workers(
    app: Stoker, hire: Hire
) -> None:
    strange, known = put(app, "strange"), put(app, "known")
    hire(name="bob", queues=["mail"])
    hire(name="ann", queues=["mail", "other"])
    hire(name="cleo", queues=["other"])
    text = "no live worker of the queue mail knows a task called 'strange': ann, bob"
    assert unknown(app, strange) == [text]
    assert unknown(app, known) == []


def test_many_workers_are_not_all_named(app: Stoker, hire: Hire) -> None:
    strange = put(app, "strange")
    for n in range(7):
        hire(name=f"w{n}", concurrency=1)
    assert unknown(app, strange)[0].endswith(": w0, w1, w2, w3, w4 and 2 more")


def test_a_job_that_was_put_off_by_such_a_worker_is_told_both(app: Stoker, hire: Hire) -> None:
    hire(name="ann")
    job = app.desk.intake.enqueue(Job("mail", "strange")).id
    until(lambda: app.desk.store.get([job])[job].error)
    found = explain(app.desk.store, job).blockers
    put_off = "it was put off: no task called 'strange' is known to the worker that took it"
    assert [blocker.reason for blocker in found] == [Reason.NOT_DUE, Reason.UNKNOWN_TASK]
    assert found[0].text == put_off


def test_where_one_worker_knows_it_or_has_not_said_nothing_is_claimed(
    app: Stoker, hire: Hire, home: str
) -> None:
    strange = put(app, "strange")
    hire(name="ann")
    assert unknown(app, strange)
    session = elder(app)
    assert unknown(app, strange) == []
    app.desk.dispatch.close_session(session)
    assert unknown(app, strange)
    if home != "memory:":  # which is there for one app alone
        with closing(Stoker(home)) as other:
            other.task(name="strange", queue="mail")(nothing)
            worker = other.worker(name="bob")
            assert unknown(app, strange) == []
            worker.start()
            worker.stop(grace=0)
        until(lambda: unknown(app, strange))  # it may be too busy to say farewell


def test_what_workers_say_counts_more_than_what_the_asker_knows(app: Stoker, hire: Hire) -> None:
    known, strange = put(app, "known"), put(app, "strange")
    hire(name="ann")
    store = app.desk.store
    assert not explain(store, known, lambda name: name == "strange").blockers[1:]
    (blocker,) = explain(store, strange, lambda name: name == "strange").blockers[1:]
    assert blocker.text.endswith("knows a task called 'strange': ann")
    elder(app)
    (blocker,) = explain(store, strange, lambda name: name == "known").blockers[1:]
    assert blocker == Blocker(Reason.UNKNOWN_TASK, "the app knows no task called 'strange'")


def test_tasks_that_come_later_are_told_by_a_worker_at_work(app: Stoker, hire: Hire) -> None:
    late = put(app, "late")
    worker = hire(name="ann", ttl=1)
    assert unknown(app, late)
    app.task(name="late", queue="mail")(nothing)
    until(lambda: not unknown(app, late))
    assert [each.session for each in survey_workers(app.desk.store)] == [worker.session]


def test_a_worker_that_begins_anew_tells_it_again(app: Stoker, hire: Hire) -> None:
    strange = put(app, "strange")
    worker = hire(name="ann")
    worker._heart.lose(lost := worker.session)
    assert worker.session != lost
    app.desk.store.retire(lost)
    assert unknown(app, strange)


def test_all_who_know_the_same_share_one_list_and_sessions_keep_but_its_mark(
    app: Stoker, hire: Hire
) -> None:
    for n in range(300):
        app.task(name=f"some.long.name.of.a.task.{n:03}", queue="mail")(nothing)
    workers = [hire(name="ann"), hire(name="bob")]
    lists = [key for key in app.desk.store.notes() if key.startswith("tasks:")]
    assert len(lists) == 1
    sizes = {len(session.info) for session in app.desk.store.sessions()}
    assert len(workers) == 2
    assert max(sizes) < 250


def test_who_knows_very_much_tells_nothing(
    app: Stoker, hire: Hire, monkeypatch: pytest.MonkeyPatch
) -> None:
    strange = put(app, "strange")
    monkeypatch.setattr(known_tasks, "MOST_TOLD", len(msgspec.json.encode(["known"])) - 1)
    hire(name="ann")
    assert unknown(app, strange) == []


def test_a_list_is_told_again_before_it_is_forgotten_and_no_beat_tells_it(
    app: Stoker, hire: Hire
) -> None:
    worker = hire(name="ann", ttl=60)
    (kept,) = _lists(app)
    beat(worker)
    assert _lists(app) == [kept]
    worker._heart._introduction._tell_again = 0.0  # a day has passed
    beat(worker)
    (told,) = _lists(app)
    assert (told.until or 0) > (kept.until or 0)
    assert len(app.desk.store.sessions()) == 1


def beat(worker: Worker) -> None:
    worker._heart._beat()


def _lists(app: Stoker) -> list[Note]:
    notes = app.desk.store.notes()
    return [note for key, note in sorted(notes.items()) if key.startswith("tasks:")]
