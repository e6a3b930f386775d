"""What programs get with --json. The names of the fields stay as they are.

Times are ISO 8601 in UTC, durations are seconds, weights and capacities are places.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from stoker.desk.explain import Blocker, Explanation
from stoker.desk.schedules import Schedule
from stoker.desk.workers import WorkerView
from stoker.doors.cli.words import SECOND, iso, read_json
from stoker.errors import BadInput
from stoker.kernel.job import WHOLE_WEIGHT, Format, Job
from stoker.kernel.policy import Policy
from stoker.kernel.queue import QueueSettings
from stoker.kernel.retry_forms import retry_text
from stoker.kernel.window import windows_text
from stoker.store import QueueView
from stoker.store.finding import Finding

Form = dict[str, Any]

_PLAIN_FACTS = (
    *("queue", "name", "key", "unique_key", "ref", "meta", "rank", "attempt", "crashes"),
    *("progress", "waits_for", "parent_id", "cancel_requested", "revision"),
)
_TIMES = ("created_at", "scheduled_at", "due_at", "started_at", "ended_at", "until")
_CHILDREN = ("open", "finished", "failed", "cancelled")


def job_form(job: Job) -> Form:
    """All facts of a job but its lease token, which is nobody's business."""
    return {
        "id": job.id,
        "state": job.state.name,
        **{name: getattr(job, name) for name in _PLAIN_FACTS},
        **{name: iso(getattr(job, name)) for name in _TIMES},
        "weight": job.weight / WHOLE_WEIGHT,
        "children": {name: getattr(job, f"{name}_children") for name in _CHILDREN},
        # Larger than what many a JSON reader can hold as a number.
        "session": None if job.session is None else str(job.session),
        "format": job.format.name.lower(),
        "payload": content(job.payload, job.format),
        "result": None if job.result is None else content(job.result),
        "reply": None if job.reply is None else content(job.reply),
        "error": job.error,
        "policy": policy_form(job.policy),
    }


def content(data: bytes, kind: Format = Format.JSON) -> str | msgspec.Raw:
    """Bytes as they can stand in JSON: a value, a text, or base64 for what is neither."""
    if kind is Format.JSON:
        try:
            read_json(data)
        except BadInput:
            kind = Format.TEXT
        else:
            return msgspec.Raw(msgspec.json.format(data, indent=-1))  # no digit is lost
    try:
        return data.decode() if kind is Format.TEXT else base64.b64encode(data).decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()


def policy_form(policy: Policy) -> Form:
    """How a job wants to be treated."""
    try:
        retry: Any = retry_text(policy.retry)
    except BadInput:
        retry = msgspec.to_builtins(policy.retry)
    return {
        "timeout": _seconds(policy.timeout),
        "on_lost": policy.on_lost.value,
        "crash_limit": policy.crash_limit,
        "retry": retry,
        "repeat": policy.repeat,
        "windows": None if policy.windows is None else windows_text(policy.windows),
    }


def queue_form(view: QueueView) -> Form:
    """One queue at a glance."""
    return {
        "name": view.name,
        "counts": {state.name: count for state, count in view.counts.items()},
        "used": view.used / WHOLE_WEIGHT,
        "settings": settings_form(view.settings),
    }


def settings_form(settings: QueueSettings) -> Form:
    """What a queue was told."""
    kept = msgspec.structs.asdict(settings.retention)
    return {
        "capacity": settings.capacity,
        "key_capacity": settings.key_capacity,
        "keys": dict(settings.keys),
        "order": settings.order.value,
        "paused": settings.paused,
        "retention": {name: _seconds(value) for name, value in kept.items()},
    }


def worker_form(worker: WorkerView) -> Form:
    """One worker at a glance."""
    return {
        "session": str(worker.session),
        "name": worker.name,
        "host": worker.info.host or None,
        "pid": worker.info.pid,
        "queues": worker.info.queues,
        "concurrency": worker.info.concurrency,
        "alive": worker.alive,
        "held": worker.held,
        "started_at": iso(worker.started_at),
        "expires_at": iso(worker.expires_at),
    }


def schedule_form(schedule: Schedule, now: int) -> Form:
    """One schedule; a paused one has no job."""
    job = schedule.job
    return {
        "name": schedule.name,
        "repeat": schedule.repeat,
        "paused": schedule.paused,
        "next": None if schedule.paused else iso(schedule.upcoming(1, now=now)[0]),
        "queue": job.queue,
        "task": job.name,
        "job": job.id or None,
        "state": None if schedule.paused else job.state.name,
    }


def explanation_form(explanation: Explanation) -> Form:
    """Why a job does not run."""
    return {
        "id": explanation.job.id,
        "state": explanation.job.state.name,
        "runs_at": iso(explanation.runs_at),
        "blockers": [_blocker_form(blocker) for blocker in explanation.blockers],
    }


def _blocker_form(blocker: Blocker) -> Form:
    return {
        "reason": blocker.reason.value,
        "text": blocker.text,
        "until": iso(blocker.until),
        "jobs": blocker.jobs,
    }


def finding_form(finding: Finding) -> Form:
    """One thing that a check has seen."""
    return {"subject": finding.subject, "level": finding.level.value, "text": finding.text}


def _seconds(micros: int | None) -> float | None:
    return None if micros is None else micros / SECOND
