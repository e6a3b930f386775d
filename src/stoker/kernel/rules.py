"""The rules of a running job's life: each looks at a job and returns the Change it deserves.

What happens to jobs from outside (cancel, edit, families ...) is in `kernel.control` and
`kernel.family`; this file is what workers and the recoverer ask for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stoker.errors import BadInput, IllegalMove
from stoker.kernel import answers, lifecycle
from stoker.kernel.answers import NOTHING_EARLY, Early
from stoker.kernel.change import Change, NoteWrite, Touch, Write
from stoker.kernel.duration import check_time
from stoker.kernel.ending import NO_LEASE, ended, last_facts
from stoker.kernel.job import (
    CANCELLED,
    FAILED,
    FINISHED,
    QUEUED,
    REPLY_PREFIX,
    RUNNING,
    WAITING,
    WAITS_FOR_CHILDREN,
    WAITS_FOR_TICK,
    Job,
    State,
)
from stoker.kernel.policy import OnLost, Policy
from stoker.kernel.queue import DEFAULTS, QueueSettings
from stoker.kernel.repeat import next_due, parse_repeat
from stoker.kernel.retry import Again, Ask, Failure, GiveUp, Verdict, decide
from stoker.kernel.window import next_open
from stoker.kernel.zones import check_moment

_REPLACE = msgspec.structs.replace


THROTTLED = "throttled: "
"""So begins what a job's error says of a throttler's word."""


def start(
    job: Job, *, now: int, token: int, session: int | None = None, visibility: int | None = None
) -> Job:
    """What claiming does to one job. Stores do it many at a time; a test pins them to this."""
    lifecycle.check("start", job, RUNNING)
    return _REPLACE(
        job,
        state=RUNNING,
        token=token,
        session=None if job.policy.on_lost is OnLost.STAY else session,
        until=lease_end(job.policy, now=now, started=now, visibility=visibility),
        started_at=now,
        attempt=job.attempt + 1,
        revision=job.revision + 1,
        progress=0.0,
    )


def lease_end(policy: Policy, *, now: int, started: int, visibility: int | None) -> int | None:
    """When a lease ends by itself: the deadline it was given or the try's time limit."""
    out_of_time = None if policy.timeout is None else started + policy.timeout
    if visibility is None or policy.on_lost is OnLost.STAY:
        return out_of_time
    deadline = now + visibility
    return deadline if out_of_time is None else min(deadline, out_of_time)


def touch(
    job: Job, *, now: int, visibility: int | None = None, progress: float | None = None
) -> Change:
    """A sign of life from the worker: a later deadline, news of its progress, or both."""
    lifecycle.check("touch", job, RUNNING)
    fields: dict[str, Any] = {}
    if visibility is not None:
        check_time("visibility", visibility)
        started = job.started_at if job.started_at is not None else now
        fields["until"] = lease_end(job.policy, now=now, started=started, visibility=visibility)
    if progress is not None:
        if not _is_fraction(progress):
            raise BadInput(f"progress is a fraction from 0 to 1, not {progress!r}")
        fields["progress"] = progress
    return Change(touches=(Touch(job.id, _token(job), fields),))


def remark(
    job: Job,
    *,
    now: int,
    meta: str,
    visibility: int | None = None,
    progress: float | None = None,
) -> Change:
    """A sign of life with something to remember: as `touch`, but a new revision."""
    (sign,) = touch(job, now=now, visibility=visibility, progress=progress).touches
    return Change(writes=(Write(job, {**sign.set, "meta": meta}),))


def finish(
    job: Job,
    *,
    now: int,
    result: bytes | None = None,
    payload: bytes | None = None,
    settings: QueueSettings = DEFAULTS,
    repeat: bool = True,
) -> Change:
    """The work is done: it ends, comes round again, or first waits for its children.

    `payload` seeds the next run of a repeating job; `repeat=False` makes this run the last.
    """
    news = _news(job, result, payload)
    if job.open_children and job.cancel_requested:
        lifecycle.check("finish", job, CANCELLED)
        return ended(job, CANCELLED, now=now, settings=settings, **news)
    if job.open_children:
        lifecycle.check("finish", job, WAITING)
        return _write(job, WAITING, waits_for=WAITS_FOR_CHILDREN, **NO_LEASE, **news)
    if repeat and job.policy.repeat is not None and not job.cancel_requested:
        lifecycle.check("finish", job, QUEUED)
        try:
            return _next_run(job, now, **news)
        except BadInput as error:
            news["error"] = f"it cannot repeat: {error}"
    lifecycle.check("finish", job, FINISHED)
    return ended(job, FINISHED, now=now, settings=settings, **news)


def simply_ends(job: Job) -> bool:
    """Whether finishing the job ends it and touches nothing else."""
    return (
        job.state is RUNNING
        and job.policy.repeat is None
        and job.policy.retention is None
        and job.parent_id is None
        and not job.open_children
        and job.result is None
        and job.error is None
        and not job.undecided
    )


def finish_all(
    done: Sequence[tuple[Job, bytes | None]], *, now: int, settings: QueueSettings = DEFAULTS
) -> Change:
    """`finish` for many jobs of a queue that simply end, each with its result: one Change."""
    if settings.retention.finished == 0:
        return Change(deletes=tuple([job for job, _ in done]))
    facts = last_facts(FINISHED, now, settings.retention.finished)
    writes = [
        Write(job, facts if result is None else {**facts, "result": result}) for job, result in done
    ]
    return Change(writes=tuple(writes))


def _news(job: Job, result: bytes | None, payload: bytes | None) -> dict[str, Any]:
    """What a finished try leaves behind, as far as it is not so already."""
    news: dict[str, Any] = {}
    if payload is not None:
        news["payload"] = payload
    if result is not None or job.result is not None:
        news["result"] = result
    if job.error is not None:
        news["error"] = None
    return news


def fail(
    job: Job,
    *,
    now: int,
    failure: Failure,
    verdict: Verdict,
    settings: QueueSettings = DEFAULTS,
    repeat: bool = True,
    event: str = "fail",
) -> Change:
    """A try was spoilt; the verdict of the job's retry policy says what follows.

    A repeating job that is given up has lost this run, not its life: the next run comes at its
    time. `repeat=False` ends it.
    """
    if job.cancel_requested:
        lifecycle.check(event, job, CANCELLED)
        return ended(job, CANCELLED, now=now, settings=settings, error=failure.message)
    if isinstance(verdict, GiveUp):
        error = verdict.reason or failure.message
        if repeat and job.policy.repeat is not None:
            lifecycle.check(event, job, QUEUED)
            try:
                return _next_run(job, now, error=error)
            except BadInput as unreckonable:
                error = f"{error}; it cannot repeat: {unreckonable}"
        lifecycle.check(event, job, FAILED)
        return ended(job, FAILED, now=now, settings=settings, error=error)
    lifecycle.check(event, job, QUEUED)
    if isinstance(verdict, Ask):
        # Whoever asks the handler has to claim the job first; that claim continues this try.
        asking = {"undecided": True, "attempt": job.attempt - 1, "error": failure.message}
        return _write(job, QUEUED, **asking, **NO_LEASE)
    return _again(job, verdict, error=failure.message)


def refuse(job: Job, *, now: int, reason: str, settings: QueueSettings = DEFAULTS) -> Change:
    """Its queue's throttler will not have it: as if it had been tried and given up."""
    return fail(
        job,
        now=now,
        failure=Failure(("stoker.Throttled",), f"{THROTTLED}{reason}"),
        verdict=GiveUp(),
        settings=settings,
        event="refuse",
    )


def put_off(job: Job, *, until: int, reason: str = "") -> Change:
    """Its queue's throttler wants it later."""
    lifecycle.check("start", job, RUNNING)  # else there is nothing to put off any more
    facts: dict[str, Any] = {"due_at": fitted(job.policy, until)}
    if reason:
        facts["error"] = f"{THROTTLED}{reason}"
    return Change(writes=(Write(job, facts),))


def _again(job: Job, verdict: Again, **news: Any) -> Change:
    if verdict.payload is not None:
        news["payload"] = verdict.payload
    if verdict.rank is not None:
        news["rank"] = verdict.rank
    if verdict.meta is not None:
        news["meta"] = verdict.meta
    due_at = fitted(job.policy, verdict.at)
    return _write(job, QUEUED, due_at=due_at, undecided=False, **NO_LEASE, **news)


def expire(job: Job, *, now: int, dice: float, settings: QueueSettings = DEFAULTS) -> Change:
    """Nobody spoke up in time: the try's time limit passed, the lease was lost, or no reply came.

    A lost lease gives the job back its old place. It counts as a crash, and a job that has lost
    `crash_limit` workers is parked with the evidence instead of killing the next one.
    """
    timed_out = _out_of_time(job, now)
    if timed_out is not None:
        failure = Failure(("stoker.Timeout",), timed_out, timeout=True)
        change = _judge(job, now, failure, dice, settings)
        again_at = max((write.set.get("due_at", now) for write in change.writes), default=now)
        return change | answers.unanswered(job, now=now, again_at=again_at)
    return lose(job, now=now, dice=dice, evidence=_evidence(job, now), settings=settings)


def lose(
    job: Job, *, now: int, dice: float, evidence: str, settings: QueueSettings = DEFAULTS
) -> Change:
    """Whoever had the job is gone: it goes by its policy, and the crash is counted."""
    lost = _REPLACE(job, crashes=job.crashes + 1)
    failure = Failure(("stoker.WorkerLost",), evidence, lost=True)
    change = _after_loss(lost, now, failure, dice, settings)
    writes = tuple(Write(job, {"crashes": lost.crashes, **w.set}) for w in change.writes)
    return _REPLACE(change, writes=writes)


def _after_loss(
    job: Job, now: int, failure: Failure, dice: float, settings: QueueSettings
) -> Change:
    limit, on_lost = job.policy.crash_limit, job.policy.on_lost
    if limit is not None and job.crashes >= limit:
        parked = GiveUp(f"parked after losing {job.crashes} workers; {failure.message}")
        return fail(
            job,
            now=now,
            failure=failure,
            verdict=parked,
            settings=settings,
            repeat=False,
            event="expire",
        )
    if on_lost is OnLost.RETRY:
        return _judge(job, now, failure, dice, settings)
    if on_lost is not OnLost.REQUEUE or job.cancel_requested:
        return fail(
            job, now=now, failure=failure, verdict=GiveUp(), settings=settings, event="expire"
        )
    lifecycle.check("expire", job, QUEUED)
    return _write(job, QUEUED, error=failure.message, **NO_LEASE)


def _judge(job: Job, now: int, failure: Failure, dice: float, settings: QueueSettings) -> Change:
    # A wait that ran out was part of the try that began it, so it counts as that try's failure.
    verdict = decide(job.policy.retry, failures=job.failures, failure=failure, now=now, dice=dice)
    return fail(job, now=now, failure=failure, verdict=verdict, settings=settings, event="expire")


def _out_of_time(job: Job, now: int) -> str | None:
    if job.state is WAITING:
        key = (job.waits_for or "").removeprefix(REPLY_PREFIX)
        return f"no reply for {key!r} came in time"
    timeout = job.policy.timeout
    if timeout is None or job.started_at is None or now < job.started_at + timeout:
        return None
    return f"ran longer than its limit of {timeout / 1e6:g} s"


def _evidence(job: Job, now: int) -> str:
    overdue = job.session is None or (job.until is not None and job.until <= now)
    why = "its deadline passed" if overdue else f"session {job.session} is gone"
    return f"worker lost in try {job.attempt}: {why}"


def release(
    job: Job,
    *,
    now: int,
    due_at: int | None = None,
    payload: bytes | None = None,
    error: str | None = None,
    settings: QueueSettings = DEFAULTS,
) -> Change:
    """Given back unfinished (shutdown, snooze, closed window): no try is counted.

    It keeps its place, or moves to `due_at`; `due_at=now` sends it to the back.
    """
    if job.cancel_requested:
        lifecycle.check("release", job, CANCELLED)
        return ended(job, CANCELLED, now=now, settings=settings)
    lifecycle.check("release", job, QUEUED)
    news: dict[str, Any] = {} if payload is None else {"payload": payload}
    if due_at is not None:
        news["due_at"] = fitted(job.policy, due_at)
    if error is not None:
        news["error"] = error
    return _write(job, QUEUED, attempt=job.attempt - 1, **NO_LEASE, **news)


def wait(
    job: Job,
    *,
    now: int,
    key: str,
    timeout: int | None = None,
    meta: str | None = None,
    early: Early = NOTHING_EARLY,
    settings: QueueSettings = DEFAULTS,
) -> Change:
    """The rest depends on an answer from outside: hold no worker until `reply:<key>` comes.

    The try's own time limit covers the wait too. An answer that overtook the question was kept
    as a note: it is taken, and the job goes on at once. One that is for an older question is
    thrown away.
    """
    if not key:
        raise BadInput("a reply needs a key that both sides can name; it cannot be empty")
    if timeout is not None:
        check_time("the timeout of a wait", timeout)
    if job.cancel_requested:
        lifecycle.check("wait", job, CANCELLED)
        return ended(job, CANCELLED, now=now, settings=settings)
    note = NoteWrite(answers.kept_under(key), None, expect=early.guard)
    said = {} if meta is None else {"meta": meta}
    reply = early.taken_by(job)
    if reply is not None:
        lifecycle.check("wait", job, QUEUED)
        news = {**NO_LEASE, **said, "attempt": job.attempt - 1, "reply": reply}
        taken = Change(notes=(note,)) | answers.answered(job, key, now=now)
        return _write(job, QUEUED, **news) | taken
    lifecycle.check("wait", job, WAITING)
    started = job.started_at if job.started_at is not None else now
    unbound = _REPLACE(job.policy, on_lost=OnLost.REQUEUE)
    until = lease_end(unbound, now=now, started=started, visibility=timeout)
    fields = {**NO_LEASE, **said, "until": until, "reply": None}
    fields["waits_for"] = REPLY_PREFIX + key
    return _write(job, WAITING, **fields) | Change(notes=(note,))


def wake(job: Job, *, reply: bytes | None = None) -> Change:
    """What it waited for has come: it goes on, in its old place, with the try it was in."""
    lifecycle.check("wake", job, QUEUED)
    if job.waits_for == WAITS_FOR_TICK:
        raise IllegalMove(f"job {job.id} is a schedule: its ticks make runs, it never runs itself")
    news: dict[str, Any] = {"waits_for": None, "until": None}
    if job.started_at is not None and job.attempt > 0:
        news["attempt"] = job.attempt - 1  # starting it again continues that try
    if reply is not None:
        news["reply"] = reply
    return _write(job, QUEUED, **news)


def fitted(policy: Policy, at: int) -> int:
    """The first moment from `at` on at which the policy's windows let a job start."""
    check_moment(at)
    return at if policy.windows is None else next_open(policy.windows, at)


def _next_run(job: Job, now: int, **news: Any) -> Change:
    assert job.policy.repeat is not None
    if job.reply is not None:
        news["reply"] = None  # the next run asks for itself
    due_at = next_due(
        parse_repeat(job.policy.repeat),
        scheduled=job.scheduled_at,
        started=job.started_at,
        finished=now,
    )
    return _write(
        job,
        QUEUED,
        due_at=fitted(job.policy, due_at),
        scheduled_at=due_at,
        attempt=0,
        crashes=0,
        undecided=False,
        waits_for=None,
        finished_children=0,
        failed_children=0,
        cancelled_children=0,
        **NO_LEASE,
        **news,
    )


def _write(job: Job, to: State, **fields: Any) -> Change:
    if job.waits_for is not None:
        fields.setdefault("waits_for", None)
    return Change(writes=(Write(job, {"state": to, **fields}),))


def _is_fraction(progress: object) -> bool:
    return isinstance(progress, int | float) and 0.0 <= progress <= 1.0


def _token(job: Job) -> int:
    assert job.token is not None  # the lifecycle check has seen that it is RUNNING
    return job.token
