"""Jobs, queues, workers and schedules as JSON. The names of the fields stay as they are.

What programs get from the command line (--json) and from the HTTP door. Times are ISO 8601 in UTC,
durations are seconds, weights and capacities are places.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

import msgspec

from stoker.desk.blocker import Blocker
from stoker.desk.explain import Explanation
from stoker.desk.schedules import Schedule
from stoker.desk.throttle_memory import recall
from stoker.desk.workers import WorkerView
from stoker.doors.cli.words import SECOND, iso
from stoker.errors import BadInput
from stoker.kernel.job import WHOLE_WEIGHT, Format, Job, State
from stoker.kernel.policy import Policy
from stoker.kernel.queue import QueueSettings, Retention
from stoker.kernel.rate import Rate
from stoker.kernel.retry_forms import retry_text
from stoker.kernel.window import windows_text
from stoker.store import QueueView, Store
from stoker.store.finding import Finding

StateName = Literal["QUEUED", "RUNNING", "WAITING", "FINISHED", "FAILED", "CANCELLED"]
FormatName = Literal["json", "text", "bytes"]
Content = Any
"""A JSON value as it was given, a text, or base64 for bytes that are neither."""


class _Form(msgspec.Struct, frozen=True, kw_only=True):
    """What all forms have in common."""


class RetentionForm(_Form, frozen=True, kw_only=True):
    """How long ended jobs are kept, in seconds; null: for ever."""

    finished: float | None
    failed: float | None
    cancelled: float | None


class PolicyForm(_Form, frozen=True, kw_only=True):
    """How a job wants to be treated."""

    timeout: float | None
    on_lost: str
    crash_limit: int | None
    retry: str | dict[str, Any]
    repeat: str | None
    windows: str | None
    retention: RetentionForm | None


class ChildrenForm(_Form, frozen=True, kw_only=True):
    """How many children a job has, by what became of them."""

    open: int
    finished: int
    failed: int
    cancelled: int


class JobForm(_Form, frozen=True, kw_only=True):
    """All facts of a job but its lease token, which is nobody's business."""

    id: int
    state: StateName
    queue: str
    name: str
    key: str | None
    unique_key: str | None
    ref: str | None
    meta: str | None
    rank: int
    attempt: int
    crashes: int
    progress: float
    waits_for: str | None
    parent_id: int | None
    cancel_requested: bool
    revision: int
    created_at: str
    scheduled_at: str
    due_at: str
    started_at: str | None
    ended_at: str | None
    until: str | None
    weight: float
    children: ChildrenForm
    session: str | None
    """A number larger than what many a JSON reader can hold, hence a text."""
    format: FormatName
    payload: Content
    result: Content
    reply: Content
    error: str | None
    policy: PolicyForm


class SettingsForm(_Form, frozen=True, kw_only=True):
    """What a queue was told. Rates and times are texts, shares are percent."""

    capacity: float | None
    key_capacity: float | None
    keys: Mapping[str, float]
    order: str
    paused: bool
    retention: RetentionForm
    tasks: Mapping[str, float]
    shares: Mapping[str, float]
    lend: bool
    rate: str | None
    key_rate: str | None
    key_rates: Mapping[str, str]
    task_rates: Mapping[str, str]
    within: str | None
    fair: bool
    turns: Mapping[str, float]
    ageing: float | None
    windows: str | None
    maintenance: list[str]
    throttled: bool


class QueueForm(_Form, frozen=True, kw_only=True):
    """One queue at a glance."""

    name: str
    counts: dict[str, int]
    used: float
    settings: SettingsForm


class ThrottlerForm(_Form, frozen=True, kw_only=True):
    """What is known of a queue's throttler."""

    error: str | None
    """What went wrong when it was asked last; its jobs wait."""
    state: Any
    """What it has left there for the next time."""


class QueueInFull(QueueForm, frozen=True, kw_only=True):
    """One queue, with its throttler if it is throttled."""

    throttler: ThrottlerForm | None


class WorkerForm(_Form, frozen=True, kw_only=True):
    """One worker at a glance."""

    session: str
    name: str
    host: str | None
    pid: int | None
    queues: tuple[str, ...] | None
    concurrency: int | None
    alive: bool
    held: int
    started_at: str
    expires_at: str


class ScheduleForm(_Form, frozen=True, kw_only=True):
    """One schedule; a paused one has no job."""

    name: str
    repeat: str
    paused: bool
    next: str | None
    queue: str
    task: str
    job: int | None
    state: StateName | None


class BlockerForm(_Form, frozen=True, kw_only=True):
    """One thing that stands between a job and its run."""

    reason: str
    text: str
    until: str | None
    jobs: tuple[int, ...]
    more: bool


class ExplanationForm(_Form, frozen=True, kw_only=True):
    """Why a job does not run."""

    id: int
    state: StateName
    runs_at: str | None
    blockers: list[BlockerForm]


class FindingForm(_Form, frozen=True, kw_only=True):
    """One thing that a check has seen."""

    subject: str
    level: str
    text: str


_STATES: dict[State, StateName] = {
    State.QUEUED: "QUEUED",
    State.RUNNING: "RUNNING",
    State.WAITING: "WAITING",
    State.FINISHED: "FINISHED",
    State.FAILED: "FAILED",
    State.CANCELLED: "CANCELLED",
}
_FORMATS: dict[Format, FormatName] = {
    Format.JSON: "json",
    Format.TEXT: "text",
    Format.BYTES: "bytes",
}


# -- from what there is to its form --------------------------------------------------------


def job_facts(job: Job) -> dict[str, Any]:
    """The fields of a job's form."""
    return {
        "id": job.id,
        "state": _STATES[job.state],
        "queue": job.queue,
        "name": job.name,
        "key": job.key,
        "unique_key": job.unique_key,
        "ref": job.ref,
        "meta": job.meta,
        "rank": job.rank,
        "attempt": job.attempt,
        "crashes": job.crashes,
        "progress": job.progress,
        "waits_for": job.waits_for,
        "parent_id": job.parent_id,
        "cancel_requested": job.cancel_requested,
        "revision": job.revision,
        "created_at": iso(job.created_at),
        "scheduled_at": iso(job.scheduled_at),
        "due_at": iso(job.due_at),
        "started_at": iso(job.started_at),
        "ended_at": iso(job.ended_at),
        "until": iso(job.until),
        "weight": job.weight / WHOLE_WEIGHT,
        "children": ChildrenForm(
            open=job.open_children,
            finished=job.finished_children,
            failed=job.failed_children,
            cancelled=job.cancelled_children,
        ),
        "session": None if job.session is None else str(job.session),
        "format": _FORMATS[job.format],
        "payload": content(job.payload, job.format),
        "result": None if job.result is None else content(job.result),
        "reply": None if job.reply is None else content(job.reply),
        "error": job.error,
        "policy": policy_form(job.policy),
    }


def state_name(state: State) -> StateName:
    """A state by its name."""
    return _STATES[state]


def job_form(job: Job) -> JobForm:
    """One job."""
    return JobForm(**job_facts(job))


def content(data: bytes, kind: Format = Format.JSON) -> str | msgspec.Raw:
    """Bytes as they can stand in JSON. No digit is lost: a value is passed on as it was written."""
    if kind is Format.JSON:
        try:
            text = msgspec.json.decode(data, type=msgspec.Raw)
            data.decode()
        except (ValueError, RecursionError):
            kind = Format.TEXT
        else:
            return text
    try:
        return data.decode() if kind is Format.TEXT else base64.b64encode(data).decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()


@lru_cache(maxsize=256)  # jobs share policies, and shapes of policies are dear
def policy_form(policy: Policy) -> PolicyForm:
    """A policy."""
    try:
        retry: str | dict[str, Any] = retry_text(policy.retry)
    except BadInput:
        retry = msgspec.to_builtins(policy.retry)
    return PolicyForm(
        timeout=seconds(policy.timeout),
        on_lost=policy.on_lost.value,
        crash_limit=policy.crash_limit,
        retry=retry,
        repeat=policy.repeat,
        windows=None if policy.windows is None else windows_text(policy.windows),
        retention=None if policy.retention is None else retention_form(policy.retention),
    )


def retention_form(retention: Retention) -> RetentionForm:
    """A retention."""
    return RetentionForm(
        finished=seconds(retention.finished),
        failed=seconds(retention.failed),
        cancelled=seconds(retention.cancelled),
    )


def queue_form(view: QueueView) -> QueueForm:
    """One queue."""
    return QueueForm(
        name=view.name,
        counts={state.name: count for state, count in view.counts.items()},
        used=view.used / WHOLE_WEIGHT,
        settings=settings_form(view.settings),
    )


def queue_in_full(view: QueueView, store: Store) -> QueueInFull:
    """One queue, and what the store remembers of its throttler."""
    throttler = None
    if view.settings.throttled:
        memory, _ = recall(store, view.name)
        throttler = ThrottlerForm(error=memory.error, state=memory.state)
    return QueueInFull(**msgspec.structs.asdict(queue_form(view)), throttler=throttler)


def settings_form(settings: QueueSettings) -> SettingsForm:
    """A queue's settings."""
    return SettingsForm(
        capacity=settings.capacity,
        key_capacity=settings.key_capacity,
        keys=dict(settings.keys),
        order=settings.order.value,
        paused=settings.paused,
        retention=retention_form(settings.retention),
        tasks=dict(settings.tasks),
        shares=dict(settings.shares),
        lend=settings.lend,
        rate=_rate_text(settings.rate),
        key_rate=_rate_text(settings.key_rate),
        key_rates={key: str(rate) for key, rate in settings.key_rates.items()},
        task_rates={task: str(rate) for task, rate in settings.task_rates.items()},
        within=settings.within,
        fair=settings.fair,
        turns=dict(settings.turns),
        ageing=seconds(settings.ageing),
        windows=None if settings.windows is None else windows_text(settings.windows),
        maintenance=[str(each) for each in settings.maintenance],
        throttled=settings.throttled,
    )


def _rate_text(rate: Rate | None) -> str | None:
    return None if rate is None else str(rate)


def worker_form(worker: WorkerView) -> WorkerForm:
    """One worker."""
    return WorkerForm(
        session=str(worker.session),
        name=worker.name,
        host=worker.info.host or None,
        pid=worker.info.pid,
        queues=worker.info.queues,
        concurrency=worker.info.concurrency,
        alive=worker.alive,
        held=worker.held,
        started_at=iso(worker.started_at),
        expires_at=iso(worker.expires_at),
    )


def schedule_form(schedule: Schedule, now: int) -> ScheduleForm:
    """One schedule."""
    job = schedule.job
    return ScheduleForm(
        name=schedule.name,
        repeat=schedule.repeat,
        paused=schedule.paused,
        next=None if schedule.paused else iso(schedule.upcoming(1, now=now)[0]),
        queue=job.queue,
        task=job.name,
        job=job.id or None,
        state=None if schedule.paused else _STATES[job.state],
    )


def explanation_form(explanation: Explanation) -> ExplanationForm:
    """Why one job does not run."""
    return ExplanationForm(
        id=explanation.job.id,
        state=_STATES[explanation.job.state],
        runs_at=iso(explanation.runs_at),
        blockers=[_blocker_form(blocker) for blocker in explanation.blockers],
    )


def _blocker_form(blocker: Blocker) -> BlockerForm:
    return BlockerForm(
        reason=blocker.reason.value,
        text=blocker.text,
        until=iso(blocker.until),
        jobs=blocker.jobs,
        more=blocker.more,
    )


def finding_form(finding: Finding) -> FindingForm:
    """One finding of a check."""
    return FindingForm(subject=finding.subject, level=finding.level.value, text=finding.text)


def seconds(micros: int | None) -> float | None:
    """A duration for programs."""
    return None if micros is None else micros / SECOND
