"""`stoker explain`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from stoker.desk.explain import Blocker, Explanation, Reason
from stoker.desk.explain import explain as explain_job
from stoker.doors.cli import show
from stoker.doors.cli.command import Command, json_option, opened
from stoker.doors.cli.place import Place
from stoker.doors.cli.show import Ink
from stoker.doors.cli.words import both
from stoker.doors.forms import explanation_form
from stoker.kernel.job import ENDED, Job, State

_MOST_NAMED = 10

# What can be done about it, for those of which something can be done.
ADVICE: Mapping[Reason, str] = {
    Reason.QUEUE_PAUSED: "stoker queues resume {queue}",
    Reason.QUEUE_FULL: "stoker queues set {queue} capacity=N",
    Reason.KEY_FULL: "stoker queues set {queue} keys.{key}=N",
    Reason.NO_WORKER: "stoker worker module:app --queues {queue}",
    Reason.WORKERS_BUSY: "start another worker, or one with more --concurrency",
    Reason.UNKNOWN_TASK: "deploy the code that has it, or stoker jobs cancel {id}",
    Reason.WORKER_LOST: "stoker workers",
    Reason.CHILDREN: "stoker explain CHILD",
    Reason.PARENT: "stoker explain {parent_id}",
    Reason.REPLY: "stoker reply KEY JSON",
    Reason.ENDED: "stoker jobs retry {id}",
}


@click.command(
    cls=Command,
    examples=[
        "stoker explain 17",
        "stoker explain 17 --app shop:app   # also tells whether the app knows its task",
    ],
)
@click.argument("job", type=int)
@json_option
@opened()
def explain(here: Place, *, job: int, as_json: bool) -> None:
    """Why JOB is not running, and when it will: everything that stands in its way."""
    known = here.task_names()
    found = explain_job(here.desk.store, job, known.__contains__ if known else None)
    if as_json:
        show.document(explanation_form(found))
        return
    it = found.job
    show.line(f"job {it.id}, {it.name or 'no name'} in {it.queue}, is ", show.state(it.state))
    for blocker in found.blockers:
        _tell(blocker, it, found.now)
    if it.state not in ENDED:
        show.line(Ink(_verdict(found), "bold"))


def _tell(blocker: Blocker, job: Job, now: int) -> None:
    until = "" if blocker.until is None else f", until {both(blocker.until, now)}"
    show.line("  · ", f"{blocker.text}{until}")
    if blocker.jobs:
        more = f" and {len(blocker.jobs) - _MOST_NAMED} more" * (len(blocker.jobs) > _MOST_NAMED)
        named = ", ".join(map(str, blocker.jobs[:_MOST_NAMED]))
        show.line(Ink(f"      jobs {named}{more}", "dim"))
    if blocker.reason in ADVICE:
        facts = {"id": job.id, "queue": job.queue, "key": job.key, "parent_id": job.parent_id}
        show.line(Ink(f"      → {ADVICE[blocker.reason].format(**facts)}", "dim"))


def _verdict(found: Explanation) -> str:
    if found.job.state is State.RUNNING:
        return "nothing more stands in its way."
    if not found.blockers:
        return "nothing stands in its way: it is next."
    if found.runs_at is None:
        return "nobody can say when it will run."
    return f"it will run at {both(found.runs_at, found.now)}, if nothing else changes."
