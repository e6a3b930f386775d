"""The routes of Jobber, and of Walrus, its ancestor that could also run jobs later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated
from uuid import uuid4

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from stoker.desk import Placement, Twin
from stoker.desk.clerk import Decision
from stoker.desk.workers import survey_workers
from stoker.doors.forms import WorkerForm, worker_form
from stoker.doors.http.answers import Answer, told
from stoker.doors.http.callbacks import with_callback
from stoker.doors.http.endpoint import Call, Handler, Operation, Short
from stoker.doors.http.register import Scope
from stoker.errors import BadInput, Duplicate, NotFound, StokerError
from stoker.kernel.byhand import Facts
from stoker.kernel.job import QUEUED, Job, State
from stoker.kernel.policy import Policy
from stoker.kernel.retry_forms import exponential
from stoker.store import Filter, Store

PREFIX = "job_queue_"
POLICY = Policy(crash_limit=5, retry=exponential(4))
"""Of every job: five tries, by whichever worker; then it has failed, and can be seen."""

_MOST_SECONDS = 10**9
Later = Annotated[int, Meta(ge=0, le=_MOST_SECONDS)]


# -- what is said, in the words of each ----------------------------------------------------


class _Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What all have in common. Members that nobody knows are ignored."""

    payload: Raw | UnsetType = UNSET
    callback: str | None = None
    """A URL to which is posted what became of the job."""


class JobberJob(_Offer, frozen=True, kw_only=True):
    """A job for the workers of its type."""

    type: str


class SourceJob(_Offer, frozen=True, kw_only=True):
    """The same, as the source of Jobber calls it."""

    jobType: str  # noqa: N815


class WalrusJob(_Offer, frozen=True, kw_only=True):
    """The same for Walrus, now or later; `every` lets it repeat, as in `5m`."""

    job_type: str
    run_after_secs: Later = 0
    RunAfterSecs: Later = 0
    """What the original really reads."""
    every: str | None = None


class NewPayload(msgspec.Struct, frozen=True):
    """Another payload for a job that nobody has begun."""

    payload: Raw


class JobberId(msgspec.Struct, frozen=True, rename={"id": "job-id"}):
    """The job's id, a UUID."""

    id: str


class SourceId(msgspec.Struct, frozen=True, rename={"id": "jobId"}):
    """The same, as the source of Jobber calls it."""

    id: str


class WalrusId(msgspec.Struct, frozen=True, rename={"id": "job_id"}):
    """The same for Walrus."""

    id: str


class TypeStatus(msgspec.Struct, frozen=True):
    """One type's jobs in numbers."""

    queue: str
    type: str
    waiting: int
    in_process: int
    done: int
    failed: int


class Monitor(msgspec.Struct, frozen=True):
    """All types, and all workers with their signs of life."""

    queues: list[TypeStatus]
    in_process_queue: int
    workers: list[WorkerForm]


# -- putting in ----------------------------------------------------------------------------


async def jobber(call: Call) -> Answer:
    """Queue a job."""
    offer: JobberJob = call.body
    return told(JobberId(await _queued(call, offer, offer.type, "type")), 201)


async def source(call: Call) -> Answer:
    """Queue a job."""
    offer: SourceJob = call.body
    return told(SourceId(await _queued(call, offer, offer.jobType, "jobType")), 201)


async def walrus(call: Call) -> Answer:
    """Queue a job, now or later."""
    offer: WalrusJob = call.body
    return told(WalrusId(await _queued(call, offer, offer.job_type, "job_type")))


async def _queued(call: Call, offer: _Offer, said: str, member: str) -> str:
    kind = said.strip()
    if not kind:
        raise BadInput(f"`{member}` must not be empty: it says which workers the job is for")
    job = _drafted(offer, kind, call.office.desk.store.now(), call.once)
    assert job.ref is not None
    try:
        if offer.callback is None:
            await call.office.enqueue(job)
        else:
            await with_callback(call.office, job, Twin.REJECT, offer.callback)
    except Duplicate:
        if call.once is None:
            raise  # else it is this very job, made by a server that died before it could tell
    return job.ref


def _drafted(offer: _Offer, kind: str, now: int, once: str | None = None) -> Job:
    payload = b"null" if offer.payload is UNSET else bytes(offer.payload)
    ref = str(uuid4()) if once is None else once
    due, policy = 0, POLICY
    if isinstance(offer, WalrusJob):
        later = offer.run_after_secs or offer.RunAfterSecs
        due = now + later * 1_000_000 if later else 0
        if offer.every is not None:
            policy = msgspec.structs.replace(POLICY, repeat=f"every {offer.every}")
    return Job(PREFIX + kind, kind, payload, due_at=due, policy=policy, ref=ref)


def _plain(offer: JobberJob, now: int) -> Job | None:
    kind = offer.type.strip()
    return _drafted(offer, kind, now) if kind and offer.callback is None else None


def _queued_as(job: Job, _: Placement) -> Answer:
    assert job.ref is not None
    return told(JobberId(job.ref), 201)


# -- changing what nobody has begun --------------------------------------------------------


async def change(call: Call) -> Answer:
    """Give a job that nobody has begun another payload."""
    payload = bytes(call.body.payload)

    def terms(job: Job) -> Facts:
        _unbegun(job)
        return {"payload": payload}

    return await _settled(call, lambda job: call.office.desk.byhand.amend(job.id, terms))


async def remove(call: Call) -> Answer:
    """Remove a job that nobody has begun."""

    def terms(job: Job) -> Facts:
        _unbegun(job)
        return {}

    return await _settled(call, lambda job: call.office.desk.byhand.delete(job.id, terms))


async def _settled(call: Call, decision: Callable[[Job], Decision]) -> Answer:
    ref, desk = call.path["ref"], call.office.desk

    def settle() -> None:
        (result,) = desk.byhand.settle([decision(_find(desk.store, ref))])
        if isinstance(result, StokerError):
            raise result

    await call.office.run(settle)
    return told(WalrusId(ref))


def _find(store: Store, ref: str) -> Job:
    for job in store.find(Filter(ref=ref, limit=1)):
        if job.queue.startswith(PREFIX):
            return job
    raise NotFound(f"there is no job {ref} (any more)")


def _unbegun(job: Job) -> None:
    if job.state is not QUEUED or job.attempt:
        raise NotFound(f"job {job.ref} has been begun: it is {job.state.name}")


# -- looking -------------------------------------------------------------------------------


async def monitor(call: Call) -> Answer:
    """All types in numbers, and all workers."""
    return told(await call.office.run(_status, call.office.desk.store))


def _status(store: Store) -> Monitor:
    types = [
        TypeStatus(
            view.name,
            view.name.removeprefix(PREFIX),
            waiting=view.counts[State.QUEUED] + view.counts[State.WAITING],
            in_process=view.counts[State.RUNNING],
            done=view.counts[State.FINISHED],
            failed=view.counts[State.FAILED],
        )
        for view in store.survey()
        if view.name.startswith(PREFIX)
    ]
    workers = [worker_form(worker) for worker in survey_workers(store)]
    return Monitor(types, sum(each.in_process for each in types), workers)


_ENQUEUE: tuple[Scope, ...] = ("enqueue",)
_STEER: tuple[Scope, ...] = ("enqueue", "operate")


def _queueing(
    path: str,
    handler: Handler,
    offer: type[_Offer],
    answers: Mapping[int, type],
    summary: str,
    short: Short | None = None,
) -> Operation:
    return Operation(
        *("POST", path, handler, summary),
        scopes=_ENQUEUE,
        body=offer,
        answers=answers,
        once=True,
        jobber=True,
        short=short,
    )


OPERATIONS = [
    _queueing(
        *("/jobber/queue", jobber, JobberJob, {201: JobberId}, "Jobber: queue a job"),
        short=Short(_plain, _queued_as),
    ),
    _queueing(
        *("/jobs", source, SourceJob, {201: SourceId}),
        "Jobber, as its source has it: queue a job",
    ),
    _queueing(
        *("/schedule/", walrus, WalrusJob, {200: WalrusId}), "Walrus: queue a job, now or later"
    ),
    Operation(
        *("PUT", "/schedule/{ref}", change, "Walrus: another payload for a job not yet begun"),
        scopes=_STEER,
        body=NewPayload,
        answers={200: WalrusId},
        problems=("not_found",),
        jobber=True,
    ),
    Operation(
        *("DELETE", "/schedule/{ref}", remove, "Walrus: remove a job not yet begun"),
        scopes=_STEER,
        answers={200: WalrusId},
        problems=("not_found",),
        jobber=True,
    ),
    Operation(
        *("GET", "/monitor/queues/status", monitor, "Walrus: all types in numbers, all workers"),
        scopes=_STEER,
        answers={200: Monitor},
        jobber=True,
    ),
]
