"""Hours of queues: windows and maintenance, exact to the moment, on every engine."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import msgspec

from stoker import Desk, Job, State, Stoker
from stoker.desk.blocker import Reason
from stoker.desk.push import Post
from stoker.fleet.autoscale import measure
from stoker.testing import Harness

HOUR = 3_600_000_000


def at(hour: float) -> int:
    """The moment so many hours after the harness's new year."""
    return round(datetime(2030, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000 + round(hour * HOUR)


def noted(app: Stoker, stoker: Harness) -> tuple[Callable[[], object], list[int]]:
    """What enqueues a job, and when such jobs have run."""
    started: list[int] = []
    task = app.task(name="note", queue="mail")(lambda: started.append(stoker.clock()))
    return task.enqueue, started


def test_jobs_of_a_queue_start_in_its_windows_only(app: Stoker, stoker: Harness) -> None:
    enqueue, started = noted(app, stoker)
    app.configure("mail", windows="05:00-07:00, 22:00-02:00 except 2030-01-02")
    stoker.run_for("3h")
    enqueue()
    assert (stoker.run_for("1h59m"), stoker.run_for("1m")) == (0, 1)
    stoker.run_for("3h")
    enqueue()
    stoker.run_for("17h")
    enqueue()
    stoker.run_for("4d")
    # The last came at one on the 2nd, when nothing is open that goes on past midnight.
    assert started == [at(5), at(22), at(53)]


def test_a_job_in_a_queue_that_closes_just_then_goes_back_without_a_try(
    app: Stoker, stoker: Harness
) -> None:
    app.configure("mail", windows="00:00-07:00")
    job = app.task(name="note", queue="mail")(lambda: None).enqueue()
    desk = app.desk
    stoker.clock.advance(timedelta(hours=6))
    claim = desk.dispatch.request(["mail"], 1)
    stoker.clock.advance(timedelta(hours=1))
    grant = desk.clerk.transact((), [claim]).grants[0]
    assert [each.id for each in grant or ()] == [job.id]
    assert desk.dispatch.granted(grant) == []
    kept = job.job
    assert (kept.state, kept.attempt, kept.due_at) == (State.QUEUED, 0, at(0))
    assert desk.dispatch.claim(["mail"]) == []
    assert stoker.run_for("17h") == 1


def test_whoever_waits_for_work_is_told_when_a_closed_queue_opens(
    app: Stoker, stoker: Harness
) -> None:
    app.configure("mail", windows="05:00-07:00")
    app.desk.intake.enqueue(Job("mail"))
    app.desk.intake.enqueue(Job("other", due_at=at(9)))
    next_due = app.desk.dispatch.next_due
    assert next_due(["mail", "other"]) == at(5)
    assert next_due(["*"], after=stoker.clock()) == at(5)
    assert next_due(["other"]) == at(9)
    stoker.clock.advance(timedelta(hours=5))
    # It was closed when that one asked, and it is open now.
    assert next_due(["mail"], after=at(0)) == at(5)
    assert next_due(["mail"]) is None


def test_maintenance_drains_first_and_is_over_by_itself(app: Stoker, stoker: Harness) -> None:
    enqueue, started = noted(app, stoker)
    once = "2030-01-01 02:00 to 2030-01-01 03:00, drain 30m"
    app.configure("mail", maintenance=[once, "12:00-13:00"])
    stoker.run_for("1h29m")
    enqueue()
    stoker.run_for("1m")
    enqueue()
    stoker.run_for("9h")
    assert started == [at(1) + 29 * 60_000_000, at(3)]
    stoker.run_for("2h")
    assert app.desk.dispatch.next_due(["mail"]) == at(13)
    enqueue()
    stoker.run_for("1h")
    assert started[2:] == [at(13)]


def test_the_hours_of_a_queue_hold_for_those_within_it(app: Stoker, stoker: Harness) -> None:
    app.configure("gpu", maintenance="00:00-03:00")
    app.configure("train", within="gpu")
    app.task(name="train", queue="train")(lambda: None).enqueue()
    assert (stoker.run_for("2h59m"), stoker.run_for("1m")) == (0, 1)


def test_explain_tells_when_the_queue_opens(app: Stoker, stoker: Harness) -> None:
    app.configure("mail", windows="05:00-07:00", maintenance="2029-12-31 23:00 to 2030-01-01 06:00")
    job = app.task(name="note", queue="mail")(lambda: None).enqueue()
    closed, maintenance = job.explain().blockers[:2]
    assert (closed.reason, closed.until) == (Reason.QUEUE_CLOSED, at(6))
    assert (maintenance.reason, maintenance.until) == (Reason.MAINTENANCE, at(6))
    assert maintenance.text == (
        "the queue mail is closed for maintenance (2029-12-31 23:00 to 2030-01-01 06:00)"
    )


def test_a_closed_queue_wants_no_more_workers(app: Stoker, stoker: Harness) -> None:
    app.configure("mail", windows="05:00-07:00")
    app.desk.intake.enqueue(Job("mail"))
    assert measure(app.desk.store, ["*"]) == []
    stoker.clock.advance(timedelta(hours=5))
    assert [demand.due for demand in measure(app.desk.store, ["*"])] == [1]


def test_a_worker_that_is_given_its_jobs_gets_none_of_a_closed_queue(
    app: Stoker, stoker: Harness
) -> None:
    app.configure("mail", windows="05:00-07:00")
    app.desk.intake.enqueue(Job("mail"))
    post = Post("worker", "mail")
    app.desk.push.sign_in(post, ttl=100 * HOUR)
    assert app.desk.push.give([post], lease=HOUR, mark_for=1).gifts == []
    stoker.clock.advance(timedelta(hours=5))
    assert len(app.desk.push.give([post], lease=HOUR, mark_for=1).gifts) == 1


def test_settings_that_another_process_changes_are_seen_within_a_second(
    app: Stoker, stoker: Harness
) -> None:
    app.desk.intake.enqueue(Job("mail"))
    elsewhere = Desk(app.desk.store)
    assert elsewhere.dispatch.claim(["nothing", "mail"], 1)
    app.desk.intake.enqueue(Job("mail"))
    app.configure("mail", windows="05:00-07:00")
    stoker.clock.advance(timedelta(seconds=1))
    assert elsewhere.dispatch.claim(["mail"]) == []


def test_hours_are_kept_in_the_store_as_they_were_said(app: Stoker) -> None:
    said = app.configure(
        "mail",
        windows="mon-fri 08:00-18:00 in Europe/Berlin except 2030-12-25",
        maintenance="sun 02:00-04:00, drain 30m; 2030-03-28 02:00 to 2030-03-28 04:00",
    )
    (view,) = Desk(app.desk.store).store.survey(["mail"])
    assert view.settings == said
    assert msgspec.json.decode(msgspec.json.encode(said), type=type(said)) == said
    assert app.configure("mail", windows=None, maintenance=None).keeps_hours is False


def test_where_there_are_very_many_queues_a_closed_one_is_left_alone_all_the_same(
    app: Stoker, stoker: Harness
) -> None:
    app.desk.intake.enqueue_many([Job(f"q{n}") for n in range(250)])
    app.configure("q7", windows="05:00-07:00")
    stoker.clock.advance(timedelta(seconds=2))
    desk = Desk(app.desk.store)
    names = {job.queue for _ in range(2) for job in desk.dispatch.claim(["*"], 200)}
    assert len(names) == 249
    assert "q7" not in names
