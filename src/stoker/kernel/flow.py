"""Chains and groups: jobs that never run themselves.

They have no handler, and need none: what they have to do follows from their children. A chain makes
its next step when the one before has finished, and a group is over when all its jobs are. They wait
for children like any parent, so whoever ends the last child moves them on; if nobody came to do so,
the night watch finds a parent with nothing left to wait for, and does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stoker.errors import BadInput
from stoker.kernel import lifecycle
from stoker.kernel.change import NOTHING, Change, Write
from stoker.kernel.ending import ended
from stoker.kernel.facts import check_new
from stoker.kernel.job import (
    CANCELLED,
    FAILED,
    FINISHED,
    WAITING,
    WAITS_FOR_CHILDREN,
    WHOLE_WEIGHT,
    Format,
    Job,
    State,
)
from stoker.kernel.policy import PLAIN, Policy
from stoker.kernel.queue import DEFAULTS, QueueSettings
from stoker.kernel.rules import fitted

CHAIN = "stoker.chain"
GROUP = "stoker.group"

_REPLACE = msgspec.structs.replace

ANEW: dict[str, Any] = {
    "state": WAITING,
    "waits_for": WAITS_FOR_CHILDREN,
    "until": None,
    "failed_children": 0,
    "cancelled_children": 0,
}
"""Where a chain or group begins, and goes on from after it has ended."""


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One job of a chain, to be made when its turn comes: what it is about, as far as that is not
    usual."""

    queue: str
    name: str = ""
    payload: bytes = b"null"
    format: Format = Format.JSON
    rank: int = 0
    due_at: int = 0
    policy: Policy = PLAIN
    weight: int = WHOLE_WEIGHT
    key: str | None = None
    meta: str | None = None

    delay: int | None = None
    """How long after the step before it may run."""
    takes: str | None = None
    """The argument that is to be the result of the step before."""

    @property
    def job(self) -> Job:
        """The job that it will be."""
        return Job(**{name: getattr(self, name) for name in _ABOUT})


_ABOUT = Step.__struct_fields__[:-2]


def step_of(job: Job, *, delay: int | None = None, takes: str | None = None) -> Step:
    """A step that makes such a job."""
    check_member(job)
    return Step(**{name: getattr(job, name) for name in _ABOUT}, delay=delay, takes=takes)


class Summary(msgspec.Struct, frozen=True):
    """How many of a parent's children have ended, and how; `pending` ones have not.

    >>> Summary(finished=2, failed=1).total
    3
    """

    finished: int = 0
    failed: int = 0
    cancelled: int = 0
    pending: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.finished + self.failed + self.cancelled + self.pending


def summary(parent: Job) -> Summary:
    """What the copy of a parent tells of its children."""
    return Summary(
        parent.finished_children,
        parent.failed_children,
        parent.cancelled_children,
        parent.open_children,
    )


_STEPS = msgspec.json.Decoder(list[Step])


def chain(steps: Sequence[Step]) -> Job:
    """The job that a chain is; it stands in the queue of its first step."""
    if not steps:
        raise BadInput("a chain needs at least one step")
    if steps[0].takes is not None:
        raise BadInput("the first step of a chain has none before it whose result it could take")
    return Job(steps[0].queue, CHAIN, msgspec.json.encode(steps))


def check_member(job: Job) -> None:
    """Refuse what cannot be one of many that are waited for."""
    check_new(job)
    if job.policy.repeat is not None:
        raise BadInput(f"{job.name!r} repeats, and so would never be over; enqueue it by itself")
    if job.unique_key is not None or job.ref is not None:
        raise BadInput(
            f"{job.name!r} has a unique key or reference, which a job of a chain or group cannot "
            "have: one that is there already would not be part of it"
        )


def begun(draft: Job) -> Job:
    """A new chain or group, which waits for nothing: whoever finds it so lets it advance."""
    return _REPLACE(draft, **ANEW)


def is_flow(job: Job) -> bool:
    """Is it a chain or a group, which never run?"""
    return job.name in (CHAIN, GROUP)


def telling(flow: Job) -> tuple[State, ...]:
    """How the child ended, if any, that tells what comes next: the newest of these."""
    return (FAILED, CANCELLED) if _has_failed(flow) else (FINISHED,)


def _has_failed(flow: Job) -> bool:
    return bool(flow.failed_children or flow.cancelled_children)


def advance(
    flow: Job, child: Job | None, *, now: int, settings: QueueSettings = DEFAULTS
) -> Change:
    """What comes next, once nothing it waited for is left. `child` is the one that is `telling`,
    if it is still there."""
    lifecycle.check("advance", flow, WAITING)
    if flow.waits_for != WAITS_FOR_CHILDREN or flow.open_children:
        return NOTHING
    if flow.name == GROUP:
        counts = msgspec.json.encode(summary(flow))
        return _over(flow, FINISHED, now, settings, result=counts)
    steps, done = _steps(flow), flow.finished_children
    if _has_failed(flow):
        error = f"step {done + 1} of {len(steps)}, {_told(child)}"
        return _over(flow, FAILED, now, settings, error=error)
    if done >= len(steps):
        return _over(flow, FINISHED, now, settings, result=child.result if child else None)
    job = _REPLACE(_drafted(steps[done], child, now), parent_id=flow.id)
    return Change(inserts=(job,), writes=(Write(flow, {"open_children": 1}),))


def give_up(flow: Job, error: str, *, now: int, settings: QueueSettings = DEFAULTS) -> Change:
    """Its next step cannot be made."""
    done = flow.finished_children
    said = f"step {done + 1} cannot be taken in: {error}"
    return _over(flow, FAILED, now, settings, error=said)


def _over(
    flow: Job,
    state: State,
    now: int,
    settings: QueueSettings,
    *,
    result: bytes | None = None,
    error: str | None = None,
) -> Change:
    lifecycle.check("advance", flow, state)
    return ended(flow, state, now=now, settings=settings, result=result, error=error)


def _steps(flow: Job) -> list[Step]:
    try:
        return _STEPS.decode(flow.payload)
    except msgspec.MsgspecError as error:
        raise BadInput(f"the steps of the chain cannot be read: {error}") from error


def _told(child: Job | None) -> str:
    if child is None:
        return "of which nothing is kept, did not finish"
    said = (child.error or "").partition("\n")[0]
    became = "was cancelled" if child.state is CANCELLED else "failed"
    return f"job {child.id} ({child.name}), {became}{f': {said}' if said else ''}"


def _drafted(step: Step, before: Job | None, now: int) -> Job:
    at = step.due_at or now if step.delay is None else now + step.delay
    payload = step.payload if step.takes is None else _with_result(step, step.takes, before)
    due_at = fitted(step.policy, at)
    return _REPLACE(step.job, payload=payload, created_at=now, scheduled_at=at, due_at=due_at)


def _with_result(step: Step, takes: str, before: Job | None) -> bytes:
    if before is None:
        raise BadInput("nothing is kept of the step before, whose result it takes")
    try:
        arguments = msgspec.json.decode(step.payload, type=dict[str, msgspec.Raw])
    except msgspec.MsgspecError as error:
        raise BadInput(f"its payload is no object that could take a result: {error}") from error
    arguments[takes] = msgspec.Raw(before.result or b"null")
    return msgspec.json.encode(arguments)
