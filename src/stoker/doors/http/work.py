"""Operations for workers: claims, sessions, and words about jobs in hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from stoker.desk.workers import WorkerInfo
from stoker.doors.cli.words import iso
from stoker.doors.forms import JobForm, StateName, job_facts, state_name
from stoker.doors.http import wishes
from stoker.doors.http.answers import NOTHING, Answer, told
from stoker.doors.http.endpoint import Call, Handler, Operation, unless_gone
from stoker.doors.http.jobs import Done, done, job_id, patience
from stoker.doors.http.marks import made_before, marked
from stoker.doors.http.numbers import number, read_number
from stoker.doors.http.office import Account, Told
from stoker.doors.http.register import Scope
from stoker.doors.http.waiting import Wish
from stoker.errors import BadInput, Duplicate, SessionLost, StokerError
from stoker.kernel.duration import micros
from stoker.kernel.glob import check_pattern, is_glob
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Awaits, Failed, Finished, Outcome, Released
from stoker.kernel.retry import Again, Failure, GiveUp, Verdict
from stoker.watch.recover import recover

USUAL_VISIBILITY = 60 * 1_000_000
"""Of a lease that is bound to nothing else: its worker may be gone for good."""

R = TypeVar("R")

_SHORTEST_TTL = 1_000_000


class LeasedJob(JobForm, frozen=True, kw_only=True):
    """A job in your hands, and the lease that says so."""

    lease: str


class Granted(msgspec.Struct, frozen=True):
    """Jobs to work on; none: there was nothing to do."""

    jobs: list[LeasedJob]


class Said(msgspec.Struct, frozen=True):
    """The job after what was said about it."""

    id: int
    state: StateName


class Held(msgspec.Struct, frozen=True):
    """The job that is still yours: until when, and whether you are asked to stop."""

    id: int
    until: str | None
    cancel_requested: bool


class Spawned(msgspec.Struct, frozen=True):
    """The ids of the children."""

    ids: list[int]


class Reported(msgspec.Struct, frozen=True):
    """What became of each report, and the next jobs."""

    reports: list[Done]
    jobs: list[LeasedJob]


class Opened(msgspec.Struct, frozen=True):
    """A session, to be kept alive by beats."""

    session: str
    ttl: float


class Alive(msgspec.Struct, frozen=True):
    """The session lives; these of its jobs are to be stopped."""

    cancel: tuple[int, ...]


# -- claims --------------------------------------------------------------------------------


async def claim(call: Call) -> Answer:
    """Claim jobs, and wait for some if there are none."""
    jobs = await _claimed(call, _wish(call.body), patience(call, call.body.wait))
    return told(Granted([leased(job) for job in jobs]))


def _wish(claim: wishes.Claim) -> Wish:
    for pattern in filter(is_glob, claim.queues):
        check_pattern(pattern)  # now, and not where the claims of others would fail with it
    return Wish(
        tuple(claim.queues),
        claim.limit,
        None if claim.session is None else number(claim.session),
        _visibility(claim),
    )


async def _claimed(call: Call, wish: Wish, seconds: float) -> Sequence[Job]:
    waiting = call.office.waiting.claim(wish, seconds)
    return await (unless_gone(call.receive, waiting) if seconds else waiting)


def _visibility(claim: wishes.Claim) -> int | None:
    if claim.visibility is not None:
        return wishes.visibility_of(claim.visibility)
    return None if claim.session is not None else USUAL_VISIBILITY


def leased(job: Job) -> LeasedJob:
    """A job for whoever claimed it."""
    return LeasedJob(lease=str(job.token), **job_facts(job))


# -- what came of a job --------------------------------------------------------------------

Words = wishes.Finish | wishes.Fail | wishes.Release | wishes.Snooze | wishes.Await


async def say(call: Call) -> Answer:
    """What came of one job."""
    words: Words = call.body
    outcome = outcome_of(words, call.office.desk.store.now())
    told_of = Told(job_id(call), number(words.lease), outcome)
    after = await call.office.report(told_of)
    return told(Said(told_of.job_id, state_name(state_after(outcome, after))))


def outcome_of(words: Words, now: int) -> Outcome:
    """What a worker's words come down to."""
    if isinstance(words, wishes.Finish):
        return Finished(_bytes(words.result), _bytes(words.payload), words.repeat)
    if isinstance(words, wishes.Fail):
        failure = Failure(tuple(words.kinds), words.error)
        return Failed(failure, _verdict(words, now), words.repeat)
    if isinstance(words, wishes.Release):
        due = wishes.due_at(now, words.at, words.delay)
        return Released(due, _bytes(words.payload), words.reason)
    if isinstance(words, wishes.Snooze):
        return Released(now + micros(words.delay), _bytes(words.payload))
    return Awaits(words.key, None if words.timeout is None else micros(words.timeout))


def _verdict(words: wishes.Fail, now: int) -> Verdict | None:
    payload = _bytes(words.payload)
    if words.retry is None or words.retry is True:
        if payload is not None:
            raise BadInput("a new payload goes with a retry of your own; say when, in `retry`")
        return None
    if words.retry is False:
        return GiveUp()
    return Again(now + micros(words.retry), payload)


def _bytes(said: Raw | UnsetType) -> bytes | None:
    return None if said is UNSET else bytes(said)


def state_after(outcome: Outcome, after: Job | None) -> State:
    """The state of a job that may not be kept, and then is gone with its last one."""
    if after is None:
        return State.FINISHED
    if after.state is not State.RUNNING:
        return after.state
    if after.cancel_requested and not isinstance(outcome, Finished):
        return State.CANCELLED
    return State.FAILED if isinstance(outcome, Failed) else State.FINISHED


async def report(call: Call) -> Answer:
    """What came of many jobs, and a claim for the next ones, in one step."""
    body: wishes.Reports = call.body
    now = call.office.desk.store.now()
    said = [Told(each.id, number(each.lease), outcome_of(each, now)) for each in body.reports]
    wish = None if body.claim is None else _wish(body.claim)
    seconds = 0.0 if body.claim is None else patience(call, body.claim.wait)
    settled = await call.office.settle(Account(said, wish))
    if isinstance(settled.jobs, BaseException):
        raise settled.jobs
    jobs = settled.jobs
    if wish is not None and not jobs and seconds:
        jobs = await _claimed(call, wish, seconds)
    return told(
        Reported(
            [_reported(*each) for each in zip(said, settled.results, strict=True)],
            [leased(job) for job in jobs],
        )
    )


def _reported(said: Told, result: Job | BaseException | None) -> Done:
    if isinstance(result, StokerError):
        return done(said.job_id, result)
    if isinstance(result, BaseException):
        raise result
    return Done(said.job_id, state_name(state_after(said.outcome, result)))


# -- while it runs -------------------------------------------------------------------------


async def touch(call: Call) -> Answer:
    """A sign of life: a later end of the lease, progress, or both."""
    words: wishes.Renew | wishes.Progress = call.body
    visibility = None if words.visibility is None else wishes.visibility_of(words.visibility)
    progress = words.progress if isinstance(words, wishes.Progress) else None
    report = call.office.desk.report
    job = await _with_held(call, partial(report.touch, visibility=visibility, progress=progress))
    return told(_held(job))


async def rewrite(call: Call) -> Answer:
    """Another payload, with which the next try begins."""
    payload = bytes(call.body.payload)
    job = await _with_held(call, lambda job: call.office.desk.report.rewrite(job, payload))
    return told(_held(job))


async def spawn(call: Call) -> Answer:
    """Children of a job in hand."""
    now = call.office.desk.store.now()
    children = marked(call, [draft.read(now) for draft in call.body.jobs], job_id(call))
    try:
        ids = await _with_held(call, lambda job: call.office.desk.intake.spawn(job, children))
    except Duplicate as error:
        ids = await made_before(call, children, error)
    return told(Spawned(ids), 201)


async def _with_held(call: Call, work: Callable[[Job], R]) -> R:
    office, wanted, lease = call.office, job_id(call), number(call.body.lease)
    done_so = await office.run(lambda: work(office.held(wanted, lease)))
    office.observer.nudge()
    return done_so


def _held(job: Job) -> Held:
    return Held(job.id, iso(job.until), job.cancel_requested)


# -- sessions ------------------------------------------------------------------------------


async def open_session(call: Call) -> Answer:
    """Open a worker's session."""
    wish: wishes.NewSession = call.body
    queues = None if wish.queues is None else tuple(wish.queues)
    info = msgspec.json.encode(WorkerInfo(wish.host, wish.pid, queues, wish.concurrency)).decode()
    ttl = _ttl(wish.ttl)
    session = await call.office.run(
        call.office.desk.dispatch.open_session, wish.name or call.caller.name, info, ttl=ttl
    )
    return told(Opened(str(session), ttl / 1e6), 201)


async def beat(call: Call) -> Answer:
    """Keep a session alive."""
    session, ttl = _session(call), _ttl(call.body.ttl)
    heard = await call.office.run(call.office.desk.dispatch.beat, session, ttl=ttl)
    if not heard.alive:
        raise SessionLost(f"the session {session} is over, or never was")
    return told(Alive(heard.cancelled))


async def close_session(call: Call) -> Answer:
    """End a session. What it still holds is lost, and recovered at once."""
    session, desk = _session(call), call.office.desk

    def close() -> None:
        desk.dispatch.close_session(session)
        recover(desk.clerk)

    await call.office.run(close)
    return NOTHING


def _session(call: Call) -> int:
    session = read_number(call.path["session"])
    if session is None:
        raise SessionLost(f"there is no session {call.path['session']}")
    return session


def _ttl(said: wishes.Duration) -> int:
    ttl = micros(said)
    if ttl < _SHORTEST_TTL:
        raise BadInput("a session's ttl is a second at least")
    return ttl


_WORK: tuple[Scope, ...] = ("work",)
_HELD = ("not_found", "lease_lost", "illegal_move")


def _claiming(path: str, handler: Handler, words: type, said: type, summary: str) -> Operation:
    return Operation(
        *("POST", path, handler, summary),
        scopes=_WORK,
        body=words,
        answers={200: said},
        problems=("session_lost", "client_gone"),
        once=True,
    )


def _word(verb: str, handler: Handler, words: type, summary: str) -> Operation:
    return Operation(
        *("POST", f"/v1/jobs/{{id:digits}}/{verb}", handler, summary),
        scopes=_WORK,
        body=words,
        answers={200: Said},
        problems=_HELD,
        once=True,
    )


def _sign(verb: str, handler: Handler, words: type, summary: str) -> Operation:
    return _word(verb, handler, words, summary)._replace(answers={200: Held}, once=False)


OPERATIONS = [
    _claiming(
        *("/v1/claims", claim, wishes.Claim, Granted),
        "Claim jobs, and wait for some if there are none",
    ),
    _word("finish", say, wishes.Finish, "The work is done"),
    _word("fail", say, wishes.Fail, "The try was spoilt"),
    _word("release", say, wishes.Release, "Give the job back"),
    _word("snooze", say, wishes.Snooze, "Come back to the job later"),
    _word("wait", say, wishes.Await, "Let the job wait for a reply"),
    _claiming(
        *("/v1/reports", report, wishes.Reports, Reported),
        "What came of many jobs, and a claim for the next ones",
    ),
    _sign("renew", touch, wishes.Renew, "A later end of the lease"),
    _sign("progress", touch, wishes.Progress, "How far the work has come"),
    _sign("update", rewrite, wishes.Rewrite, "Another payload for the next try"),
    _word("spawn", spawn, wishes.Spawn, "Children, after which the job runs again")._replace(
        answers={201: Spawned}, problems=(*_HELD, "duplicate")
    ),
    Operation(
        *("POST", "/v1/sessions", open_session, "Open a worker's session"),
        scopes=_WORK,
        body=wishes.NewSession,
        answers={201: Opened},
        once=True,
    ),
    Operation(
        *("POST", "/v1/sessions/{session:digits}/beat", beat, "Keep a session alive"),
        scopes=_WORK,
        body=wishes.Beat,
        answers={200: Alive},
        problems=("session_lost",),
    ),
    Operation(
        *("DELETE", "/v1/sessions/{session:digits}", close_session, "End a session"),
        scopes=_WORK,
        answers={204: None},
        problems=("session_lost",),
    ),
]
