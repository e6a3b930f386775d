"""Parents and children.

A child made by a running parent is held until the parent has finished its own part; the parent
then waits, and is queued again when its last child has ended, however it ended. What crosses
jobs is never needed for safety: each consequence can be found again (`store.Adrift`) and made
good by anybody.
"""

from __future__ import annotations

import msgspec

from stoker.errors import BadInput, IllegalMove
from stoker.kernel import lifecycle, rules
from stoker.kernel.change import NOTHING, Change, Write
from stoker.kernel.control import cancel
from stoker.kernel.ending import ended
from stoker.kernel.job import (
    WAITS_FOR_CHILDREN,
    WAITS_FOR_PARENT,
    WAITS_FOR_TICK,
    Job,
    State,
    afresh,
)
from stoker.kernel.queue import DEFAULTS, QueueSettings
from stoker.kernel.repeat import next_due, parse_repeat


def spawn(parent: Job, children: tuple[Job, ...]) -> Change:
    """Children for a parent that runs (they wait for it) or waits for others (they may start)."""
    lifecycle.check("spawn", parent, parent.state)
    if parent.state is State.WAITING and parent.waits_for != WAITS_FOR_CHILDREN:
        raise IllegalMove(f"job {parent.id} waits for {parent.waits_for}, not for children")
    if any(child.waits_for == WAITS_FOR_TICK for child in children):
        raise BadInput("a schedule with overlapping runs cannot be a child; enqueue it by itself")
    held = parent.state is State.RUNNING
    inserts = tuple(_child(parent.id, child, held) for child in children)
    more = parent.open_children + len(children)
    return Change(inserts=inserts, writes=(Write(parent, {"open_children": more}),))


def expectant(job: Job) -> Job:
    """A new job without a part of its own: it waits for children that are to come, and runs when
    they have ended. If none comes it is soon found to be adrift, and runs as well."""
    return msgspec.structs.replace(job, state=State.WAITING, waits_for=WAITS_FOR_CHILDREN)


def _child(parent_id: int, child: Job, held: bool) -> Job:
    if not held:
        return msgspec.structs.replace(child, parent_id=parent_id)
    return msgspec.structs.replace(
        child, parent_id=parent_id, state=State.WAITING, waits_for=WAITS_FOR_PARENT, until=None
    )


def resume(parent: Job) -> Change:
    """Queue a parent again once nothing it waits for is left."""
    if parent.waits_for == WAITS_FOR_CHILDREN and parent.open_children == 0:
        return rules.wake(parent)
    return NOTHING


def unhold(
    child: Job, parent: Job | None, *, now: int, settings: QueueSettings = DEFAULTS
) -> Change:
    """A held child may start when its parent waits for it, and is pointless when the parent
    ended otherwise or is gone."""
    if parent is None or parent.ended:
        return cancel(child, now=now, settings=settings)
    if parent.state is State.WAITING and parent.waits_for == WAITS_FOR_CHILDREN:
        return rules.wake(child)
    return NOTHING


def tick(schedule: Job, *, now: int, settings: QueueSettings = DEFAULTS) -> Change:
    """The hour of a schedule with overlapping runs has struck: make the run, wait for the next."""
    lifecycle.check("tick", schedule, State.WAITING)
    assert schedule.policy.repeat is not None and schedule.until is not None
    repeat, struck = parse_repeat(schedule.policy.repeat), schedule.scheduled_at
    try:
        following = next_due(repeat, scheduled=struck, started=now, finished=now)
    except BadInput as error:
        lifecycle.check("tick", schedule, State.FAILED)
        return ended(schedule, State.FAILED, now=now, settings=settings, error=str(error))
    due_at = rules.fitted(schedule.policy, following)
    moved = Write(schedule, {"scheduled_at": following, "due_at": due_at, "until": due_at})
    return Change(inserts=(_run_of(schedule, now),), writes=(moved,))


def _run_of(schedule: Job, now: int) -> Job:
    return msgspec.structs.replace(
        afresh(schedule),
        due_at=schedule.due_at,
        ref=f"{schedule.id}@{schedule.scheduled_at}",
        policy=msgspec.structs.replace(schedule.policy, repeat=None),
        created_at=now,
        scheduled_at=schedule.scheduled_at,
    )
