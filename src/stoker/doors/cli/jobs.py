"""`stoker jobs`: list, show, cancel, retry, delete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click
import msgspec

from stoker.doors.cli import bulk, show
from stoker.doors.cli.command import (
    Function,
    Group,
    json_option,
    opened,
    states_option,
    yes_option,
)
from stoker.doors.cli.place import Place
from stoker.doors.cli.show import Cell, Column, Ink
from stoker.doors.cli.words import both, distance, first_line, read_states, span
from stoker.doors.forms import content, job_form, policy_form
from stoker.errors import NotFound
from stoker.kernel.job import LARGEST_ID, WHOLE_WEIGHT, Job, State
from stoker.store import Filter

_MOST_LISTED = 1_000_000

COLUMNS = (
    Column("id", right=True),
    Column("state"),
    Column("queue", loose=True),
    Column("name", loose=True),
    Column("key", loose=True),
    Column("when"),
    Column("try", right=True),
    Column("note", loose=True, style="dim"),
)


@click.group(
    cls=Group,
    examples=["stoker jobs list --state failed", "stoker jobs show 17", "stoker jobs retry 17 18"],
)
def jobs() -> None:
    """List, show, cancel, retry and delete jobs."""


def filtered(function: Function) -> Function:
    """Options that say which jobs are meant."""
    for option in (
        click.option("--key", metavar="KEY", help="Only jobs for this key."),
        click.option("--name", metavar="NAME", help="Only jobs of this name (task)."),
        click.option("--queue", metavar="QUEUE", help="Only jobs of this queue."),
        states_option,
    ):
        function = option(function)
    return function


@jobs.command(
    "list",
    examples=[
        "stoker jobs list",
        "stoker jobs list --state failed --queue mail --newest",
        "stoker jobs list --limit 1000 --after 5000 --json | jq .error",
    ],
)
@filtered
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, _MOST_LISTED),
    default=50,
    show_default=True,
    help="How many at most.",
)
@click.option(
    "--after", type=click.IntRange(0, LARGEST_ID), metavar="ID", help="Go on behind this job."
)
@click.option("--newest", is_flag=True, help="The newest first.")
@json_option
@opened()
def list_jobs(
    here: Place, *, limit: int, after: int | None, newest: bool, as_json: bool, **which: Any
) -> None:
    """List jobs in order of arrival, a page at a time."""
    wanted = msgspec.structs.replace(
        filter_of(**which), limit=limit, after=after, newest_first=newest
    )
    store = here.desk.store
    found = store.find(wanted)
    if as_json:
        show.lines(map(job_form, found))
        return
    if not found:
        show.note("no such jobs")
        return
    show.table(COLUMNS, rows(found, store.now()))
    if len(found) == limit:
        show.note(f"there may be more: --after {found[-1].id}")


def filter_of(
    states: tuple[str, ...], queue: str | None, name: str | None, key: str | None
) -> Filter:
    """The filter that the options stand for."""
    return Filter(states=read_states(states), queue=queue, name=name, key=key)


def rows(found: Iterable[Job], now: int) -> list[show.Row]:
    """Jobs as rows of a table."""
    return [
        (
            job.id,
            show.state(job.state),
            job.queue,
            job.name,
            job.key or "",
            _when(job, now),
            job.attempt or "",
            _note(job),
        )
        for job in found
    ]


def _when(job: Job, now: int) -> str:
    if job.state is State.RUNNING:
        return f"for {span(max(0, now - (job.started_at or now)))}"
    if job.state is State.WAITING and job.until is None:
        return ""
    at = {State.QUEUED: job.due_at, State.WAITING: job.until}.get(job.state, job.ended_at)
    return distance(at or now, now)


def _note(job: Job) -> str:
    if job.state is State.WAITING:
        return f"waits for {job.waits_for}"
    if job.cancel_requested and not job.ended:
        return "asked to stop"
    if job.state is State.RUNNING:
        return f"{job.progress:.0%}" if job.progress else ""
    return "" if job.state is State.FINISHED else first_line(job.error)


@jobs.command("show", examples=["stoker jobs show 17", "stoker jobs show 17 --json | jq .payload"])
@click.argument("job", type=int)
@json_option
@opened()
def show_job(here: Place, *, job: int, as_json: bool) -> None:
    """Show everything that is known of JOB."""
    store = here.desk.store
    found = store.get([job]).get(job)
    if found is None:
        raise NotFound(f"there is no job {job} (any more); ended jobs are kept for a while only")
    if as_json:
        show.document(job_form(found))
        return
    show.facts(
        [*_identity(found), *_course(found, store.now()), *_policy(found), *_contents(found)]
    )
    _tell_error(found)


def _identity(job: Job) -> list[tuple[str, Cell]]:
    said: list[tuple[str, Cell]] = [
        ("job", str(job.id)),
        ("state", show.state(job.state)),
        ("queue", job.queue),
        ("name", job.name),
    ]
    optional = {"key": job.key, "unique key": job.unique_key, "ref": job.ref, "meta": job.meta}
    said += [(name, value) for name, value in optional.items() if value is not None]
    if job.rank:
        said.append(("rank", str(job.rank)))
    if job.weight != WHOLE_WEIGHT:
        said.append(("weight", f"{job.weight / WHOLE_WEIGHT:g}"))
    return said


def _course(job: Job, now: int) -> list[tuple[str, Cell]]:
    moments = {
        "created": job.created_at,
        "due": job.due_at,
        "started": job.started_at,
        "ended": job.ended_at,
        "until": job.until,
    }
    said: list[tuple[str, Cell]] = [
        (name, both(at, now)) for name, at in moments.items() if at is not None
    ]
    said.append(("tries", f"{job.attempt}" + (f", {job.crashes} crashed" * (job.crashes > 0))))
    if job.waits_for is not None:
        said.append(("waits for", job.waits_for))
    if job.parent_id is not None:
        said.append(("parent", str(job.parent_id)))
    children = {
        name: getattr(job, f"{name}_children")
        for name in ("open", "finished", "failed", "cancelled")
    }
    if any(children.values()):
        said.append(("children", ", ".join(f"{count} {name}" for name, count in children.items())))
    if job.state is State.RUNNING:
        said.append(("progress", f"{job.progress:.0%}"))
    if job.cancel_requested:
        said.append(("cancel", "requested"))
    return said


def _policy(job: Job) -> list[tuple[str, Cell]]:
    form: dict[str, object] = msgspec.structs.asdict(policy_form(job.policy))
    timeout = job.policy.timeout
    form["timeout"] = "none" if timeout is None else span(timeout)
    shown = {name.replace("_", " "): value for name, value in form.items() if value is not None}
    return [(name, str(value)) for name, value in shown.items()]


def _contents(job: Job) -> list[tuple[str, Cell]]:
    said: list[tuple[str, Cell]] = [("payload", _readable(content(job.payload, job.format)))]
    said += [
        (name, _readable(content(value)))
        for name, value in (("reply", job.reply), ("result", job.result))
        if value is not None
    ]
    return said


def _tell_error(job: Job) -> None:
    """Below the facts, since the evidence is long and wants the whole width."""
    if job.error is not None:
        show.line(Ink("error", "dim"))
        show.line(Ink(job.error.rstrip(), "" if job.state is State.FINISHED else "red"))


def _readable(value: str | msgspec.Raw) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.format(bytes(value), indent=2).decode()


def _add(verb: bulk.Verb, help_text: str, examples: list[str]) -> None:
    """Make a command that does the same to many jobs, named by ids or by what is known of them."""

    @jobs.command(verb.name, help=help_text, examples=examples)
    @click.argument("ids", metavar="[ID]...", nargs=-1, type=int)
    @filtered
    @click.option("--all", "every", is_flag=True, help="All jobs that the other options leave.")
    @yes_option
    @opened()
    def command(here: Place, *, ids: tuple[int, ...], every: bool, yes: bool, **which: Any) -> None:
        if ids and (every or any(which.values())):
            raise click.UsageError("give ids, or options that say which jobs; not both")
        if ids:
            bulk.by_ids(here.desk, verb, ids)
        elif every or any(which.values()):
            bulk.by_filter(here.desk, verb, filter_of(**which), yes=yes)
        else:
            raise click.UsageError("which jobs? Give ids, --state, --queue, --name, --key or --all")


_add(
    bulk.CANCEL,
    "Cancel jobs. Give their IDs, or options that say which. A running job is asked to stop.",
    ["stoker jobs cancel 17 18", "stoker jobs cancel --queue mail --name newsletter --yes"],
)
_add(
    bulk.RETRY,
    "Run ended jobs afresh. Give their IDs, or options that say which; without --state only failed "
    "jobs are meant.",
    ["stoker jobs retry 17", "stoker jobs retry --queue mail", "stoker jobs retry --all --yes"],
)
_add(
    bulk.DELETE,
    "Remove all trace of jobs. Give their IDs, or options that say which; without --state only "
    "ended jobs are meant. Running jobs stay.",
    ["stoker jobs delete 17", "stoker jobs delete --state cancelled --all --yes"],
)
