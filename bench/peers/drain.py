"""One drain: workers start together on a full queue, and their handlers are counted."""

from __future__ import annotations

import time
from contextlib import closing
from typing import NamedTuple

from bench.ours import unfinished
from bench.peers.drivers.tally import GO_AHEAD_NS
from bench.peers.stage import Company, Stage, Trouble, workers
from stoker.store.open import open_store


class Drained(NamedTuple):
    """How many handlers began, and how many a second."""

    jobs: int
    rate: float


def drain(stage: Stage, processes: int, jobs: int, seconds: float) -> Drained:
    """Let so many processes work until the jobs are done or the time is up."""
    stage.place.settle()
    with workers(stage, processes) as company:
        for _ in range(processes):
            company.hear("ready")
        return race_to_the_end(stage, company, jobs, seconds)


def drain_out(stage: Stage, processes: int, jobs: int, seconds: float) -> Drained:
    """The same with a queue of so many jobs: if all of ours have begun, all must have ended."""
    drained = drain(stage, processes, jobs, seconds)
    if stage.contestant.is_ours and drained.jobs >= jobs:
        with closing(open_store(stage.place.url)) as store:
            left = unfinished(store)
        assert left == 0, f"{left} jobs have begun but not ended, so the time means nothing"
    return drained


def race_to_the_end(stage: Stage, company: Company, jobs: int, seconds: float) -> Drained:
    """Give workers that wait for it the word to begin, and count."""
    begun = time.monotonic_ns() + GO_AHEAD_NS
    _start(stage, begun)
    counts = _counts(company, jobs, begun / 1e9 + seconds)
    total = sum(count for count, _ in counts)
    return Drained(total, total * 1e9 / (max(last for _, last in counts) - begun))


def _start(stage: Stage, begun: int) -> None:
    draft = stage.go.with_suffix(".draft")
    draft.write_text(str(begun), encoding="ascii")
    draft.rename(stage.go)


def _counts(company: Company, jobs: int, deadline: float) -> list[tuple[int, int]]:
    """What each process did: its jobs, and when the last of them began."""
    counts: dict[float, tuple[int, int]] = {}
    while sum(count for count, _ in counts.values()) < jobs:
        word = company.next_word(deadline - time.monotonic())
        if word is None:
            break
        if word.name == "count":
            process, count, last = word.figures
            counts[process] = (int(count), int(last))
    if not counts:
        raise Trouble("no handler began in time")
    return list(counts.values())
