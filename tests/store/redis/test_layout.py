"""Jobs are read as they were written, whatever was read before them."""

from __future__ import annotations

import random
from typing import Any

from stoker.kernel.job import Job
from stoker.kernel.policy import Policy
from stoker.store.redis.layout import JobReader, head, number_of

KEYS = (None, "", "a", "b", "x" * 31, "x" * 32, "ü" * 200, "y" * 70_000)
OTHERS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {},
    {"rank": 5},
    {"unique_key": "u"},
    {"meta": b"m"},
    {"policy": Policy(timeout=5)},
)


def test_jobs_that_differ_in_some_facts_are_told_apart() -> None:
    dice = random.Random(7)
    jobs = [
        Job("q", "task", b"payload", id=number, key=dice.choice(KEYS), **dice.choice(OTHERS))
        for number in range(1, 500)
    ]
    shown = [part for job in jobs for part in (number_of(job.id), head(job) + job.payload, None)]
    assert list(JobReader(0).jobs(shown)) == jobs
