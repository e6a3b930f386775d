"""Single claims: among few keys and many, and behind a flood of jobs that may not start."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import repeat
from statistics import median

from bench.engines.engine import Engine
from bench.ours import AnyStoreLoop, fill
from bench.plan import Setup, fill_up
from bench.policy.policies import Policy, policed
from bench.result import Cell, Column, Result, Table, Target
from bench.stopwatch import race
from stoker.kernel.queue import QueueSettings

GROWTH = 1.5
_FEW = 10
"""Jobs of one claim: no more than there are keys."""
_FLOOD = "flood"
_CLAIMED: Mapping[str, QueueSettings] = {
    "2 places for each key": QueueSettings(key_capacity=2),
    "keys take turns": QueueSettings(fair=True),
}


def by_keys(engine: Engine, setup: Setup) -> Result:
    """Queues of the same length, with jobs of few keys or of many."""
    counts = setup.plan.policy.keys
    turns: dict[tuple[str, int], Callable[[], float]] = {}
    with ExitStack() as stack:
        for name, settings in _CLAIMED.items():
            for keys in counts:
                place = stack.enter_context(engine.place(setup.folder))
                loop = stack.enter_context(policed(place, Policy(settings, keys)))
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


def behind_a_flood(engine: Engine, setup: Setup) -> Result:
    """One key without room has all the places at the front, or there is none such."""
    blocked = setup.plan.policy.blocked
    policy = Policy(QueueSettings(key_capacity=2, keys={_FLOOD: 1}), 10 * _FEW)
    turns: dict[int, Callable[[], float]] = {}
    with ExitStack() as stack:
        for count in (0, blocked):
            place = stack.enter_context(engine.place(setup.folder))
            loop = stack.enter_context(policed(place, policy))
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
