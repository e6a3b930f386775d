"""`stoker explain`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from stoker.desk.blocker import Blocker, Reason
from stoker.desk.explain import Explanation
from stoker.desk.explain import explain as explain_job
from stoker.doors.cli import show
from stoker.doors.cli.command import Command, json_option, opened
from stoker.doors.cli.place import Place
from stoker.doors.cli.show import Ink
from stoker.doors.cli.words import both
from stoker.doors.forms import explanation_form
from stoker.kernel.job import ENDED, State

_MOST_NAMED = 10

# What can be done about it, for those of which something can be done.
ADVICE: Mapping[Reason, str] = {
    Reason.QUEUE_PAUSED: "stoker queues resume {queue}",
    Reason.OUTER_PAUSED: "stoker queues resume {outer}",
    Reason.TASK_FULL: "stoker queues set {queue} tasks.{task}=N",
    Reason.KEY_FULL: "stoker queues set {queue} keys.{key}=N",
    Reason.SHARE_FULL: "stoker queues set {queue} shares.{key}=PERCENT",
    Reason.QUEUE_FULL: "stoker queues set {queue} capacity=N",
    Reason.OUTER_FULL: "stoker queues set {outer} capacity=N",
    Reason.TASK_RATE: "stoker queues set {queue} task_rates.{task}=N/m",
    Reason.KEY_RATE: "stoker queues set {queue} key_rates.{key}=N/m",
    Reason.QUEUE_RATE: "stoker queues set {queue} rate=N/m",
    Reason.OUTER_RATE: "stoker queues set {outer} rate=N/m",
    Reason.QUEUE_CLOSED: "stoker queues set {queue} windows=none",
    Reason.MAINTENANCE: "stoker queues set {queue} maintenance=none",
    Reason.NO_THROTTLER: "start a worker whose app has it, or stoker queues set {queue} "
    "throttled=no",
    Reason.TURNS: "stoker queues set {queue} turns.{key}=N",
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
        _tell(blocker, found)
    if it.state not in ENDED:
        show.line(Ink(_verdict(found), "bold"))


def _tell(blocker: Blocker, found: Explanation) -> None:
    until = "" if blocker.until is None else f", until {both(blocker.until, found.now)}"
    show.line("  · ", f"{blocker.text}{until}")
    if blocker.jobs:
        left = len(blocker.jobs) - _MOST_NAMED
        more = f" and {'at least ' * blocker.more}{left} more" if left > 0 else ""
        named = ", ".join(map(str, blocker.jobs[:_MOST_NAMED]))
        show.line(Ink(f"      jobs {named}{more}", "dim"))
    if blocker.reason in ADVICE:
        advice = ADVICE[blocker.reason].format(**_facts(found))
        show.line(Ink(f"      → {advice}", "dim"))


def _facts(found: Explanation) -> dict[str, object]:
    """What may be named in an advice."""
    job = found.job
    facts = {name: getattr(job, name) for name in ("id", "queue", "key", "parent_id")}
    return {**facts, "task": job.name, "outer": found.outer}


def _verdict(found: Explanation) -> str:
    if found.job.state is State.RUNNING:
        return "nothing more stands in its way."
    if not found.blockers:
        return "nothing stands in its way: it is next."
    if found.runs_at is None:
        return "nobody can say when it will run."
    return f"it will run at {both(found.runs_at, found.now)}, if nothing else changes."
