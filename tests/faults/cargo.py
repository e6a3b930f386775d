"""The jobs of the kill test: everything about a job follows from its tag, so nobody need note it.

A tag is `<batch>.<number>`. Some jobs have keys, weights, ranks, long payloads or families, and
all queues keep what has ended, so that each job's fate can be read in the end.
"""

from __future__ import annotations

import random

import msgspec

from stoker.kernel.job import Job
from stoker.kernel.policy import Policy
from stoker.kernel.queue import Order, QueueSettings, Retention
from stoker.kernel.retry_forms import fixed

_KEPT = Retention(finished=None, failed=None, cancelled=None)

QUEUES = {
    "plain": QueueSettings(retention=_KEPT),
    "narrow": QueueSettings(capacity=4, order=Order.TIME_RANK, retention=_KEPT),
    "keyed": QueueSettings(capacity=12, key_capacity=2, keys={"narrowest": 1}, retention=_KEPT),
}

_STUBBORN = Policy(crash_limit=None, retry=fixed("30ms", limit=3))
_FRAGILE = Policy(crash_limit=1, retry=fixed("30ms", limit=1))

_LONG = 3000
"""Long enough for engines that keep long payloads apart."""


class Cargo(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job's payload."""

    tag: str
    children: int = 0
    padding: str = ""


def draft(tag: str, *, due_at: int = 0, ref: bool = False, child: bool = False) -> Job:
    """The job a tag stands for. Children have no children."""
    dice = random.Random(tag)
    queue = dice.choices(list(QUEUES), [6, 1, 2])[0]
    cargo = Cargo(
        tag,
        children=0 if child or dice.random() > 0.03 else dice.randint(1, 4),
        padding="x" * _LONG if dice.random() < 0.05 else "",
    )
    return Job(
        queue,
        payload=msgspec.json.encode(cargo),
        rank=dice.randint(0, 3),
        due_at=due_at,
        policy=_FRAGILE if dice.random() < 0.1 else _STUBBORN,
        weight=dice.choice([500, 1000]) if queue == "narrow" else 1000,
        key=dice.choice(["a", "b", "c", "d", "narrowest"]) if queue == "keyed" else None,
        ref=tag if ref else None,
    )


def cargo_of(job: Job) -> Cargo:
    """What a job carries."""
    return msgspec.json.decode(job.payload, type=Cargo)
