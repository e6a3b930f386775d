"""Drains under each policy beside one without: by a worker process, and by the engine alone."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from statistics import median

from bench.engines.engine import Engine, Place
from bench.line import in_turns, opened
from bench.loop import BATCH, together
from bench.ours import AnyStoreLoop
from bench.plan import Setup
from bench.policy.policies import AIMED_AT, DRAINED, KEYED, UNLIMITED, policed
from bench.result import Cell, Column, Result, Table, Target
from bench.stopwatch import lower_ratio, race, ratio, seconds

WANTED = 0.6

Rates = dict[str, list[float]]
"""Jobs a second by policy."""


def by_a_worker(engine: Engine, setup: Setup) -> Result:
    """What users have: one worker process, handlers that do nothing."""
    count = setup.plan.policy.jobs
    with ExitStack() as stack:
        turns = {}
        for name, policy in setup.along([*DRAINED.items()], "policy: opening queues"):
            line = stack.enter_context(opened(engine, setup.folder, policy.keys))
            line.configure(policy.settings)
            turns[name] = partial(line.turn, count)
        rates = in_turns(turns, setup, "policy: drains by a worker")
    table = _table(
        f"Policies on {engine.title}: drain by a worker",
        rates,
        f"{count:,} jobs that do nothing, one worker process.",
    )
    return Result((table,), tuple(_target(name, rates) for name in AIMED_AT))


def by_the_engine(engine: Engine, setup: Setup) -> Result:
    """What is left when nothing but the store is at work; the ratio is harsher, as nothing else
    takes time."""
    count = setup.plan.policy.jobs
    with ExitStack() as stack:
        turns = {}
        for name, policy in DRAINED.items():
            place = stack.enter_context(engine.place(setup.folder))
            loop = stack.enter_context(policed(place, policy))
            turns[name] = partial(_drain, loop, place, count)
        rates = race(turns, setup.plan.rounds, setup.along, "policy: drains by the engine alone")
    table = _table(
        f"Policies on {engine.title}: what the engine alone pays",
        rates,
        f"{count:,} jobs, no workers and no handlers: finish and claim through the store in one "
        f"commit, batches of {BATCH}.",
    )
    return Result((table,))


def _drain(loop: AnyStoreLoop, place: Place, count: int) -> float:
    loop.fill(count)
    place.settle()
    spent = seconds(lambda: together(loop, count))
    assert loop.unfinished() == 0, "work was left undone, so the time means nothing"
    return count / spent


def _table(title: str, rates: Rates, note: str) -> Table:
    columns = (
        Column("policy"),
        Column("jobs/s, median", ",.0f"),
        Column("jobs/s, best", ",.0f"),
        Column("of unlimited", ".0%"),
        Column("with as many keys", ".0%"),
    )
    beside = (
        "Beside a queue without a policy whose jobs have no keys, and one whose jobs have as many."
    )
    return Table(title, columns, tuple(_row(name, rates) for name in rates), f"{note} {beside}")


def _row(name: str, rates: Rates) -> tuple[Cell, ...]:
    own, plain = rates[name], KEYED if DRAINED[name].keys else UNLIMITED
    return (name, median(own), max(own), ratio(own, rates[UNLIMITED]), ratio(own, rates[plain]))


def _target(name: str, rates: Rates) -> Target:
    what = f"drain by a worker, {name} ÷ unlimited"
    return Target(what, WANTED, lower_ratio(rates[name], rates[UNLIMITED]))
