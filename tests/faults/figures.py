"""What a storm did, in figures; and the ledger as a small table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from stoker.kernel.job import State
from tests.faults.evidence import Evidence
from tests.faults.journal import Ask, Deed, Mishap, Placed, Pulse, Ruled, Try
from tests.faults.ledger import token_in

_MOST_SHOWN = 5


def figures(evidence: Evidence) -> dict[str, int]:
    """How much happened. None of it is wrong, and little of it may be nothing."""
    deeds = Counter(deed.what for deed in evidence.each(Deed))
    return {
        "kills": deeds["kill"],
        "stops": deeds["stop"],
        **_intake(evidence),
        **_ends(evidence),
        **_reports(evidence),
        "claims": sum(1 for _ in evidence.each(Ask)),
        "runs": sum(len(runs) for runs in evidence.runs.values()),
        "jobs run again after a loss": sum(job.crashes > 0 for job in evidence.jobs),
        "recoveries": sum(job.crashes for job in evidence.jobs),
        "sessions refused as dead": sum(not pulse.alive for pulse in evidence.each(Pulse)),
        "calls the store could not serve": sum(1 for _ in evidence.each(Mishap)),
    }


def _intake(evidence: Evidence) -> dict[str, int]:
    acknowledged = {job_id for placed in evidence.each(Placed) for job_id in placed.ids}
    return {
        "acknowledged": len(acknowledged),
        "there without an answer": sum(job.id not in acknowledged for job in evidence.jobs),
    }


def _ends(evidence: Evidence) -> dict[str, int]:
    states = Counter(job.state for job in evidence.jobs)
    ended = {s.name.lower(): states[s] for s in (State.FINISHED, State.FAILED, State.CANCELLED)}
    parked = sum((job.error or "").startswith("parked") for job in evidence.jobs)
    return {**ended, "parked": parked}


def _reports(evidence: Evidence) -> dict[str, int]:
    tries = sum(1 for _ in evidence.each(Try))
    rulings = Counter(ruling.refused for ruling in evidence.each(Ruled))
    silent = [
        run for runs in evidence.runs.values() for run in runs if len(run.tries) > len(run.rulings)
    ]
    ends = sum(
        token_in(evidence.by_id[run.lease.job]) == str(run.token)
        for run in silent
        if run.lease.job in evidence.by_id
    )
    return {
        "reports accepted": rulings[None],
        "stale reports refused": rulings["lease_lost"],
        "reports refused otherwise": rulings.total() - rulings[None] - rulings["lease_lost"],
        "reports without an answer": tries - rulings.total(),
        "of these, ends the store shows": ends,
    }


def recovery_times(evidence: Evidence) -> list[int]:
    """From the kill of a worker to the next start of a job it held, in microseconds, sorted.

    Left out are jobs that may have been given up before, and those of limited queues, which wait
    for room as well.
    """
    limited = {view.name for view in evidence.views if view.settings.limited}
    killed = {deed.actor: deed.at for deed in evidence.each(Deed) if deed.what == "kill"}
    return sorted(
        following.lease.started_at - killed[run.actor]
        for runs in evidence.runs.values()
        for run, following in pairwise(runs)
        if run.actor in killed
        and run.let_go_at is None
        and run.lease.queue not in limited
        and run.lease.started_at <= killed[run.actor] < following.lease.started_at
    )


def quantile(values: Sequence[int], share: float) -> int:
    """The value below which a share of the sorted values lies."""
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0


def table(title: str, evidence: Evidence, found: Mapping[str, Sequence[str]]) -> str:
    """Figures and findings, for people."""
    rows = [(name, str(count)) for name, count in figures(evidence).items()]
    times = recovery_times(evidence)
    for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
        rows.append((f"kill to next start, {name}", f"{quantile(times, share) / 1e6:.2f} s"))
    lines = [f"{name:<34}{count:>10}" for name, count in rows]
    lines.append("-" * 44)
    for name, sentences in found.items():
        lines.append(f"{name:<34}{len(sentences):>10}")
        lines += [f"    {sentence}" for sentence in sentences[:_MOST_SHOWN]]
    return "\n".join(["", title, "=" * 44, *lines, ""])
