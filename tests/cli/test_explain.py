"""Why a job is not running: every reason there is, and how it is told."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stoker.desk import Desk
from stoker.desk.blocker import Blocker, Reason
from stoker.desk.explain import Explanation, blockers, explain
from stoker.desk.scene import Scene
from stoker.errors import NotFound
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Awaits, Released
from stoker.kernel.policy import OnLost, Policy
from stoker.kernel.queue import DEFAULTS, QueueSettings
from stoker.kernel.retry import failure_of
from stoker.kernel.retry_forms import fixed
from stoker.kernel.window import parse_windows
from stoker.store import QueueView, Store
from tests.engines import START, VirtualClock

SECOND = 1_000_000
NOT_SEEN = "who asks without a session, as over HTTP or Bedrock, is seen only while it has a job"
NOBODY = Blocker(Reason.NO_WORKER, f"no live worker is known to serve the queue mail; {NOT_SEEN}")
SERVING = '{"queues": ["mail"], "concurrency": 2}'


@pytest.fixture
def worker(desk: Desk) -> int:
    """A live worker that serves mail, two jobs at a time."""
    return desk.dispatch.open_session("ann", SERVING, ttl=3600 * SECOND)


def told(store: Store, job_id: int) -> Explanation:
    return explain(store, job_id)


def only(store: Store, job_id: int) -> Blocker:
    (blocker,) = told(store, job_id).blockers
    return blocker


def enqueue(desk: Desk, job: Job) -> int:
    return desk.intake.enqueue(job).id


# --- Queued --------------------------------------------------------------------------------------


def test_nothing_stands_in_the_way_of_a_job_that_is_next(
    desk: Desk, store: Store, worker: int
) -> None:
    found = told(store, enqueue(desk, Job("mail")))
    assert (found.blockers, found.runs_at) == ((), START)


def test_a_job_waits_its_turn_behind_others(desk: Desk, store: Store, worker: int) -> None:
    enqueue(desk, Job("mail"))
    job_id = enqueue(desk, Job("mail"))
    behind = [Job("mail"), Job("mail", rank=5, due_at=1), Job("mail", rank=-1, due_at=START + 1)]
    desk.intake.enqueue_many(behind)
    assert only(store, job_id) == Blocker(Reason.IN_LINE, "it waits its turn: 1 job goes before it")


def test_a_job_may_not_be_due(desk: Desk, store: Store, worker: int) -> None:
    due = START + 60 * SECOND
    found = told(store, enqueue(desk, Job("mail", due_at=due)))
    assert found.blockers == (Blocker(Reason.NOT_DUE, "it is not due yet", due),)
    assert found.runs_at == due


def test_a_failed_try_is_told_with_its_error(
    desk: Desk, store: Store, worker: int, clock: VirtualClock
) -> None:
    job_id = enqueue(desk, Job("mail", policy=Policy(retry=fixed("10s"))))
    (job,) = desk.dispatch.claim(["mail"], session=worker)
    desk.report.fail(job, failure_of(OSError("the wire is cut\nat line 3")))
    blocker = only(store, job_id)
    assert blocker.reason is Reason.RETRY
    assert blocker.text == "try 1 failed and it is to be tried again: the wire is cut"
    assert blocker.until == START + 10 * SECOND


def test_a_job_that_was_put_off_says_why(desk: Desk, store: Store, worker: int) -> None:
    job_id = enqueue(desk, Job("mail", "send"))
    (job,) = desk.dispatch.claim(["mail"], session=worker)
    later = START + 60 * SECOND
    desk.report.many([(job, Released(later, error="no task called 'send' is known"))])
    expected = Blocker(Reason.NOT_DUE, "it was put off: no task called 'send' is known", later)
    assert only(store, job_id) == expected


def test_a_retry_is_told_as_such_while_the_window_is_closed_and_a_schedule_too(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    worker = desk.dispatch.open_session("ann", SERVING, ttl=10 * 3600 * SECOND)
    night = parse_windows("01:00-02:00")
    opens = int(datetime(2023, 11, 15, 1, tzinfo=UTC).timestamp()) * SECOND
    job_id = enqueue(desk, Job("mail", policy=Policy(retry=fixed("2h"), windows=night)))
    clock.now = opens
    (job,) = desk.dispatch.claim(["mail"], session=worker)
    clock.pass_(3600)
    desk.report.fail(job, failure_of(OSError("the wire is cut")))
    again = opens + 24 * 3600 * SECOND
    failed = "try 1 failed and it is to be tried again: the wire is cut"
    closed = Blocker(Reason.WINDOW_CLOSED, "its time window is closed", again)
    assert told(store, job_id).blockers == (Blocker(Reason.RETRY, failed, again), closed)
    job_id = enqueue(desk, Job("mail", policy=Policy(repeat="every 1h", windows=night)))
    repeats = Blocker(Reason.REPEATS, "it repeats (every 1h) and its next run is to come", again)
    assert told(store, job_id).blockers == (repeats, closed)


@pytest.mark.parametrize("policy", [Policy(retry=fixed("10s")), Policy(repeat="every 10m")])
def test_who_put_a_job_off_is_told_whatever_happened_before(
    desk: Desk, store: Store, worker: int, clock: VirtualClock, policy: Policy
) -> None:
    job_id = enqueue(desk, Job("mail", "send", policy=policy))
    if policy.repeat is None:
        (job,) = desk.dispatch.claim(["mail"], session=worker)
        desk.report.fail(job, failure_of(OSError("the wire is cut")))
    clock.now = told(store, job_id).job.due_at
    (job,) = desk.dispatch.claim(["mail"], session=worker)
    later = clock.now + 60 * SECOND
    error = "no task called 'send' is known to the worker that took it"
    desk.report.many([(job, Released(later, error=error))])
    assert only(store, job_id) == Blocker(Reason.NOT_DUE, f"it was put off: {error}", later)
    clock.now = later
    desk.control.edit(job_id, {"name": "mail"})
    (job,) = desk.dispatch.claim(["mail"], session=worker)
    desk.report.fail(job, failure_of(OSError("gone")))
    assert only(store, job_id).reason in (Reason.RETRY, Reason.REPEATS)


def test_a_schedule_waits_for_its_next_run(desk: Desk, store: Store, worker: int) -> None:
    blocker = only(store, enqueue(desk, Job("mail", policy=Policy(repeat="every 1h"))))
    assert blocker.reason is Reason.REPEATS
    assert blocker.text == "it repeats (every 1h) and its next run is to come"
    assert blocker.until == START + 3600 * SECOND


def test_a_closed_window_opens_at_its_hour(
    desk: Desk, store: Store, worker: int, clock: VirtualClock
) -> None:
    night = Policy(windows=parse_windows("01:00-02:00"))  # it is 22:13 UTC
    opens = int(datetime(2023, 11, 15, 1, tzinfo=UTC).timestamp()) * SECOND
    found = told(store, enqueue(desk, Job("mail", policy=night)))
    assert found.blockers == (Blocker(Reason.WINDOW_CLOSED, "its time window is closed", opens),)
    clock.now = opens + 2 * 3600 * SECOND
    missed = Blocker(Reason.WINDOW_CLOSED, "its time window is closed", opens + 24 * 3600 * SECOND)
    assert blockers(found.job, scene(found.job, now=clock.now))[0] == missed


def test_a_job_due_after_the_window_opens_is_not_kept_back_by_the_window() -> None:
    windows = parse_windows("01:00-02:00")
    due = int(datetime(2023, 11, 15, 1, 30, tzinfo=UTC).timestamp()) * SECOND
    job = Job("mail", id=1, due_at=due, policy=Policy(windows=windows))
    assert blockers(job, scene(job, now=START))[0] == Blocker(
        Reason.NOT_DUE, "it is not due yet", due
    )


def test_a_paused_queue_stops_everything(desk: Desk, store: Store, worker: int) -> None:
    desk.control.adjust("mail", paused=True)
    found = told(store, enqueue(desk, Job("mail")))
    assert found.blockers == (Blocker(Reason.QUEUE_PAUSED, "the queue mail is paused"),)
    assert found.runs_at is None


def test_a_full_queue_names_the_holders_of_its_places(
    desk: Desk, store: Store, worker: int
) -> None:
    desk.control.configure("mail", QueueSettings(capacity=2))
    held = [enqueue(desk, Job("mail")), enqueue(desk, Job("mail", weight=500))]
    job_id = enqueue(desk, Job("mail"))
    first = desk.dispatch.claim(["mail"], 1, session=worker)
    desk.report.wait(first[0], Awaits("answer"))
    desk.dispatch.claim(["mail"], 1, session=worker)
    blocker = only(store, job_id)
    assert blocker.reason is Reason.QUEUE_FULL
    assert blocker.text == "the queue mail is full: 1.5 of 2 places are taken"
    assert sorted(blocker.jobs) == held


def test_a_full_key_names_the_holders_of_its_places(desk: Desk, store: Store, worker: int) -> None:
    desk.control.configure("mail", QueueSettings(capacity=10, key_capacity=5, keys={"ann": 1}))
    held = enqueue(desk, Job("mail", key="ann"))
    enqueue(desk, Job("mail", key="bob"))
    job_id = enqueue(desk, Job("mail", key="ann", weight=2000))
    enqueue(desk, Job("mail", key="bob"))
    desk.dispatch.claim(["mail"], 2)
    blocker = only(store, job_id)
    assert blocker.reason is Reason.KEY_FULL
    assert blocker.text == "the key ann is full: 1 of 1 places are taken, it needs 2"
    assert blocker.jobs == (held,)


def test_a_weightless_job_needs_no_place(desk: Desk, store: Store, worker: int) -> None:
    desk.control.configure("mail", QueueSettings(capacity=1))
    enqueue(desk, Job("mail"))
    desk.dispatch.claim(["mail"], session=worker)
    assert told(store, enqueue(desk, Job("mail", weight=0))).blockers == ()


def test_somebody_must_serve_the_queue(desk: Desk, store: Store, clock: VirtualClock) -> None:
    desk.dispatch.open_session("bob", '{"queues": ["files"]}', ttl=3600 * SECOND)
    desk.dispatch.open_session("cleo", SERVING, ttl=SECOND)
    job_id = enqueue(desk, Job("mail"))
    assert told(store, job_id).blockers == ()
    clock.pass_(1)
    assert only(store, job_id) == NOBODY


def test_who_works_without_a_session_is_seen_while_it_has_a_job(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    held, job_id = enqueue(desk, Job("mail")), enqueue(desk, Job("mail", "send"))
    assert told(store, job_id).blockers[-1] == NOBODY
    (job,) = desk.dispatch.claim(["mail"], visibility=60 * SECOND)
    text = f"nobody can say when the queue mail is asked for again: {NOT_SEEN}"
    assert only(store, job_id) == Blocker(Reason.WORKERS_UNSEEN, text, jobs=(held,))
    assert told(store, job_id).runs_at is None
    clock.pass_(60)
    assert only(store, job_id) == NOBODY
    desk.report.touch(job, visibility=60 * SECOND)
    assert only(store, job_id).reason is Reason.WORKERS_UNSEEN
    desk.report.finish(job)
    assert only(store, job_id) == NOBODY


def test_nothing_is_said_of_all_workers_where_some_are_not_seen(
    desk: Desk, store: Store, worker: int
) -> None:
    for _ in range(3):
        enqueue(desk, Job("mail"))
    job_id = enqueue(desk, Job("mail", "send"))
    desk.dispatch.claim(["mail"], 2, session=worker)
    desk.dispatch.claim(["mail"])
    assert told(store, job_id).blockers == ()


def test_a_worker_serves_the_queue_whose_job_it_has(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    session = desk.dispatch.open_session("ann", '{"queues": []}', ttl=3600 * SECOND)
    enqueue(desk, Job("mail"))
    job_id = enqueue(desk, Job("mail"))
    desk.dispatch.claim(["mail"], session=session)
    assert told(store, job_id).blockers == ()


def test_workers_may_have_their_hands_full(desk: Desk, store: Store, worker: int) -> None:
    enqueue(desk, Job("mail"))
    enqueue(desk, Job("mail"))
    job_id = enqueue(desk, Job("mail"))
    desk.dispatch.claim(["mail"], 2, session=worker)
    assert only(store, job_id).text == ("all workers of the queue are busy: 1 with 2 jobs in hand")
    desk.dispatch.open_session("bob", SERVING, ttl=3600 * SECOND)
    assert told(store, job_id).blockers == ()


def test_a_task_that_the_app_does_not_know_will_not_run(
    desk: Desk, store: Store, worker: int
) -> None:
    job_id = enqueue(desk, Job("mail", "send"))
    (blocker,) = explain(store, job_id, lambda name: name == "post").blockers
    assert blocker == Blocker(Reason.UNKNOWN_TASK, "the app knows no task called 'send'")
    assert explain(store, job_id, lambda name: name == "send").blockers == ()


def test_all_that_stands_in_the_way_is_told_and_the_last_to_end_counts() -> None:
    job = Job("mail", id=1, due_at=START + SECOND)
    found = blockers(job, scene(job, now=START, settings=QueueSettings(paused=True)))
    assert [blocker.reason for blocker in found] == [
        Reason.NOT_DUE,
        Reason.QUEUE_PAUSED,
        Reason.NO_WORKER,
    ]
    ends = tuple(Blocker(Reason.NOT_DUE, "", until) for until in (START + 5, START + 9))
    assert Explanation(job, ends, START, starts_at=START + 9).runs_at == START + 9
    assert Explanation(job, tuple(found), START, starts_at=START + 9).runs_at is None


def scene(job: Job, *, now: int, settings: QueueSettings = DEFAULTS) -> Scene:
    return Scene(now, QueueView(job.queue, settings, {State.QUEUED: 1}, 0))


# --- Running -------------------------------------------------------------------------------------


def test_a_running_job_is_told_with_its_worker(desk: Desk, store: Store, worker: int) -> None:
    job_id = enqueue(desk, Job("mail"))
    desk.dispatch.claim(["mail"], session=worker)
    assert only(store, job_id) == Blocker(Reason.RUNNING, "it runs now, try 1, on ann")
    desk.control.cancel(job_id)
    assert told(store, job_id).blockers[1] == Blocker(
        Reason.CANCEL_REQUESTED, "it was asked to stop, and has not yet"
    )


@pytest.mark.parametrize(
    ("policy", "follows"),
    [
        (Policy(), "it will run again in its old place"),
        (Policy(on_lost=OnLost.RETRY), "its retry policy will decide"),
        (Policy(on_lost=OnLost.FAIL), "it will fail for good"),
        (Policy(crash_limit=1), "it has lost 1 workers and fails"),
    ],
)
def test_a_dead_workers_job_tells_what_will_become_of_it(
    desk: Desk, store: Store, clock: VirtualClock, policy: Policy, follows: str
) -> None:
    session = desk.dispatch.open_session("ann", SERVING, ttl=SECOND)
    job_id = enqueue(desk, Job("mail", policy=policy))
    desk.dispatch.claim(["mail"], session=session)
    clock.pass_(1)
    alone = only(store, job_id)
    assert alone.reason is Reason.WORKER_LOST
    assert alone.text == (
        "its worker (ann) is dead; "
        "no live worker is known that could see to it: start one, or a server"
    )
    desk.dispatch.open_session("bob", SERVING, ttl=3600 * SECOND)
    assert only(store, job_id).text == (
        f"its worker (ann) is dead; a live worker will see to it within seconds: {follows}"
    )


def test_a_job_past_its_limit_is_out_of_time(
    desk: Desk, store: Store, worker: int, clock: VirtualClock
) -> None:
    job_id = enqueue(desk, Job("mail", policy=Policy(timeout=SECOND)))
    desk.dispatch.claim(["mail"], session=worker)
    clock.pass_(1)
    blocker = only(store, job_id)
    assert blocker.reason is Reason.OUT_OF_TIME
    assert blocker.text.startswith("its time is up; a live worker will see to it")


# --- Waiting and ended ---------------------------------------------------------------------------


def test_a_parent_waits_for_its_children_and_they_for_it(
    desk: Desk, store: Store, worker: int
) -> None:
    parent_id = enqueue(desk, Job("mail"))
    (parent,) = desk.dispatch.claim(["mail"], session=worker)
    children = desk.intake.spawn(parent, [Job("mail"), Job("mail")])
    held = only(store, children[0])
    assert held == Blocker(
        Reason.PARENT,
        f"it is held until its parent, job {parent_id} (RUNNING), has done its own part",
        jobs=(parent_id,),
    )
    desk.report.finish(store.get([parent_id])[parent_id])
    waits = only(store, parent_id)
    assert (waits.reason, waits.jobs) == (Reason.CHILDREN, tuple(children))
    assert waits.text == "it waits for 2 of its children to end"


def test_a_job_may_wait_for_a_reply(desk: Desk, store: Store, worker: int) -> None:
    job_id = enqueue(desk, Job("mail"))
    (job,) = desk.dispatch.claim(["mail"], session=worker)
    desk.report.wait(job, Awaits("order-17", timeout=60 * SECOND))
    expected = Blocker(Reason.REPLY, "it waits for the reply 'order-17'", START + 60 * SECOND)
    assert only(store, job_id) == expected
    assert told(store, job_id).runs_at is None


def test_a_schedule_with_overlapping_runs_waits_for_its_tick(
    desk: Desk, store: Store, worker: int
) -> None:
    policy = Policy(repeat="every 1h; overlap=allow")
    blocker = only(store, enqueue(desk, Job("mail", policy=policy)))
    assert (blocker.reason, blocker.until) == (Reason.TICK, START + 3600 * SECOND)


def test_a_job_that_has_ended_tells_how(desk: Desk, store: Store, worker: int) -> None:
    job_id = enqueue(desk, Job("mail"))
    (job,) = desk.dispatch.claim(["mail"], session=worker)
    desk.report.fail(job, failure_of(OSError("the wire is cut")))
    assert only(store, job_id) == Blocker(Reason.ENDED, "it has ended, FAILED: the wire is cut")


def test_a_job_that_is_gone_cannot_be_explained(store: Store) -> None:
    with pytest.raises(NotFound, match="there is no job 17"):
        explain(store, 17)
