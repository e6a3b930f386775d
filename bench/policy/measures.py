"""All that is measured of policies, as one benchmark."""

from __future__ import annotations

from bench.engines.engine import Engine
from bench.plan import Setup
from bench.policy import claims, drains
from bench.result import Result

_PARTS = (drains.by_a_worker, drains.by_the_engine, claims.by_keys, claims.behind_a_flood)


def run(engine: Engine, setup: Setup) -> Result:
    """Drain under each policy, then claim among few and many keys, and behind a flood."""
    parts = [measure(engine, setup) for measure in _PARTS]
    tables = tuple(table for part in parts for table in part.tables)
    return Result(tables, tuple(target for part in parts for target in part.targets))
