"""How much is measured: one value with every size, and the sizes people ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import msgspec

T = TypeVar("T")


class PeersPlan(msgspec.Struct, frozen=True):
    """The sizes of the comparison with other job queues."""

    rounds: int
    jobs: int
    """Jobs enqueued in bulk and drained in one turn."""
    singles: int
    """Jobs enqueued one at a time in one turn, and as many before it to warm up."""
    seconds: float
    """The longest that one drain, one enqueuing, or one contestant's share of a round of latencies
    may take."""
    latencies: int
    """Jobs whose way to the handler is timed, of each contestant in all rounds together."""
    idle: float
    """Seconds for which idle workers are watched."""


class PolicyPlan(msgspec.Struct, frozen=True):
    """The sizes of the measures of limits, rates and turns."""

    jobs: int
    """Jobs drained in one turn."""
    keys: tuple[int, ...]
    """Keys among which a claim has to choose."""
    blocked: int
    """Jobs of a key without room, in front of all others."""


class Plan(msgspec.Struct, frozen=True):
    """The sizes of one run of the benchmarks."""

    name: str
    rounds: int
    """How often each contestant has its turn."""
    worker_rounds: int
    """The same where a turn starts and ends a worker process of ours."""
    jobs: int
    """Jobs moved in one turn of a race."""
    depths: tuple[int, ...]
    """Queued jobs behind a claim."""
    samples: int
    """Claims measured at each depth."""
    crowds: tuple[int, ...]
    """Processes on one file."""
    seconds: float
    """How long a crowd works."""
    stock: int
    """Jobs in the queue before a crowd of processes or threads sets to work on it."""
    threads: tuple[int, ...]
    enqueues: int
    """Jobs enqueued one by one in a turn, by all threads together."""
    rings: int
    idle: float
    """Seconds spent waiting for a bell that does not ring."""
    stored: int
    """Jobs on the disk when bytes are counted."""
    churn: int
    """Jobs that pass through while the file is watched."""
    passing: int
    """Jobs that pass through a queue on a server."""
    backlogs: tuple[int, int]
    """Jobs in the queue before a drain: few and many."""
    peers: PeersPlan
    policy: PolicyPlan


DEFAULT = Plan(
    name="default",
    rounds=5,
    worker_rounds=5,
    jobs=10_000,
    depths=(1_000, 10_000, 100_000, 1_000_000),
    samples=200,
    crowds=(1, 2, 4, 8),
    seconds=1.0,
    stock=200_000,
    threads=(1, 8, 32),
    enqueues=2_000,
    rings=200,
    idle=10.0,
    stored=100_000,
    churn=200_000,
    passing=1_000_000,
    backlogs=(10_000, 1_000_000),
    peers=PeersPlan(
        rounds=3,
        jobs=30_000,
        singles=2_000,
        seconds=2.0,
        latencies=200,
        idle=30.0,
    ),
    policy=PolicyPlan(jobs=20_000, keys=(10, 1_000, 100_000), blocked=1_000_000),
)
FULL = msgspec.structs.replace(
    DEFAULT,
    name="full",
    depths=(*DEFAULT.depths, 5_000_000),
    passing=3_600_000,
    backlogs=(10_000, 5_000_000),
)
QUICK = msgspec.structs.replace(
    DEFAULT,
    name="quick",
    rounds=3,
    worker_rounds=1,
    jobs=3_000,
    depths=(1_000, 10_000, 100_000),
    samples=50,
    crowds=(1, 4),
    seconds=0.5,
    stock=100_000,
    enqueues=500,
    rings=50,
    idle=2.0,
    stored=20_000,
    churn=40_000,
    passing=100_000,
    backlogs=(2_000, 100_000),
    peers=PeersPlan(
        rounds=1,
        jobs=2_000,
        singles=200,
        seconds=1.0,
        latencies=30,
        idle=3.0,
    ),
    policy=PolicyPlan(jobs=5_000, keys=(10, 1_000, 10_000), blocked=100_000),
)


def down_to(plan: Plan, deepest: int) -> Plan:
    """The plan with its deepest queue as deep as asked."""
    shallower = (depth for depth in FULL.depths if depth < deepest)
    return msgspec.structs.replace(plan, depths=(*shallower, deepest))


class Along(Protocol):
    """Goes along a sequence and may show how far it has come."""

    def __call__(self, items: Sequence[T], what: str) -> Iterator[T]:
        """The items, one by one."""


class Setup(NamedTuple):
    """What a benchmark is given: how much, where, and whom to keep informed."""

    plan: Plan
    folder: Path
    along: Along
    shelf: Path | None = None
    """Where other job queues are kept for comparison; None: they stay out."""


def quietly(items: Sequence[T], what: str) -> Iterator[T]:  # noqa: ARG001 - says nothing of it
    """Go along without a word."""
    return iter(items)


_FILL = 1_000


def portions(count: int, most: int = _FILL) -> list[int]:
    """A number of jobs in pieces of at most `most`."""
    return [min(most, count - start) for start in range(0, count, most)]


def fill_up(fill: Callable[[int], None], count: int, along: Along, what: str) -> None:
    """Fill a queue piece by piece, with progress to be seen."""
    for portion in along(portions(count, 10 * _FILL), what):
        fill(portion)
