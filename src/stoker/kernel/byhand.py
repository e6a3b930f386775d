"""What may be decided about a job by somebody who knows its id and holds no lease.

The word of such a caller counts for whichever run is going on. These rules are those of workers
and operators, put together; `facts` are set in the same step, and `kin` are ended children whose
parent has heard of them: they go with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stoker.kernel import answers, control, lifecycle, rules
from stoker.kernel.change import Change, Write
from stoker.kernel.ending import tally
from stoker.kernel.job import ENDED, QUEUED, RUNNING, WAITING, Job, State
from stoker.kernel.queue import DEFAULTS, QueueSettings
from stoker.kernel.retry import Failure, GiveUp

Facts = Mapping[str, Any]

_AHEAD = frozenset({"rank", "due_at", "scheduled_at"})
_STARTED = ("state", "token", "session", "until", "started_at", "attempt", "progress")
_COUNTS = ("finished_children", "failed_children", "cancelled_children")
_ASKED = Failure((), "its worker asked for another run")


def finish(
    job: Job,
    kin: Sequence[Job] = (),
    *,
    now: int,
    facts: Facts,
    repeat: bool = True,
    anyway: bool = False,
    settings: QueueSettings = DEFAULTS,
) -> Change:
    """The work is done. `anyway`: of a job that does not run, no trace is left."""
    if anyway and job.state is not RUNNING:
        return _parted(control.delete(job), job, kin)
    done = rules.finish(
        job, now=now, payload=facts.get("payload"), settings=settings, repeat=repeat
    )
    return _parted(_also(done, job, facts), job, kin)


def retry(
    job: Job,
    kin: Sequence[Job] = (),
    *,
    now: int,
    at: int,
    facts: Facts,
    repeat: bool = True,
    anyway: bool = False,
) -> Change:
    """Another run is asked for: by the job's repeat, else at `at`. Lost tries are forgotten.

    `anyway`: a job that does not run is moved to that time as well.
    """
    if anyway and job.state is not RUNNING:
        again = requeue(job, now=now, at=at, facts=facts)
    elif repeat and job.policy.repeat is not None:
        again = rules.fail(job, now=now, failure=_ASKED, verdict=GiveUp())
        again = _also(again, job, {"error": None, **facts})
    else:
        again = rules.release(job, now=now, due_at=at)
        again = _also(again, job, {"attempt": 0, "crashes": 0, "scheduled_at": at, **facts})
    return _parted(again, job, kin)


def fail(
    job: Job, *, now: int, reason: str, facts: Facts, settings: QueueSettings = DEFAULTS
) -> Change:
    """The job has failed for good, also one that repeats."""
    failed = rules.fail(
        job,
        now=now,
        failure=Failure((), reason),
        verdict=GiveUp(),
        settings=settings,
        repeat=False,
    )
    return _also(failed, job, facts)


def requeue(job: Job, *, now: int, at: int, facts: Facts, uncounted: bool = False) -> Change:
    """Back into the queue from wherever it is; `uncounted`: as if its last try had not been."""
    if job.state is QUEUED:
        back = control.edit(job, {"due_at": at})
    elif job.state is RUNNING:
        back = rules.release(job, now=now, due_at=at)
    elif job.state is WAITING:
        back = rules.wake(job) | answers.unanswered(job, now=now, again_at=at)
    else:
        back = control.revive(job, now=now)
    tries = 0 if job.state in ENDED else max(job.attempt - uncounted, 0)
    return _also(back, job, {"due_at": at, "attempt": tries, **facts})


def amend(job: Job, changes: Facts) -> Change:
    """As `control.edit`, and in any state also where and when the job stands in line next.

    The lease of a running job goes by that time too: it is when the job is given out again.
    """
    if job.state in (QUEUED, WAITING):
        scheduled = {name: changes[name] for name in changes if name == "scheduled_at"}
        rest = {name: changes[name] for name in changes.keys() - scheduled.keys()}
        return _also(control.edit(job, rest), job, scheduled)
    ahead = {name: changes[name] for name in changes.keys() & _AHEAD}
    rest = {name: changes[name] for name in changes.keys() - _AHEAD}
    if job.until is not None and job.state is RUNNING and "due_at" in ahead:
        ahead["until"] = ahead["due_at"]
    return _also(control.edit(job, rest), job, ahead)


def discard(job: Job) -> Change:
    """Remove all trace of a job that does not run, or whose lease would end by itself."""
    if job.state is not RUNNING or job.until is None:
        return control.delete(job)
    # As good as given back and then deleted.
    lifecycle.check("release", job, QUEUED)
    return Change(deletes=(job,), tallies=tally(job, State.CANCELLED))


def begin(job: Job, *, now: int, token: int) -> Change:
    """Start this very job; its place among others does not count."""
    started = rules.start(job, now=now, token=token)
    return Change(writes=(Write(job, {name: getattr(started, name) for name in _STARTED}),))


def _parted(change: Change, job: Job, kin: Sequence[Job]) -> Change:
    """The same change, after which the job counts its ended children from zero again."""
    if not kin:
        return change
    return _also(change, job, dict.fromkeys(_COUNTS, 0)) | Change(deletes=tuple(kin))


def _also(change: Change, job: Job, facts: Facts) -> Change:
    """The same change, with these facts set besides if the job is still there to have them."""
    if not facts or not change.writes:
        return change
    writes = tuple(
        Write(job, {**write.set, **facts}) if write.job is job else write for write in change.writes
    )
    return msgspec.structs.replace(change, writes=writes)
