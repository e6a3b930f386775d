"""Parents and children.

A child made by a running parent is held until the parent has finished its own part; the parent
then waits, and is queued again when its last child has ended, however it ended. What crosses
jobs is never needed for safety: each consequence can be found again (`store.Adrift`) and made
good by anybody.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stoker.errors import BadInput, IllegalMove
from stoker.kernel import lifecycle, rules
from stoker.kernel.change import NOTHING, Change, Copies, Write
from stoker.kernel.control import cancel
from stoker.kernel.ending import ended
from stoker.kernel.job import (
    REPLY_PREFIX,
    WAITS_FOR_CHILDREN,
    WAITS_FOR_PARENT,
    WAITS_FOR_TICK,
    Job,
    State,
    afresh,
)
from stoker.kernel.policy import Policy
from stoker.kernel.queue import DEFAULTS, QueueSettings
from stoker.kernel.repeat import next_due, parse_repeat
from stoker.kernel.retention import Retention


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


_UNACKNOWLEDGED = Policy(retention=Retention(failed=0))


def reserve(parent: Job, *, until: int) -> Job:
    """A place for a parent whose children are about to come, since they need its id. It waits for
    an answer that nobody can give, at no burden; if nothing comes of it, it is gone after a while
    and leaves no trace."""
    return msgspec.structs.replace(
        parent,
        state=State.WAITING,
        waits_for=REPLY_PREFIX,
        until=until,
        weight=0,
        policy=_UNACKNOWLEDGED,
    )


def gather(place: Job, parent: Job, children: Sequence[Job]) -> Change:
    """The children come, all at once, and the parent takes its place: it waits for them."""
    lifecycle.check("spawn", place, State.WAITING)
    facts = {
        "waits_for": WAITS_FOR_CHILDREN,
        "until": None,
        "weight": parent.weight,
        "policy": parent.policy,
        "open_children": len(children),
    }
    if isinstance(children, Copies):
        kin: Sequence[Job] = Copies(_child(place.id, children.template, False), children.payloads)
    else:
        kin = tuple(_child(place.id, child, False) for child in children)
    return Change(inserts=kin, writes=(Write(place, facts),))


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
