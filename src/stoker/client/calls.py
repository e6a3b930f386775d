"""Calls that are enqueued together: that they are calls, and what all of them have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from stoker.client.task import Call, Task
from stoker.desk import Twin
from stoker.errors import BadInput
from stoker.kernel.job import Job


def listed(calls: Iterable[Call]) -> list[Call]:
    """The calls, of which there may be none."""
    try:
        told = list(calls)
    except TypeError:
        raise BadInput(f"enqueue_many takes a list of calls, not {calls!r}") from None
    if not all(issubclass(kind, Call) for kind in {*map(type, told)}):
        raise BadInput("enqueue_many takes calls, made with task.call(...), not their results")
    return told


def payloads_if_alike(task: Task[..., Any], calls: Sequence[Call]) -> list[bytes] | None:
    """The payloads of calls of one and the same task, with the same options, that are complete;
    None if not all of them are such calls."""
    # In one go: among many calls, each time they are looked through shows.
    alike = [call.payload for call in calls if call.task is task and call.takes is None]
    return alike if len(alike) == len(calls) else None


def connection_of(calls: Sequence[Call], within: object | None) -> object | None:
    """The connection in whose transaction all of them are to be taken in, if in any: the one that
    was given for all, or that their tasks have."""
    own = {id(task.connection): task.connection for task in {call.task for call in calls}}
    if within is not None:
        own.pop(id(None), None)
        own[id(within)] = within
    if len(own) > 1:
        raise BadInput(
            "some of the calls are within a transaction, and others within another or none; "
            "enqueue them apart, or give one connection for all: enqueue_many(calls, within=...)"
        )
    return next(iter(own.values()), None)


def jobs_of(calls: Sequence[Call]) -> tuple[list[Job], Twin]:
    """The jobs of calls, and what all of them say of twins."""
    if len({call.task.if_exists for call in calls}) > 1:
        raise BadInput("all calls of one enqueue_many must have the same if_exists")
    return [call.member for call in calls], calls[0].task.if_exists
