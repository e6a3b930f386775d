"""What a job is: six states and the facts that go with them.

Every other word for a job's condition (scheduled, retrying, paused, leased, blocked, dead ...)
is a rendering of these facts, made by whoever shows it.
"""

from __future__ import annotations

import enum

import msgspec

from stoker.kernel.policy import PLAIN, OnLost, Policy

# An integer id carries its partition above these bits, so an id alone finds its shard.
# Partition 0 counts 1, 2, 3 ...; ids of the first 512 partitions stay exact in a double.
PARTITION_SHIFT = 44
LARGEST_ID = 2**63 - 1

WHOLE_WEIGHT = 1000
"""Weights and capacities are counted in thousandths, so that halves and tenths add up exactly."""

REPLY_PREFIX = "reply:"
WAITS_FOR_PARENT = "parent"
WAITS_FOR_CHILDREN = "children"
WAITS_FOR_TICK = "tick"


class State(enum.IntEnum):
    """Where a job is in its life. The order is part of the stored form: never renumber.

    >>> [str(state) for state in State if state in ENDED]
    ['FINISHED', 'FAILED', 'CANCELLED']
    """

    QUEUED = 0
    RUNNING = 1
    WAITING = 2
    FINISHED = 3
    FAILED = 4
    CANCELLED = 5

    def __str__(self) -> str:
        return self.name


STATES = tuple(State)
# By these names too, for the busiest places: looking a state up in its class takes its time.
QUEUED, RUNNING, WAITING, FINISHED, FAILED, CANCELLED = STATES
LIVE = frozenset({State.QUEUED, State.RUNNING, State.WAITING})
ENDED = frozenset({State.FINISHED, State.FAILED, State.CANCELLED})


class Format(enum.IntEnum):
    """How the payload's bytes are meant. No part of Stoker re-encodes them.

    >>> Job("scans", payload=b"\\x89PNG", format=Format.BYTES).format.name
    'BYTES'
    """

    JSON = 0
    TEXT = 1
    BYTES = 2


FORMATS = tuple(Format)


class Job(msgspec.Struct, frozen=True, gc=False):
    """One job: an immutable copy of what the store knew when it was read.

    The facts every job has come first, those that most jobs never get come after.

    Times are UTC microseconds. `due_at` is when it may run and its place in the order;
    `scheduled_at` is the moment this run was meant for, kept while retries move `due_at`.

    >>> job = Job("mail", payload=b'{"to": "ann"}', rank=-1)
    >>> job.state.name, job.ended
    ('QUEUED', False)
    """

    queue: str
    name: str = ""
    payload: bytes = b"null"
    format: Format = Format.JSON
    id: int = 0
    """Given by the store on insert; 0 before."""
    state: State = State.QUEUED
    rank: int = 0
    """Lower runs first."""
    due_at: int = 0
    policy: Policy = PLAIN
    created_at: int = 0
    scheduled_at: int = 0

    weight: int = WHOLE_WEIGHT
    """Thousandths of a place in its queue's and key's capacity; 0 neither counts nor waits."""
    key: str | None = None
    """Whom the job is for (tenant, region, server): the unit of per-key capacity."""
    unique_key: str | None = None
    """No two live jobs share it."""
    ref: str | None = None
    """A name given from outside (UUID, idempotency key); no two kept jobs share it."""
    meta: str | None = None
    """Free text that travels with the job and that no rule looks at."""

    parent_id: int | None = None
    open_children: int = 0
    finished_children: int = 0
    failed_children: int = 0
    cancelled_children: int = 0
    waits_for: str | None = None
    """Set exactly while WAITING: parent, children, tick or reply:<key>."""

    attempt: int = 0
    """Tries begun, not counting those given back or merely continued."""
    crashes: int = 0
    """Tries that ended with the lease lost."""
    revision: int = 0
    """Goes up with every decision about the job; a decision on an old copy is made again."""

    token: int | None = None
    """The lease. Set exactly while RUNNING; every write of a worker must show it."""
    session: int | None = None
    """The worker session whose death ends the lease, if the lease is bound to one."""
    until: int | None = None
    """When the present state ends by itself: lease or time limit, wait, or being kept."""

    started_at: int | None = None
    ended_at: int | None = None

    cancel_requested: bool = False
    undecided: bool = False
    """It failed where its retry handler's code was not at hand: ask the handler before running."""
    progress: float = 0.0
    result: bytes | None = None
    error: str | None = None
    reply: bytes | None = None
    """The answer from outside that ended its last wait."""

    @property
    def failures(self) -> int:
        """How many tries count for the retry policy: lost ones only if it was asked about them."""
        if self.policy.on_lost is OnLost.RETRY:
            return self.attempt
        return self.attempt - self.crashes

    @property
    def ended(self) -> bool:
        """Has it reached a final state?"""
        return self.state in ENDED


def afresh(job: Job) -> Job:
    """The same business as a new job: what it is about, and nothing of its life or its names."""
    return Job(
        queue=job.queue,
        name=job.name,
        payload=job.payload,
        format=job.format,
        rank=job.rank,
        policy=job.policy,
        weight=job.weight,
        key=job.key,
        meta=job.meta,
    )


def place(job: Job) -> tuple[int, int, int]:
    """How queues compare their foremost jobs with one another: rank, then time, then arrival."""
    return (job.rank, job.due_at, job.id)


def load(job: Job) -> int:
    """The units of capacity a job holds. Waiting for an answer from outside still burdens
    whoever is to give it."""
    if job.state is State.RUNNING or (
        job.state is State.WAITING and (job.waits_for or "").startswith(REPLY_PREFIX)
    ):
        return job.weight
    return 0


def partition_of(job_id: int) -> int:
    """The partition in which a job lives."""
    return job_id >> PARTITION_SHIFT
