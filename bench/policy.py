"""What limits, rates and turns cost: drains beside one without them, and claims among many keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import repeat
from statistics import median
from typing import NamedTuple

from bench.engines.engine import Engine, Place
from bench.loop import BATCH, together
from bench.ours import QUEUE, AnyStoreLoop, fill
from bench.plan import Setup, fill_up
from bench.result import Cell, Column, Result, Table, Target
from bench.stopwatch import lower_ratio, race, ratio, seconds
from stoker.kernel.change import Change
from stoker.kernel.queue import DEFAULTS, QueueSettings
from stoker.kernel.rate import Rate
from stoker.store.open import open_store

WANTED = 0.6
GROWTH = 1.5
_KEYS = 1_000
_FEW = 10
"""Jobs of one claim where the cost of claims is measured: no more than there are keys."""
_FLOOD = "flood"
_UNLIMITED = "no policy"
_KEYED = f"no policy, {_KEYS:,} keys"


class Policy(NamedTuple):
    """Settings of a queue, and how many keys its jobs have."""

    settings: QueueSettings
    keys: int = 0


_WIDE = Rate(1_000_000_000, 1_000_000, burst=1_000_000_000)
_AIMED_AT: Mapping[str, Policy] = {
    "a limit for the queue": Policy(QueueSettings(capacity=10 * BATCH)),
    f"{_KEYS:,} keys, 2 places each": Policy(QueueSettings(key_capacity=2), _KEYS),
    "a bucket, wide open": Policy(QueueSettings(rate=_WIDE)),
    f"{_KEYS:,} keys that take turns": Policy(QueueSettings(fair=True), _KEYS),
}
_DRAINED: Mapping[str, Policy] = {
    _UNLIMITED: Policy(DEFAULTS),
    _KEYED: Policy(DEFAULTS, _KEYS),
    **_AIMED_AT,
}
_CLAIMED: Mapping[str, QueueSettings] = {
    "2 places for each key": QueueSettings(key_capacity=2),
    "keys take turns": QueueSettings(fair=True),
}


def run(engine: Engine, setup: Setup) -> Result:
    """Drain under each policy, then claim among few and many keys, and behind a flood."""
    parts = [_drains(engine, setup), _by_keys(engine, setup), _behind_a_flood(engine, setup)]
    tables = tuple(table for part in parts for table in part.tables)
    return Result(tables, tuple(target for part in parts for target in part.targets))


# -- drains --------------------------------------------------------------------------------


def _drains(engine: Engine, setup: Setup) -> Result:
    count = setup.plan.policy.jobs
    with ExitStack() as stack:
        turns = {}
        for name, policy in _DRAINED.items():
            place = stack.enter_context(engine.place(setup.folder))
            loop = stack.enter_context(_loop(place, policy))
            turns[name] = partial(_drain, loop, place, count)
        rates = race(turns, setup.plan.rounds, setup.along, "policy: drains")
    table = Table(
        f"Policies on {engine.title}: drain",
        (
            Column("policy"),
            Column("jobs/s, median", ",.0f"),
            Column("jobs/s, best", ",.0f"),
            Column("of unlimited", ".0%"),
            Column("with as many keys", ".0%"),
        ),
        tuple((name, *_beside(name, rates)) for name in rates),
        f"{count:,} jobs; finish and claim in one commit, batches of {BATCH}. "
        "Beside a queue without a policy whose jobs have no keys, and one whose jobs have as many.",
    )
    targets = (
        Target(f"drain, {name} ÷ unlimited", WANTED, lower_ratio(rates[name], rates[_UNLIMITED]))
        for name in _AIMED_AT
    )
    return Result((table,), tuple(targets))


def _beside(name: str, rates: Mapping[str, list[float]]) -> tuple[Cell, ...]:
    own, plain = rates[name], _KEYED if _DRAINED[name].keys else _UNLIMITED
    return (median(own), max(own), ratio(own, rates[_UNLIMITED]), ratio(own, rates[plain]))


@contextmanager
def _loop(place: Place, policy: Policy) -> Iterator[AnyStoreLoop]:
    loop = AnyStoreLoop(open_store(place.url), keys=policy.keys)
    with closing(loop):
        loop.store.transact([Change(queues=((QUEUE, policy.settings),))])
        yield loop


def _drain(loop: AnyStoreLoop, place: Place, count: int) -> float:
    loop.fill(count)
    place.settle()
    spent = seconds(lambda: together(loop, count))
    assert loop.unfinished() == 0, "work was left undone, so the time means nothing"
    return count / spent


# -- single claims -------------------------------------------------------------------------


def _by_keys(engine: Engine, setup: Setup) -> Result:
    """Queues of the same length, with jobs of few keys or of many."""
    counts = setup.plan.policy.keys
    turns: dict[tuple[str, int], Callable[[], float]] = {}
    with ExitStack() as stack:
        for name, settings in _CLAIMED.items():
            for keys in counts:
                place = stack.enter_context(engine.place(setup.folder))
                loop = stack.enter_context(_loop(place, Policy(settings, keys)))
                what = f"policy: filling {counts[-1]:,} jobs of {keys:,} keys"
                fill_up(loop.fill, counts[-1], setup.along, what)
                place.settle()
                turns[name, keys] = partial(_claim, loop)
        times = race(turns, setup.plan.samples, setup.along, "policy: claims by keys")
    columns = (
        Column("policy"),
        *(Column(f"{keys:,} keys, µs", ",.0f") for keys in counts),
        *(Column(f"{keys:,} ÷ {counts[0]:,}", ".2f") for keys in counts[1:]),
    )
    rows = {name: [median(times[name, keys]) for keys in counts] for name in _CLAIMED}
    table = Table(
        f"Policies on {engine.title}: one claim, by number of keys",
        columns,
        tuple((name, *_grown(medians)) for name, medians in rows.items()),
        f"Medians; {_FEW} jobs a claim, {counts[-1]:,} in the queue.",
    )
    targets = (
        _flat(f"one claim, {name}: {counts[-1]:,} keys ÷ {counts[0]:,}", medians[-1] / medians[0])
        for name, medians in rows.items()
    )
    return Result((table,), tuple(targets))


def _behind_a_flood(engine: Engine, setup: Setup) -> Result:
    """One key without room has all the places at the front, or there is none such."""
    blocked = setup.plan.policy.blocked
    policy = Policy(QueueSettings(key_capacity=2, keys={_FLOOD: 1}), 10 * _FEW)
    turns: dict[int, Callable[[], float]] = {}
    with ExitStack() as stack:
        for count in (0, blocked):
            place = stack.enter_context(engine.place(setup.folder))
            loop = stack.enter_context(_loop(place, policy))
            flood = partial(fill, loop.store, keys=repeat(_FLOOD))
            fill_up(flood, count, setup.along, f"policy: filling {count:,} blocked jobs")
            loop.claim(1)
            loop.fill(20 * _FEW)
            place.settle()
            turns[count] = partial(_claim, loop)
        times = race(turns, setup.plan.samples, setup.along, "policy: claims behind a flood")
    medians = [median(times[count]) for count in turns]
    table = Table(
        f"Policies on {engine.title}: one claim, by jobs of a full key in front",
        (Column("jobs in front"), Column("µs", ",.0f"), Column("÷ without", ".2f")),
        tuple((count, each, each / medians[0]) for count, each in zip(turns, medians, strict=True)),
        f"Medians; {_FEW} jobs of other keys a claim.",
    )
    growth = medians[-1] / medians[0]
    return Result((table,), (_flat(f"one claim behind {blocked:,} jobs ÷ without", growth),))


def _claim(loop: AnyStoreLoop) -> float:
    """Microseconds of one claim. The queue is as long afterwards as before."""
    start = time.perf_counter_ns()
    held = loop.claim(_FEW)
    spent = (time.perf_counter_ns() - start) / 1e3
    assert len(held) == _FEW, "there was no room, or no job, so the time means nothing"
    loop.finish(held)
    loop.fill(_FEW)
    return spent


def _grown(medians: list[float]) -> tuple[Cell, ...]:
    return (*medians, *(each / medians[0] for each in medians[1:]))


def _flat(what: str, reached: float) -> Target:
    return Target(what, GROWTH, reached, "{:.2f}", below=True)
