"""All that is known after a storm, brought into order: what was offered, and every job's runs."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from stoker.kernel.job import ENDED, Job
from stoker.store import QueueView
from tests.faults.cargo import cargo_of
from tests.faults.journal import (
    Entry,
    Farewell,
    Granted,
    Lease,
    Logs,
    Offer,
    Pulse,
    Ruled,
    Try,
)

E = TypeVar("E", bound=Entry)


@dataclass
class Run:
    """One lease of one job, as its holder knew it."""

    actor: str
    token: int
    session: int
    lease: Lease
    tries: list[Try] = field(default_factory=list)
    rulings: list[Ruled] = field(default_factory=list)

    @property
    def accepted(self) -> list[Ruled]:
        return [ruling for ruling in self.rulings if ruling.refused is None]

    @property
    def final(self) -> Ruled | None:
        """The accepted report that ended the job, if this run had one."""
        return next((ruling for ruling in self.accepted if ruling.state in ENDED), None)

    def asked_at(self, ruling: Ruled) -> int:
        """The moment before the call that was answered so: then, surely, it was not yet done."""
        return max(attempt.at for attempt in self.tries if attempt.at <= ruling.at)

    @property
    def let_go_at(self) -> int | None:
        """The earliest moment at which the holder may have given the lease up; None: never."""
        if len(self.tries) > len(self.rulings):
            return self.tries[0].at
        return min((self.asked_at(ruling) for ruling in self.accepted), default=None)


@dataclass(frozen=True)
class Evidence:
    """The logs, and what the store held in the end: all its jobs and its own counts of them."""

    logs: Logs
    jobs: Sequence[Job]
    views: Sequence[QueueView] = ()

    def each(self, kind: type[E]) -> Iterator[E]:
        """All entries of a kind."""
        for entries in self.logs.values():
            for entry in entries:
                if isinstance(entry, kind):
                    yield entry

    @cached_property
    def by_id(self) -> Mapping[int, Job]:
        return {job.id: job for job in self.jobs}

    @cached_property
    def tags(self) -> Mapping[int, str]:
        return {job.id: cargo_of(job).tag for job in self.jobs}

    @cached_property
    def offers(self) -> Mapping[str, Offer]:
        """By batch; one that was offered again counts once."""
        return {offer.batch: offer for offer in self.each(Offer)}

    @cached_property
    def runs(self) -> Mapping[int, Sequence[Run]]:
        """By job, in the order of their claims."""
        runs: dict[tuple[int, int], Run] = {}
        for actor, entries in self.logs.items():
            for entry in entries:
                if isinstance(entry, Granted):
                    for lease in entry.leases:
                        run = Run(actor, entry.token, entry.session, lease)
                        runs[lease.job, entry.token] = run
                elif isinstance(entry, Try):
                    runs[entry.job, entry.token].tries.append(entry)
                elif isinstance(entry, Ruled):
                    runs[entry.job, entry.token].rulings.append(entry)
        by_job: dict[int, list[Run]] = defaultdict(list)
        for run in sorted(runs.values(), key=lambda run: run.lease.revision):
            by_job[run.lease.job].append(run)
        return by_job

    # -- sessions --------------------------------------------------------------------------

    @cached_property
    def _pulses(self) -> Mapping[int, Sequence[Pulse]]:
        pulses: dict[int, list[Pulse]] = defaultdict(list)
        for pulse in sorted(self.each(Pulse), key=lambda pulse: pulse.at):
            if pulse.alive:
                pulses[pulse.session].append(pulse)
        return pulses

    @cached_property
    def _farewells(self) -> Mapping[int, int]:
        return {farewell.session: farewell.at for farewell in self.each(Farewell)}

    def held_until(self, run: Run, limit: int | None = None) -> int:
        """How long a lease surely lasted: until it may have been given up or its session ended,
        going by the beats begun until `limit`."""
        bounds = [_alive_until(self._pulses[run.session], limit), run.let_go_at]
        bounds.append(self._farewells.get(run.session))
        return min(bound for bound in bounds if bound is not None)


def _alive_until(pulses: Sequence[Pulse], limit: int | None) -> int:
    known = len(pulses)
    if limit is not None:
        known = bisect_right(pulses, limit, key=lambda pulse: pulse.at)
    return pulses[known - 1].at + pulses[known - 1].ttl
