"""Doing the same to many jobs: a page at a time, each job on its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import click
import msgspec

from stoker.desk import Desk
from stoker.desk.clerk import Result
from stoker.desk.control import Control
from stoker.doors.cli import show
from stoker.doors.cli.words import jobs_text
from stoker.errors import NotFound, Refused, StokerError
from stoker.kernel.job import ENDED, LIVE, Job, State
from stoker.store import Filter
from stoker.store.paging import PAGE, pages_by_now


class Verb(NamedTuple):
    """What can be done to many jobs."""

    name: str
    past: str
    usual: tuple[State, ...]
    """The states that are meant when none is named."""
    act: Callable[[Control, Iterable[int]], list[Result]]


CANCEL = Verb("cancel", "cancelled", tuple(sorted(LIVE)), Control.cancel_many)
RETRY = Verb("retry", "queued again", (State.FAILED,), Control.revive_many)
DELETE = Verb("delete", "deleted", tuple(sorted(ENDED)), Control.delete_many)


def by_ids(desk: Desk, verb: Verb, ids: Sequence[int]) -> None:
    """Do it to the jobs named; tells of each, and fails with the first one's error."""
    results = verb.act(desk.control, ids)
    errors = [result for result in results if isinstance(result, StokerError)]
    for job_id, result in zip(ids, results, strict=True):
        if isinstance(result, Job):
            click.echo(f"job {job_id} {_outcome(verb, result)}")
    for error in errors[1:]:
        click.echo(f"stoker: error: {error}", err=True)
    if errors:
        raise errors[0]


def by_filter(desk: Desk, verb: Verb, wanted: Filter, *, yes: bool) -> None:
    """Do it to all that fit, after asking."""
    if not wanted.states:
        wanted = msgspec.structs.replace(wanted, states=verb.usual)
    found = desk.store.find(msgspec.structs.replace(wanted, limit=PAGE + 1))
    if not found:
        show.note(f"no jobs fit; the states meant are {_states(wanted)}")
        return
    many = jobs_text(len(found)) if len(found) <= PAGE else f"more than {PAGE} jobs"
    show.confirm(f"{verb.name} {many} ({_states(wanted)})?", yes=yes)
    done, errors = everywhere(desk, verb, wanted, lambda _: None)
    tell(verb, done, errors)


def everywhere(
    desk: Desk, verb: Verb, wanted: Filter, advance: Callable[[int], None]
) -> tuple[int, list[StokerError]]:
    """Do it to all that fit; how often it was done, and what stood in the way."""
    done, errors = 0, list[StokerError]()
    for page in pages_by_now(desk.store, wanted):
        results = verb.act(desk.control, [job.id for job in page])
        refused = [result for result in results if isinstance(result, StokerError)]
        # Somebody else was faster: that is as good.
        errors += [error for error in refused if not isinstance(error, NotFound)]
        done += len(results) - len(refused)
        advance(len(page))
    return done, errors


def tell(verb: Verb, done: int, errors: Sequence[StokerError]) -> None:
    """What came of it."""
    click.echo(f"{jobs_text(done)} {verb.past}")
    if errors:
        raise Refused(f"{jobs_text(len(errors))} could not be; the first: {errors[0]}")


def _outcome(verb: Verb, job: Job) -> str:
    asked = verb is CANCEL and not job.ended
    return "is running and was asked to stop" if asked else f"was {verb.past}"


def _states(wanted: Filter) -> str:
    return ", ".join(state.name for state in wanted.states)
