"""Limits as the ledger sees them: which ones a run falls under, how much was ever held of each, and
how much started in a time.

Nothing is reckoned as engines do it: there are only moments, weights, and what the settings say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from stoker.kernel.amount import units
from stoker.kernel.queue import DEFAULTS, QueueSettings
from stoker.kernel.rate import Rate
from tests.faults.evidence import Evidence, Run
from tests.faults.journal import Lease, Sample

Moves = list[tuple[int, int]]
"""Moments, and how many units came or went at them."""


class Limit(NamedTuple):
    """One limit, by the name of what it limits."""

    name: str
    units: int | None
    rate: Rate | None


def limits_of(lease: Lease, settings: Mapping[str, QueueSettings]) -> Iterator[Limit]:
    """All that a run falls under."""
    queue, key, task = lease.queue, lease.key, lease.task
    rules = settings.get(queue, DEFAULTS)
    yield Limit(queue, rules.units(), rules.rate)
    if rules.within not in (None, queue):
        outer = settings.get(rules.within or "", DEFAULTS)
        yield Limit(rules.within or "", outer.units(), outer.rate)
    if key is not None:
        rate = rules.key_rates.get(key, rules.key_rate)
        yield Limit(f"key {key} of {queue}", rules.key_units(key), rate)
    if rules.limits_task(task):
        yield Limit(f"task {task} of {queue}", rules.task_units(task), rules.task_rates.get(task))


def settings_of(evidence: Evidence) -> Mapping[str, QueueSettings]:
    """What each queue was told."""
    return {view.name: view.settings for view in evidence.views}


# -- how much at once ----------------------------------------------------------------------


def crowded(evidence: Evidence) -> Iterator[str]:
    """Moments at which more ran than a queue, the one it is within, a key or a task may have."""
    for limit, moves in _holds(evidence).items():
        for moment, used in _levels(moves):
            if _exceeds(used, limit.units):
                yield f"{limit.name} held {used} units at {moment}"
    settings = settings_of(evidence)
    for sample in evidence.each(Sample):
        rules = settings[sample.queue]
        if _exceeds(sample.used, rules.units()):
            yield f"{sample.queue} was seen with {sample.used} units in use"
        for name, used in sample.keys.items():
            if _exceeds(used, rules.key_units(name)):
                yield f"key {name} of {sample.queue} was seen with {used} units in use"


def peaks(evidence: Evidence) -> dict[str, int]:
    """The most units that were ever held at once, by what is limited."""
    return {
        limit.name: max(used for _, used in _levels(moves))
        for limit, moves in _holds(evidence).items()
        if limit.units is not None
    }


def _holds(evidence: Evidence) -> Mapping[Limit, Moves]:
    settings, holds = settings_of(evidence), defaultdict[Limit, Moves](list)
    for run, following in _neighbours(evidence):
        lease, until = run.lease, _held_until(evidence, run, following)
        for limit in limits_of(lease, settings):
            holds[limit] += [(lease.started_at, lease.weight), (until, -lease.weight)]
    return holds


def _neighbours(evidence: Evidence) -> Iterator[tuple[Run, Run | None]]:
    for runs in evidence.runs.values():
        yield from zip(runs, [*runs[1:], None], strict=True)


def _held_until(evidence: Evidence, run: Run, following: Run | None) -> int:
    """The end of a run's share of capacity; a stolen job must not be counted twice."""
    until = max(run.lease.started_at, evidence.held_until(run))
    return until if following is None else min(until, following.lease.started_at)


def _levels(moves: Moves) -> Iterator[tuple[int, int]]:
    """What is held after each move; who goes at a moment makes room for those who come at it."""
    used = 0
    for moment, change in sorted(moves):
        used += change
        yield moment, used


def _exceeds(used: int, limit: int | None) -> bool:
    return limit is not None and used > limit


# -- how much in a time --------------------------------------------------------------------


def hurried(evidence: Evidence) -> Iterator[str]:
    """Periods in which more started than a rate allows."""
    for limit, moves in _starts(evidence).items():
        assert limit.rate is not None
        for moment, taken in started(limit.rate, moves):
            if taken > amount(limit.rate):
                yield f"{taken} units of {limit.name} in a period until {moment}: {limit.rate}"


def paces(evidence: Evidence) -> dict[str, float]:
    """The most units that ever started in a period, by what is limited."""
    return {
        limit.name: max(taken for _, taken in started(limit.rate, moves))
        for limit, moves in _starts(evidence).items()
        if limit.rate is not None
    }


def _starts(evidence: Evidence) -> Mapping[Limit, Moves]:
    settings, starts = settings_of(evidence), defaultdict[Limit, Moves](list)
    for runs in evidence.runs.values():
        for run in runs:
            for limit in limits_of(run.lease, settings):
                if limit.rate is not None:
                    starts[limit].append((run.lease.started_at, run.lease.weight))
    return {limit: sorted(moves) for limit, moves in starts.items()}


def amount(rate: Rate) -> int:
    """How much may start in a period, or be taken out of a full bucket."""
    return units(rate.amount if rate.burst is None else rate.burst)


def started(rate: Rate, starts: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """At each start, how much its period has seen; of a bucket, how much is taken out of it."""
    if rate.burst is None:
        totals = list(accumulate((weight for _, weight in starts), initial=0))
        first = 0
        for place, (moment, _) in enumerate(starts):
            begin = moment - (moment % rate.period if rate.fixed else rate.period - 1)
            while starts[first][0] < begin:
                first += 1
            yield moment, totals[place + 1] - totals[first]
    else:
        taken, before = 0.0, 0
        for moment, weight in starts:
            filled = (moment - before) * units(rate.amount) / rate.period
            taken, before = max(0.0, taken - filled) + weight, moment
            yield moment, int(taken)
