"""What a claim leaves behind, besides jobs that run: who has been served, which lanes have another
head or no room, what has started under rates, and when those let somebody in again."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from stoker.kernel.job import Job
from stoker.store.postgres.arrays import Array, Bigints, Spots, Texts
from stoker.store.postgres.entrances import Entrances
from stoker.store.postgres.marks import Marks
from stoker.store.postgres.rows import party_of
from stoker.store.postgres.sights import Candidate, Lane, Sights
from stoker.store.walk import LanedLine

Served = Mapping[tuple[str, str], int]
"""How far a party of a queue has been served."""

_FIRST, _LAST = -(2**63), 2**63 - 1
_UNTIL_SOMETHING_HAPPENS = _LAST
_CLOCK = "!"


class Shut(NamedTuple):
    """A place in the queue's order from which on a lane has no room, and until when."""

    place: tuple[int, int, int]
    until: int


class Walk:
    """One queue's line during one claim, and what is to be remembered of it."""

    def __init__(self, sights: Sights) -> None:
        self.sights = sights
        self.queue = sights.queue
        entrances = sights.entrances
        turns = entrances.turns_of(self.queue)
        turnstile = entrances.turnstiles.of(self.queue)
        self.line: LanedLine[Candidate] = LanedLine(sights, turnstile, turns)
        self.line.open()

    def move_marks(self, marks: Marks, jobs: Sequence[Job], *, whole: bool) -> None:
        """Remember how far the line without lanes was claimed."""
        taken = [job for job in jobs if job.id in self.sights.laneless_ids]
        marks.move(taken, self.sights.settings.order, self.sights.entrances.now, whole=whole)

    def full(self, doubtful: Container[str]) -> dict[tuple[str, str], Shut]:
        """Lanes without room, by party and kind. Whether a doubtful party has any is left open: it
        would stay shut for ever if nobody holds the room."""
        full: dict[tuple[str, str], Shut] = {}
        for candidate, moment in self.line.full:
            lane = party_of(candidate.key), self.sights.kind_of(candidate)
            if lane[0] in doubtful:
                continue
            until = _UNTIL_SOMETHING_HAPPENS if moment is None else moment
            shut = Shut(self._place(candidate), until)
            full[lane] = min(shut, full.get(lane, shut))
        return full

    def moves(
        self, taken: Container[int], served: Served, full: Mapping[tuple[str, str], Shut]
    ) -> Iterator[tuple[Any, ...]]:
        """Where heads of lanes were taken: the row, and who is in it from now on, if anybody is."""
        now = self.sights.entrances.now
        for lane, following in self._left(taken):
            if following is None:
                if lane.whole:
                    yield (lane.spot, *[None] * 6)
                continue
            party, place = party_of(following.key), self._place(following)
            shut = full.get((party, lane.kind))
            until = following.due_at if following.due_at > now else None
            if shut is not None and place >= shut.place:
                until = max(shut.until, following.due_at)
            turn = served.get((self.queue, party), 0)
            yield lane.spot, turn, *place, following.due_at, until

    def unsure(self, taken: Container[int], served: Served) -> Iterator[tuple[Any, ...]]:
        """Lanes and buckets of which all were taken that were seen, though there may be others."""
        for lane, following in self._left(taken):
            if following is None and not lane.whole:
                job = lane.jobs[0]
                party = party_of(job.key)
                turn = served.get((self.queue, party), 0)
                yield self.queue, party, lane.kind, job.bucket, turn

    def _left(self, taken: Container[int]) -> Iterator[tuple[Lane, Candidate | None]]:
        """Lanes whose head was taken, and the first that was seen of those who are left."""
        for lane in self.sights.lanes.values():
            if lane.jobs[0].id in taken:
                yield lane, next((job for job in lane.jobs if job.id not in taken), None)

    def _place(self, job: Candidate) -> tuple[int, int, int]:
        major, minor, number = self.sights.order(job)
        return min(max(major, _FIRST), _LAST), minor, number


def charged_for(
    taken: Iterable[tuple[str, Candidate]], entrances: Entrances, now: int
) -> Entrances:
    """The entrances as if only these had come, and at the moment at which they began: of those that
    were chosen somebody else has dealt with some meanwhile, and rates count them from then on."""
    fresh = entrances.again(now)
    for queue, job in taken:
        fresh.turnstiles.of(queue).ask(job.key, job.name, job.weight, lent=True)
        turns = fresh.turns.get(queue) or fresh.turns_of(queue)
        if turns is not None:
            turns.taken(job.key, job.weight)
    return fresh


def traces(
    walks: Sequence[Walk],
    chosen: Sequence[Candidate],
    taken: Container[int],
    entrances: Entrances,
    charged: Entrances,
) -> list[tuple[str, Sequence[Any]]]:
    """The statements that write it down, in the order in which they have to come: rows are where
    they were seen until something is written."""
    served = _served(charged)
    doubtful = {party_of(job.key) for job in chosen if job.id not in taken}
    full = {walk: walk.full(doubtful) for walk in walks}
    moves = [move for walk in walks for move in walk.moves(taken, served, full[walk])]
    unsure = [spot for walk in walks for spot in walk.unsure(taken, served)]
    shut = [
        (walk.queue, *lane, *each.place, each.until)
        for walk in walks
        for lane, each in full[walk].items()
    ]
    words = [
        ("move_heads", _columns(moves, Spots, *[Bigints] * 6)),
        ("take_turns", _columns(_turns(charged, served), Texts, Texts, Bigints)),
        ("look_again", _columns(unsure, *[Texts] * 3, *[Bigints] * 2)),
        ("shut", _columns(shut, *[Texts] * 3, *[Bigints] * 4)),
        ("write_flows", _columns(_flows(charged), *[Texts] * 3, Bigints)),
        ("write_openings", _columns(_openings(entrances), Texts, Bigints)),
    ]
    now = {"look_again": [entrances.now]}
    return [(name, [*columns, *now.get(name, ())]) for name, columns in words if columns]


def _columns(rows: Iterable[tuple[Any, ...]], *kinds: type[Array]) -> list[Array]:
    """The parameters that say so; none if there is nothing to say."""
    columns = zip(*rows, strict=True)
    return [kind.of(column) for kind, column in zip(kinds, columns, strict=False)]


def _served(charged: Entrances) -> Served:
    # Who is not further than the clock is level with all others.
    return {
        (queue, party_of(party)): reached if reached > turns.clock else 0
        for queue, turns in charged.turns.items()
        for party, reached in turns.moved()
    }


def _turns(charged: Entrances, served: Served) -> Iterator[tuple[str, str, int]]:
    for (queue, party), reached in served.items():
        yield queue, party, reached
    for queue in {queue for queue, _ in served}:
        yield queue, _CLOCK, charged.turns[queue].clock


def _flows(charged: Entrances) -> Iterator[tuple[str, str, str, int]]:
    for turnstile in charged.turnstiles:
        yield from turnstile.flows()


def _openings(entrances: Entrances) -> Iterator[tuple[str, int | None]]:
    for turnstile in entrances.turnstiles:
        if turnstile.opens_at != entrances.known(turnstile.name).opens_at:
            yield turnstile.name, turnstile.opens_at
