"""What a claim leaves behind, besides jobs that run: who has been served, which lanes have another
head or no room, what has started under rates, and when those let somebody in again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from stoker.kernel.job import Job
from stoker.store.choosing import ordering
from stoker.store.postgres.arrays import Array, Bigints, Texts
from stoker.store.postgres.entrances import Entrances
from stoker.store.postgres.marks import Marks
from stoker.store.postgres.rows import FREE_LANE, bucket_of, lane_of, party_of
from stoker.store.postgres.sights import Candidate, Sights
from stoker.store.walk import LanedLine

Lane = tuple[str, str, str]
"""Queue, party, kind."""

Served = Mapping[tuple[str, str], int]
"""How far a party of a queue has been served."""

_UNTIL_SOMETHING_HAPPENS = 2**63 - 1
_CLOCK = "!"


class Walk:
    """One queue's line during one claim, and what is to be remembered of it."""

    def __init__(self, sights: Sights) -> None:
        self.sights = sights
        entrances, queue = sights.entrances, sights.queue
        turns = entrances.turns_of(queue)
        self.line: LanedLine[Candidate] = LanedLine(sights, entrances.turnstile(queue), turns)
        self.line.open()

    def move_marks(self, marks: Marks, jobs: Sequence[Job], *, whole: bool) -> None:
        """Remember how far the line without lanes was claimed."""
        taken = [job for job in jobs if job.id in self.sights.laneless_ids]
        marks.move(taken, self.sights.settings.order, self.sights.entrances.now, whole=whole)

    def lane_of(self, job: Job | Candidate) -> Lane | None:
        """The lane in which a job stands or stood, None if that has no head."""
        kind = lane_of(job, self.sights.settings)
        if kind is None or kind == FREE_LANE:
            return None
        return self.sights.queue, party_of(job.key), kind

    def full_lanes(self) -> Iterator[tuple[Any, ...]]:
        """Lanes without room: from which place on, and until when."""
        place = ordering(self.sights.settings)
        for candidate, moment in self.line.full:
            lane = self.lane_of(candidate)
            assert lane is not None
            until = _UNTIL_SOMETHING_HAPPENS if moment is None else moment
            yield *lane, *place(candidate), until


def charged_for(jobs: Sequence[Job], entrances: Entrances) -> Entrances:
    """The entrances as if only these had come: of those that were chosen, somebody else has dealt
    with some meanwhile."""
    fresh = entrances.again()
    for job in jobs:
        fresh.turnstile(job.queue).ask(job.key, job.name, job.weight, lent=True)
        turns = fresh.turns.get(job.queue) or fresh.turns_of(job.queue)
        if turns is not None:
            turns.taken(job.key, job.weight)
    return fresh


def traces(
    walks: Sequence[Walk], jobs: Sequence[Job], entrances: Entrances, charged: Entrances
) -> list[tuple[str, Sequence[Any]]]:
    """The statements that write it down, in the order in which they have to come."""
    served = {(queue, party): reached for queue, party, reached in _served(charged)}
    full = [lane for walk in walks for lane in walk.full_lanes()]
    words = [
        ("write_turns", _columns(_turns(charged, served), Texts, Texts, Bigints)),
        ("look_again", _columns(_changed(walks, jobs, served), *[Texts] * 3, *[Bigints] * 2)),
        ("shut", _columns(full, *[Texts] * 3, *[Bigints] * 4)),
        ("write_flows", _columns(_flows(charged), *[Texts] * 3, Bigints)),
        ("write_openings", _columns(_openings(entrances), Texts, Bigints)),
    ]
    now = {"look_again": [entrances.now]}
    return [(name, [*columns, *now.get(name, ())]) for name, columns in words if columns]


def _columns(rows: Iterable[tuple[Any, ...]], *kinds: type[Array]) -> list[Array]:
    """The parameters that say so; none if there is nothing to say."""
    columns = zip(*rows, strict=True)
    return [kind.of(column) for kind, column in zip(kinds, columns, strict=False)]


def _served(charged: Entrances) -> Iterator[tuple[str, str, int]]:
    for queue, turns in charged.turns.items():
        for party, reached in turns.moved():
            # Who is not further than the clock is level with all others.
            yield queue, party_of(party), reached if reached > turns.clock else 0


def _turns(charged: Entrances, served: Served) -> Iterator[tuple[str, str, int]]:
    for (queue, party), reached in served.items():
        yield queue, party, reached
    for queue in {queue for queue, _ in served}:
        yield queue, _CLOCK, charged.turns[queue].clock


def _changed(
    walks: Sequence[Walk], jobs: Iterable[Job], served: Served
) -> Iterator[tuple[str, str, str | None, int | None, int]]:
    """Lanes and buckets from which jobs were taken, and other parties that were served."""
    by_queue = {walk.sights.queue: walk for walk in walks}
    spots: dict[tuple[str, str, str, int], None] = {}
    for job in jobs:
        walk = by_queue[job.queue]
        lane = walk.lane_of(job)
        if lane is not None:
            spots[(*lane, bucket_of(job.rank, walk.sights.settings)[0])] = None
    for queue, party, kind, bucket in spots:
        yield queue, party, kind, bucket, served.get((queue, party), 0)
    for queue, party in served.keys() - {(queue, party) for queue, party, *_ in spots}:
        yield queue, party, None, None, served[queue, party]


def _flows(charged: Entrances) -> Iterator[tuple[str, str, str, int]]:
    for turnstile in charged.turnstiles.values():
        yield from turnstile.flows()


def _openings(entrances: Entrances) -> Iterator[tuple[str, int | None]]:
    for queue, turnstile in entrances.turnstiles.items():
        if turnstile.opens_at != entrances.known(queue).opens_at:
            yield queue, turnstile.opens_at
