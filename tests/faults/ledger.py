"""The ledger: everything that must not have happened, each told as a sentence.

Every check is a pure function of the evidence and sure of what it says. Where an answer was lost
it goes by what the store holds; where a moment is not known exactly it takes the kindest one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

from stoker.kernel.job import Job, State, load
from tests.faults.evidence import Evidence, Run
from tests.faults.journal import Declined, Placed
from tests.faults.limits import crowded, hurried


def lost(evidence: Evidence) -> Iterator[str]:
    """Jobs that were acknowledged and are not there, or not those that were acknowledged."""
    for placed in evidence.each(Placed):
        for job_id, tag in zip(placed.ids, evidence.offers[placed.batch].tags, strict=True):
            found = evidence.tags.get(job_id)
            if found is None:
                yield f"job {job_id} ({tag}) was acknowledged and is gone"
            elif found != tag:
                yield f"job {job_id} was acknowledged as {tag} and is {found}"


def unexpected(evidence: Evidence) -> Iterator[str]:
    """Jobs that nobody offered, that were declined, or that are there twice."""
    offered = {tag for offer in evidence.offers.values() for tag in offer.tags}
    declined = {
        tag for entry in evidence.each(Declined) for tag in evidence.offers[entry.batch].tags
    }
    for job_id, tag in evidence.tags.items():
        if tag not in offered:
            yield f"job {job_id} ({tag}) was never offered"
        if tag in declined:
            yield f"job {job_id} ({tag}) is there though its offer was declined"
    for tag, count in Counter(evidence.tags.values()).items():
        if count > 1:
            yield f"{tag} is there {count} times"


def partial(evidence: Evidence) -> Iterator[str]:
    """Batches of which a part is there."""
    present = set(evidence.tags.values())
    for batch, offer in evidence.offers.items():
        there = sum(tag in present for tag in offer.tags)
        if there not in (0, len(offer.tags)):
            yield f"of the {len(offer.tags)} jobs of {batch} {there} are there"


def double_accepted(evidence: Evidence) -> Iterator[str]:
    """Jobs that ended twice, or leases that were given up twice."""
    for job_id, runs in evidence.runs.items():
        finals = [run for run in runs if run.final is not None]
        if len(finals) > 1:
            yield f"job {job_id} ended {len(finals)} times: {_actors(finals)}"
        for run in runs:
            if len(run.accepted) > 1:
                yield f"job {job_id}: {run.actor} gave up one lease {len(run.accepted)} times"


def stale_accepted(evidence: Evidence) -> Iterator[str]:
    """Reports that were accepted from a worker after the job had been handed to another."""
    for job_id, runs in evidence.runs.items():
        for place, run in enumerate(runs):
            for ruling in run.accepted:
                asked_at = run.asked_at(ruling)
                for later in runs[place + 1 :]:
                    if later.lease.started_at < asked_at:
                        yield f"job {job_id}: {run.actor} reported after {later.actor} had it"


def undone(evidence: Evidence) -> Iterator[str]:
    """Jobs whose end was acknowledged and did not last."""
    for job_id, runs in evidence.runs.items():
        for place, run in enumerate(runs):
            ruling, job = run.final, evidence.by_id.get(job_id)
            if ruling is None or job is None:
                continue
            if job.state is not ruling.state or token_in(job) != str(run.token):
                yield f"job {job_id}: the end that {run.actor} gave it is not what the store shows"
            for later in runs[place + 1 :]:
                yield f"job {job_id} ran again at {later.actor} after {run.actor} had ended it"


def token_in(job: Job) -> str:
    """The token under which a job's end was written; workers leave it as result or error."""
    return (job.result or b"").decode() if job.state is State.FINISHED else job.error or ""


def stolen(evidence: Evidence) -> Iterator[str]:
    """Jobs handed out again while their holder surely lived and had not given them up."""
    for job_id, runs in evidence.runs.items():
        for run, following in pairwise(runs):
            again = following.lease.started_at
            if again < evidence.held_until(run, again):
                yield f"job {job_id} was taken from {run.actor}, which was alive"


def early(evidence: Evidence) -> Iterator[str]:
    """Runs that began before their time: the offer's, the last report's or the lease's own."""
    dues = {
        tag: due
        for offer in evidence.offers.values()
        for tag, due in zip(offer.tags, offer.dues, strict=True)
    }
    for job_id, runs in evidence.runs.items():
        due_at = dues.get(evidence.tags.get(job_id, ""), 0)
        for run in runs:
            missing = max(due_at, run.lease.due_at) - run.lease.started_at
            if missing > 0:
                yield f"job {job_id} ran {missing} microseconds early at {run.actor}"
            for ruling in run.accepted:
                due_at = ruling.due_at


def overspent(evidence: Evidence) -> Iterator[str]:
    """Jobs that cost more workers than their policy allows."""
    for job in evidence.jobs:
        limit = job.policy.crash_limit
        if limit is not None and job.crashes > limit:
            yield f"job {job.id} lost {job.crashes} workers and may lose {limit}"


def stuck(evidence: Evidence) -> Iterator[str]:
    """Jobs that live though all work is done."""
    for job in evidence.jobs:
        if not job.ended:
            told = f"waits for {job.waits_for}, due {job.due_at}"
            yield f"job {job.id} of {job.queue} is {job.state.name}, {told}"


def drift(evidence: Evidence) -> Iterator[str]:
    """Counts of the store that its jobs do not bear out."""
    counted = Counter((job.queue, job.state) for job in evidence.jobs)
    used: Counter[str] = Counter()
    for job in evidence.jobs:
        used[job.queue] += load(job)
    for view in evidence.views:
        if view.settings.within is not None:
            used[view.settings.within] += used[view.name]
    for view in evidence.views:
        for state, count in view.counts.items():
            there = counted.pop((view.name, state), 0)
            if there != count:
                yield f"{view.name} counts {count} {state.name} jobs and has {there}"
        if view.used != used[view.name]:
            yield f"{view.name} counts {view.used} units in use and has {used[view.name]}"
    for (queue, state), there in counted.items():
        yield f"{queue} is not on the books and has {there} {state.name} jobs"


CHECKS: Mapping[str, Callable[[Evidence], Iterator[str]]] = {
    "lost": lost,
    "unexpected": unexpected,
    "partial batches": partial,
    "double-accepted": double_accepted,
    "stale-accepted": stale_accepted,
    "undone": undone,
    "stolen": stolen,
    "early": early,
    "crowded": crowded,
    "hurried": hurried,
    "overspent": overspent,
    "stuck": stuck,
    "drift": drift,
}


def violations(evidence: Evidence) -> dict[str, list[str]]:
    """Every check's findings; a ledger that balances has none."""
    return {name: list(check(evidence)) for name, check in CHECKS.items()}


def _actors(runs: list[Run]) -> str:
    return ", ".join(run.actor for run in runs)
