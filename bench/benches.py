"""All benchmarks by name, in the order in which they are run and shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench import claims, coalescing, depth, disk, inserts, processes, wakeups
from bench.peers import contest
from bench.plan import Setup
from bench.result import Result

Bench = Callable[[Setup], Result]

BENCHES: Mapping[str, Bench] = {
    "claims": claims.run,
    "inserts": inserts.run,
    "depth": depth.run,
    "processes": processes.run,
    "coalescing": coalescing.run,
    "wakeups": wakeups.run,
    "disk": disk.run,
    "peers": contest.run,
}
